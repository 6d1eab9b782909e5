"""Approvals under pressure: decided from odd places, kept in odd shapes, left at odd moments."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from decisions import decisions_on
from payments import LOOK, PAY_A, PAY_B, block, look, outcomes, pay, ran
from streams import chat, stream

from streamtools import (
    ApprovalRequested,
    Event,
    Limits,
    Observation,
    Pipeline,
    Suspended,
    ToolCallValidated,
    ToolContext,
    Trajectory,
    pipeline,
    resume,
    tool,
)
from streamtools.dispatch import MemoryStore
from streamtools.errors import ApprovalPending, LocalProtocolError, SuspendedError
from streamtools.events import ApprovalResolved, StepStart, ToolStarted
from streamtools.observers import Cursor
from streamtools.pipelines.agent_loop import agent_loop

pytestmark = pytest.mark.anyio

KEY = b"0123456789abcdef0123456789abcdef"
ROOM = 64 << 20  # for calls that are as large as the limits allow


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def suspended_of(calls: list[tuple[str, str, str]], **options: Any) -> Suspended:
    async with block(calls, **options) as events:
        _ = [event async for event in events]
    assert events.suspended is not None
    text = events.suspended.to_text(KEY, max_bytes=ROOM)
    return Suspended.from_text(text, KEY, max_bytes=ROOM)


async def resumed(suspended: Suspended, **options: Any) -> Pipeline:
    options.setdefault("tools", [pay, look])
    options.setdefault("store", MemoryStore())
    options["decisions"] = decisions_on(suspended, options.get("decisions", {}))
    with anyio.fail_after(30):
        async with resume(suspended, **options) as events:
            _ = [event async for event in events]
    return events


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


@pytest.mark.parametrize("verdict", [True, False, None])
async def test_an_approver_may_decide_through_the_pipeline_as_well(verdict: bool | None) -> None:
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


async def test_an_approver_may_close_the_pipeline() -> None:
    found: list[Pipeline] = []

    async def approve(request: ApprovalRequested) -> bool:
        await found[0].aclose()
        return True

    with anyio.fail_after(30):
        async with block([PAY_A, PAY_B], approve=approve) as events:
            found.append(events)
            _ = [event async for event in events]
    assert (ran, outcomes(events)) == ([], {"a": "skipped", "b": "skipped"})


class Decides:
    """An observer that decides where it sees the request."""

    event_types: Collection[type[Event]] | None = (ApprovalRequested,)

    def __init__(self, *, approved: bool) -> None:
        self.approved = approved
        self.events: Pipeline | None = None

    def on_event(self, event: Event) -> None:
        assert isinstance(event, ApprovalRequested)
        assert self.events is not None
        assert self.events.approve(event) if self.approved else self.events.deny(event)

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        return None


@pytest.mark.parametrize("approved", [True, False])
async def test_nobody_is_asked_about_a_call_that_an_observer_has_decided(approved: bool) -> None:
    asked: list[str] = []

    async def approve(request: ApprovalRequested) -> bool:
        asked.append(request.call_id)
        return not approved

    observer = Decides(approved=approved)
    with anyio.fail_after(30):
        async with block([PAY_A], approve=approve, observers=[observer]) as events:
            observer.events = events
            _ = [event async for event in events]
    assert asked == []
    assert outcomes(events) == {"a": "ok" if approved else "denied"}


async def test_a_call_that_an_observer_has_approved_can_be_cancelled() -> None:
    begun = anyio.Event()

    @tool(needs_approval=True)
    async def wait() -> str:
        """Wait."""
        begun.set()
        await anyio.sleep_forever()
        return "never"

    observer = Decides(approved=True)
    with anyio.fail_after(30):
        async with block(
            [("w", "wait", "{}")], tools=[wait], approve=lambda request: None, observers=[observer]
        ) as events:
            observer.events = events
            async for event in events:
                if isinstance(event, ToolStarted):
                    await begun.wait()
                    await events.aclose()
    assert outcomes(events) == {"w": "cancelled"}


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


async def test_what_is_suspended_can_be_decided_within_the_block_as_it_is() -> None:
    with anyio.fail_after(30):
        async with block([PAY_A, PAY_B]) as events:
            _ = [event async for event in events]
            assert events.suspended is not None
            a, b = events.suspended.calls
            with pytest.raises(LocalProtocolError, match="other arguments"):
                events.approve(replace(a, fingerprint=b.fingerprint))
            assert events.approve(a)
            assert events.deny(b, "no")
            _ = [event async for event in events]
    assert (ran, outcomes(events)) == (["pay x 1"], {"b": "denied", "a": "ok"})


async def test_leaving_while_an_approver_breaks_leaves_no_error_and_runs_nothing() -> None:
    approve = BreaksWhenGivenUp()
    with anyio.fail_after(30):
        async with block([PAY_A], approve=approve) as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    break
            await approve.asked.wait()
    assert (ran, outcomes(events)) == ([], {"a": "skipped"})
    assert events.suspended is not None


async def test_of_many_that_approve_at_once_one_does() -> None:
    said: list[bool] = []

    with anyio.fail_after(30):
        async with block([PAY_A]) as events:
            (request,) = [event async for event in events if isinstance(event, ApprovalRequested)]

            async def decide() -> None:
                await anyio.lowlevel.checkpoint()
                said.append(events.approve(request))

            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(decide)
            _ = [event async for event in events]
    assert (sorted(said), ran) == ([False] * 19 + [True], ["pay x 1"])


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


async def test_a_request_is_answered_in_the_step_that_its_call_is_resumed_in() -> None:
    run = Trajectory(observers=())
    async with block([PAY_A], trajectory=run) as events:
        (request,) = [event async for event in events if isinstance(event, ApprovalRequested)]
    assert events.suspended is not None
    with anyio.fail_after(30):
        async with resume(events.suspended, tools=[pay], store=MemoryStore(), trajectory=run) as later:
            _ = [event async for event in later]
            assert later.approve(request)
            _ = [event async for event in later]
    assert (ran, outcomes(later)) == (["pay x 1"], {"a": "ok"})


async def test_what_is_done_to_a_requests_arguments_is_not_done_to_the_call() -> None:
    def gate(arguments: Mapping[str, Any]) -> bool:
        return bool(arguments.pop("to"))  # type: ignore[attr-defined]

    @tool(needs_approval=gate)
    async def send(to: str, ctx: ToolContext) -> str:
        """Send."""
        ran.append(to)
        return "sent"

    async with block([("s", "send", '{"to": "x"}')], tools=[send]) as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                assert event.arguments == {"to": "x"}
                event.arguments["to"] = "***"  # type: ignore[index]
                events.approve(event)
    assert ran == ["x"]


async def test_a_pipeline_that_was_opened_and_has_not_begun_takes_no_word() -> None:
    async with anyio.create_task_group() as tasks:
        events = block([PAY_A]).open(tasks)
        with pytest.raises(LocalProtocolError, match="has not begun"):
            events.approve("a")
        await events.aclose()


# -- stopped meanwhile --


async def test_nothing_is_run_by_hand_once_a_sibling_has_failed_and_cancelled_the_others() -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise KeyError("no such thing")

    calls = [("f", "fail", "{}"), LOOK, PAY_A]
    seen: list[Observation] = []
    with anyio.fail_after(30):
        async with block(calls, tools=[fail, look, pay], start="manual", on_tool_error="cancel") as events:
            _ = [event async for event in events]
            await events.run_call("f")
            seen = [await events.run_call("l"), await events.run_call("a")]
            _ = [event async for event in events]
    assert [o.outcome for o in seen] == ["skipped", "skipped"]
    assert all("another call of its turn failed" in o.model_content for o in seen)
    assert ran == []


async def test_nothing_is_run_by_hand_while_the_pipeline_is_being_closed() -> None:
    begun, closing = anyio.Event(), anyio.Event()

    @tool
    async def slow() -> str:
        """Take long to stop."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            closing.set()
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
        return "never"

    async def run(call_id: str) -> None:
        await events.run_call(call_id)

    async def want() -> None:
        await closing.wait()
        await events.run_call("l")

    with anyio.fail_after(30):
        async with block([("s", "slow", "{}"), LOOK], tools=[slow, look], start="manual") as events:
            _ = [event async for event in events]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, "s")
                await begun.wait()
                tasks.start_soon(want)
                await events.aclose()
    assert ran == []
    assert outcomes(events) == {"s": "cancelled", "l": "skipped"}


