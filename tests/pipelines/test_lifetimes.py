"""Who lives how long: sources, tasks, what a pipeline holds, and how errors leave its block."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing
from profiles import every
from streams import anthropic, chat, chat_chunk, exhaust, hanging, sse, stream, until

from streamtools import Event, Limits, Pipeline, TextDelta, pipeline, tool
from streamtools.events import StepEnd, ToolStarted
from streamtools.observers import Observer
from streamtools.testing import ScriptedSource

pytestmark = pytest.mark.anyio


def tasks() -> int:
    """Tasks that live."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


@pytest.fixture
async def nothing_is_left(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """No task, no thread, no unclosed generator, no word in a log."""
    before, threads = tasks(), threading.active_count()
    gc.freeze()  # what was there before: looking through it again and again takes longer than the tests
    try:
        yield
        gc.collect()  # what was not closed warns now, and a warning is an error
    finally:
        gc.unfreeze()
    assert tasks() == before
    assert threading.active_count() <= threads
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


leaves_nothing = pytest.mark.usefixtures("nothing_is_left")


class Sleeper:
    """A tool that sleeps until it is cancelled."""

    def __init__(self) -> None:
        self.inside = anyio.Event()
        self.running = 0

        @tool(effect="pure")
        async def sleep() -> str:
            """Sleep until cancelled."""
            self.running += 1
            self.inside.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.running -= 1
            return "never"

        self.tool = sleep


SLEEPS = anthropic(["Let me see"], [("a", "sleep", "{}")], stop=None)


# -- the source --------------------------------------------------------------------------------------------------


@leaves_nothing
@every("leave", ["break", "aclose", "raise", "cancel"])
async def test_a_source_that_waits_for_room_is_closed_in_the_task_that_reads_it_and_its_finally_may_await(
    leave: str,
) -> None:
    reads: set[int] = set()
    closes: list[int] = []
    taken = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal taken
        try:
            for item in chat(["x"] * 1000, finish="stop"):
                taken += 1
                reads.add(anyio.get_current_task().id)
                yield item
        finally:
            for _ in range(3):  # without a shield of its own
                await anyio.lowlevel.checkpoint()
            closes.append(anyio.get_current_task().id)

    with anyio.fail_after(30), anyio.CancelScope() as scope:
        try:
            async with pipeline(source(), limits=Limits(event_buffer=2)) as events:
                await until(events, TextDelta)
                await anyio.wait_all_tasks_blocked()  # the reader waits for room: nobody takes anything
                assert 3 <= taken <= 6
                if leave == "aclose":
                    await events.aclose()
                    assert closes == [*reads]
                elif leave == "raise":
                    raise KeyError("mine")
                elif leave == "cancel":
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        except KeyError:
            assert leave == "raise"
    assert closes == [*reads]
    assert closes != [anyio.get_current_task().id]
    assert taken <= 6
    assert events.turn.warnings == ()


# -- how far a source may be ahead -------------------------------------------------------------------------------


DELTAS = 100_000
LOOKS = 5  # at the memory, evenly


@leaves_nothing
async def test_a_hundred_thousand_deltas_leave_no_more_behind_than_twenty_thousand() -> None:
    delta = sse([chat_chunk({"content": "x"})])[0]
    held: list[int] = []
    blocks: list[int] = []

    async def source() -> AsyncIterator[bytes]:
        for _ in range(DELTAS):
            yield delta  # without a checkpoint: as fast as it can
        for item in chat(finish="stop"):
            yield item

    taken = 0
    limits = Limits(event_buffer=64)
    async with pipeline(source(), limits=limits) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                taken += 1
                if taken % (DELTAS // LOOKS) == 0:
                    gc.collect()
                    held.append(sum(type(each) is TextDelta for each in gc.get_objects()))
                    blocks.append(sys.getallocatedblocks())
    assert taken == len(events.turn.text) == DELTAS
    assert max(held) <= limits.event_buffer + 2
    later = DELTAS - DELTAS // LOOKS
    assert max(blocks) - blocks[0] < later * 1.02  # the text of each, which the turn keeps, and nothing beside it


# -- before the block, and without its end -----------------------------------------------------------------------


@leaves_nothing
async def test_who_forgets_the_pipeline_inside_its_block_still_leaves_the_block() -> None:
    sleeper, source = Sleeper(), ScriptedSource([*SLEEPS, anyio.Event()])
    with anyio.fail_after(30):
        async with pipeline(source, tools=[sleeper.tool]) as events:
            gone = weakref.ref(events)
            del events
            gc.collect()
            await sleeper.inside.wait()
            assert gone() is not None
        assert (sleeper.running, source.closed) == (0, True)


# -- errors ------------------------------------------------------------------------------------------------------


class Fatal(BaseException):
    """What no library should keep to itself."""


class Interrupt(KeyboardInterrupt):
    """What not even the code of a tool keeps to itself."""


GROUPS: dict[str, Callable[[], BaseException]] = {
    "a single error": lambda: OSError("reset"),
    "a group of one": lambda: ExceptionGroup("mine", [OSError("reset")]),
    "a group of two": lambda: ExceptionGroup("mine", [OSError("reset"), ValueError("bad")]),
}


@leaves_nothing
@every("where", ["source", "body"])
@every("kind", GROUPS)
async def test_an_error_comes_out_as_it_was_raised_and_except_star_takes_single_ones_and_groups(
    kind: str, where: str
) -> None:
    error = GROUPS[kind]()
    sleeper = Sleeper()
    matched: list[Exception] = []
    whole: list[BaseException] = []
    body = anthropic(["Hi"], [("a", "sleep", "{}")], stop=None)
    with anyio.fail_after(30):
        try:
            try:
                source = stream(body, then=error) if where == "source" else hanging(body)
                async with pipeline(source, tools=[sleeper.tool]) as events:
                    async for event in events:
                        if where == "body" and isinstance(event, ToolStarted):
                            raise error
            except BaseException as raised:
                whole.append(raised)
                raise
        except* OSError as group:
            matched += group.exceptions
        except* ValueError as group:
            matched += group.exceptions
    assert whole == [error]
    assert len(matched) == (2 if "two" in kind else 1)
    assert sleeper.running == 0
    assert [observation.outcome for observation in events.turn.observations] == ["cancelled"]


@leaves_nothing
@pytest.mark.parametrize("by", ["one tool", "two tools", "source", "observer", "body"])
async def test_what_is_fatal_ends_the_block_by_itself_and_several_as_a_group(by: str, anyio_backend_name: str) -> None:
    if by not in ("source", "body") and anyio_backend_name == "asyncio":
        pytest.skip("asyncio raises a task's interrupt out of the loop itself")
    both = anyio.Event()
    inside = 0

    @tool(effect="pure")
    async def die() -> str:
        """Fail fatally."""
        nonlocal inside
        inside += 1
        if inside == (2 if by == "two tools" else 1):
            both.set()
        with anyio.CancelScope(shield=True):  # the other's failure cancels this one
            await both.wait()
        raise Interrupt

    class Dies(Observer):
        event_types = frozenset({TextDelta})

        def on_event(self, event: Event) -> None:
            raise Interrupt

    calls = [(name, "die", "{}") for name in {"one tool": "a", "two tools": "ab"}.get(by, "")]
    body = anthropic(["Hi"], calls, stop=None)
    source = stream(body, then=Fatal()) if by == "source" else hanging(body)
    with anyio.fail_after(30), pytest.raises(BaseException) as caught:
        async with pipeline(source, tools=[die], observers=[Dies()] if by == "observer" else []) as events:
            async for event in events:
                if by == "body" and isinstance(event, TextDelta):
                    raise Fatal
    if by == "two tools":
        assert isinstance(caught.value, BaseExceptionGroup)
        assert [type(error) for error in caught.value.exceptions] == [Interrupt, Interrupt]
    else:
        assert isinstance(caught.value, (Fatal, Interrupt))
    assert len(events.turn.observations) == len(calls)


@tool
async def charge(amount: int) -> str:
    """Charge an account."""
    return f"charged {amount}"


def made() -> Pipeline:
    """As an endpoint of a web framework does that is no coroutine function."""
    return pipeline(chat(calls=[("a", "charge", '{"amount": 3}')]), tools=[charge], wire="openai.chat_completions")


async def outcomes(events: Pipeline) -> list[tuple[str, Any]]:
    async with events:
        await exhaust(events)
    return [(seen.outcome, seen.value) for seen in events.turn.observations]


async def in_a_worker_thread() -> list[tuple[str, Any]]:
    return await outcomes(await anyio.to_thread.run_sync(made))


@every("backend", ["asyncio", "trio"])
def test_a_pipeline_may_be_made_before_the_event_loop_runs_and_in_a_worker_thread(backend: str) -> None:
    for case in (partial(outcomes, made()), in_a_worker_thread):
        assert anyio.run(case, backend=backend) == [("ok", "charged 3")]


@every("where", ["block", "generator"])
async def test_a_scope_around_it_ends_a_stream_whose_source_has_always_more(where: str) -> None:
    """Its consumer is always about to be woken, and no cancellation of anyio's is delivered to such a task."""

    async def endless() -> AsyncIterator[bytes]:
        for item in chat(["Hi"])[:1]:
            yield item
        while True:
            await anyio.lowlevel.checkpoint()
            yield sse([chat_chunk({"content": "more"})])[0]

    async def events_of(source: AsyncIterator[bytes]) -> AsyncIterator[Event]:
        async with pipeline(source) as events:
            async for event in events:
                yield event

    seen = 0
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with pipeline(endless()) if where == "block" else aclosing(events_of(endless())) as events:
            async for _ in events:
                seen += 1
                if seen == 5:
                    scope.cancel()
    assert scope.cancelled_caught


class StepEnds(Observer):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, StepEnd):
            self.seen.append(event.outcome)


async def test_a_step_that_is_left_among_its_calls_says_so_however_they_end() -> None:
    """Its runner is woken by the end of one call and by the cancellation of the block, at the same moment."""

    @tool(effect="idempotent", conflict_key=lambda arguments: "one")
    async def put(n: int) -> None:
        """Put."""
        await anyio.sleep_forever()

    body = chat(calls=[("c1", "put", '{"n": 1}'), ("c2", "put", '{"n": 2}')])
    for expected in ("cancelled", "abandoned"):
        ends, scope = StepEnds(), anyio.CancelScope()
        with scope:
            async with pipeline(stream(body), tools=[put], observers=[ends]) as events:
                async for event in events:
                    if not isinstance(event, ToolStarted):
                        continue
                    await anyio.wait_all_tasks_blocked()
                    if expected == "abandoned":
                        break
                    scope.cancel()
        assert ends.seen == [expected]
