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
from streams import anthropic, chat, hanging, stream

from streamtools import (
    ApprovalRequested,
    Decision,
    Event,
    Limits,
    Pipeline,
    StreamEnd,
    TextDelta,
    Trajectory,
    pipeline,
    resume,
    tool,
)
from streamtools.dispatch import MemoryStore
from streamtools.errors import DeadlineExceeded, StreamError
from streamtools.events import StepEnd
from streamtools.history import lint
from streamtools.pipelines.agent_loop import agent_loop

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


def outcomes(block: Pipeline) -> dict[str, str]:
    return {seen.call_id: seen.outcome for seen in block.turn.observations}


@pytest.mark.parametrize("limit", NAMES)
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


@pytest.mark.parametrize("drain", [False, True], ids=["cancel", "drain"])
@pytest.mark.parametrize("limit", NAMES[1:])
async def test_in_the_middle_of_a_stream_what_runs_is_cancelled_and_what_is_held_is_skipped(
    limit: str, drain: bool
) -> None:
    """Draining is for a stream that failed; a deadline is one for the calls as well."""
    body = anthropic(["Hi"], [("r", "stay", "{}"), ("h", "spend", "{}"), ("a", "pay", "{}"), ("t", "stay", "{}")])
    cut = body[:-3]  # within the last call
    options: dict[str, Any] = {"on_source_error": "drain" if drain else "cancel"}
    block = pipeline(hanging(cut), tools=TOOLS, limits=Limits(**{limit: IN_TIME}), **options)
    await expired(block, limit)
    assert outcomes(block) == {"r": "cancelled", "h": "skipped", "a": "skipped", "t": "truncated"}
    assert f"{limit} was over" in block.turn.observations[1].model_content
    assert block.turn.text == "Hi"
    assert not block.turn.complete
    assert lint([*ASKED, *block.turn.messages()], "anthropic.messages") == []


@pytest.mark.parametrize("limit", NAMES[1:])
async def test_tools_that_run_on_after_the_streams_end_are_cancelled(limit: str) -> None:
    block = pipeline(
        stream(chat(calls=[("r", "stay", "{}"), ("s", "spend", "{}")])),
        tools=TOOLS,
        limits=Limits(**{limit: IN_TIME}),
    )
    seen = await expired(block, limit)
    assert outcomes(block) == {"r": "cancelled", "s": "ok"}
    assert next(event.error for event in seen if isinstance(event, StreamEnd)) is None, "the stream itself was whole"
    assert lint([*ASKED, *block.turn.messages()], CHAT) == []


async def test_a_call_behind_another_is_cancelled_before_it_starts() -> None:
    limits = Limits(step_timeout=IN_TIME, max_concurrency=1)
    block = pipeline(stream(chat(calls=[("r", "stay", "{}"), ("s", "spend", "{}")])), tools=TOOLS, limits=limits)
    await expired(block, "step_timeout")
    assert outcomes(block) == {"r": "cancelled", "s": "cancelled"}
    assert block.turn.observations[1].attempts == 0


@pytest.mark.parametrize("limit", NAMES[1:])
async def test_a_pipeline_that_rests_for_an_approval_ends_too(limit: str) -> None:
    block = pipeline(stream(chat(calls=[("a", "pay", "{}")])), tools=TOOLS, limits=Limits(**{limit: IN_TIME}))
    with anyio.fail_after(20):
        async with block as events:
            seen = [event async for event in events]
            assert any(isinstance(event, ApprovalRequested) for event in seen)
            assert events.resting
            with pytest.raises(DeadlineExceeded, match=limit):
                while True:  # a word may come at any time
                    _ = [event async for event in events]
                    await anyio.lowlevel.checkpoint()
            assert not events.approve("a")
    assert outcomes(block) == {"a": "skipped"}


async def test_an_approver_who_does_not_answer_is_given_up() -> None:
    async def never(request: ApprovalRequested) -> bool:
        await anyio.sleep_forever()
        return True

    block = pipeline(
        stream(chat(calls=[("a", "pay", "{}")])), tools=TOOLS, approve=never, limits=Limits(step_timeout=IN_TIME)
    )
    await expired(block, "step_timeout")
    assert outcomes(block) == {"a": "skipped"}


