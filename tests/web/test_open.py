"""`Pipeline.open`: the block's promises for those who cannot write one, on asyncio and on trio."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from threading import Thread
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from streams import anthropic, chat, hanging, stream

from streamtools import Limits, Observation, StreamEnd, TextDelta, ToolCallValidated, pipeline, tool
from streamtools.errors import LocalProtocolError, TruncatedStream
from streamtools.events import StepEnd, StepStart, ToolStarted
from streamtools.testing import ScriptedSource

pytestmark = pytest.mark.anyio

SLEEPS = anthropic(["Let me see"], calls=[("a", "sleep", "{}")], stop=None)


@tool(effect="pure")
async def double(n: int) -> int:
    """Twice n."""
    return 2 * n


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
    async for event in events:
        if isinstance(event, ToolStarted):
            break
    while not sleeper.running:
        await anyio.lowlevel.checkpoint()


def drop(held: list[Any]) -> None:
    held.clear()
    gc.collect()


def in_a_thread(function: Callable[..., None], *arguments: Any) -> None:
    thread = Thread(target=function, args=arguments)
    thread.start()
    thread.join()


async def test_it_gives_the_events_of_the_block_and_its_turn() -> None:
    body = chat(["Hel", "lo"], calls=[("a", "double", '{"n": 2}')])
    async with pipeline(stream(body), tools=[double]) as block:
        expected = [type(event) async for event in block]
    async with anyio.create_task_group() as tasks:
        events = pipeline(stream(body), tools=[double]).open(tasks)
        seen = [event async for event in events]
        assert [event async for event in events] == []
    assert [type(event) for event in seen] == expected
    assert [event.seq for event in seen] == list(range(len(seen)))
    first = seen[0]
    assert isinstance(first, StepStart)
    assert events.run_id == first.run_id
    assert events.turn.text == "Hello"
    assert events.turn.messages() == block.turn.messages()
    assert [observation.value for observation in events.turn.observations] == [4]


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


async def test_it_may_be_closed_before_anything_was_read() -> None:
    source = ScriptedSource(chat(["Hello"]))
    async with anyio.create_task_group() as tasks:
        events = pipeline(source).open(tasks)
        await events.aclose()
        assert source.closed
        assert [event async for event in events] == []
    assert events.turn.complete is False


async def test_wherever_it_is_closed_every_call_has_one_observation_and_one_result() -> None:
    calls = [("a", "double", '{"n": 1}'), ("b", "sleep", "{}"), ("c", "double", '{"n": "x"}'), ("d", "double", '{"n"')]
    for taken in range(22):  # the start of the last call is the twenty-first event at the latest
        sleeper, source = Sleeper(), ScriptedSource([*anthropic(["Hi"], calls=calls, stop=None), anyio.Event()])
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                events = pipeline(source, tools=[double, sleeper.tool]).open(tasks)
                for _ in range(taken):
                    await anext(events)
                await events.aclose()
        assert (sleeper.running, source.closed) == (0, True)
        turn = events.turn
        ids = [call.call_id for call in turn.calls]
        assert sorted(seen.call_id for seen in turn.observations) == ids
        results = turn.messages()[1]["content"] if ids else []
        assert [result["tool_use_id"] for result in results] == ids
    assert ids == list("abcd")


async def test_another_task_may_close_it_while_it_is_read() -> None:
    sleeper, seen = Sleeper(), list[Any]()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            events = pipeline(hanging(SLEEPS), tools=[sleeper.tool]).open(tasks)

            async def read() -> None:
                async for event in events:
                    seen.append(event)

            tasks.start_soon(read)
            while not sleeper.running:
                await anyio.lowlevel.checkpoint()
            await events.aclose()
    assert sleeper.running == 0
    assert not any(isinstance(event, StepEnd) for event in seen)


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


async def test_closing_it_keeps_an_error_that_was_not_read_from_being_raised() -> None:
    async with anyio.create_task_group() as tasks:
        events = pipeline(stream(chat(["Hello"], finish=None))).open(tasks)
        async for event in events:
            if isinstance(event, StepEnd):
                break
        await events.aclose()
        assert [event async for event in events] == []


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


async def test_a_group_that_is_cancelled_before_it_runs_leaves_nothing_behind() -> None:
    source = ScriptedSource(chat(["Hello"]))
    async with anyio.create_task_group() as tasks:
        events = pipeline(source).open(tasks)
        tasks.cancel_scope.cancel()
    assert source.closed
    assert source.position == 0
    assert events.turn.complete is False
    with pytest.raises(LocalProtocolError, match="was cancelled"):
        await anext(events)


async def test_a_group_that_is_cancelled_after_the_last_event_is_nothing_to_its_reader() -> None:
    async with anyio.create_task_group() as tasks:
        events = pipeline(stream(chat(["Hello"]))).open(tasks)
        async for event in events:
            if isinstance(event, StepEnd):
                break
        tasks.cancel_scope.cancel()
    assert [event async for event in events] == []


async def test_a_closing_that_is_cancelled_still_closes() -> None:
    sleeper = Sleeper()
    async with anyio.create_task_group() as tasks:
        events = pipeline(hanging(SLEEPS), tools=[sleeper.tool]).open(tasks)
        await until_a_tool_runs(events, sleeper)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await events.aclose()
    assert sleeper.running == 0


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


async def test_garbage_may_be_collected_in_another_thread() -> None:
    sleeper = Sleeper()
    held: list[Any] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            held.append(pipeline(hanging(SLEEPS), tools=[sleeper.tool]).open(tasks))
            await until_a_tool_runs(held[0], sleeper)
            with pytest.warns(ResourceWarning):
                in_a_thread(drop, held)
            await sleeper.cancelled.wait()
    assert sleeper.running == 0


def test_one_that_is_dropped_when_its_event_loop_has_ended_is_only_told_about(anyio_backend: str) -> None:
    class Group:
        """Takes tasks and runs none, like a loop that was stopped."""

        cancel_scope = None

        def start_soon(self, *task: Any) -> None: ...

    async def opens() -> Any:
        return pipeline([]).open(Group())  # type: ignore[arg-type]

    held = [anyio.run(opens, backend=anyio_backend)]
    with pytest.warns(ResourceWarning):
        drop(held)


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


async def test_calls_of_yours_to_run_are_run_by_the_handle_which_reads_on_and_stays_open() -> None:
    body = chat(calls=[("a", "double", '{"n": 1}'), ("b", "double", '{"n": 2}')])
    async with anyio.create_task_group() as tasks:
        events = pipeline(stream(body), tools=[double], start="manual").open(tasks)
        ready = [event async for event in events if isinstance(event, ToolCallValidated)]
        assert [event.call.call_id for event in ready] == ["a", "b"]
        assert (await events.run_call(ready[1])).value == 4
        assert [event.call_id async for event in events if isinstance(event, Observation)] == ["b"]
        await events.aclose()
    assert {seen.call_id: seen.outcome for seen in events.turn.observations} == {"a": "skipped", "b": "ok"}


async def test_a_call_may_be_asked_for_before_anything_was_read() -> None:
    async with anyio.create_task_group() as tasks:
        events = pipeline(stream(chat(calls=[("a", "double", '{"n": 1}')])), tools=[double], start="manual")
        opened = events.open(tasks)
        seen: list[Any] = []

        async def read() -> None:
            seen.extend([event async for event in opened])

        tasks.start_soon(read)
        while not any(isinstance(event, StreamEnd) for event in seen):
            await anyio.lowlevel.checkpoint()
        assert (await opened.run_call("a")).value == 2
        await opened.aclose()


async def test_a_slow_reader_makes_the_source_wait() -> None:
    source = ScriptedSource(chat(["x"] * 200))
    async with (
        anyio.create_task_group() as tasks,
        aclosing(pipeline(source, limits=Limits(event_buffer=4)).open(tasks)) as events,
    ):
        for taken in range(1, 101):
            await anext(events)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert source.position <= taken + 4 + 2


async def test_a_fatal_error_of_a_task_ends_the_group_as_it_would_end_the_block() -> None:
    class Fatal(BaseException):
        pass

    @tool(effect="pure")
    async def dies() -> None:
        """Raise what is no error of a tool."""
        raise Fatal

    async def read_it() -> None:
        async with anyio.create_task_group() as tasks:
            events = pipeline(hanging(anthropic(calls=[("a", "dies", "{}")], stop=None)), tools=[dies]).open(tasks)
            async for event in events:
                assert not isinstance(event, Observation)

    with pytest.raises(BaseExceptionGroup) as caught:
        await read_it()
    assert caught.group_contains(Fatal)


async def test_a_nursery_of_trios_will_do(anyio_backend: str) -> None:
    if anyio_backend != "trio":
        pytest.skip("asyncio's own task group cannot be used; see below")
    async with trio.open_nursery() as nursery:
        events = pipeline(stream(chat(["Hello"]))).open(nursery)  # type: ignore[arg-type]
        assert [event.text async for event in events if isinstance(event, TextDelta)] == ["Hello"]


async def test_a_loop_that_begins_tasks_at_once_is_no_trouble(anyio_backend: str) -> None:
    if anyio_backend != "asyncio" or not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("asyncio has eager tasks since Python 3.12, trio has none")
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    async with anyio.create_task_group() as tasks:
        events = pipeline(stream(chat(["Hello"]))).open(tasks)
        assert [event.text async for event in events if isinstance(event, TextDelta)] == ["Hello"]


# -- misuse ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [asyncio.TaskGroup, "tasks"])
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
        with pytest.raises(TypeError, match="iterate what `open` returned"):
            aiter(source)
        assert [event.text async for event in events if isinstance(event, TextDelta)] == ["Hello"]
        with pytest.raises(LocalProtocolError, match="entered once"):
            source.open(tasks)
    async with pipeline([]) as entered:
        with pytest.raises(LocalProtocolError, match="entered once"):
            entered.open(tasks)
