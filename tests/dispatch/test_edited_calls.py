"""Calls that a person approves with other arguments: they run as if the model had given these, once, and it is said."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from kept_spans import kept_spans
from pydantic import SecretStr
from ran import ran
from rich.console import Console
from streams import chat, sse, stream, until
from test_decisions import CALL, KEY, pay, suspended_of

from streamtools import ApprovalRequested, Decision, Suspended, agent_loop, pipeline, resume, run_calls, tool
from streamtools.content import AnsweredLater, Text, ToolResult
from streamtools.dispatch import CallAnswer, MemoryStore, SqliteStore
from streamtools.errors import AlreadyDecided, DecisionError, InvalidArguments, LocalProtocolError
from streamtools.events import AnswerRequested, ApprovalResolved, Event
from streamtools.integrations import encode_event
from streamtools.privacy import redact_secrets
from streamtools.provenance import only_from_user
from streamtools.record import Recording, record
from streamtools.telemetry import Tracing
from streamtools.view import Watch, page
from streamtools.view.terminal import show

pytestmark = pytest.mark.anyio

EDITS = {"to": "x", "amount": 3}
NOTE = 'Note: a person approved this call with other arguments than yours: {"to": "x", "amount": 3}'


async def resumed(suspended: Suspended, store: Any, *decisions: Decision, tools: Any = (pay,), **options: Any) -> Any:
    """Resumes in what stands for another process; returns the call's observation and the events."""
    again = Suspended.from_text(suspended.to_text(KEY), KEY)
    with anyio.fail_after(30):
        async with resume(again, tools=tools, store=store, decisions=decisions, **options) as events:
            seen = [event async for event in events]
    return {one.call_id: one for one in events.turn.observations}["a"], seen


def edited(call: Any, arguments: Mapping[str, Any] = EDITS, **more: Any) -> Decision:
    return Decision.on(call, True, by="ann", arguments=arguments, **more)


def resolved(seen: list[Event]) -> list[Any]:
    return [(one.approved, one.by, one.arguments) for one in seen if isinstance(one, ApprovalResolved)]


# -- what runs --


async def test_an_edited_call_runs_once_with_the_edits_and_the_model_reads_them(tmp_path: Path) -> None:
    suspended = await suspended_of()
    (call,) = suspended.calls
    ours = edited(call)
    for given in ((ours,), (), (ours,)):  # then after a restart, and delivered again
        with SqliteStore(tmp_path / "calls.db") as store:
            seen, events = await resumed(suspended, store, *given)
            assert (seen.outcome, seen.value, seen.validated_args) == ("ok", "paid x", EDITS)
            assert (seen.model_content, resolved(events)) == (f"paid x\n\n{NOTE}", [(True, ("ann",), EDITS)])
            for other in (Decision.on(call, True), edited(call, {"to": "y"}), Decision.on(call, False)):
                with pytest.raises(AlreadyDecided) as refused:
                    await resumed(suspended, store, other)
                assert refused.value.first == ours
    assert ran == ["x 3"]


async def test_an_open_block_takes_edits_and_leaves_the_call_waiting_if_they_do_not_fit() -> None:
    for options in ({}, {"store": MemoryStore()}, {"start": "turn_end"}):
        ran.clear()
        with anyio.fail_after(30):
            async with pipeline(stream(chat(calls=[CALL])), tools=[pay], **options) as events:  # type: ignore[arg-type]
                (asked,) = [event async for event in events if isinstance(event, ApprovalRequested)]
                for wrong in ({"to": 7}, {"amount": 3}, {"to": "x", "more": 1}, {"to": "x", "amount": "many"}):
                    with pytest.raises(InvalidArguments):
                        events.approve(asked, arguments=wrong)
                with pytest.raises(LocalProtocolError, match="arguments are not those"):
                    events.approve(asked, fingerprint="another", arguments=EDITS)
                assert events.approve(asked, by="ann", arguments=EDITS)
                assert not events.approve(asked)
                assert not events.deny(asked)
                seen = [event async for event in events]
        (end,) = events.turn.observations
        assert (end.outcome, end.validated_args, ran) == ("ok", EDITS, ["x 3"])
        assert resolved(seen) == [(True, ("ann",), EDITS)]


