"""Calls that wait for somebody's word: nothing runs before it, everything else goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from alone import run_alone
from payments import LOOK, PAY_A, PAY_B, block, look, outcomes, pay, ran
from streams import anthropic, chat, hanging, stream

from streamtools import (
    ApprovalRequested,
    Deny,
    Event,
    Limits,
    Observation,
    Pipeline,
    StreamEnd,
    ToolCallValidated,
    pipeline,
    tool,
)
from streamtools.dispatch import CallPool
from streamtools.errors import ApprovalPending, CallDenied, LocalProtocolError, ToolDefinitionError, TruncatedStream
from streamtools.events import ApprovalResolved, StepEnd, ToolStarted

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


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


async def test_the_request_has_just_the_arguments_that_would_run_and_does_not_show_them_by_itself() -> None:
    async with block([("a", "pay", '{"to": "someone\'s account", "amount": "7"}')]) as events:
        (request,) = [event async for event in events if isinstance(event, ApprovalRequested)]
        assert request.arguments == {"to": "someone's account", "amount": 7}
        assert (request.tool_name, request.index, len(request.fingerprint)) == ("pay", 0, 64)
        assert "someone" not in repr(request)


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
            assert events.suspended is not None
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


async def test_what_nobody_has_decided_is_skipped_when_the_block_is_left_and_says_so() -> None:
    with anyio.fail_after(30):
        async with block([PAY_A, LOOK]) as events:
            _ = [event async for event in events]
    assert (ran, outcomes(events)) == (["look z"], {"l": "ok", "a": "skipped"})
    (left,) = [o for o in events.turn.observations if o.call_id == "a"]
    assert isinstance(left.error, ApprovalPending)
    assert left.model_content == "Error: the call was not run: it waits for an approval"
    assert events.suspended is not None
    assert events.approve("a") is False
    assert ran == ["look z"]


async def test_a_call_that_is_denied_does_not_run_and_the_model_is_told_why() -> None:
    async with block([PAY_A, PAY_B]) as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                events.deny(event, "too much" if event.call_id == "b" else None)
    assert (ran, outcomes(events)) == ([], {"a": "denied", "b": "denied"})
    assert content(events, "a") == "Error: not run: the call was not approved"
    assert content(events, "b") == "Error: not run: the call was not approved: too much"
    assert all(isinstance(o.error, CallDenied) for o in events.turn.observations)


async def test_the_first_word_counts() -> None:
    async with block([PAY_A, PAY_B]) as events:
        _ = [event async for event in events]
        assert events.approve("a")
        assert not events.deny("a")
        assert not events.approve("a")
        assert events.deny("b")
        assert not events.approve("b")
        _ = [event async for event in events]
        assert not events.deny("a")
    assert (ran, outcomes(events)) == (["pay x 1"], {"a": "ok", "b": "denied"})


async def test_what_was_approved_has_to_be_what_would_run() -> None:
    async with block([PAY_A, PAY_B]) as events:
        a, b = [event async for event in events if isinstance(event, ApprovalRequested)]
        with pytest.raises(LocalProtocolError, match="other arguments than those"):
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
            with pytest.raises(LocalProtocolError, match="nobody was asked about this call; decide after"):
                events.approve(call_id)
        with pytest.raises(LocalProtocolError, match="no such call in this turn"):
            events.deny("nobody")
    assert ran == ["look z"]
    with pytest.raises(TypeError, match="was not entered"):
        block([PAY_A]).approve("a")


async def test_nobody_is_asked_about_a_once_call_before_its_turn_has_ended_well() -> None:
    async with block([PAY_A]) as events:
        seen = [type(event) async for event in events]
    assert seen.index(StreamEnd) < seen.index(ApprovalRequested)
    async with pipeline(stream(anthropic(calls=[PAY_A], stop="tool_use")[:-2]), tools=[pay]) as events:
        with pytest.raises(Exception, match="terminal marker"):
            _ = [event async for event in events]
    assert (ran, outcomes(events), events.suspended) == ([], {"a": "skipped"}, None)


@tool(effect="pure", needs_approval=True)
async def read_mail(folder: str) -> str:
    """Read mail."""
    ran.append(f"read {folder}")
    return "mail"


MAIL = ("m", "read_mail", '{"folder": "in"}')


async def test_a_call_without_effect_is_asked_about_and_may_run_while_the_stream_goes_on() -> None:
    with anyio.fail_after(30):
        async with pipeline(hanging(anthropic(calls=[MAIL], stop=None)), tools=[read_mail]) as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    events.approve(event)
                if isinstance(event, Observation):
                    assert event.outcome == "ok"
                    break
    assert ran == ["read in"]


@pytest.mark.parametrize("stop", ["max_tokens", None])
async def test_what_waits_for_an_approval_is_skipped_when_its_turn_ends_badly(stop: str | None) -> None:
    body = anthropic(calls=[MAIL], stop=stop)
    with anyio.fail_after(30):
        async with pipeline(stream(body), tools=[read_mail]) as events:
            with suppress(TruncatedStream):
                _ = [event async for event in events]
            assert not events.resting
            assert events.suspended is None
            assert events.approve("m") is False
    assert (ran, outcomes(events)) == ([], {"m": "skipped"})


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


@pytest.mark.parametrize(
    ("predicate", "told"),
    [(_raises, "raised KeyError"), (lambda _: "yes", "returned str, not True or False")],
    ids=["raises", "no answer"],
)
async def test_a_predicate_that_does_not_say_lets_nothing_run(predicate: Callable[..., Any], told: str) -> None:
    guarded = tool(needs_approval=predicate, name="pay")(pay.fn)
    async with block([PAY_A], tools=[guarded]) as events:
        _ = [event async for event in events]
    assert (ran, outcomes(events)) == ([], {"a": "failed"})
    assert content(events, "a") == f"Error: not run: the needs_approval of pay {told}"


async def _later(_: Mapping[str, Any]) -> bool:
    return True


@pytest.mark.parametrize("predicate", ["yes", 1, None, _later])
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


@pytest.mark.parametrize(
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
        assert content(events, "a").endswith("asking for its approval failed (TypeError)")


async def test_an_approver_that_fails_denies() -> None:
    def approve(request: ApprovalRequested) -> bool:
        raise RuntimeError("no such database")

    async with block([PAY_A], approve=approve) as events:
        _ = [event async for event in events]
    (left,) = events.turn.observations
    assert (ran, left.outcome) == ([], "denied")
    assert left.model_content.endswith("asking for its approval failed (RuntimeError)")
    assert left.error is not None
    assert isinstance(left.error.__cause__, RuntimeError)


async def test_a_cancellation_that_an_approver_lets_out_is_its_failure() -> None:
    async def approve(request: ApprovalRequested) -> bool:
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.lowlevel.checkpoint()
            except anyio.get_cancelled_exc_class() as error:
                stray = error
        raise stray

    async with block([PAY_A], approve=approve) as events:
        _ = [event async for event in events]
    assert (ran, outcomes(events)) == ([], {"a": "denied"})


async def test_whoever_is_first_decides_and_an_approver_that_still_thinks_is_cancelled() -> None:
    cancelled: list[str] = []

    async def approve(request: ApprovalRequested) -> bool:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(request.call_id)
            raise
        return False

    with anyio.fail_after(30):
        async with block([PAY_A, PAY_B], approve=approve) as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    if event.call_id == "a":
                        events.approve(event)
                    else:
                        events.deny(event)
    assert (ran, outcomes(events)) == (["pay x 1"], {"a": "ok", "b": "denied"})
    assert set(cancelled) <= {"a", "b"}  # one that was cancelled before it began did not notice


async def test_leaving_while_an_approver_thinks_runs_nothing() -> None:
    thinking = anyio.Event()

    async def approve(request: ApprovalRequested) -> bool:
        thinking.set()
        await anyio.sleep_forever()
        return True

    with anyio.fail_after(30):
        async with block([PAY_A], approve=approve) as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    break
            await thinking.wait()
    assert (ran, outcomes(events)) == ([], {"a": "skipped"})
    assert events.suspended is not None


def test_what_is_no_approver_is_refused() -> None:
    with pytest.raises(TypeError, match="approve is a function of an ApprovalRequested, not bool"):
        pipeline(stream([]), approve=True)  # type: ignore[arg-type]


# -- with everything else --


async def test_a_call_that_waits_for_a_person_holds_up_no_other_one() -> None:
    shared = CallPool(Limits(max_concurrency=1))

    @tool(effect="idempotent", conflict_key="path", needs_approval=True)
    async def write(path: str) -> str:
        """Write."""
        ran.append("write")
        return "written"

    @tool(effect="pure", conflict_key="path")
    async def read(path: str) -> str:
        """Read."""
        ran.append("read")
        return "read"

    calls = [("w", "write", '{"path": "p"}'), ("r", "read", '{"path": "p"}')]
    with anyio.fail_after(30):
        async with block(calls, tools=[write, read], pool=shared) as events:
            _ = [event async for event in events]
            assert (ran, shared.waiting, shared.running) == (["read"], 0, 0)
            events.approve("w")
            _ = [event async for event in events]
    assert ran == ["read", "write"]


async def test_an_approved_call_waits_for_its_place_like_any_other() -> None:
    release = anyio.Event()

    @tool(effect="pure", exclusive=True)
    async def alone() -> str:
        """Be alone."""
        ran.append("alone")
        await release.wait()
        return "done"

    with anyio.fail_after(30):
        async with block([PAY_A, ("e", "alone", "{}")], tools=[pay, alone]) as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    events.approve(event)
                    assert ran == ["alone"]
                    release.set()
    assert (ran, outcomes(events)) == (["alone", "pay x 1"], {"e": "ok", "a": "ok"})


async def test_run_by_hand_a_call_is_asked_about_when_somebody_wants_it_to_run() -> None:
    with anyio.fail_after(30):
        async with block([PAY_A, PAY_B], start="manual") as events:
            _ = [event async for event in events]
            seen: list[Observation] = []

            async def want() -> None:
                seen.append(await events.run_call("a"))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(want)
                while events.suspended is None:
                    await anyio.lowlevel.checkpoint()
                assert ran == []
                events.approve("a")
    assert ([o.outcome for o in seen], ran) == (["ok"], ["pay x 1"])
    assert outcomes(events) == {"a": "ok", "b": "skipped"}


async def test_nobody_is_asked_again_and_again_about_the_same_call() -> None:
    calls = [(f"c{n}", "pay", '{"to": "x"}') for n in range(4)]
    async with block(calls, limits=Limits(max_repeated_calls=2)) as events:
        requests = [event.call_id async for event in events if isinstance(event, ApprovalRequested)]
    assert requests == ["c0", "c1"]
    assert outcomes(events) == {"c0": "skipped", "c1": "skipped", "c2": "denied", "c3": "denied"}


async def test_each_of_many_approved_calls_runs_exactly_once_in_whatever_order_they_are_approved() -> None:
    calls = [(f"c{n}", "pay", f'{{"to": "{n}"}}') for n in range(12)]
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=calls)), tools=[pay]) as events:
            _ = [event async for event in events]
            for n in (7, 3, 11, 0, 5, 9, 1, 2, 10, 4, 8, 6):
                assert events.approve(f"c{n}")
                if n % 3 == 0:
                    _ = [event async for event in events]
            _ = [event async for event in events]
    assert sorted(ran) == sorted(f"pay {n} 1" for n in range(12))
    assert set(outcomes(events).values()) == {"ok"}


async def test_a_tool_by_itself_does_not_run_a_call_that_needs_an_approval_unless_it_has_it() -> None:
    seen = await run_alone(pay, '{"to": "x"}')
    assert (seen.outcome, ran) == ("skipped", [])
    assert isinstance(seen.error, ApprovalPending)
    with pytest.raises(ApprovalPending, match="waits for an approval"):
        (await run_alone(pay, {"to": "x"})).unwrap()
    assert (await run_alone(pay, {"to": "x"}, approved=True)).outcome == "ok"
    assert ran == ["pay x 1"]


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


@pytest.mark.parametrize("said", ["yes", "no", 1, ["no"]])
async def test_a_verdict_that_is_none_denies_and_says_what_to_return(said: Any) -> None:
    """People write ``approve=lambda request: input("ok? ")``."""
    async with block([PAY_A], approve=lambda _: said) as events:
        async for _ in events:
            pass
    (seen,) = events.turn.observations
    assert (seen.outcome, seen.value) == ("denied", None)
    assert seen.error is not None
    assert str(seen.error.__cause__) == f'an approval is True, False, Deny("why") or None, not {type(said).__name__}'
