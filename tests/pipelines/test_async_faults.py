"""Hard use of the pipeline: closing at odd moments, transforms, stages, observers and sources that misbehave."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from streams import anthropic, chat, chat_chunk, hanging, sse, stream

from streamtools import (
    Limits,
    Observation,
    Pipeline,
    StreamEnd,
    TextDelta,
    ToolCallValidated,
    ToolContext,
    ToolError,
    Trajectory,
    pipeline,
    tool,
)
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.errors import TruncatedStream
from streamtools.events import Event, EventBase, StepEnd, ToolCallEnd, ToolCallStart, ToolProgress, ToolStarted
from streamtools.stages import DEFAULT

pytestmark = pytest.mark.anyio

ASYNCIO_ONLY = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio's Cancelled cannot be made by hand


@pytest.fixture
def spent() -> list[int]:
    return []


@pytest.fixture
def spend(spent: list[int]) -> Any:
    @tool(effect="once")
    async def spend(amount: int = 1) -> str:
        """Spend."""
        spent.append(amount)
        return "spent"

    return spend


@tool(effect="pure")
async def double(n: int) -> int:
    """Twice n."""
    return 2 * n


@tool(effect="pure")
async def wait() -> str:
    """Wait to be cancelled."""
    await anyio.sleep_forever()
    return "never"


async def read(source: Any, **options: Any) -> tuple[Pipeline, list[Any]]:
    """A pipeline that was read to its end, and its events."""
    with anyio.fail_after(30):
        async with pipeline(source, **options) as events:
            seen = [event async for event in events]
    return events, seen


def outcomes(events: Pipeline) -> list[str]:
    return [observation.outcome for observation in events.turn.observations]


class Watcher:
    """An observer that keeps what it sees, and fails where it is told to."""

    event_types = None

    def __init__(self, fails_at: type[Event] | None = None) -> None:
        self.fails_at = fails_at
        self.seen: list[Any] = []

    def on_event(self, event: Event) -> None:
        self.seen.append(event)
        if self.fails_at is not None and isinstance(event, self.fails_at):
            raise RuntimeError("broken")

    def around_tool(self, call_id: str) -> None:
        return None


# -- closing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["once", "pure"])
async def test_nothing_starts_after_aclose_however_fast_the_source_is(effect: Any) -> None:
    ran = []

    @tool(effect=effect)
    async def act() -> str:
        """Act."""
        ran.append(1)
        return "acted"

    with anyio.fail_after(30):
        async with pipeline(chat(calls=[("a", "act", "{}")]), tools=[act]) as events:
            await events.aclose()
    assert ran == []
    assert "ok" not in outcomes(events)


async def test_nothing_starts_after_aclose_when_the_pump_was_waiting_for_room(spend: Any, spent: list[int]) -> None:
    async def source() -> AsyncIterator[bytes]:
        for item in chat(["x"] * 5, [("a", "spend", "{}")]):
            yield item  # without a checkpoint: everything is there already

    with anyio.fail_after(30):
        async with pipeline(source(), tools=[spend], limits=Limits(event_buffer=2)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
            await events.aclose()
            assert [event async for event in events] == []
    assert spent == []
    assert "ok" not in outcomes(events)


@pytest.mark.parametrize("leave", ["break", "aclose"])
async def test_leaving_does_not_read_on_in_a_source_that_never_waits(leave: str) -> None:
    taken = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal taken
        for item in chat(["x"] * 5000, finish="stop"):
            taken += 1
            yield item

    with anyio.fail_after(30):
        async with pipeline(source(), limits=Limits(event_buffer=4)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
            if leave == "aclose":
                await events.aclose()
                assert [event async for event in events] == []
    assert taken < 100


async def test_two_tasks_may_close_at_once_while_a_tool_cleans_up() -> None:
    cleaned = 0

    @tool(effect="pure")
    async def tidy() -> str:
        """Clean up when cancelled."""
        nonlocal cleaned
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
            cleaned += 1
        return "never"

    with anyio.fail_after(30):
        async with pipeline(hanging(anthropic(calls=[("a", "tidy", "{}")], stop=None)), tools=[tidy]) as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(events.aclose)
    assert cleaned == 1
    assert outcomes(events) == ["cancelled"]


@pytest.mark.parametrize("on_source_error", ["cancel", "drain"])
async def test_no_error_is_raised_after_aclose_whenever_it_comes(on_source_error: Any) -> None:
    async def source() -> AsyncIterator[bytes]:
        for item in anthropic(["Hi"], [("a", "work", "{}")], stop=None):
            await anyio.lowlevel.checkpoint()
            yield item
        await anyio.lowlevel.checkpoint()
        raise OSError("reset")

    @tool(effect="pure")
    async def work() -> str:
        """Take some steps."""
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        return "done"

    for steps in range(60):
        with anyio.fail_after(30):
            async with pipeline(source(), tools=[work], on_source_error=on_source_error) as events:
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                await events.aclose()
                assert [event async for event in events] == [], steps


async def test_a_step_that_was_cancelled_says_so_also_if_its_source_does_not_close() -> None:
    watcher = Watcher()
    with anyio.CancelScope() as scope:
        async with pipeline(
            Closes([], anyio.sleep_forever, hangs=True), observers=[watcher], limits=Limits(cancel_grace=0.01)
        ) as events:
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert [warning.code for warning in events.turn.warnings] == ["source_unresponsive"]
    assert watcher.seen[-1].outcome == "cancelled"


class HoldsBack:
    """A stage that keeps the latest text until more comes."""

    def __init__(self) -> None:
        self.held: list[Event] = []

    def feed(self, event: Event) -> list[Event]:
        if not isinstance(event, TextDelta):
            return [event]
        held, self.held = self.held, [event]
        return held

    def finish(self) -> list[Event]:
        return self.held


async def test_text_that_was_held_back_does_not_come_after_aclose() -> None:
    body = chat(["a", "b", "c"], finish=None)
    with anyio.fail_after(30):
        async with pipeline(hanging(body), stages=DEFAULT.insert_after("finalize", HoldsBack)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
            await anyio.wait_all_tasks_blocked()
            await events.aclose()
            assert [event async for event in events] == []


# -- tools -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", ["time out", "break", "source fails"])
async def test_a_tool_whose_own_task_group_fails_while_it_is_cancelled_harms_nobody_else(leave: str) -> None:
    @tool(effect="pure", timeout=0.01 if leave == "time out" else None)
    async def gather() -> str:
        """Run a task that fails in its cleanup."""

        async def child() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("cleanup")

        async with anyio.create_task_group() as group:
            group.start_soon(child)
            await anyio.sleep_forever()
        return "never"

    body = anthropic(calls=[("a", "gather", "{}"), ("b", "double", '{"n": 1}')], stop=None)
    error = OSError("reset")

    async def source() -> AsyncIterator[bytes]:
        for item in body:
            yield item
        await anyio.wait_all_tasks_blocked()
        if leave == "source fails":
            raise error
        await anyio.sleep_forever()

    caught: list[BaseException] = []
    with anyio.fail_after(30):
        async with pipeline(source(), tools=[gather, double]) as events:
            observed = 0
            try:
                async for event in events:
                    observed += isinstance(event, Observation)
                    if leave != "source fails" and observed == (2 if leave == "time out" else 1):
                        await anyio.wait_all_tasks_blocked()
                        break
            except OSError as raised:
                caught.append(raised)
    assert caught == ([error] if leave == "source fails" else [])
    first, second = outcomes(events)
    assert first in ("failed", "timed_out", "cancelled")
    assert second == "ok"


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_progress_may_be_reported_from_any_thread(kind: str) -> None:
    heard = threading.Event()

    def report(ctx: ToolContext) -> bool:
        ctx.progress("half")
        return heard.wait(0.5)  # only while this fails

    if kind == "async":

        @tool(effect="pure")
        async def work(ctx: ToolContext) -> bool:
            """Report from a worker thread."""
            return await anyio.to_thread.run_sync(report, ctx)
    else:

        @tool(effect="pure")
        def work(ctx: ToolContext) -> bool:
            """Report from a thread of its own."""
            with ThreadPoolExecutor(1) as threads:
                return threads.submit(report, ctx).result()

    seen = []
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=[("a", "work", "{}")])), tools=[work]) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, ToolProgress):
                    heard.set()
    assert [event.seq for event in seen] == list(range(len(seen)))
    (observation,) = events.turn.observations
    assert (observation.outcome, observation.value) == ("ok", True)


async def test_a_sync_tools_time_does_not_run_while_it_waits_for_a_thread() -> None:
    release = threading.Event()

    @tool(effect="pure")
    def hold() -> bool:
        """Keep the only thread."""
        return release.wait(45)

    @tool(effect="pure", timeout=0.3)
    def brief() -> str:
        """Need no time."""
        return "done"

    with anyio.fail_after(30):
        calls = [("a", "hold", "{}"), ("b", "brief", "{}")]
        async with pipeline(stream(chat(calls=calls)), tools=[hold, brief], limits=Limits(max_threads=1)) as events:
            async for event in events:
                if isinstance(event, StreamEnd):
                    await anyio.sleep(0.6)  # twice the time that `brief` may take
                    release.set()
    assert outcomes(events) == ["ok", "ok"]


async def test_no_more_threads_are_abandoned_than_the_limit_allows_however_many_calls_wait() -> None:
    release = threading.Event()

    @tool(effect="pure", timeout=0.01)
    def stuck(n: int) -> bool:
        """Wait."""
        return release.wait(45)

    calls = [(f"c{n}", "stuck", f'{{"n": {n}}}') for n in range(4)]
    try:
        events, _ = await read(
            stream(chat(calls=calls)), tools=[stuck], limits=Limits(max_threads=1, max_abandoned_threads=1)
        )
    finally:
        release.set()
    observations = events.turn.observations
    assert sum(observation.still_running for observation in observations) == 1
    outcomes = sorted(observation.outcome for observation in observations)
    # On a busy machine the time of a call may be over before its thread has begun: no thread is left of that.
    assert (outcomes[:2], outcomes[3], len(outcomes)) == (["failed"] * 2, "timed_out", 4)
    with anyio.fail_after(30):
        while abandoned_threads():  # noqa: ASYNC110  # a thread ends, and has no event to wait for
            await anyio.sleep(0.001)


async def test_a_plain_function_that_hands_back_a_coroutine_is_awaited() -> None:
    async def inner(n: int) -> int:
        await anyio.lowlevel.checkpoint()
        return n + 1

    @tool(effect="pure")
    def decorated(n: int) -> Any:
        """An async function behind a plain decorator."""
        return inner(n)

    events, _ = await read(stream(chat(calls=[("a", "decorated", '{"n": 1}')])), tools=[decorated])
    gc.collect()  # a coroutine that was never awaited would be an error here
    assert [observation.value for observation in events.turn.observations] == [2]


class Unspeakable(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unwritable(str):
    def encode(self, *_: Any) -> bytes:
        raise KeyError("no bytes")


@pytest.mark.parametrize("how", ["raises", "returns"])
async def test_a_result_or_error_that_is_hard_to_write_concerns_that_call_alone(how: str) -> None:
    @tool(effect="pure", require_hints=False)
    async def odd():
        """Give something odd."""
        if how == "raises":
            raise Unspeakable
        return Unwritable("x")

    calls = [("a", "odd", "{}"), ("b", "double", '{"n": 1}')]
    events, seen = await read(stream(chat(calls=calls)), tools=[odd, double])
    assert outcomes(events) in (["failed", "ok"], ["ok", "ok"] if how == "returns" else None)
    assert isinstance(seen[-1], StepEnd)
    assert len(events.turn.messages()) == 3


async def test_the_text_of_a_tools_error_is_cut_and_made_encodable_like_a_result() -> None:
    @tool(effect="pure")
    async def complain() -> str:
        """Complain at length."""
        raise ToolError("\ud83d" + "x" * 1000)

    events, _ = await read(
        stream(chat(calls=[("a", "complain", "{}")])), tools=[complain], limits=Limits(max_result_bytes=100)
    )
    (observation,) = events.turn.observations
    assert observation.outcome == "failed"
    assert len(observation.model_content.encode()) < 200
    assert "[cut: the first 100 of" in observation.model_content


@pytest.mark.parametrize("name", ["max_concurrency", "max_threads", "max_result_bytes", "event_buffer"])
async def test_a_limit_that_counts_takes_whole_numbers_only(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: 1.5})  # type: ignore[arg-type]


# -- sources -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["task group", "timeout"])
async def test_a_manager_that_holds_a_scope_may_open_the_stream(scope: str) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        if scope == "task group":
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.lowlevel.checkpoint)
                yield stream(chat(["Hi"], finish="stop"))
        else:
            with anyio.fail_after(60):
                yield stream(chat(["Hi"], finish="stop"))

    events, _ = await read(opened())
    assert events.turn.text == "Hi"
    assert events.turn.warnings == ()
    with anyio.fail_after(30):
        async with pipeline(opened()) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        await anyio.lowlevel.checkpoint()
    assert events.turn.warnings == ()


async def test_a_manager_that_opens_no_stream_is_refused_and_not_entered_for_ever() -> None:
    class Response:
        """A response of a client that we do not know: it is its own manager, and nothing to iterate."""

        entered = left = 0

        async def __aenter__(self) -> Response:
            self.entered += 1
            assert self.entered < 5, "entered again and again"
            return self

        async def __aexit__(self, *_: object) -> None:
            self.left += 1

    response = Response()
    with anyio.fail_after(30):
        async with pipeline(response) as events:
            with pytest.raises(TypeError, match="cannot stream from Response"):
                _ = [event async for event in events]
    assert response.entered == response.left


class Closes:
    """A source with an `aclose` of its own kind."""

    def __init__(self, body: list[bytes], close: Any, *, hangs: bool = False) -> None:
        self._items = iter(body)
        self._hangs = hangs
        self.aclose = close

    def __aiter__(self) -> Closes:
        return self

    async def __anext__(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        for item in self._items:
            return item
        if self._hangs:
            await anyio.sleep_forever()
        raise StopAsyncIteration


async def await_a_cancelled_task() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@ASYNCIO_ONLY
async def test_a_source_whose_closing_lets_out_a_cancellation_does_not_cancel_the_consumer() -> None:
    events, seen = await read(Closes(chat(["Hi"], finish="stop"), await_a_cancelled_task))
    assert (events.turn.text, events.turn.complete) == ("Hi", True)
    assert isinstance(seen[-1], StepEnd)
    assert [warning.code for warning in events.turn.warnings] == ["source_close_failed"]


@pytest.mark.parametrize("shape", ["plain", "task group"])
async def test_a_source_that_fails_because_the_consumer_left_is_nobodys_error(shape: str) -> None:
    async def plain() -> AsyncIterator[bytes]:
        try:
            for item in chat(["Hi"], finish=None):
                yield item
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup")

    @asynccontextmanager
    async def failing_child() -> AsyncIterator[None]:
        async def child() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("cleanup")

        async with anyio.create_task_group() as group:
            group.start_soon(child)
            yield

    class InGroup:
        """Reads in a task group that is open only while somebody waits for an item."""

        def __init__(self) -> None:
            self.items = iter(chat(["Hi"], finish=None))

        def __aiter__(self) -> InGroup:
            return self

        async def __anext__(self) -> bytes:
            for item in self.items:
                return item
            async with failing_child():
                await anyio.sleep_forever()
            raise AssertionError("slept for ever")

    watcher = Watcher()
    with anyio.fail_after(30):
        async with pipeline(plain() if shape == "plain" else InGroup(), observers=[watcher]) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    await anyio.wait_all_tasks_blocked()
                    break
    assert (events.turn.text, events.turn.error) == ("Hi", None)
    assert watcher.seen[-1].outcome == "abandoned"


async def test_the_wire_that_was_given_is_the_turns_wire_even_if_nothing_came() -> None:
    with anyio.fail_after(30):
        async with pipeline(hanging([]), wire="anthropic.messages") as events:
            assert events.turn.wire == "anthropic.messages"
    assert events.turn.wire == "anthropic.messages"
    assert events.turn.messages() == []


@pytest.mark.parametrize("scope", ["fail_after", "move_on_after"])
async def test_a_time_out_of_the_streams_own_manager_ends_the_stream_and_not_the_consumer(scope: str) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        with getattr(anyio, scope)(0.01):
            yield hanging(chat(["Hi"], finish=None))

    seen: list[Any] = []
    with anyio.fail_after(30):
        async with pipeline(opened()) as events:
            with pytest.raises(TimeoutError if scope == "fail_after" else TruncatedStream):
                async for event in events:
                    seen.append(event)
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
    assert isinstance(seen[-1], StepEnd)
    assert events.turn.text == "Hi"
    assert events.turn.error is not None


async def test_a_time_out_inside_a_source_that_yields_in_its_scope_ends_the_stream_and_not_the_consumer() -> None:
    async def source() -> AsyncIterator[bytes]:
        with anyio.fail_after(0.01):
            for item in chat(["Hi"] * 10, finish="stop"):
                yield item

    seen: list[Any] = []
    with anyio.fail_after(30):
        async with pipeline(source(), limits=Limits(event_buffer=1)) as events:
            with pytest.raises((TimeoutError, TruncatedStream)):
                async for event in events:
                    if isinstance(event, TextDelta):
                        await anyio.sleep(0.02)  # the time runs out while the pump waits for room
                    seen.append(event)
            await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
    assert isinstance(seen[-1], StepEnd)
    assert events.turn.error is not None


@pytest.mark.parametrize("close", ["hangs", "raises"])
async def test_a_manager_is_left_also_when_the_stream_that_it_opened_does_not_close(close: str) -> None:
    left = []

    async def broken() -> None:
        if close == "raises":
            raise OSError("reset")
        await anyio.sleep_forever()

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        async with anyio.create_task_group():
            try:
                yield Closes(chat(["Hi"], finish="stop"), broken)
            finally:
                left.append(1)

    events, _ = await read(opened(), limits=Limits(cancel_grace=0.01))
    assert left == [1]
    assert events.turn.text == "Hi"
    assert len(events.turn.warnings) == 1


# -- transforms and stages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", [TextDelta, StreamEnd])
async def test_an_error_of_a_transform_is_raised_at_async_for_after_the_last_event(
    when: type[Event], spend: Any, spent: list[int]
) -> None:
    error = ValueError("mine")

    async def broken(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            if isinstance(event, when):
                raise error
            yield event

    seen: list[Any] = []
    cleaned = False
    with anyio.fail_after(30):
        async with pipeline(
            stream(chat(["a", "b"], [("a", "spend", "{}")])), tools=[spend], transforms=[broken]
        ) as events:
            with pytest.raises(ValueError, match="mine") as caught:
                async for event in events:
                    seen.append(event)
            await anyio.lowlevel.checkpoint()  # the body is not cancelled
            cleaned = True
    assert caught.value is error
    assert cleaned
    assert spent == []
    assert sum(isinstance(event, StreamEnd) for event in seen) == 1
    assert isinstance(seen[-1], StepEnd)
    assert seen[-1].outcome in ("error", "truncated")
    assert [event.seq for event in seen] == list(range(len(seen)))


async def test_no_once_call_starts_if_a_transform_fails_at_the_end_even_when_calls_are_drained(
    spend: Any, spent: list[int]
) -> None:
    async def broken(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            if isinstance(event, StreamEnd):
                raise ValueError("mine")
            yield event

    with anyio.fail_after(30):
        async with pipeline(
            stream(chat(calls=[("a", "spend", "{}")])), tools=[spend], transforms=[broken], on_source_error="drain"
        ) as events:
            with pytest.raises(ValueError, match="mine"):
                _ = [event async for event in events]
    assert spent == []
    assert outcomes(events) == ["skipped"]


@ASYNCIO_ONLY
async def test_a_cancellation_that_a_transform_lets_out_does_not_cancel_the_consumer() -> None:
    async def lets_out(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            yield event
            if isinstance(event, TextDelta):
                await await_a_cancelled_task()

    seen = []
    with anyio.fail_after(30):
        async with pipeline(stream(chat(["a", "b"], finish="stop")), transforms=[lets_out]) as events:
            with pytest.raises(Exception, match="cancelled from within"):
                async for event in events:
                    seen.append(event)
    assert isinstance(seen[-1], StepEnd)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


class FailsAt:
    """A stage that raises at the end of the stream."""

    def feed(self, event: Event) -> list[Event]:
        if isinstance(event, StreamEnd):
            raise ValueError("mine")
        return [event]

    def finish(self) -> list[Event]:
        return []


async def test_a_stage_that_fails_at_the_end_is_raised_at_async_for_and_every_call_is_observed(
    spend: Any, spent: list[int]
) -> None:
    stages = DEFAULT.insert_after("finalize", FailsAt)
    seen: list[Any] = []
    with anyio.fail_after(30):
        async with pipeline(stream(chat(["x"], [("a", "spend", "{}")])), tools=[spend], stages=stages) as events:
            with pytest.raises(ValueError, match="mine"):
                async for event in events:
                    seen.append(event)
    assert spent == []
    assert len(events.turn.observations) == len(events.turn.calls)
    assert sum(isinstance(event, StreamEnd) for event in seen) == 1
    assert isinstance(seen[-1], StepEnd)


@pytest.mark.parametrize("leave", ["break", "aclose"])
async def test_a_stage_that_fails_when_the_stream_is_left_hides_neither_observations_nor_the_end(
    leave: str, spend: Any
) -> None:
    watcher = Watcher()
    body = anthropic(["x"], [("a", "spend", "{}")], stop=None)
    with anyio.fail_after(30):
        async with pipeline(
            hanging(body), tools=[spend], stages=DEFAULT.insert_after("finalize", FailsAt), observers=[watcher]
        ) as events:
            async for event in events:
                if isinstance(event, ToolCallValidated):
                    break
            if leave == "aclose":
                await events.aclose()
    assert outcomes(events) == ["skipped"]
    assert isinstance(watcher.seen[-1], StepEnd)
    assert sum(isinstance(event, StreamEnd) for event in watcher.seen) == 1


async def test_a_once_call_whose_events_a_transform_repeats_runs_once(spend: Any, spent: list[int]) -> None:
    async def replay(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        kept = []
        async for event in events:
            kept.append(copy.copy(event))
            yield event
        for event in kept:
            yield event

    events, seen = await read(
        stream(anthropic(["x"], [("a", "spend", "{}"), ("b", "double", '{"n": 1}')])),
        tools=[spend, double],
        transforms=[replay],
    )
    assert spent == [1]
    assert sorted(event.call_id for event in seen if isinstance(event, Observation)) == ["a", "b"]
    assert outcomes(events) == ["ok", "ok"]


@pytest.mark.parametrize("again", ["a copy", "the same object"])
@pytest.mark.parametrize("kind", [ToolCallStart, ToolCallEnd, ToolCallValidated, StreamEnd])
async def test_a_transform_that_says_something_twice_breaks_neither_turn_nor_calls(
    kind: type[Event], again: str, spend: Any, spent: list[int]
) -> None:
    async def twice(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            yield event
            if isinstance(event, kind):
                yield copy.copy(event) if again == "a copy" else event

    events, seen = await read(stream(anthropic(["x"], [("a", "spend", "{}")])), tools=[spend], transforms=[twice])
    assert spent == [1]
    assert outcomes(events) == ["ok"]
    assert len(events.turn.messages()) == 2
    assert [event.seq for event in seen] == list(range(len(seen)))


async def only_text(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in events:
        if isinstance(event, TextDelta):
            yield event


async def test_a_transform_that_lets_only_text_through_hides_no_error_of_the_stream() -> None:
    seen: list[Any] = []
    with anyio.fail_after(30):
        async with pipeline(stream(chat(["x"], finish=None)), transforms=[only_text]) as events:
            with pytest.raises(TruncatedStream):
                async for event in events:
                    seen.append(event)
    assert isinstance(events.turn.error, TruncatedStream)
    assert seen[-1].outcome == "truncated"
    events, seen = await read(stream(chat(["x"], finish="stop")), transforms=[only_text])
    assert (events.turn.text, events.turn.complete, seen[-1].outcome) == ("x", True, "complete")
    assert [message["content"] for message in events.turn.messages()] == ["x"]


async def test_a_transform_that_stops_early_leaves_a_turn_that_is_not_complete_and_says_so(
    spend: Any, spent: list[int]
) -> None:
    async def first(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            yield event
            if isinstance(event, ToolCallValidated):
                return

    events, seen = await read(
        stream(anthropic(["x"], [("a", "spend", "{}"), ("b", "spend", "{}")])), tools=[spend], transforms=[first]
    )
    assert spent == []
    assert outcomes(events)[0] == "skipped"
    assert (events.turn.complete, events.turn.error, seen[-1].outcome) == (False, None, "abandoned")


async def test_a_call_that_a_transform_vetoes_is_skipped_and_not_called_cut(spend: Any, spent: list[int]) -> None:
    async def veto(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            if not isinstance(event, ToolCallValidated):
                yield event

    events, _ = await read(stream(anthropic(["x"], [("a", "spend", "{}")])), tools=[spend], transforms=[veto])
    assert spent == []
    assert outcomes(events) == ["skipped"]
    assert "left" not in events.turn.observations[0].model_content


async def test_a_transform_that_is_no_generator_is_closed_too() -> None:
    closed = []

    class Passes:
        def __init__(self, events: AsyncIterator[Event]) -> None:
            self.events = events

        def __aiter__(self) -> Passes:
            return self

        async def __anext__(self) -> Event:
            return await self.events.__anext__()

        async def aclose(self) -> None:
            closed.append(1)

    await read(stream(chat(["x"], finish="stop")), transforms=[Passes])
    assert closed == [1]


async def test_what_is_no_event_does_not_pass_a_transform() -> None:
    async def junk(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in events:
            yield event
            if isinstance(event, TextDelta):
                yield None

    seen: list[Any] = []
    with anyio.fail_after(30):
        async with pipeline(stream(chat(["x"], finish="stop")), transforms=[junk]) as events:
            with pytest.raises(TypeError, match="NoneType"):
                async for event in events:
                    seen.append(event)
    assert all(isinstance(event, EventBase) for event in seen)
    assert [event.seq for event in seen] == list(range(len(seen)))


# -- observers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["missing", "raises", "no collection"])
async def test_an_observer_whose_event_types_are_no_use_breaks_neither_stream_nor_scopes(broken: str) -> None:
    class Observer(Watcher):
        @property
        def event_types(self) -> Any:  # type: ignore[override]
            if broken == "missing":
                raise AttributeError("event_types")
            if broken == "raises":
                raise RuntimeError("broken")
            return Event

    healthy = Watcher()
    with anyio.fail_after(30):
        try:
            events, _ = await read(stream(chat(["Hi"], finish="stop")), observers=[Observer(), healthy])
        except (TypeError, ValueError):
            pass  # refusing it before anything starts is as good as dropping it
        else:
            assert events.turn.text == "Hi"
            assert [warning.code for warning in events.turn.warnings] == ["observer_failed"]
            assert isinstance(healthy.seen[-1], StepEnd)
        await anyio.lowlevel.checkpoint()


class Middleware(Watcher):
    """An observer whose manager around the tool misbehaves."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def around_tool(self, call_id: str) -> Any:
        @contextmanager
        def manager() -> Iterator[None]:
            if self.how == "enter":
                raise RuntimeError("enter")
            try:
                yield
            except ValueError:
                if self.how != "swallow":
                    raise
            if self.how == "exit":
                raise RuntimeError("exit")

        return manager()