async def test_an_approver_may_edit_and_its_mistakes_deny() -> None:
    async def waits(request: ApprovalRequested) -> Decision:
        await anyio.lowlevel.checkpoint()
        return edited(request, {**request.arguments, "amount": 3})

    for approve, outcome, paid in (
        (lambda request: edited(request, {**request.arguments, "amount": 3}), "ok", ["x 3"]),
        (waits, "ok", ["x 3"]),
        (lambda request: edited(request, {"to": ["x"]}), "denied", []),
        (lambda request: edited(request, {"to": "x", "amount": float("nan")}), "denied", []),
    ):
        for store in (None, MemoryStore()):
            ran.clear()
            run = await pipeline(stream(chat(calls=[CALL])), tools=[pay], approve=approve, store=store)  # type: ignore[arg-type]
            (seen,) = run.observations
            assert (seen.outcome, ran) == (outcome, paid)


async def test_edits_on_record_that_do_not_fit_deny_the_call_and_say_why() -> None:
    for wrong, why in (
        ({"to": "x", "amount": "many"}, "amount"),
        ({}, "to: is required but missing"),
        ({"to": "x", "memo": "y"}, "memo"),
        ({"to": "x", "amount": json.loads("[" * 100 + "]" * 100)}, "nested deeper than max_json_depth"),
    ):
        store, suspended = MemoryStore(), await suspended_of()
        await suspended.decide([edited(suspended.calls[0], wrong)], store)
        seen, events = await resumed(suspended, store)
        assert (seen.outcome, ran) == ("denied", [])
        assert "its edited arguments cannot be run" in seen.model_content
        assert why in seen.model_content
        assert [row[:2] for row in resolved(events)] == [(False, ("ann",))]
        assert seen.validated_args == {"to": "x", "amount": 5}


async def test_a_call_that_ran_with_edits_has_its_end_whatever_the_rules_are_today() -> None:
    @tool(name="pay", needs_approval=True)
    async def stricter(to: int) -> str:
        """Pay by number."""
        return "paid by number"

    def refuses(arguments: Mapping[str, Any]) -> bool:
        raise ValueError("rules")

    today = ([replace(pay, needs_approval=refuses)], [replace(pay, needs_approval=False)], [replace(pay, approvals=2)])
    for operation in (None, "to"):
        for tools in today if operation else (*today, [stricter], [replace(pay, name="other")]):
            ran.clear()
            store, suspended = MemoryStore(), await suspended_of()
            before = [replace(pay, idempotency_key=operation)]
            first, _ = await resumed(suspended, store, edited(suspended.calls[0]), tools=before)
            assert first.outcome == "ok"
            if operation:
                tools = [replace(tools[0], idempotency_key=operation)]
            again, _ = await resumed(suspended, store, tools=tools)
            assert (again.outcome, again.recorded, ran) == ("ok", True, ["x 3"]), (operation, tools)


# -- what edits may not do --


async def test_a_call_of_several_people_takes_no_edits() -> None:
    tools = [replace(pay, approvals=2)]
    store, suspended = MemoryStore(), await suspended_of(tools=tools)
    with pytest.raises(DecisionError, match="must keep the arguments as shown") as refused:
        resume(suspended, tools=tools, store=store, decisions=[edited(suspended.calls[0])])
    assert refused.value.code == "edited"
    with pytest.raises(DecisionError):
        await suspended.decide([edited(suspended.calls[0])], store)
    async with pipeline(stream(chat(calls=[CALL])), tools=tools) as events:
        (asked,) = [event async for event in events if isinstance(event, ApprovalRequested)]
        with pytest.raises(DecisionError, match="requires 2 people, so each decision must keep"):
            events.approve(asked, by="ann", arguments=EDITS)
    turn = await pipeline(stream(chat(calls=[CALL])), tools=tools, approve=edited)
    assert (turn.observations[0].outcome, ran) == ("denied", [])
    # It required one when it was approved; today the second has not seen the edits.
    suspended = await suspended_of()
    await suspended.decide([edited(suspended.calls[0])], store)
    seen, _ = await resumed(suspended, store, tools=tools, approve=lambda request: Decision.on(request, True, by="bob"))
    assert (seen.outcome, ran) == ("denied", [])


