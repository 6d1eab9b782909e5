"""Every field of `Limits` through `pipeline`: one less than the limit, as much, one more. None is forgotten: the last
test counts them."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing
from every_wire import framed, said
from streams import chat, chat_chunk, sse, stream

from streamtools import Limits, StreamEnd, StreamError, TextDelta, pipeline, tool
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.errors import LimitExceeded, RemoteProtocolError, TruncatedStream
from streamtools.events import StreamWarning

LIMITS = {field.name for field in fields(Limits)}
GEMINI, RESPONSES = "gemini.generate_content", "openai.responses"


@tool(effect="once")
async def f(a: Any = None) -> str:
    """Take anything."""
    return "ran"


async def read(body: list[Any], limits: Limits, tools: tuple[Any, ...] = (f,)) -> tuple[Any, StreamError | None]:
    """The turn, and the error that was raised."""
    raised = None
    with anyio.fail_after(30):
        async with pipeline(stream(body), tools=tools, limits=limits) as events:
            try:
                async for _ in events:
                    pass
            except StreamError as error:
                raised = error
    assert raised is events.turn.error
    assert len(events.turn.observations) == sum(call.kind != "server" for call in events.turn.calls)
    return events.turn, raised


def lists(count: int) -> str:
    return json.dumps({"a": [[]] * (count - 2)})


def arguments(size: int) -> str:
    return '{"a":"' + "x" * (size - 8) + '"}'


def nested(depth: int) -> str:
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


# -- what ends the stream --------------------------------------------------------------------------------------------


def largest_event(size: int) -> list[bytes]:
    beside = len(sse([chat_chunk({"content": ""}, "stop")])[0]) - 2
    return sse([chat_chunk({"content": "x" * (size - beside)}, "stop")])


def whole_body(size: int) -> list[bytes]:
    body = chat(["Hi"], finish="stop")
    return [b":" * (size - len(b"".join(body)) - 1) + b"\n", *body]


def items(count: int) -> list[bytes]:
    return framed(RESPONSES, said(RESPONSES, calls=[(f"c{at}", "f", "{}") for at in range(count)]))


STREAM: dict[str, tuple[int, Callable[[int], list[bytes]]]] = {
    "max_event_bytes": (400, largest_event),
    "max_stream_bytes": (2000, whole_body),
    "max_text_bytes": (20, lambda n: chat(["x" * (n - 1), "y"], finish="stop")),
    "max_tool_calls": (4, lambda n: chat(calls=[(f"c{at}", "f", "{}") for at in range(n)])),
    "max_total_argument_bytes": (40, lambda n: chat(calls=[("a", "f", arguments(n - 10)), ("b", "f", arguments(10))])),
    "max_open_blocks": (4, items),
}  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("setting", STREAM)
async def test_a_stream_that_holds_more_raises_and_runs_nothing_that_was_held(setting: str) -> None:
    limit, make = STREAM[setting]
    for size in (limit - 1, limit):
        turn, error = await read(make(size), Limits(**{setting: limit}))
        assert error is None
        assert turn.complete
        assert {observation.outcome for observation in turn.observations} <= {"ok"}
    turn, error = await read(make(limit + 1), Limits(**{setting: limit}))
    assert isinstance(error, LimitExceeded)
    assert (error.setting, error.limit) == (setting, limit)
    assert not any(observation.attempts for observation in turn.observations)


# -- what concerns one call ------------------------------------------------------------------------------------------


def gemini_pieces(*paths: str) -> list[bytes]:
    """A call whose arguments come by paths."""
    pieces = [{"jsonPath": path, "stringValue": "x"} for path in paths]
    parts = [
        {"functionCall": {"name": "f", "willContinue": True}},
        {"functionCall": {"partialArgs": pieces, "willContinue": True}},
        {"functionCall": {}},
    ]
    payloads = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    return sse([*payloads, {"candidates": [{"finishReason": "STOP"}]}])


CALL: dict[str, tuple[int, str, Callable[[int], list[bytes]]]] = {
    "max_argument_bytes": (20, "argument_too_large", lambda n: chat(calls=[("a", "f", arguments(n))])),
    "max_argument_containers": (9, "argument_too_large", lambda n: chat(calls=[("a", "f", lists(n))])),
    "max_json_depth": (5, "too_deep", lambda n: chat(calls=[("a", "f", nested(n))])),
    "max_name_bytes": (20, "name_too_long", lambda n: chat(calls=[("a", "f" * n, "{}")])),
    "max_path_depth": (5, "bad_path", lambda n: gemini_pieces("$" + ".a" * n)),
    "max_array_index": (5, "bad_path", lambda n: gemini_pieces(*(f"$.a[{at}]" for at in range(n + 1)))),
}


@pytest.mark.anyio
@pytest.mark.parametrize("setting", CALL)
async def test_a_call_that_holds_more_is_observed_as_invalid_and_does_not_run(setting: str) -> None:
    limit, problem, make = CALL[setting]
    named = tuple(tool(f.fn, name="f" * size) for size in (limit - 1, limit))
    tools = named if setting == "max_name_bytes" else (f,)
    for size in (limit - 1, limit):
        turn, error = await read(make(size), Limits(**{setting: limit}), tools)
        assert error is None
        assert [observation.outcome for observation in turn.observations] == ["ok"]
    turn, error = await read(make(limit + 1), Limits(**{setting: limit}), tools)
    assert error is None
    (observation,) = turn.observations
    assert (observation.outcome, observation.attempts, turn.calls[0].problem) == ("invalid", 0, problem)
    assert f"{setting}={limit}" in observation.model_content or problem == "bad_path"


@pytest.mark.anyio
async def test_a_longer_id_is_replaced_and_the_call_runs_all_the_same() -> None:
    for size, replaced in ((19, False), (20, False), (21, True)):
        turn, _ = await read(chat(calls=[("i" * size, "f", "{}")]), Limits(max_id_bytes=20))
        (call,) = turn.calls
        assert (call.call_id_synthesized, call.call_id == "i" * size) == (replaced, not replaced)
        assert turn.observations[0].outcome == "ok"
        assert turn.messages()[1]["tool_call_id"] == call.call_id


@pytest.mark.anyio
async def test_an_error_quotes_no_more_of_the_peer_than_the_limit() -> None:
    for size, cut in ((19, False), (20, False), (21, True)):
        _, error = await read([b"data: " + b"x" * size + b"\n\n"], Limits(max_error_excerpt=20))
        assert isinstance(error, RemoteProtocolError)
        assert ("…" in str(error)) is cut
        assert str(error).count("x") == min(size, 20)


# -- tools -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_longer_result_is_cut_and_says_so() -> None:
    @tool(effect="pure")
    async def give(size: int) -> str:
        """Give."""
        return "x" * size

    for size, cut in ((19, False), (20, False), (21, True)):
        turn, _ = await read(chat(calls=[("a", "give", f'{{"size":{size}}}')]), Limits(max_result_bytes=20), (give,))
        (observation,) = turn.observations
        assert observation.value == "x" * size
        assert observation.model_content.count("x") == min(size, 20)
        assert ("[cut: the first 20 of 21 bytes]" in observation.model_content) is cut


def calls_of(name: str, count: int) -> list[bytes]:
    return chat(calls=[(f"c{at}", name, "{}") for at in range(count)])


@pytest.mark.anyio
async def test_no_more_tools_run_at_once() -> None:
    inside = most = 0

    @tool(effect="pure")
    async def count() -> str:
        """Count those inside."""
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await anyio.wait_all_tasks_blocked()
        inside -= 1
        return "counted"

    for calls, at_once in ((2, 2), (3, 3), (4, 3)):
        most = 0
        turn, _ = await read(calls_of("count", calls), Limits(max_concurrency=3), (count,))
        assert (most, len(turn.observations)) == (at_once, calls)


@pytest.mark.anyio
async def test_no_more_threads_run_sync_tools_at_once() -> None:
    lock = threading.Condition()
    inside = most = 0

    @tool(effect="pure")
    def count(at_once: int) -> str:
        """Wait until as many are inside as there may be."""
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
            lock.notify_all()
            lock.wait_for(lambda: most >= at_once, 5)
            inside -= 1
        return "counted"

    for calls, at_once in ((1, 1), (2, 2), (3, 2)):
        most = 0
        body = chat(calls=[(f"c{n}", "count", f'{{"at_once":{at_once}}}') for n in range(calls)])
        turn, _ = await read(body, Limits(max_threads=2), (count,))
        assert (most, len(turn.observations)) == (at_once, calls)


@pytest.mark.anyio
async def test_past_so_many_threads_that_were_given_up_sync_tools_are_refused() -> None:
    release = threading.Event()

    @tool(effect="pure", timeout=0.2)
    def stuck() -> bool:
        """Wait."""
        return release.wait(45)

    limits = Limits(max_abandoned_threads=2)
    try:
        while abandoned_threads() < 2:  # on a busy machine, one that was given up may not have begun
            turn, _ = await read(calls_of("stuck", 1), limits, (stuck,))
            assert [observation.outcome for observation in turn.observations] == ["timed_out"]
        turn, _ = await read(calls_of("stuck", 1), limits, (stuck,))
    finally:
        release.set()
    (observation,) = turn.observations
    assert (observation.outcome, observation.attempts) == ("failed", 0)
    assert "max_abandoned_threads" in observation.model_content
    with anyio.fail_after(30):
        while abandoned_threads():  # noqa: ASYNC110  # a thread ends, and has no event to wait for
            await anyio.sleep(0.001)


# -- times, which are trio's own here, and pass as soon as every task waits -------------------------------------------


def on_its_own_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))

    run.__name__ = test.__name__
    return run


@on_its_own_time
async def test_a_tool_that_takes_longer_is_timed_out() -> None:
    @tool(effect="pure")
    async def sleep(seconds: float) -> str:
        """Sleep."""
        await anyio.sleep(seconds)
        return "slept"

    for seconds, outcome in ((9.0, "ok"), (11.0, "timed_out")):
        body = chat(calls=[("a", "sleep", json.dumps({"seconds": seconds}))])
        async with pipeline(stream(body), tools=[sleep], limits=Limits(tool_timeout=10.0)) as events:
            _ = [event async for event in events]
        assert events.turn.observations[0].outcome == outcome


class Source:
    """Says something, is silent, and takes its time to close."""

    def __init__(self, *, silence: float, closing: float) -> None:
        self.script: list[bytes | float] = [*chat(["Hi"], finish=None), silence, *chat(["you"], finish="stop")]
        self.closing = closing
        self.closed = False

    def __aiter__(self) -> Source:
        return self

    async def __anext__(self) -> bytes:
        while self.script:
            item = self.script.pop(0)
            if isinstance(item, bytes):
                return item
            await anyio.sleep(item)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await anyio.sleep(self.closing)
        self.closed = True


@on_its_own_time
async def test_a_source_that_is_silent_for_longer_is_cut() -> None:
    for silence, cut in ((9.0, False), (13.0, True)):  # it is late by up to an eighth
        raised = None
        async with pipeline(Source(silence=silence, closing=0), limits=Limits(idle_timeout=10.0)) as events:
            try:
                async for _ in events:
                    pass
            except TruncatedStream as error:
                raised = error
        assert (raised is not None) is cut
        assert events.turn.text == ("Hi" if cut else "Hiyou")


@on_its_own_time
async def test_closing_a_source_that_takes_longer_is_given_up() -> None:
    for closing, given_up in ((9.0, False), (11.0, True)):
        source = Source(silence=1.0, closing=closing)
        async with pipeline(source, limits=Limits(cancel_grace=10.0)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        assert source.closed is not given_up
        assert (
            any(isinstance(w, StreamWarning) and w.code == "source_unresponsive" for w in events.turn.warnings)
            is given_up
        )


# -- the hop to the consumer -----------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_the_source_is_no_further_ahead_of_the_consumer(limit: int) -> None:
    pulled = taken = ahead = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal pulled
        for item in chat(["x"] * 50, finish="stop"):
            pulled += 1
            yield item

    async with pipeline(source(), limits=Limits(event_buffer=limit)) as events:
        async for event in events:
            taken += isinstance(event, (TextDelta, StreamEnd))
            await anyio.wait_all_tasks_blocked()
            if isinstance(event, TextDelta):
                ahead = max(ahead, pulled - taken)
    assert pulled == 53
    assert limit - 2 <= ahead <= limit + 2


def test_no_limit_is_left_out() -> None:
    elsewhere = {
        "max_id_bytes", "max_error_excerpt", "max_result_bytes", "max_concurrency", "max_threads",
        "max_abandoned_threads", "tool_timeout", "idle_timeout", "cancel_grace", "event_buffer",
    }  # fmt: skip
    elsewhere |= {"max_repeated_calls", "max_model_retries"}  # tests/dispatch/test_second_chances.py
    elsewhere |= {"call_budget", "token_budget"}  # tests/dispatch/test_budgets.py
    elsewhere |= {"first_chunk_timeout", "step_timeout", "run_timeout"}  # tests/pipelines/test_deadlines.py
    elsewhere |= {"max_waiting_progress"}  # tests/dispatch/test_progress.py
    elsewhere |= {"max_open_responses", "max_waiting_bytes"}  # tests/sources/test_responses_of_a_connection.py
    elsewhere |= {"max_recording_bytes"}  # tests/record/test_recordings.py
    elsewhere |= {"max_indexed_bytes"}  # tests/provenance/test_policies.py
    elsewhere |= {"max_result_media_bytes"}  # tests/dispatch/test_blocks_of_a_result.py
    elsewhere |= {name for name in LIMITS if name.startswith(("max_schema_", "max_pattern_", "max_validation_"))}
    elsewhere |= {name for name in LIMITS if name.startswith(("max_list", "max_description_", "max_progress_"))}  # MCP
    elsewhere |= {"max_message_bytes"}  # tests/mcp/test_mcp_transports.py
    assert STREAM.keys() | CALL.keys() | elsewhere == LIMITS