@pytest.mark.parametrize("how", ["enter", "exit", "swallow"])
async def test_what_an_observer_holds_around_a_tool_changes_nothing(how: str, spend: Any, spent: list[int]) -> None:
    @tool(effect="once")
    async def fails() -> str:
        """Fail."""
        raise ValueError("mine")

    events, _ = await read(
        stream(chat(calls=[("a", "spend", "{}"), ("b", "fails", "{}")])),
        tools=[spend, fails],
        observers=[Middleware(how)],
    )
    first, second = events.turn.observations
    assert (first.outcome, first.value, spent) == ("ok", "spent", [1])
    assert (second.outcome, second.model_content) == ("failed", "Error: the tool fails raised ValueError")


@pytest.mark.parametrize("at", [TextDelta, ToolCallEnd, StreamEnd, StepEnd])
async def test_a_failing_observer_disturbs_the_order_for_no_other_and_step_end_stays_last(at: type[Event]) -> None:
    first, last = Watcher(), Watcher()
    calls = [("a", "nope", "{}"), ("b", "double", '{"n": 1}')]
    _, seen = await read(
        stream(anthropic(["x", "y"], calls)), tools=[double], observers=[first, Watcher(fails_at=at), last]
    )
    for events in (seen, first.seen, last.seen):
        assert [event.seq for event in events] == list(range(len(events)))
        assert isinstance(events[-1], StepEnd)


