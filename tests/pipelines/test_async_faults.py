"""Hard use of the pipeline: closing at odd moments, transforms, stages, observers and sources that misbehave."""

from __future__ import annotations

import asyncio
import copy
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from profiles import every
from streams import anthropic, chat, chat_chunk, double, exhaust, hanging, sse, stream, until

from streamtools import (
    Limits,
    Observation,
    Pipeline,
    StreamEnd,
    TextDelta,
    ToolCallValidated,
    ToolContext,
    Trajectory,
    pipeline,
    tool,
)
from streamtools.errors import TruncatedStream
from streamtools.events import Event, StepEnd, ToolCallEnd, ToolCallStart, ToolProgress, ToolStarted
from streamtools.observers import Observer
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


async def read(source: Any, **options: Any) -> tuple[Pipeline, list[Any]]:
    """A pipeline that was read to its end, and its events."""
    with anyio.fail_after(30):
        async with pipeline(source, **options) as events:
            seen = [event async for event in events]
    return events, seen


def outcomes(events: Pipeline) -> list[str]:
    return [observation.outcome for observation in events.turn.observations]


class Watcher(Observer):
    """An observer that keeps what it sees, and fails where it is told to."""

    def __init__(self, fails_at: type[Event] | None = None) -> None:
        self.fails_at = fails_at
        self.seen: list[Any] = []

    def on_event(self, event: Event) -> None:
        self.seen.append(event)
        if self.fails_at is not None and isinstance(event, self.fails_at):
            raise RuntimeError("broken")


# -- closing -----------------------------------------------------------------------------------------------------


@every("effect", ["once", "pure"])
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


@every("on_source_error", ["cancel", "drain"])
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


# -- tools -------------------------------------------------------------------------------------------------------


@every("kind", ["async", "sync"])
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


# -- sources -----------------------------------------------------------------------------------------------------


@every("scope", ["task group", "timeout"])
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
            await until(events, TextDelta)
        await anyio.lowlevel.checkpoint()
    assert events.turn.warnings == ()


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


async def test_a_source_that_fails_because_the_consumer_left_is_nobodys_error() -> None:
    async def source() -> AsyncIterator[bytes]:
        try:
            for item in chat(["Hi"], finish=None):
                yield item
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup")

    watcher = Watcher()
    with anyio.fail_after(30):
        async with pipeline(source(), observers=[watcher]) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    await anyio.wait_all_tasks_blocked()
                    break
    assert (events.turn.text, events.turn.error) == ("Hi", None)
    assert watcher.seen[-1].outcome == "abandoned"


@every("scope", ["fail_after", "move_on_after"])
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


@every("close", ["hangs", "raises"])
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


@pytest.mark.parametrize(("when", "then"), [(TextDelta, "cancel"), (StreamEnd, "cancel"), (StreamEnd, "drain")])
async def test_an_error_of_a_transform_is_raised_at_async_for_after_the_last_event_and_no_once_call_starts(
    when: type[Event], then: Any, spend: Any, spent: list[int]
) -> None:
    error = ValueError("mine")

    async def broken(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            if isinstance(event, when):
                raise error
            yield event

    seen: list[Any] = []
    cleaned = False
    body = stream(chat(["a", "b"], [("a", "spend", "{}")]))
    with anyio.fail_after(30):
        async with pipeline(body, tools=[spend], transforms=[broken], on_source_error=then) as events:
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
            await until(events, ToolCallValidated)
            if leave == "aclose":
                await events.aclose()
    assert outcomes(events) == ["skipped"]
    assert isinstance(watcher.seen[-1], StepEnd)
    assert sum(isinstance(event, StreamEnd) for event in watcher.seen) == 1


@every("kind", [ToolCallStart, ToolCallEnd, ToolCallValidated, StreamEnd])
@every("again", ["a copy", "the same object"])
async def test_a_transform_that_says_something_twice_breaks_neither_turn_nor_calls(
    kind: type[Event], again: str, spend: Any, spent: list[int]
) -> None:
    spent.clear()

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


# -- observers ---------------------------------------------------------------------------------------------------


@every("at", [TextDelta, ToolCallEnd, StreamEnd, StepEnd])
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


class Interrupted(KeyboardInterrupt):
    """On asyncio, whose loop is left at once then, `test_interrupts` has real ones."""


@pytest.fixture
def only_on_trio(anyio_backend_name: str) -> None:
    if anyio_backend_name == "asyncio":
        pytest.skip("asyncio raises a task's interrupt out of the loop itself")


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


@pytest.mark.usefixtures("only_on_trio")
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
                await exhaust(events)
        turn = block.turn
        assert {seen.call_id for seen in turn.observations} == {call.call_id for call in turn.calls}, at
        assert [event.seq for event in first.seen] == list(range(len(first.seen))), at
        kept = [event for event in first.seen if isinstance(event, lasting)]
        assert [event for event in last.seen if isinstance(event, lasting)] == kept, at
        again = [event for event in interrupting.seen if isinstance(event, lasting)]
        assert list({event.seq: event for event in again}.values()) == kept, at
        assert len(again) == len(kept) + len(set(at) & set(lasting)), at
        assert isinstance(last.seen[-1], StepEnd), at


@pytest.mark.usefixtures("only_on_trio")
async def test_an_event_that_is_interrupted_before_anybody_sees_it_is_seen_by_all() -> None:
    for asked in range(1, 13):
        first, interrupting, last = Watcher(), Interrupting((), asked), Watcher()
        block = pipeline(
            stream(chat(calls=[("a", "double", '{"n": 1}')])), tools=[double], observers=[first, interrupting, last]
        )
        with anyio.fail_after(30):
            try:
                async with block as events:
                    await exhaust(events)
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