async def test_a_policy_judges_edits_as_the_arguments_of_the_model() -> None:
    request = {"messages": [{"role": "user", "content": "Pay Bob or Ada, they are friends."}]}
    asks, denies = only_from_user("to"), only_from_user("to").denies()
    for policy, to, outcome in ((denies, "Ada", "ok"), (denies, "Eve", "denied"), (asks, "Eve", "ok")):
        ran.clear()
        tools = [replace(pay, policy=policy)]
        body = stream(chat(calls=[("a", "pay", '{"to": "Bob"}')]))
        turn = await pipeline(
            body, tools=tools, request=request, approve=lambda asked, to=to: edited(asked, {"to": to})
        )
        (seen,) = turn.observations
        assert (seen.outcome, ran) == (outcome, [f"{to} 1"] if outcome == "ok" else [])


def test_a_decision_takes_only_json_as_edits() -> None:
    shown: dict[str, Any] = {"call_id": "a", "fingerprint": "f", "verdict": True}
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for wrong in ([1], "x", 7, {"a": "\ud800"}, {"a": object()}, {"a": float("inf")}, {1: 2}, deep):
        with pytest.raises(TypeError, match="expected arguments as a mapping of names to JSON") as refused:
            Decision(**shown, arguments=wrong)
        assert "object at" not in str(refused.value)
    with pytest.raises(ValueError, match="at most 262144 characters of JSON, got 300"):
        Decision(**shown, arguments={"a": "x" * 300_000})
    with pytest.raises(ValueError, match="no arguments with a denial"):
        Decision(call_id="a", fingerprint="f", verdict=False, arguments={})
    secrets = ("sk-abcdefghijklmnopqrst", "Authorization: Bearer abcdefgh1234", "https://a:b@c.example", "a@b.example")
    masks = [
        redact_secrets()(f"to {one}") for one in (*secrets, "4111 1111 1111 1111", "?key=abcdefgh", "Cookie: abcd")
    ]
    for masked in (SecretStr("word"), "·" * 8, {"in": ["sk-····"]}, *masks):  # as a page shows it, or the event
        with pytest.raises(ValueError, match="expected arguments in full, got a masked one"):
            Decision(**shown, arguments={"a": masked})
    typed = Decision(**shown, arguments={"on": date(2026, 11, 28), "sum": Decimal("1.10")})
    assert typed.arguments == {"on": "2026-11-28", "sum": "1.10"}
    given = {"a": [1]}
    decision = Decision(**shown, arguments=given)
    given["a"].append(2)
    assert decision.arguments == {"a": [1]}
    assert "[1]" not in repr(decision)
    assert hash(decision) == hash(replace(decision, at=decision.at))


# -- where else an edited call goes --


async def test_edits_reach_whoever_does_the_call() -> None:
    async def passing(call: Any, run: Any) -> Any:
        assert call.arguments == EDITS
        with pytest.raises(LocalProtocolError, match="its approved arguments cannot change"):
            await run({"to": "z"})
        return await run()

    turn = await pipeline(stream(chat(calls=[CALL])), tools=[pay], approve=edited, middleware=passing)
    assert (turn.observations[0].outcome, ran) == ("ok", ["x 3"])
    seen = (await run_calls([CALL], [pay], approve=edited)).observations[0]
    assert (seen.value, seen.model_content, ran) == ("paid x", f"paid x\n\n{NOTE}", ["x 3"] * 2)

    @tool(name="pay", needs_approval=True)
    async def blocks(to: str, amount: int = 1) -> ToolResult:
        """Pay."""
        return ToolResult(blocks=[f"paid {amount}"], is_error=amount == 3)

    turn = await pipeline(stream(chat(calls=[CALL])), tools=[blocks], approve=edited)
    (seen,) = turn.observations
    assert [block.text for block in seen.result.blocks if isinstance(block, Text)] == ["Error: paid 3", NOTE]
    assert NOTE in str(turn.messages())