async def test_of_two_equal_observers_only_the_broken_one_is_dropped() -> None:
    @dataclass
    class Counts:
        name: str = "same"
        broken: bool = field(default=False, compare=False)
        seen: int = field(default=0, compare=False)

        event_types = None

        def on_event(self, event: Event) -> None:
            self.seen += 1
            if self.broken:
                raise RuntimeError("broken")

        def around_tool(self, call_id: str) -> None:
            return None

    healthy, broken = Counts(), Counts(broken=True)
    _, seen = await read(stream(chat(["x"], finish="stop")), observers=[healthy, broken])
    assert (healthy.seen, broken.seen) == (len(seen), 1)


class Interrupted(BaseException):
    """As KeyboardInterrupt, for which a test would be interrupted itself."""


class Interrupting(Watcher):
    """An observer in which each of these events is interrupted once, or else that question of many for its types."""

    def __init__(self, at: tuple[type[Event], ...], asked: int = 0) -> None:
        super().__init__()
        self.at = list(at)
        self.asked = asked

    @property
    def event_types(self) -> None:  # type: ignore[override]
        self.asked -= 1
        if self.asked == 0:
            raise Interrupted

    def on_event(self, event: Event) -> None:
        self.seen.append(event)
        if type(event) in self.at:
            self.at.remove(type(event))
            raise Interrupted