async def test_the_first_chunk_is_waited_for_from_the_request_on() -> None:
    """Ten minutes ago: the time is over as soon as the block is entered."""
    block = pipeline(hanging([]), limits=Limits(first_chunk_timeout=60), requested_at=time.monotonic() - 600)
    with anyio.fail_after(20):
        async with block as events:
            with pytest.raises(DeadlineExceeded, match="first_chunk_timeout=60"):
                async for _ in events:
                    pass


async def test_whatever_has_come_is_a_first_chunk() -> None:
    for first in (b": ping\n\n", chat(["Hi"])[0]):

        async def slow(first: bytes = first) -> AsyncIterator[bytes]:
            yield first
            await anyio.sleep(1.5 * IN_TIME)
            for item in chat(["Hi"], finish="stop"):
                yield item

        async with pipeline(slow(), limits=Limits(first_chunk_timeout=IN_TIME)) as events:
            text = [event.text async for event in events if isinstance(event, TextDelta)]
        assert "".join(text).endswith("Hi")
        assert events.turn.complete


async def test_nothing_happens_when_all_is_in_time() -> None:
    limits = Limits(first_chunk_timeout=60, step_timeout=60, run_timeout=60)
    body = chat(["Hi"], calls=[("s", "spend", "{}"), ("a", "pay", "{}")])
    block = pipeline(stream(body), tools=TOOLS, approve=lambda request: True, limits=limits)
    with anyio.fail_after(20):
        async with block as events:
            _ = [event async for event in events]
    assert outcomes(block) == {"s": "ok", "a": "ok"}
    assert (block.turn.complete, block.turn.error, block.turn.warnings) == (True, None, ())


async def test_the_block_may_be_left_before_its_time_is_over() -> None:
    with anyio.fail_after(20):
        async with pipeline(hanging(chat(["Hi"], finish=None)), limits=Limits(step_timeout=60)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
    assert events.turn.error is None


async def test_an_opened_pipeline_and_a_branch_are_told_too() -> None:
    block = pipeline(hanging(chat(["Hi"], finish=None)), limits=Limits(step_timeout=SOON))
    branch = block.branch()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for consumer in (block.open(group), branch):
                with pytest.raises(DeadlineExceeded, match="step_timeout"):
                    async for _ in consumer:
                        pass


# -- runs -------------------------------------------------------------------------------------------------------------


async def test_a_runs_time_goes_on_over_its_steps() -> None:
    """The second step begins when the run's time is nearly over, and has none of its own."""
    run = Trajectory()
    limits = Limits(run_timeout=60)
    async with pipeline(stream(chat(["Hi"], finish="stop")), trajectory=run, limits=limits) as events:
        _ = [event async for event in events]
    run.began_at -= 600  # as if that had taken so long
    with anyio.fail_after(20):
        async with pipeline(hanging([]), trajectory=run, limits=limits) as events:
            with pytest.raises(DeadlineExceeded, match="run_timeout=60"):
                async for _ in events:
                    pass


@pytest.mark.parametrize("limit", ["first_chunk_timeout", "run_timeout"])
async def test_a_request_that_is_never_answered_is_given_up(limit: str) -> None:
    async def ask(messages: list[Any], tools: list[Any]) -> Any:
        await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with agent_loop(ask, ASKED, tools=TOOLS, wire=CHAT, limits=Limits(**{limit: SOON})) as run:
            with pytest.raises(DeadlineExceeded, match=limit) as caught:
                await run.finish()
    assert (caught.value.limit, run.outcome, run.messages) == (limit, "error", ASKED)


@pytest.mark.parametrize("limit", ["step_timeout", "run_timeout"])
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
                        async for _ in events:
                            pass
                    except DeadlineExceeded as error:
                        raised = error
                assert (raised is None) is (seconds == enough)
                assert raised is None or round(trio.current_time() - began) == seconds

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_limit_that_is_no_time_is_refused() -> None:
    for name in NAMES:
        with pytest.raises(ValueError, match=name):
            Limits(**{name: 0})


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
                    async for _ in run:
                        pass
            for suspended in (block.suspended, run.suspended):
                assert suspended is not None
                decisions = [Decision.on(call, True) for call in suspended.calls]
                turn = await resume(suspended, tools=tools, store=store, decisions=decisions)
                assert [(seen.call_id, seen.value) for seen in turn.observations] == [("a", "refunded 1")]