async def test_calls_done_outside_and_answered_later_keep_their_edits() -> None:
    @tool(name="pay", needs_approval=True, deferred=True)
    def elsewhere(to: str, amount: int = 1) -> str:
        """Pay."""
        raise AssertionError("nothing here runs it")

    @tool(name="pay", needs_approval=True)
    async def later(to: str, amount: int = 1) -> AnsweredLater:
        """Pay."""
        ran.append(f"{to} {amount}")
        return AnsweredLater()

    for one in (elsewhere, later):
        ran.clear()
        store, suspended = MemoryStore(), await suspended_of(tools=[one])
        (call,) = suspended.calls
        again = Suspended.from_text(suspended.to_text(KEY), KEY)
        async with resume(again, tools=[one], store=store, decisions=[edited(call)]) as events:
            asked = [event async for event in events if isinstance(event, AnswerRequested)]
        assert [event.arguments for event in asked] == [EDITS]
        (waits,) = events.suspended.calls
        assert (waits.waits_for, waits.edited, waits.arguments) == ("answer", EDITS, {"to": "x", "amount": 5})
        answers = [CallAnswer.to(waits, "paid")]
        again = Suspended.from_text(events.suspended.to_text(KEY), KEY)
        async with resume(again, tools=[one], store=store, answers=answers) as events:
            _ = [event async for event in events]
        (seen,) = events.turn.observations
        assert (seen.outcome, seen.validated_args, seen.model_content) == ("ok", EDITS, f"paid\n\n{NOTE}")
        assert ran == ([] if one is elsewhere else ["x 3"])


async def test_a_call_that_its_provider_runs_takes_no_edits() -> None:
    item = {"type": "mcp_approval_request", "id": "a", "name": "send", "server_label": "s", "arguments": "{}"}
    events = [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item]}},
    ]
    turn = await pipeline(stream(sse(events)), tools=[pay], approve=lambda asked: edited(asked, {"to": "x"}))
    (seen,) = turn.observations
    assert seen.outcome == "denied"
    assert "the provider runs this call" in seen.model_content
    assert [one["approve"] for one in turn.messages() if one["type"] == "mcp_approval_response"] == [False]


async def test_frames_recordings_page_and_terminal_show_edits_and_spans_only_that_there_are_some(
    tmp_path: Path,
) -> None:
    path, watch, (provider, exporter) = tmp_path / "run.jsonl", Watch(), kept_spans()
    suspended, secret = await suspended_of(), {"to": "s3cret", "amount": 3}
    observers = [record(path), watch, Tracing(provider)]
    decision = edited(suspended.calls[0], secret)
    _, seen = await resumed(suspended, MemoryStore(), decision, observers=observers)
    (event,) = [one for one in seen if isinstance(one, ApprovalResolved)]
    assert event.arguments == secret
    assert [one for one in Recording.read(path).events if isinstance(one, ApprovalResolved)] == [event]
    frames = dict(sent for sent in map(encode_event, seen) if sent is not None)
    assert frames["approval_resolved"]["arguments"] == secret
    (span,) = [one for one in exporter.get_finished_spans() if one.name == "streamtools.approval pay"]
    assert (span.attributes or {})["streamtools.approval.edited"] is True
    assert all("s3cret" not in one.to_json() for one in exporter.get_finished_spans())
    words = "approved with other arguments by ann"
    console = Console(width=200, record=True, file=io.StringIO())
    show(watch.picture, console)
    assert words in console.export_text()
    assert words in page(watch)


WIRE = "openai.chat_completions"


async def test_a_journaled_call_runs_with_the_edits_on_record_also_if_its_tool_needs_no_approval_today(
    tmp_path: Path,
) -> None:
    async def ask(messages: list[Any], tools: Any) -> Any:
        for chunk in chat(["Paid."], finish="stop") if messages[-1]["role"] == "tool" else chat(calls=[CALL]):
            yield chunk

    def run(number: int, made: Any, **options: Any) -> Any:
        history: list[Any] = [{"role": "user", "content": "Pay."}]
        file = tmp_path / f"{number}.db"
        return agent_loop(ask, history, tools=[made], wire=WIRE, journal=file, run_id="r", **options)

    for number, effect in enumerate(("once", "idempotent", "pure")):
        ran.clear()
        async with run(number, replace(pay, effect=effect), approve=edited) as first:
            await until(first, ApprovalResolved)
        if ran:
            continue  # it had begun before its consumer left
        with anyio.fail_after(30):
            async with run(number, replace(pay, effect=effect, needs_approval=False)) as second:
                _ = [event async for event in second]
        assert ran == ["x 3"]
        assert [one["content"] for one in second.messages if one["role"] == "tool"] == [f"paid x\n\n{NOTE}"]