async def test_an_event_that_is_interrupted_is_seen_by_every_observer_nevertheless() -> None:
    """Also where several are, one after the other; the observer that was interrupted sees the event once more."""
    lasting = (ToolCallStart, ToolCallEnd, ToolCallValidated, Observation, StreamEnd, StepEnd)
    cases: list[tuple[type[Event], ...]] = [(kind,) for kind in lasting]
    cases += [(ToolCallEnd, Observation), (ToolCallValidated, StreamEnd, StepEnd), (ToolStarted, Observation, StepEnd)]
    cases += [(TextDelta,)]
    for at in cases:
        first, interrupting, last = Watcher(), Interrupting(at), Watcher()
        block = pipeline(
            stream(anthropic(["x"], [("a", "double", '{"n": 1}'), ("b", "double", '{"n": 2}')])),
            tools=[double],
            observers=[first, interrupting, last],
        )
        with anyio.fail_after(30), pytest.raises(BaseException):
            async with block as events:
                async for _ in events:
                    pass
        turn = block.turn
        assert {seen.call_id for seen in turn.observations} == {call.call_id for call in turn.calls}, at
        assert [event.seq for event in first.seen] == list(range(len(first.seen))), at
        kept = [event for event in first.seen if isinstance(event, lasting)]
        assert [event for event in last.seen if isinstance(event, lasting)] == kept, at
        again = [event for event in interrupting.seen if isinstance(event, lasting)]
        assert list({event.seq: event for event in again}.values()) == kept, at
        assert len(again) == len(kept) + len(set(at) & set(lasting)), at
        assert isinstance(last.seen[-1], StepEnd), at