# -- kept as text --


@pytest.mark.parametrize("size", [300_000, 1 << 20])
async def test_arguments_that_were_not_too_large_are_not_when_they_are_resumed(size: int) -> None:
    body = '{"to":"' + "ß€漢😀" * (size // 4)
    call = ("a", "pay", body[: size - 2] + '"}')
    later = await resumed(await suspended_of([call]), decisions={"a": True})
    assert outcomes(later) == {"a": "ok"}


@pytest.mark.costly
@pytest.mark.parametrize("text", ['{"to": [' + ",".join(["1"] * 400_000) + "]}", '{"to": [' + "1e5," * 200_000 + "1]}"])
async def test_nor_when_they_are_many_numbers(text: str) -> None:
    @tool(needs_approval=True, name="pay")
    async def sum_of(to: list[float]) -> float:
        """Add."""
        return sum(to)

    suspended = await suspended_of([("a", "pay", text)], tools=[sum_of])
    later = await resumed(suspended, tools=[sum_of], decisions={"a": True})
    assert outcomes(later) == {"a": "ok"}


@pytest.mark.parametrize(
    "arguments",
    [
        '{"to": "\\ud83d\\ude00"}',
        '{"to": "half \\ud83d"}',
        '{"to": "\\u0000\\u2028\\u202e"}',
        '```json\n{"to": "x"}\n```',
        '"{\\"to\\": \\"x\\"}"',
        '{"to": "x", "to": "y"}',
        '{"to": "x", "amount": 123456789012345678901234567890}',
        '{"to": "x", "amount": ' + "9" * 4000 + "}",
        '{"to": "x", "amount": ' + "9" * 5000 + "}",
    ],
)
async def test_what_would_have_run_at_once_is_what_runs_when_it_is_resumed(arguments: str) -> None:
    with anyio.fail_after(30):
        async with block([("a", "pay", arguments)], approve=lambda _: True) as events:
            _ = [event async for event in events]
    at_once, ran[:] = list(ran), []
    if outcomes(events) != {"a": "ok"}:
        return  # it is refused without anybody's being asked
    later = await resumed(await suspended_of([("a", "pay", arguments)]), decisions={"a": True})
    assert (outcomes(later), ran) == ({"a": "ok"}, at_once)


@pytest.mark.parametrize("opening", ["[", '{"calls":'])
def test_a_text_of_any_depth_is_refused_in_so_many_words(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    for depth in (10, 100, *range(400, 1000), 3_000, 100_000):
        text = '{"x":' + opening * depth + "1" + closing * depth + "}"
        with pytest.raises(SuspendedError):
            Suspended.from_text(text, KEY)


@pytest.mark.parametrize("text", [None, 7, {}, ["x"]])
def test_what_is_no_text_is_refused_in_so_many_words(text: Any) -> None:
    with pytest.raises((SuspendedError, TypeError), match="text"):
        Suspended.from_text(text, KEY)


@pytest.mark.parametrize("text", ["{}", "null", "1", '"x"', '{"signature": 1}', b"\xff", b"\xff\xfe{", "\ud800"])
def test_what_is_no_state_is_refused(text: Any) -> None:
    with pytest.raises(SuspendedError):
        Suspended.from_text(text, KEY)


# -- resumed --


async def test_what_was_suspended_is_within_the_limits_that_it_is_resumed_with() -> None:
    """Else its id would be made up anew, and with it its key; or it would be refused after it was approved."""
    tight = Limits(max_id_bytes=1, max_name_bytes=1, max_tool_calls=1, max_argument_bytes=1, max_total_argument_bytes=1)
    suspended = await suspended_of([("call_1", "pay", '{"to": "x"}'), ("call_2", "pay", '{"to": "y"}')])
    store, decisions = MemoryStore(), {"call_1": True, "call_2": True}
    later = await resumed(suspended, limits=tight, store=store, decisions=decisions)
    again = await resumed(suspended, store=store)
    assert outcomes(later) == outcomes(again) == {"call_1": "ok", "call_2": "ok"}
    assert [o.recorded for o in again.turn.observations] == [True, True]
    assert len(ran) == 2


async def test_a_resumed_call_does_not_count_as_a_repetition_of_itself() -> None:
    run, limits = Trajectory(observers=()), Limits(max_repeated_calls=1)
    suspended = await suspended_of([PAY_A], trajectory=run, limits=limits)
    later = await resumed(suspended, trajectory=run, limits=limits, decisions={"a": True})
    assert (outcomes(later), ran) == ({"a": "ok"}, ["pay x 1"])


@pytest.mark.parametrize("inside", [True, False])
async def test_the_numbering_of_a_run_goes_on_without_a_gap_or_a_number_twice(inside: bool) -> None:
    cursor = Cursor()
    run = Trajectory(run_id="r", observers=[cursor])
    with anyio.fail_after(30):
        async with block([PAY_A, LOOK, PAY_B], trajectory=run) as events:
            _ = [event async for event in events]
            kept = events.suspended
        kept = kept if inside else events.suspended
        assert kept is not None
        later = Trajectory(observers=[cursor])
        async with resume(kept, tools=[pay, look], store=MemoryStore(), trajectory=later) as events:
            _ = [event async for event in events]
    numbers = [event.seq for event in cursor]
    first = [event.seq for event in cursor if isinstance(event, StepStart)][1]
    assert numbers == sorted(set(numbers))
    assert first == kept.seq
    assert numbers[numbers.index(first) - 1] == first - 1


@pytest.mark.parametrize("effect", ["pure", "once"])
@pytest.mark.parametrize("after", range(8))
async def test_a_resumption_that_is_left_anywhere_leaves_its_calls_suspended(after: int, effect: Any) -> None:
    asks = tool(needs_approval=True, name="pay", effect=effect)(pay.fn)
    suspended = await suspended_of([PAY_A, PAY_B], tools=[asks])
    run = Trajectory(observers=())
    async with resume(suspended, tools=[asks], store=MemoryStore(), trajectory=run) as events:
        for _ in range(after):
            await anext(events)
    assert events.suspended is not None
    assert [call.call_id for call in events.suspended.calls] == ["a", "b"]
    assert (events.suspended.seq, events.suspended.step) == (run.next_seq, suspended.step)
    assert all(isinstance(o.error, ApprovalPending) for o in events.turn.observations)
    assert ran == []


async def test_a_freeform_call_without_text_keeps_its_place() -> None:
    @tool(kind="custom", needs_approval=True)
    async def patch(text: str) -> str:
        """Patch."""
        ran.append(text)
        return "patched"

    item = {"type": "custom_tool_call", "id": "i", "call_id": "a", "name": "patch", "input": ""}
    other = {"type": "function_call", "id": "j", "call_id": "l", "name": "look", "arguments": '{"at": "z"}'}
    response = {"id": "r", "object": "response", "status": "completed", "output": [other, item]}
    body = [{"type": "response.completed", "response": response}]
    async with pipeline(stream(body), tools=[patch, look], wire="openai.responses") as events:
        _ = [event async for event in events]
    assert events.suspended is not None
    later = await resumed(events.suspended, tools=[patch], decisions={"a": True})
    assert ran == ["look z", ""]
    assert [(o.call_id, o.index) for o in later.turn.observations] == [("a", 1)]


# -- in a run of many steps --

CHAT, OLLAMA = "openai.chat_completions", "ollama.chat"
ASKED = [{"role": "user", "content": "Pay them."}]


async def test_a_run_that_is_left_at_once_still_has_what_it_was_to_go_on_with() -> None:
    suspended = await suspended_of([PAY_A])
    async with block([PAY_A]) as events:
        _ = [event async for event in events]
    messages = [*ASKED, *events.turn.messages(CHAT)]
    options: dict[str, Any] = {"tools": [pay], "wire": CHAT, "suspended": suspended, "store": MemoryStore()}
    async with agent_loop(lambda messages, tools: stream([]), messages, **options) as run:
        pass
    assert (run.outcome, run.suspended, run.messages) == ("suspended", suspended, messages)


async def test_a_run_may_be_left_in_a_scope_that_is_cancelled() -> None:
    """Its last statement does not wait, so that the block is left without an error, and then waits."""
    with anyio.CancelScope() as outer, anyio.CancelScope() as scope:
        async with agent_loop(
            lambda messages, tools: stream(chat(calls=[PAY_A])), ASKED, tools=[pay], wire=CHAT
        ) as run:
            await run.finish()
            scope.cancel()
    assert (scope.cancelled_caught, outer.cancel_called) == (True, False)
    assert run.outcome == "suspended"
    with anyio.fail_after(30):
        await anyio.lowlevel.checkpoint()


def ollama(calls: list[tuple[str, str]]) -> list[bytes]:
    """A body whose calls have no ids."""
    tools = [{"function": {"name": name, "arguments": json.loads(text)}} for name, text in calls]
    message = {"role": "assistant", "content": "", "tool_calls": tools}
    ends = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    return [json.dumps(line).encode() + b"\n" for line in ({"model": "m", "message": message, "done": False}, ends)]


async def test_ids_that_are_made_up_differ_in_all_steps_of_a_run_also_behind_a_resumption() -> None:
    bodies = [ollama([("pay", '{"to": "x"}')]), ollama([("pay", '{"to": "x"}')]), ollama([])]

    async def model(messages: list[Any], tools: list[Any]) -> Any:
        return stream(bodies.pop(0))

    options: dict[str, Any] = {"tools": [pay], "wire": OLLAMA, "store": MemoryStore()}
    with anyio.fail_after(30):
        async with agent_loop(model, ASKED, trajectory=Trajectory(run_id="r", observers=()), **options) as run:
            await run.finish()
        assert run.suspended is not None
        kept = Suspended.from_text(run.suspended.to_text(KEY), KEY)
        async with agent_loop(model, run.messages, suspended=kept, approve=lambda _: True, **options) as later:
            seen = [event async for event in later if isinstance(event, ToolCallValidated)]
    assert (later.outcome, ran) == ("answered", ["pay x 1", "pay x 1"])
    assert len({event.call_id for event in seen}) == 2


# -- told --


async def test_the_record_of_a_run_says_whose_approval_it_tells_of() -> None:
    cursor = Cursor()
    async with block([PAY_A], observers=[cursor]) as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                events.deny(event, "secret words")
    told = [b for b in cursor.to_json()["boundaries"] if b["event"].startswith("Approval")]
    assert [(b["call_id"], b["tool_name"]) for b in told] == [("a", "pay"), ("a", "pay")]
    assert [b.get("approved") for b in told] == [None, False]
    assert "secret" not in json.dumps(told)
