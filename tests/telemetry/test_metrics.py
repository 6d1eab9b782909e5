"""Metrics of responses and calls: their names, their values, and attributes that nobody can make grow."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from streams import add, chat, stream
from wire_cases.names import CHAT

from streamtools import Trajectory, agent_loop, pipeline, run_calls, tool
from streamtools.errors import TruncatedStream
from streamtools.telemetry import Metrics, default_observers, metrics

pytestmark = pytest.mark.anyio
USAGE = b'data: {"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}\n\n'


class Meters:
    """A provider, and what it was told."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader])

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        (resource,) = data.resource_metrics
        return {one.name: list(one.data.data_points) for scope in resource.scope_metrics for one in scope.metrics}


@pytest.fixture
def meters() -> Meters:
    return Meters()


@tool(effect="pure")
async def fail() -> str:
    """Fail."""
    raise ValueError("secret")


async def read(body: list[bytes], meters: Meters, **options: Any) -> None:
    run = Trajectory(observers=[Metrics(meters.provider)])
    await pipeline(stream(body), tools=[add, fail], trajectory=run, **options)


async def test_a_response_is_timed_from_its_request_and_its_tokens_are_counted(meters: Meters) -> None:
    *events, done = chat(text=["a", "b", "c"])
    await read([*events, USAGE, done], meters, requested_at=time.monotonic() - 100.0)
    found = meters.points()
    (duration,) = found["gen_ai.client.operation.duration"]
    assert 100.0 <= duration.sum < 200.0
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": "m",
    }
    (first,) = found["gen_ai.client.operation.time_to_first_chunk"]
    assert 100.0 <= first.sum <= duration.sum
    (each,) = found["gen_ai.client.operation.time_per_output_chunk"]
    assert (each.count, 0 <= each.sum < 100.0) == (1, True)
    tokens = {dict(point.attributes)["gen_ai.token.type"]: point.sum for point in found["gen_ai.client.token.usage"]}
    assert tokens == {"input": 10, "output": 5}


async def test_calls_are_counted_by_outcome_and_tools_are_timed(meters: Meters) -> None:
    await read(chat(calls=[("c1", "add", '{"a":1,"b":2}'), ("c2", "fail", "{}"), ("c3", "no_such", "{}")]), meters)
    found = meters.points()
    counted = {
        (dict(point.attributes)["gen_ai.tool.name"], dict(point.attributes)["streamtools.call.outcome"]): point.value
        for point in found["streamtools.calls"]
    }
    assert counted == {("add", "ok"): 1, ("fail", "failed"): 1, ("_OTHER", "unknown_tool"): 1}
    timed = {
        dict(point.attributes)["gen_ai.tool.name"]: dict(point.attributes)
        for point in found["gen_ai.execute_tool.duration"]
    }
    assert set(timed) == {"add", "fail"}
    assert ("error.type" in timed["add"], timed["fail"]["error.type"]) == (False, "ValueError")


async def test_a_run_is_timed_by_its_outcome_with_the_metrics_that_are_on_by_default(meters: Meters) -> None:
    ends = {"answered": chat(["3"]), "error": chat(["a"])[:-2]}
    for outcome, end in ends.items():
        run = Trajectory(name="sums", observers=[Metrics(meters.provider)], default_observers=False)
        bodies = iter([chat(calls=[("c1", "add", '{"a":1,"b":2}')]), end])
        with suppress(TruncatedStream):
            await agent_loop(lambda *_: stream(next(bodies)), [], tools=[add], wire=CHAT, trajectory=run)
    named = {"gen_ai.agent.name": "sums"}
    found = [(point.count, dict(point.attributes)) for point in meters.points()["gen_ai.invoke_agent.duration"]]
    assert found == [
        (1, named | {"streamtools.run.outcome": "answered"}),
        (1, named | {"streamtools.run.outcome": "error", "error.type": "streamtools.errors.TruncatedStream"}),
    ]


async def test_a_response_that_was_cut_has_an_error_type_and_one_that_nobody_asked_for_no_duration(
    meters: Meters,
) -> None:
    with pytest.raises(TruncatedStream):
        await read(chat(text=["a"], finish=None), meters)
    (duration,) = meters.points()["gen_ai.client.operation.duration"]
    assert (duration.count, dict(duration.attributes)["error.type"]) == (1, "stream_truncated")
    await run_calls(
        [("c1", "add", {"a": 1, "b": 2})], [add], trajectory=Trajectory(observers=[Metrics(meters.provider)])
    )
    (duration,) = meters.points()["gen_ai.client.operation.duration"]
    assert duration.count == 1


async def test_a_server_cannot_make_the_attributes_grow(meters: Meters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_models", set())
    monkeypatch.setattr(metrics, "MAX_MODELS", 3)
    for number in range(6):
        body = [part.replace(b'"model":"m"', b'"model":"m%d"' % number) for part in chat(text=["a"])]
        assert body != chat(text=["a"])
        await read(body, meters)
    points = meters.points()["gen_ai.client.operation.duration"]
    assert {dict(point.attributes)["gen_ai.response.model"] for point in points} == {"m0", "m1", "m2", "_OTHER"}


def test_nothing_is_recorded_where_the_application_has_set_no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    import opentelemetry.metrics as api

    assert not [one for one in default_observers() if isinstance(one, Metrics)]
    monkeypatch.setattr(api, "get_meter_provider", NoOpMeterProvider)
    assert not [one for one in default_observers() if isinstance(one, Metrics)]
    monkeypatch.setattr(api, "get_meter_provider", lambda provider=MeterProvider(): provider)
    assert [type(one).__name__ for one in default_observers()] == ["Metrics"]


async def test_a_run_that_fails_is_timed_by_its_error(meters: Meters) -> None:
    failing = Trajectory(name="sums", observers=[Metrics(meters.provider)], default_observers=False)
    with pytest.raises(KeyError):
        async with failing:
            raise KeyError("secret")
    (failed,) = meters.points()["gen_ai.invoke_agent.duration"]
    assert dict(failed.attributes) == {"gen_ai.agent.name": "sums", "error.type": "KeyError"}