async def test_an_event_that_is_interrupted_before_anybody_sees_it_is_seen_by_all() -> None:
    for asked in range(1, 13):
        first, interrupting, last = Watcher(), Interrupting((), asked), Watcher()
        block = pipeline(
            stream(chat(calls=[("a", "double", '{"n": 1}')])),
            tools=[double],
            observers=[first, interrupting, last],
        )
        with anyio.fail_after(30):
            try:
                async with block as events:
                    async for _ in events:
                        pass
            except BaseException as error:
                assert "Interrupted" in repr(error)  # noqa: PT017
        lasting = (ToolCallStart, ToolCallEnd, ToolCallValidated, Observation, StreamEnd, StepEnd)
        seen = [[event for event in one.seen if isinstance(event, lasting)] for one in (first, interrupting, last)]
        assert seen[0] == seen[1] == seen[2], asked
        assert asked == 1 or isinstance(seen[0][-1], StepEnd)  # the first question is that of the block's beginning
        assert len(seen[0]) == len({event.seq for event in seen[0]})


async def test_deltas_have_the_number_of_their_step_and_the_next_of_the_run() -> None:
    for observers in ([], [Watcher()]):
        run, seen = Trajectory(observers=observers), []
        for _ in range(2):
            body = sse([chat_chunk({"reasoning_content": text}) for text in "ab"]) + chat(["x", "y"], finish="stop")
            events, found = await read(stream(body), trajectory=run)
            assert (events.turn.reasoning, events.turn.text) == ("ab", "xy")
            seen.append(found)
        for step, events in enumerate(seen):
            assert {event.step for event in events} == {step}
            assert sum(isinstance(event, TextDelta) for event in events) == 2
        together = [event for events in seen for event in events]
        assert [event.seq for event in together] == list(range(len(together)))


