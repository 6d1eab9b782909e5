"""``Limits(first_chunk_timeout=, step_timeout=, run_timeout=)``: a pipeline whose time is over ends, typed and whole.

What is waited for never comes, so that a short time is always over; what has to come in time has a minute.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing
from profiles import every
from streams import chat, exhaust, hanging, stream

from streamtools import ApprovalRequested, Decision, Event, Limits, Pipeline, StreamEnd, pipeline, resume, tool
from streamtools.dispatch import MemoryStore
from streamtools.errors import DeadlineExceeded, StreamError
from streamtools.events import StepEnd
from streamtools.front import agent_loop
from streamtools.history import lint

pytestmark = pytest.mark.anyio

SOON = 0.03
IN_TIME = 0.4  # for a test whose stream is read before its time is over, on a busy machine, too
CHAT = "openai.chat_completions"
ASKED = [{"role": "user", "content": "Go."}]


@tool(effect="pure")
async def stay() -> str:
    """Stay."""
    await anyio.sleep_forever()
    return "never"


@tool(effect="once")
async def spend() -> str:
    """Spend."""
    return "spent"


@tool(effect="once", needs_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


TOOLS = [stay, spend, pay]
NAMES = ("first_chunk_timeout", "step_timeout", "run_timeout")


async def expired(block: Pipeline, limit: str, seconds: float = IN_TIME) -> list[Event]:
    """Read it until its time is over; returns all its events."""
    seen: list[Event] = []
    with anyio.fail_after(20):
        async with block as events:
            with pytest.raises(DeadlineExceeded) as caught:
                async for event in events:
                    seen.append(event)
    error = caught.value
    assert isinstance(error, StreamError)
    assert (error.limit, error.kind, limit in str(error)) == (limit, "deadline_exceeded", True)
    assert error.seconds == seconds
    assert type(seen[-1]) is StepEnd, "it is raised after the last event"
    assert [event.seq for event in seen] == list(range(len(seen)))
    assert sum(isinstance(event, StreamEnd) for event in seen) == 1
    return seen


@every("limit", NAMES)
async def test_a_source_that_brings_nothing_is_given_up(limit: str) -> None:
    closed = anyio.Event()

    async def nothing() -> AsyncIterator[bytes]:
        try:
            await anyio.sleep_forever()
            yield b""
        finally:
            closed.set()

    block = pipeline(nothing(), limits=Limits(**{limit: SOON}))
    seen = await expired(block, limit, SOON)
    assert closed.is_set()
    assert isinstance(block.turn.error, DeadlineExceeded)
    assert isinstance(seen[-1], StepEnd)
    assert seen[-1].outcome == "error"


# -- runs -------------------------------------------------------------------------------------------------------------


@every("limit", ["step_timeout", "run_timeout"])
async def test_a_run_ends_where_its_time_is_over_and_its_history_can_be_sent(limit: str) -> None:
    bodies = [chat(calls=[("s", "spend", "{}")]), chat(calls=[("r", "stay", "{}")])]
    asked: list[Any] = []

    async def ask(messages: list[Any], tools: list[Any]) -> Any:
        await anyio.lowlevel.checkpoint()
        asked.append(messages)
        return stream(bodies[len(asked) - 1])

    limits = Limits(**{limit: 0.3})
    with anyio.fail_after(20):
        async with agent_loop(ask, ASKED, tools=TOOLS, wire=CHAT, limits=limits) as run:
            with pytest.raises(DeadlineExceeded, match=limit):
                await run.finish()
    assert run.outcome == "error"
    assert [seen.outcome for turn in run.turns for seen in turn.observations][-1] == "cancelled"
    assert lint(run.messages, CHAT) == []


# -- a clock of the test's own: trio's, which runs when every task waits -----------------------------------------------


def test_each_time_is_kept_to_the_second() -> None:
    async def late() -> AsyncIterator[bytes]:
        await trio.sleep(50)
        for item in chat(["Hi"], finish="stop"):
            await trio.sleep(5)
            yield item

    async def main() -> None:
        for limit, enough, too_little in (("first_chunk_timeout", 56, 54), ("step_timeout", 90, 60)):
            for seconds in (enough, too_little):
                began, raised = trio.current_time(), None
                async with pipeline(late(), limits=Limits(**{limit: seconds}, idle_timeout=None)) as events:
                    try:
                        await exhaust(events)
                    except DeadlineExceeded as error:
                        raised = error
                assert (raised is None) is (seconds == enough)
                assert raised is None or round(trio.current_time() - began) == seconds

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.thorough
async def test_a_call_that_waits_for_an_approval_when_the_time_is_over_can_be_resumed() -> None:
    """The time is over for the other calls; a person decides about this one when they like."""

    @tool(needs_approval=True)
    async def refund(n: int) -> str:
        """Refund."""
        return f"refunded {n}"

    async def ask(request: ApprovalRequested) -> None:
        await anyio.sleep_forever()

    async def model(messages: list[Any], tools: list[Any]) -> AsyncIterator[bytes]:
        return stream(chat(calls=[("a", "refund", '{"n": 1}'), ("b", "stay", "{}")]))

    for limit in ("step_timeout", "run_timeout"):
        tools, limits, store = [refund, stay], Limits(**{limit: IN_TIME}), MemoryStore()
        with anyio.fail_after(20):
            block = pipeline(await model([], []), tools=tools, approve=ask, limits=limits)
            await expired(block, limit)
            run = agent_loop(model, messages=ASKED, wire=CHAT, tools=tools, approve=ask, limits=limits)
            with pytest.raises(DeadlineExceeded):
                async with run:
                    await exhaust(run)
            for suspended in (block.suspended, run.suspended):
                decisions = [Decision.on(call, True) for call in suspended.calls]
                turn = await resume(suspended, tools=tools, store=store, decisions=decisions)
                assert [(seen.call_id, seen.value) for seen in turn.observations] == [("a", "refunded 1")]


async def test_the_first_chunk_is_waited_for_from_the_request_on() -> None:
    """Ten minutes ago: the time is over as soon as the block is entered."""
    block = pipeline(hanging([]), limits=Limits(first_chunk_timeout=60), requested_at=time.monotonic() - 600)
    with anyio.fail_after(20):
        async with block as events:
            with pytest.raises(DeadlineExceeded, match="first_chunk_timeout=60"):
                await exhaust(events)
