"""Calls that wait for somebody's word: nothing runs before it, everything else goes on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from payments import LOOK, PAY_A, PAY_B, block, look, outcomes, pay
from profiles import every
from ran import ran
from single_calls import run_alone
from streams import anthropic, hanging, stream

from streamtools import (
    ApprovalRequested,
    Deny,
    Event,
    Observation,
    Pipeline,
    ToolCallValidated,
    Trajectory,
    pipeline,
    tool,
)
from streamtools.errors import ApprovalPending, LocalProtocolError, ToolDefinitionError
from streamtools.events import ApprovalResolved, StepEnd, ToolStarted

pytestmark = pytest.mark.anyio


def content(events: Pipeline, call_id: str) -> str:
    (found,) = [o.model_content for o in events.turn.observations if o.call_id == call_id]
    return found


async def test_a_call_runs_once_it_is_approved_and_is_told_of_from_request_to_observation() -> None:
    told: list[Event] = []
    with anyio.fail_after(30):
        async with block([PAY_A]) as events:
            async for event in events:
                if getattr(event, "call_id", None) == "a":
                    told.append(event)
                if isinstance(event, ApprovalRequested):
                    assert ran == []
                    assert events.approve(event)
    names = [type(event).__name__ for event in told if not type(event).__name__.startswith("ToolCallD")]
    assert names == [
        "ToolCallStart", "ToolCallEnd", "ToolCallValidated", "ApprovalRequested", "ApprovalResolved", "ToolStarted",
        "Observation",
    ]  # fmt: skip
    for cause, event in zip(told[-4:], told[-3:], strict=False):
        assert event.causes == (cause.seq,)  # type: ignore[attr-defined]
    assert (ran, outcomes(events)) == (["pay x 1"], {"a": "ok"})
    assert events.suspended is None


async def test_a_call_is_validated_before_anybody_is_asked() -> None:
    calls = [("a", "pay", '{"to": 3}'), ("b", "nobody", "{}"), ("c", "pay", '{"to": "x", "iban": "y"}')]
    async with block(calls) as events:
        seen = [event async for event in events]
    assert not any(isinstance(event, ApprovalRequested) for event in seen)
    assert outcomes(events) == {"a": "invalid", "b": "unknown_tool", "c": "invalid"}


async def test_calls_that_need_none_run_meanwhile_and_a_loop_ends_when_only_approvals_are_left() -> None:
    with anyio.fail_after(30):
        async with block([PAY_A, LOOK, PAY_B]) as events:
            seen = [event async for event in events]
            assert (ran, outcomes(events), events.resting) == (["look z"], {"l": "ok"}, True)
            assert [event.call_id for event in seen if isinstance(event, ApprovalRequested)] == ["a", "b"]
            assert [call.call_id for call in events.suspended.calls] == ["a", "b"]
            events.approve("b")
            more = [event async for event in events]
            assert (ran[1:], outcomes(events)) == (["pay y 9"], {"l": "ok", "b": "ok"})
            assert [type(event) for event in more] == [ApprovalResolved, ToolStarted, Observation]
            assert [event async for event in events] == []
            events.deny("a", "ask again tomorrow")
            last = [event async for event in events]
            assert isinstance(last[-1], StepEnd)
            assert last[-1].outcome == "complete"
            assert not events.resting
    assert outcomes(events) == {"l": "ok", "b": "ok", "a": "denied"}


async def test_what_was_approved_has_to_be_what_would_run() -> None:
    async with block([PAY_A, PAY_B]) as events:
        a, b = [event async for event in events if isinstance(event, ApprovalRequested)]
        with pytest.raises(LocalProtocolError, match="arguments are not those"):
            events.approve("a", fingerprint=b.fingerprint)
        assert events.approve("a", fingerprint=a.fingerprint)
        assert events.deny(b, fingerprint=b.fingerprint)
        _ = [event async for event in events]
    assert ran == ["pay x 1"]


async def test_a_word_about_a_call_that_nobody_was_asked_about_is_a_mistake() -> None:
    async with pipeline(hanging(anthropic(calls=[LOOK, PAY_A], stop=None)), tools=[pay, look]) as events:
        async for event in events:
            if isinstance(event, ToolCallValidated) and event.call_id == "a":
                break
        for call_id in ("a", "l"):  # one waits for the turn's end, one needs none
            with pytest.raises(LocalProtocolError, match="this call has not asked for approval; decide after"):
                events.approve(call_id)
        with pytest.raises(LocalProtocolError, match="no such call in this turn"):
            events.deny("nobody")
    assert ran == ["look z"]
    with pytest.raises(TypeError, match="was not entered"):
        block([PAY_A]).approve("a")


async def test_a_predicate_decides_which_calls_need_one() -> None:
    asked: list[Mapping[str, Any]] = []

    def large(arguments: Mapping[str, Any]) -> bool:
        asked.append(arguments)
        return arguments["amount"] > 5

    @tool(needs_approval=large, name="pay")
    async def spend(to: str, amount: int = 1) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    async with block([PAY_A, PAY_B], tools=[spend]) as events:
        requests = [event.call_id async for event in events if isinstance(event, ApprovalRequested)]
    assert (requests, ran) == (["b"], ["x"])
    assert asked == [{"to": "x", "amount": 1}, {"to": "y", "amount": 9}]


def _raises(_: Mapping[str, Any]) -> bool:
    raise KeyError("a secret")


@every(("predicate", "told"), [(_raises, "raised KeyError"), (lambda _: "yes", "returned str, not True or False")])
async def test_a_predicate_that_does_not_say_lets_nothing_run(predicate: Callable[..., Any], told: str) -> None:
    guarded = tool(needs_approval=predicate, name="pay")(pay.fn)
    async with block([PAY_A], tools=[guarded]) as events:
        _ = [event async for event in events]
    assert (ran, outcomes(events)) == ([], {"a": "failed"})
    assert content(events, "a") == f"Error: not run: the needs_approval of pay {told}"


async def _later(_: Mapping[str, Any]) -> bool:
    return True


@every("predicate", ["yes", 1, None, _later])
def test_what_is_no_predicate_is_refused_where_the_tool_is_made(predicate: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=r"pay.*needs_approval: expected True, False, or a plain function"):
        tool(needs_approval=predicate)(pay.fn)


# -- approvers --


async def test_an_approver_is_asked_about_each_call_and_the_loop_waits_for_it() -> None:
    answer = anyio.Event()

    async def approve(request: ApprovalRequested) -> bool | str:
        if request.call_id == "a":
            await answer.wait()
            return True
        answer.set()  # the second is decided before the first
        return Deny("not this one")

    with anyio.fail_after(30):
        async with block([PAY_A, PAY_B], approve=approve) as events:
            seen = [event async for event in events]
    assert [event.call_id for event in seen if isinstance(event, ApprovalResolved)] == ["b", "a"]
    assert (ran, outcomes(events)) == (["pay x 1"], {"a": "ok", "b": "denied"})
    assert content(events, "b").endswith("not approved: not this one")


@every(
    ("verdict", "outcome"),
    [(True, "ok"), (False, "denied"), ("no", "denied"), (None, "skipped"), (1, "denied"), ("", "denied")],
)
async def test_an_approver_answers_by_true_false_a_reason_or_none(verdict: Any, outcome: str) -> None:
    with anyio.fail_after(30):
        async with block([PAY_A], approve=lambda request: verdict) as events:
            _ = [event async for event in events]
            assert events.resting is (verdict is None)
    assert outcomes(events) == {"a": outcome}
    if verdict == 1 and verdict is not True:
        (seen,) = events.turn.observations
        assert content(events, "a").endswith("asking for its approval failed (TypeError)")
        assert str(seen.error.__cause__) == 'a verdict is True, False, Deny("why") or None, not int'


def test_what_is_no_approver_is_refused() -> None:
    with pytest.raises(TypeError, match="approve must be a function of an ApprovalRequested, not bool"):
        pipeline(stream([]), approve=True)  # type: ignore[arg-type]


# -- with everything else --


async def test_a_tool_by_itself_does_not_run_a_call_that_needs_an_approval_unless_it_has_it() -> None:
    seen = await run_alone(pay, '{"to": "x"}')
    assert (seen.outcome, ran) == ("skipped", [])
    assert isinstance(seen.error, ApprovalPending)
    with pytest.raises(ApprovalPending, match="waits for an approval"):
        (await run_alone(pay, {"to": "x"})).unwrap()
    assert (await run_alone(pay, {"to": "x"}, approved=True)).outcome == "ok"
    assert ran == ["pay x 1"]


# -- who decides, and from where --


class BreaksWhenGivenUp:
    """An approver whose own task makes an error of its cancellation."""

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def __call__(self, request: ApprovalRequested) -> bool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._ask)
            await anyio.sleep_forever()
        return True

    async def _ask(self) -> None:
        try:
            self.asked.set()
            await anyio.sleep_forever()
        finally:
            raise ValueError("the connection is gone")


async def test_an_approver_that_breaks_while_it_is_given_up_does_not_break_the_pipeline() -> None:
    approve = BreaksWhenGivenUp()
    with anyio.fail_after(30):
        async with block([PAY_A], approve=approve) as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    await approve.asked.wait()
                    assert events.approve(event)
    assert (ran, outcomes(events)) == (["pay x 1"], {"a": "ok"})


@every("verdict", [True, False, None])
async def test_an_approver_may_decide_through_the_pipeline_as_well(verdict: bool | None) -> None:
    ran.clear()
    found: list[Pipeline] = []

    async def approve(request: ApprovalRequested) -> bool | None:
        assert found[0].approve(request)
        await anyio.lowlevel.checkpoint()
        return verdict

    with anyio.fail_after(30):
        async with block([PAY_A], approve=approve) as events:
            found.append(events)
            seen = [event async for event in events]
    assert (ran, outcomes(events)) == (["pay x 1"], {"a": "ok"})
    assert [event.approved for event in seen if isinstance(event, ApprovalResolved)] == [True]


async def test_a_word_from_a_thread_is_refused_and_spoils_nothing() -> None:
    refused: list[BaseException] = []

    with anyio.fail_after(30):
        async with block([PAY_A]) as events:
            (request,) = [event async for event in events if isinstance(event, ApprovalRequested)]

            def decide() -> None:
                try:
                    events.approve(request)
                except Exception as error:
                    refused.append(error)

            thread = threading.Thread(target=decide)
            thread.start()
            await anyio.to_thread.run_sync(thread.join)
            assert isinstance(refused[0], LocalProtocolError)
            assert "from_thread" in str(refused[0])
            assert (ran, events.resting) == ([], True)

            await anyio.to_thread.run_sync(lambda: anyio.from_thread.run_sync(events.approve, request))
            _ = [event async for event in events]
    assert (ran, outcomes(events)) == (["pay x 1"], {"a": "ok"})


async def test_a_request_of_one_step_says_nothing_about_the_same_call_of_another() -> None:
    run = Trajectory(observers=())
    async with block([PAY_A], trajectory=run) as events:
        (old,) = [event async for event in events if isinstance(event, ApprovalRequested)]
    async with block([PAY_A], trajectory=run) as events:
        _ = [event async for event in events]
        with pytest.raises(LocalProtocolError, match="step 0"):
            events.approve(old)
        _ = [event async for event in events]
    assert (ran, outcomes(events)) == ([], {"a": "skipped"})


async def test_a_pipeline_that_was_opened_and_has_not_begun_takes_no_word() -> None:
    async with anyio.create_task_group() as tasks:
        events = block([PAY_A]).open(tasks)
        with pytest.raises(LocalProtocolError, match="has not begun"):
            events.approve("a")
        await events.aclose()


async def test_a_pipeline_that_is_opened_in_a_group_takes_approvals_as_well() -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            events = block([PAY_A, PAY_B]).open(tasks)
            _ = [event async for event in events]
            assert (events.resting, events.suspended is not None) == (True, True)
            events.approve("a")
            events.deny("b", "no")
            _ = [event async for event in events]
            await events.aclose()
    assert [o.outcome for o in events.turn.observations] == ["ok", "denied"]
