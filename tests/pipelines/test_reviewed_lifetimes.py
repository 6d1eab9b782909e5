"""Lifetimes, looked at for what breaks them: ends at rest, silence, cancellation without a scope."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing
from profiles import every
from streams import anthropic, chat, hanging, stream

from streamtools import Event, Limits, TextDelta, pipeline, tool
from streamtools.errors import LocalProtocolError, TruncatedStream
from streamtools.events import StepEnd
from streamtools.front import agent_loop

asynchronous = pytest.mark.anyio
PATIENCE_S = 10
CHAT = "openai.chat_completions"
ASKED = [{"role": "user", "content": "Hello?"}]


@tool(effect="pure")
async def answers() -> str:
    """Answer."""
    return "yes"


async def read(events: AsyncIterator[Event], into: list[Event]) -> None:
    async for event in events:
        into.append(event)


# -- rest --------------------------------------------------------------------------------------------------------


@asynchronous
@every("leave", ["aclose", "the end of the block"])
@every("at_rest", [True, False])
async def test_a_step_that_is_closed_at_rest_was_complete_however_it_is_closed(leave: str, at_rest: bool) -> None:
    body = chat(["x"], [("a", "answers", "{}")])
    source = stream(body) if at_rest else hanging(body[:2])
    with anyio.fail_after(PATIENCE_S):
        async with pipeline(source, tools=[answers], start="manual") as events:
            branch = events.branch()
            async for event in events:
                if isinstance(event, TextDelta) and not at_rest:
                    break
            assert events.resting == at_rest
            if leave == "aclose":
                await events.aclose()
        last = [event async for event in branch][-1]
    assert isinstance(last, StepEnd)
    assert last.outcome == ("complete" if at_rest else "abandoned")


# -- silence -----------------------------------------------------------------------------------------------------


def test_streams_that_come_and_go_keep_none_of_the_others_from_being_watched() -> None:
    """Each ends within a quarter more than its own time, whatever times the others have."""
    ended: dict[float, float] = {}

    async def one(silence_s: float, after_s: float) -> None:
        await anyio.sleep(after_s)
        begun = anyio.current_time()
        with pytest.raises(TruncatedStream, match="silent"):
            async with pipeline(hanging([]), limits=Limits(idle_timeout=silence_s)) as events:
                await read(events, [])
        ended[silence_s] = anyio.current_time() - begun

    async def leaves(silence_s: float, after_s: float, stays_s: float) -> None:
        await anyio.sleep(after_s)
        async with pipeline(hanging([]), limits=Limits(idle_timeout=silence_s)):
            await anyio.sleep(stays_s)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leaves, 1_000.0, 0, 30)  # the watch begins with it, and looks seldom
            tasks.start_soon(one, 8.0, 1)
            tasks.start_soon(leaves, 0.5, 2, 0.2)  # it looks often for a while
            tasks.start_soon(one, 40.0, 3)
            tasks.start_soon(one, 2.0, 25)
            tasks.start_soon(one, 4.0, 500)  # nobody was watched for long

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert sorted(ended) == [2.0, 4.0, 8.0, 40.0]
    for silence_s, took_s in ended.items():
        assert silence_s <= took_s <= silence_s * 1.25, silence_s


# -- asyncio's own cancellation ----------------------------------------------------------------------------------


@every("middleware", ["the block", "the loop"])
@every("by", ["timeout", "cancel"])
def test_asyncios_own_ways_to_cancel_stop_all_and_leave_no_request_behind(middleware: str, by: str) -> None:
    stopped: list[str] = []

    async def main() -> None:
        working, cut = asyncio.Event(), asyncio.timeout(None)
        reader = asyncio.current_task()
        assert reader is not None

        @tool(effect="pure")
        async def works() -> None:
            """Work for ever."""
            working.set()
            try:
                await anyio.sleep_forever()
            finally:
                stopped.append("the tool")

        async def cut_it() -> None:
            await working.wait()
            reader.cancel() if by == "cancel" else cut.reschedule(0)

        async def inside_the_cut(work: Coroutine[Any, Any, None]) -> None:
            with pytest.raises(asyncio.CancelledError if by == "cancel" else TimeoutError):
                async with cut:
                    await work
            assert (reader.uncancel() if by == "cancel" else reader.cancelling()) == 0

        async def block() -> None:
            async with events:
                await read(events, [])

        cutting = asyncio.ensure_future(cut_it())
        events = pipeline(hanging(anthropic(calls=[("a", "works", "{}")], stop=None)), tools=[works])
        if middleware == "the block":
            await inside_the_cut(block())
        else:
            async with events:
                await inside_the_cut(read(events, []))
                assert stopped == []  # who reads was told, and the block goes on
        await cutting
        assert [seen.outcome for seen in events.turn.observations] == ["cancelled"]
        async with anyio.create_task_group() as tasks:  # a request that is left behind would come out here
            tasks.start_soon(anyio.lowlevel.checkpoint)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    assert stopped == ["the tool"]


# -- runs of many steps ------------------------------------------------------------------------------------------


@asynchronous
async def test_a_run_is_iterated_in_one_task_and_no_second_one_asks_the_model_too() -> None:
    asked: list[int] = []
    making, go_on = anyio.Event(), anyio.Event()

    async def ask(messages: list[Any], tools: list[Any]) -> AsyncIterator[bytes]:
        asked.append(len(messages))
        making.set()
        await go_on.wait()
        return stream(chat(["Hi."], finish="stop"))

    seen: list[Event] = []
    with anyio.fail_after(PATIENCE_S):
        async with agent_loop(ask, ASKED, wire=CHAT) as run, anyio.create_task_group() as tasks:
            tasks.start_soon(read, run, seen)
            await making.wait()
            with pytest.raises(LocalProtocolError, match="in one task"):
                await run.finish()
            go_on.set()
    assert asked == [1]
    assert run.outcome == "answered"
    assert isinstance(seen[-1], StepEnd)


@every(
    ("option", "error"),
    [
        ({"start": "sometimes"}, ValueError),
        ({"on_source_error": "ignore"}, ValueError),
        ({"executor": 5}, TypeError),
        ({"limits": 3}, TypeError),
        ({"wire": "morse"}, ValueError),
    ],
)
def test_an_option_that_no_step_could_take_is_refused_before_the_model_is_asked(
    option: dict[str, Any], error: type[Exception]
) -> None:
    """Else a request would be paid for, and its stream be left open."""
    with pytest.raises(error, match=f"{next(iter(option))}|morse"):
        agent_loop(lambda *_: None, ASKED, tools=[answers], **{"wire": CHAT, **option})


@asynchronous
async def test_a_stream_that_a_run_was_given_and_never_read_is_closed() -> None:
    class Given:
        closed = False

        def __aiter__(self) -> Given:
            return self

        async def __anext__(self) -> bytes:
            raise AssertionError("it is not read")

        async def aclose(self) -> None:
            self.closed = True

    given, scope = Given(), anyio.CancelScope()

    async def ask(messages: list[Any], tools: list[Any]) -> Given:
        scope.cancel()
        return given

    run = agent_loop(ask, ASKED, wire=CHAT)
    with scope:
        async with run:
            await read(run, [])
    assert (run.outcome, given.closed) == ("left", True)
