"""`Pipeline.open`: the block's promises for those who cannot write one, on asyncio and on trio."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from profiles import every
from streams import anthropic, chat, hanging, stream, until

from streamtools import TextDelta, pipeline, tool
from streamtools.errors import LocalProtocolError, TruncatedStream
from streamtools.events import StepEnd, ToolStarted
from streamtools.testing import ScriptedSource

pytestmark = pytest.mark.anyio

SLEEPS = anthropic(["Let me see"], calls=[("a", "sleep", "{}")], stop=None)


class Sleeper:
    """A tool that sleeps until it is cancelled, and what became of it."""

    def __init__(self) -> None:
        self.running = 0
        self.cancelled = anyio.Event()

        @tool(effect="pure")
        async def sleep() -> str:
            """Sleep until cancelled."""
            self.running += 1
            try:
                await anyio.sleep_forever()
            finally:
                self.running -= 1
                self.cancelled.set()
            return "never"

        self.tool = sleep


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.WARNING)
    yield
    gc.collect()
    assert caplog.records == []


async def until_a_tool_runs(events: Any, sleeper: Sleeper) -> None:
    await until(events, ToolStarted)
    while not sleeper.running:
        await anyio.lowlevel.checkpoint()


def drop(held: list[Any]) -> None:
    held.clear()
    gc.collect()


async def test_closing_it_cancels_and_awaits_the_calls_and_closes_the_source() -> None:
    sleeper, source = Sleeper(), ScriptedSource([*SLEEPS, anyio.Event()])
    async with anyio.create_task_group() as tasks:
        async with aclosing(pipeline(source, tools=[sleeper.tool]).open(tasks)) as events:
            await until_a_tool_runs(events, sleeper)
        assert (sleeper.running, source.closed) == (0, True)
        assert [event async for event in events] == []
        await events.aclose()
    assert [observation.outcome for observation in events.turn.observations] == ["cancelled"]
    assert [message["role"] for message in events.turn.messages()] == ["assistant", "user"]


async def test_a_stream_error_is_raised_once_after_the_last_event_and_harms_nobody_else() -> None:
    seen: list[Any] = []
    async with anyio.create_task_group() as tasks:
        events = pipeline(stream(chat(["Hello"], finish=None))).open(tasks)
        with pytest.raises(TruncatedStream):
            async for event in events:
                seen.append(event)
        assert isinstance(seen[-1], StepEnd)
        assert [event async for event in events] == []
        await anyio.lowlevel.checkpoint()  # the group is not cancelled
    assert isinstance(events.turn.error, TruncatedStream)


async def test_a_cancelled_group_cancels_the_calls_and_the_rest_is_not_taken_for_an_end() -> None:
    sleeper = Sleeper()
    async with anyio.create_task_group() as tasks:
        events = pipeline(hanging(SLEEPS), tools=[sleeper.tool]).open(tasks)
        await until_a_tool_runs(events, sleeper)
        tasks.cancel_scope.cancel()
    assert sleeper.running == 0
    assert [observation.outcome for observation in events.turn.observations] == ["cancelled"]
    with pytest.raises(LocalProtocolError, match="was cancelled, and with it the rest of the stream"):
        _ = [event async for event in events]
    assert [event async for event in events] == []


async def test_one_that_is_dropped_is_closed_and_told_about() -> None:
    sleeper = Sleeper()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            events = pipeline(hanging(SLEEPS), tools=[sleeper.tool]).open(tasks)
            await until_a_tool_runs(events, sleeper)
            held = [events]
            del events
            with pytest.warns(ResourceWarning, match=r"await events.aclose\(\)"):
                drop(held)
    assert sleeper.running == 0


@pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning")  # trio's, of any
async def test_a_generator_that_a_framework_drops_at_its_yield_leaves_no_scope_behind() -> None:
    """What breaks with a block inside the generator: see the module's words on PEP 789."""
    sleeper = Sleeper()

    async def body(tasks: Any) -> AsyncIterator[str]:
        events = pipeline(hanging(SLEEPS), tools=[sleeper.tool]).open(tasks)
        try:
            async for event in events:
                if isinstance(event, (TextDelta, ToolStarted)):
                    yield type(event).__name__
        finally:
            await events.aclose()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            sent: list[str] = []

            async def respond() -> None:
                async for part in body(tasks):
                    sent.append(part)
                    if part == "ToolStarted":
                        await anyio.sleep_forever()  # a client that takes nothing more

            async with anyio.create_task_group() as request:
                request.start_soon(respond)
                while not sleeper.running:
                    await anyio.lowlevel.checkpoint()
                request.cancel_scope.cancel()
            with anyio.move_on_after(0.001) as later:  # a scope of the consumer's own still works
                await anyio.sleep_forever()
            assert later.cancelled_caught
            gc.collect()
            await sleeper.cancelled.wait()
    assert sent == ["TextDelta", "ToolStarted"]


# -- misuse ----------------------------------------------------------------------------------------------------


@every("group", [asyncio.TaskGroup, "tasks"])
async def test_what_is_no_task_group_is_refused_with_what_to_write(group: Any) -> None:
    events = pipeline([])
    with pytest.raises(TypeError, match=r"open takes a task group .*; write:  async with anyio.create_task_group"):
        events.open(group() if callable(group) else group)
    async with events:  # nothing has happened to it
        pass


async def test_a_group_that_is_not_entered_or_was_left_is_refused() -> None:
    tasks = anyio.create_task_group()
    events = pipeline([])
    with pytest.raises(LocalProtocolError, match="it was not entered, or was left"):
        events.open(tasks)
    async with tasks:
        pass
    with pytest.raises(LocalProtocolError, match="it was not entered, or was left"):
        events.open(tasks)
    async with events:
        pass


async def test_a_pipeline_is_opened_once_and_not_entered_beside() -> None:
    async with anyio.create_task_group() as tasks:
        source = pipeline(stream(chat(["Hello"])))
        events = source.open(tasks)
        with pytest.raises(LocalProtocolError, match="entered once"):
            source.open(tasks)
        with pytest.raises(LocalProtocolError, match="entered once"):
            await source.__aenter__()
        assert events is source
        assert [event.text async for event in events if isinstance(event, TextDelta)] == ["Hello"]
        with pytest.raises(LocalProtocolError, match="entered once"):
            source.open(tasks)
    async with pipeline([]) as entered:
        with pytest.raises(LocalProtocolError, match="entered once"):
            entered.open(tasks)
