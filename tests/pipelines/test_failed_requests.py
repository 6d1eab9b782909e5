"""Requests that are not answered: an event, a step, a turn, a span and a point of the metrics tell of each."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from kept_spans import kept_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import StatusCode
from streams import chat, stream

from streamtools import Event, Limits, StreamEnd, TextDelta, Trajectory, agent_loop, pipeline
from streamtools.errors import DeadlineExceeded, RequestError
from streamtools.events import RequestFailed, StepEnd, StepStart
from streamtools.record import record, replay
from streamtools.telemetry import Metrics, Tracing

pytestmark = pytest.mark.anyio
CHAT = "openai.chat_completions"
ASKED = [{"role": "user", "content": "Hi"}]


class Response:
    """A response of a client's library."""

    def __init__(self, status_code: int, **headers: str) -> None:
        self.status_code = status_code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class APIStatusError(Exception):
    """The error of openai's and anthropic's libraries for a refusal."""

    def __init__(self, response: Response) -> None:
        super().__init__("secret words")
        self.response = response
        self.status_code = response.status_code


class RefusedResponse(Response):
    """A response of httpx that nobody has checked."""

    async def aiter_bytes(self) -> Any:
        yield b'{"error": {"message": "slow down", "type": "rate_limit_error", "code": null}}'


CASES: dict[str, tuple[Any, type[Exception], tuple[Any, ...], str]] = {
    "refused": (APIStatusError(Response(429, Retry_After="7")), APIStatusError, ("refused", "429", 429, 7.0), "429"),
    "refused, in milliseconds": (
        APIStatusError(Response(503, retry_after_ms="1500")), APIStatusError, ("refused", "503", 503, 1.5), "503",
    ),
    "refused until a day that is over": (
        APIStatusError(Response(529, retry_after="Fri, 31 Dec 1999 23:59:59 GMT")),
        APIStatusError, ("refused", "529", 529, 0.0), "529",
    ),
    "no connection": (ConnectionRefusedError("x"), OSError, ("connection_lost", "ConnectionRefusedError", None, None),
                      "ConnectionRefusedError"),
    "no time": (TimeoutError(), TimeoutError, ("timed_out", "TimeoutError", None, None), "TimeoutError"),
    "a mistake": (KeyError("key"), KeyError, ("failed", "KeyError", None, None), "KeyError"),
    "not checked": (RefusedResponse(429, retry_after="3"), Exception, ("refused", "rate_limit_error", 429, 3.0),
                    "rate_limit_error"),
}  # fmt: skip
"""What the request raises or returns; what is raised; the event's fields; and `error.type`."""


def opened(answer: Any) -> Any:
    @asynccontextmanager
    async def opens() -> Any:
        await anyio.lowlevel.checkpoint()
        if isinstance(answer, Exception):
            raise answer
        yield answer

    return opens()


async def test_every_failed_request_is_a_step_a_span_and_a_point_however_it_was_made(tmp_path: Path) -> None:
    async def given(answer: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        if isinstance(answer, Exception):
            raise answer
        return answer

    makes = {
        "a loop": lambda answer, run: agent_loop(
            lambda messages, tools: given(answer), ASKED, wire=CHAT, trajectory=run
        ),
        "a request": lambda answer, run: pipeline(given(answer), wire=CHAT, trajectory=run),
        "a manager": lambda answer, run: pipeline(opened(answer), wire=CHAT, trajectory=run),
    }
    for case, (answer, kind, fields, error_type) in CASES.items():
        for way, make in makes.items():
            (tracers, exporter), reader = kept_spans(), InMemoryMetricReader()
            path = tmp_path / f"{case}{way}.jsonl"
            observers = [Tracing(tracers), Metrics(MeterProvider([reader])), record(path)]
            seen: list[Event] = []
            with anyio.fail_after(30):
                async with make(answer, Trajectory(observers=observers, default_observers=False)) as events:
                    with pytest.raises(kind) as caught:
                        async for event in events:
                            seen.append(event)
                    turn = events.turn
            place = f"{case}, {way}"
            assert answer is caught.value or not isinstance(answer, Exception), place
            assert [type(event) for event in seen][:2] == [StepStart, RequestFailed], place
            failed, ended = seen[1], seen[-1]
            assert isinstance(failed, RequestFailed)
            assert (failed.outcome, failed.error_type, failed.status, failed.retry_after) == fields, place
            assert isinstance(ended, StepEnd)
            assert ended.outcome == "error", place
            if isinstance(answer, Exception):
                assert isinstance(turn.error, RequestError)
                assert (turn.error.__cause__, turn.error.status) == (answer, fields[2])
                assert "secret" not in str(turn.error)
            assert turn.messages(CHAT) == []
            assert getattr(events, "outcome", "error") == "error"
            (chat_span,) = [span for span in exporter.get_finished_spans() if span.name.startswith("chat")]
            assert chat_span.attributes["error.type"] == error_type, place
            assert chat_span.status.status_code is StatusCode.ERROR, place
            data = reader.get_metrics_data()
            points = [
                point.attributes["error.type"]
                for metric in data.resource_metrics[0].scope_metrics[0].metrics
                if metric.name == "gen_ai.client.operation.duration"
                for point in metric.data.data_points
            ]
            assert points == [error_type], place
            async with replay(path) as again:
                assert [type(event) for event in [one async for one in again]] == [type(event) for event in seen]
            assert again.differences == (), place


async def test_the_step_begins_before_the_model_answers_and_a_slow_request_is_no_silent_stream() -> None:
    answered = anyio.Event()

    async def ask(messages: list[Any], tools: list[Any]) -> Any:
        await answered.wait()
        return stream(chat(["Hi"], finish="stop"))

    with anyio.fail_after(30):
        async with agent_loop(ask, ASKED, wire=CHAT, limits=Limits(idle_timeout=0.001)) as run:
            assert isinstance(await anext(run), StepStart)
            until = anyio.current_time() + 0.02  # by the event loop's clock, as the timeout is
            while anyio.current_time() < until:
                await anyio.lowlevel.checkpoint()
            answered.set()
            assert "Hi" in [event.text async for event in run if isinstance(event, TextDelta)]
        async with agent_loop(
            lambda *_: anyio.sleep_forever(), ASKED, wire=CHAT, limits=Limits(first_chunk_timeout=0.01)
        ) as run:
            seen: list[Event] = []
            with pytest.raises(DeadlineExceeded):
                async for event in run:
                    seen.append(event)
    assert [event.outcome for event in seen if isinstance(event, RequestFailed)] == ["timed_out"]
    assert isinstance(seen[-2], StreamEnd)