async def test_a_delta_that_nobody_else_wants_costs_no_call_of_its_own() -> None:
    class Boundaries(Watcher):
        event_types = (StepEnd,)

    for observers in ([], [Boundaries()]):
        calls = 0

        def count(frame: Any, kind: str, what: object) -> None:
            nonlocal calls
            calls += kind == "call" and frame.f_code.co_name == "emit"

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            _, seen = await read(stream([b"".join(chat(["x"] * 100, finish="stop"))]), observers=observers)
        finally:
            sys.setprofile(before)
        assert len(seen) > 100
        assert 0 < calls < 20, observers


# -- whose task, whose context -----------------------------------------------------------------------------------

setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting", default="unset")


@pytest.mark.parametrize("effect", ["pure", "once"])
async def test_a_tool_sees_the_callers_context_and_not_what_the_source_sets_in_its_own(effect: Any) -> None:
    async def source() -> AsyncIterator[bytes]:
        setting.set("source's")
        for item in chat(calls=[("a", "look", "{}"), ("b", "look_in_a_thread", "{}")]):
            yield item

    @tool(effect=effect)
    async def look() -> str:
        """Look."""
        return setting.get()

    @tool(effect=effect)
    def look_in_a_thread() -> str:
        """Look."""
        return setting.get()

    token = setting.set("caller's")
    try:
        events, _ = await read(source(), tools=[look, look_in_a_thread])
        assert [observation.value for observation in events.turn.observations] == ["caller's", "caller's"]
        assert setting.get() == "caller's"
    finally:
        setting.reset(token)


@pytest.mark.parametrize("waits", [True, False])
async def test_a_consumer_in_another_task_just_ends_when_the_block_is_left(waits: bool) -> None:
    ended = []
    left = anyio.Event()

    async def consume(events: Pipeline) -> None:
        async for event in events:
            if isinstance(event, TextDelta) and not waits:
                await left.wait()
        ended.append(1)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            async with pipeline(hanging(chat(["Hi"], finish=None))) as events:
                group.start_soon(consume, events)
                await anyio.wait_all_tasks_blocked()
            left.set()
    assert ended == [1]
