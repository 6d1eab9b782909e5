"""Decisions that bind: on record in the store before anything runs, the first one counts, and everybody is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from payments import OnlyClaims, outcomes
from profiles import every
from ran import ran
from streams import anthropic, chat, stream

from streamtools import ApprovalRequested, Decision, Suspended, Trajectory, agent_loop, pipeline, resume, tool
from streamtools.content import RequestHints
from streamtools.dispatch import MemoryStore, SqliteStore
from streamtools.errors import AlreadyDecided, CallDenied, DecisionError, LocalProtocolError
from streamtools.events import ApprovalResolved, StreamWarning
from streamtools.provenance import only_from_user

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

KEY = b"0123456789abcdef0123456789abcdef"
CALL = ("a", "pay", '{"to": "x", "amount": 5}')


@tool(needs_approval=True)
async def pay(to: str, amount: int = 1) -> str:
    """Pay."""
    ran.append(f"{to} {amount}")
    await anyio.lowlevel.checkpoint()
    return f"paid {to}"


@tool(name="pay", needs_approval=True, approvals=2)
async def pay_much(to: str, amount: int = 1) -> str:
    """Pay."""
    ran.append(f"{to} {amount}")
    return f"paid {to}"


class Failing(MemoryStore):
    """A store that fails whenever it is asked about a decision, until it is mended."""

    broken = True

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        if self.broken:
            raise OSError("disk full")
        return await super().decide(key, record)


async def suspended_of(*calls: tuple[str, str, str], tools: Any = (pay,), run_id: str = "run") -> Suspended:
    run = Trajectory(run_id=run_id, observers=())
    async with pipeline(stream(anthropic(["Hi"], list(calls) or [CALL])), tools=tools, trajectory=run) as events:
        _ = [event async for event in events]
    assert events.suspended is not None
    return events.suspended


async def resumed(suspended: Suspended, store: Any, *decisions: Decision, tools: Any = (pay,), **options: Any) -> Any:
    """Resumes in what stands for another process; returns the block and its events."""
    again = Suspended.from_text(suspended.to_text(KEY), KEY)
    with anyio.fail_after(30):
        async with resume(again, tools=tools, store=store, decisions=decisions, **options) as events:
            seen = [event async for event in events]
    return events, seen


def resolved(seen: list[Any]) -> list[Any]:
    return [(e.approved, e.by, e.at, e.reason) for e in seen if isinstance(e, ApprovalResolved)]


# -- the first one counts --


async def test_of_two_decisions_in_whatever_order_the_first_counts_and_the_second_is_told_of_it(tmp_path: Path) -> None:
    for first, second in ((True, False), (False, True), (True, True), (False, False)):
        ran.clear()
        path = tmp_path / f"{first}{second}.db"
        suspended = await suspended_of()
        (call,) = suspended.calls
        ours = Decision.on(call, first, by="ann", at=7.5, reason="as agreed")
        with SqliteStore(path) as store:
            events, seen = await resumed(suspended, store, ours)
        assert outcomes(events) == {"a": "ok" if first else "denied"}
        assert resolved(seen) == [(first, ("ann",), 7.5, "as agreed")]
        with SqliteStore(path) as store:  # after a restart
            with pytest.raises(AlreadyDecided, match=r"the call 'a' was already (approved|denied) by ann") as told:
                await resumed(suspended, store, Decision.on(call, second, by="bob"))
            assert (told.value.first, told.value.code, told.value.call_id) == (ours, "already_decided", "a")
            later, seen = await resumed(suspended, store)  # goes on with what was decided, and asks nobody
        assert resolved(seen) == [(first, ("ann",), 7.5, "as agreed")]
        assert (outcomes(later), ran) == (outcomes(events), ["x 5"] if first else [])
        assert [o.recorded for o in later.turn.observations] == [first]


async def test_a_run_that_died_after_the_decision_goes_on_with_it_and_runs_once(tmp_path: Path) -> None:
    suspended = await suspended_of()
    decision = Decision.on(suspended.calls[0], True, by="ann")
    with SqliteStore(tmp_path / "calls.db") as store:
        await suspended.decide([decision], store)  # and the process dies
    for given in ((), (decision,), ()):  # the same decision, delivered again, is no second one
        with SqliteStore(tmp_path / "calls.db") as store:
            events, _ = await resumed(suspended, store, *given)
        assert outcomes(events) == {"a": "ok"}
    assert ran == ["x 5"]


async def test_an_open_block_and_another_process_have_one_decision_between_them() -> None:
    """Whoever is second in an open block reads whose decision counts."""
    for here in (True, False):
        store = MemoryStore()
        run = Trajectory(run_id="run", observers=())
        with anyio.fail_after(30):
            async with pipeline(stream(anthropic(calls=[CALL])), tools=[pay], store=store, trajectory=run) as events:
                _ = [event async for event in events]
                other = Decision.on(events.suspended.calls[0], not here, by="bob")
                await events.suspended.decide([other], store)
                assert events.approve("a", by="ann") if here else events.deny("a", by="ann")
                assert not events.approve("a", by="ann")
                seen = [event async for event in events]
        assert [(e.approved, e.by) for e in seen if isinstance(e, ApprovalResolved)] == [(not here, ("bob",))]
        assert [e.code for e in seen if isinstance(e, StreamWarning)] == ["already_decided"]
        assert outcomes(events) == {"a": "denied" if here else "ok"}


async def test_an_id_that_recurs_and_other_arguments_under_it_are_decided_apart() -> None:
    store = MemoryStore()
    first = await suspended_of()
    await first.decide([Decision.on(first.calls[0], False)], store)
    for other in (await suspended_of(("a", "pay", '{"to": "y"}')), await suspended_of(run_id="another")):
        events, _ = await resumed(other, store, Decision.on(other.calls[0], True))
        assert outcomes(events) == {"a": "ok"}


async def test_all_decisions_are_looked_up_before_one_is_kept() -> None:
    store, suspended = MemoryStore(), await suspended_of(CALL, ("b", "pay", '{"to": "y"}'))
    a, b = suspended.calls
    await suspended.decide([Decision.on(b, False)], store)
    with pytest.raises(AlreadyDecided, match="the call 'b' was already denied by somebody"):
        await suspended.decide([Decision.on(a, True), Decision.on(b, True)], store)
    await suspended.decide([Decision.on(a, False)], store)
    events, _ = await resumed(suspended, store)
    assert (outcomes(events), ran) == ({"a": "denied", "b": "denied"}, [])


async def test_an_approver_that_decides_about_another_call_denies() -> None:
    suspended = await suspended_of()
    other = await suspended_of(("a", "pay", '{"to": "y"}'))
    events, _ = await resumed(suspended, MemoryStore(), approve=lambda request: Decision.on(other.calls[0], True))
    assert (outcomes(events), ran) == ({"a": "denied"}, [])


# -- what has run, has run --


async def test_a_call_that_has_run_is_never_denied_by_the_rules_of_today() -> None:
    """A policy, the callers that are allowed, a predicate, types and tools may have changed between two resumes."""
    hints = RequestHints(allowed_callers=("code",))

    def raises(arguments: Mapping[str, Any]) -> bool:
        raise ValueError("rules")

    @tool(name="pay", needs_approval=True)
    async def stricter(to: int) -> str:
        """Pay by number."""
        return "paid by number"

    tightened: list[tuple[str, list[Any], dict[str, Any], str]] = [
        ("callers", [replace(pay, hints=hints)], {}, "denied"),
        ("predicate", [replace(pay, needs_approval=raises)], {}, "skipped"),
        ("policy", [replace(pay, policy=lambda findings: False)], {}, "denied"),
        ("types", [stricter], {}, "invalid"),
        ("tools", [replace(pay, name="other")], {}, "unknown_tool"),
    ]
    for name, tools, options, refused in tightened:
        for store in (MemoryStore(), OnlyClaims()):
            suspended = await suspended_of()
            run = Trajectory(run_id="run", observers=())
            if name == "policy":
                run = await one_that_knows(only_from_user("to"))
            fresh, _ = await resumed(suspended, store, tools=tools, **options, trajectory=run)
            assert outcomes(fresh) == {"a": refused}, name
            await runs(suspended, store)
            later, _ = await resumed(suspended, store, tools=tools, **options, trajectory=run)
            (seen,) = later.turn.observations
            assert (seen.outcome, seen.recorded, seen.model_content) == ("ok", True, "paid x"), name
            assert not isinstance(seen.error, CallDenied)
    assert ran == ["x 5"] * len(tightened) * 2


async def one_that_knows(policy: Any) -> Trajectory:
    """A run whose texts are known, so that a policy judges its calls."""
    run = Trajectory(run_id="run", observers=())
    await pipeline(
        stream(chat(["Hello"])), tools=[replace(pay, policy=policy)], trajectory=run, request={"messages": []}
    )
    return run


async def runs(suspended: Suspended, store: Any) -> None:
    async with resume(suspended, tools=[pay], store=store, approve=lambda request: True) as events:
        _ = [event async for event in events]
    assert outcomes(events) == {"a": "ok"}


async def test_a_store_that_keeps_no_decisions_refuses_those_from_outside() -> None:
    suspended = await suspended_of()
    decision = Decision.on(suspended.calls[0], True)
    with pytest.raises(TypeError, match="decisions: the store OnlyClaims has no `decide`"):
        resume(suspended, tools=[pay], store=OnlyClaims(), decisions=[decision])
    with pytest.raises(TypeError, match="decisions: the store OnlyClaims has no `decide`"):
        await suspended.decide([decision], OnlyClaims())
    events, _ = await resumed(suspended, OnlyClaims(), approve=lambda request: True)
    assert outcomes(events) == {"a": "ok"}


async def test_a_store_that_fails_leaves_the_call_waiting() -> None:
    """A denial that was not kept would be one that the next process does not know of."""
    store, suspended = Failing(), await suspended_of()
    events, seen = await resumed(suspended, store, approve=lambda request: False)
    assert (outcomes(events), ran) == ({"a": "skipped"}, [])
    assert events.suspended.calls == suspended.calls
    assert [e.code for e in seen if isinstance(e, StreamWarning)] == ["decision_not_kept"] * 2
    assert "disk full" not in str(seen)
    with pytest.raises(OSError, match="disk full"):
        await resumed(suspended, store, Decision.on(suspended.calls[0], True))
    store.broken = False
    events, _ = await resumed(suspended, store, Decision.on(suspended.calls[0], True))
    assert outcomes(events) == {"a": "ok"}


async def test_a_call_of_an_operation_keeps_its_own_key_while_it_waits_and_is_looked_up() -> None:
    tools = [replace(pay, idempotency_key="to")]
    for store in (MemoryStore(), OnlyClaims()):
        ran.clear()
        suspended = await suspended_of(CALL, ("b", "pay", '{"to": "x", "amount": 7}'))
        waits, _ = await resumed(suspended, store, tools=tools)
        assert waits.suspended.calls == suspended.calls
        first, _ = await resumed(suspended, store, tools=tools, approve=lambda request: request.call_id == "a")
        assert outcomes(first) == {"a": "ok", "b": "denied"}  # though another call has done the same
        again, _ = await resumed(suspended, store, tools=tools, approve=lambda request: False)
        assert (outcomes(again), ran) == ({"a": "ok", "b": "denied"}, ["x 5"])


# -- two people --


async def test_two_people_approve_each_by_name_and_one_denial_ends_it(tmp_path: Path) -> None:
    tools = [pay_much]
    table: list[tuple[list[tuple[str, bool]], str, tuple[str, ...]]] = [
        ([("ann", True), ("bob", True)], "ok", ("ann", "bob")),
        ([("ann", True), ("bob", False)], "denied", ("bob",)),
        ([("ann", False)], "denied", ("ann",)),
        ([("ann", True), ("ann", False)], "denied", ("ann",)),
    ]
    for number, (people, outcome, by) in enumerate(table):
        with SqliteStore(tmp_path / f"{number}.db") as store:
            suspended = await suspended_of(tools=tools)
            (call,) = suspended.calls
            assert call.approvals == 2
            for name, verdict in people:
                assert ran.count("x 5") == sum(row[1] == "ok" for row in table[:number])
                events, seen = await resumed(suspended, store, Decision.on(call, verdict, by=name), tools=tools)
            assert (outcomes(events), [row[1] for row in resolved(seen)]) == ({"a": outcome}, [by])
            with pytest.raises(AlreadyDecided):
                await resumed(suspended, store, Decision.on(call, True, by="eve"), tools=tools)
    assert ran == ["x 5"]


async def test_one_person_cannot_approve_twice_and_nobody_without_a_name() -> None:
    store, suspended = MemoryStore(), await suspended_of(tools=[pay_much])
    (call,) = suspended.calls
    for verdict in (True, False):
        with pytest.raises(DecisionError, match="the call 'a' requires 2 people") as told:
            resume(suspended, tools=[pay_much], store=store, decisions=[Decision.on(call, verdict)])
        assert told.value.code == "unnamed"
    await suspended.decide([Decision.on(call, True, by="ann")], store)
    with pytest.raises(AlreadyDecided, match="already approved by ann"):
        await suspended.decide([Decision.on(call, True, by="ann")], store)
    events, _ = await resumed(suspended, store, tools=[pay_much], approve=lambda request: None)
    assert (outcomes(events), ran) == ({"a": "skipped"}, [])
    events, _ = await resumed(suspended, store, tools=[pay_much], approve=lambda request: True)  # without a name
    assert (outcomes(events), ran) == ({"a": "denied"}, [])


@every("kept", [True, False])
async def test_two_people_approve_in_the_open_block(kept: bool) -> None:
    ran.clear()
    options: dict[str, Any] = {"store": MemoryStore()} if kept else {}
    with anyio.fail_after(30):
        async with pipeline(stream(anthropic(calls=[CALL])), tools=[pay_much], **options) as events:
            (asked,) = [e async for e in events if isinstance(e, ApprovalRequested)]
            assert asked.approvals == 2
            with pytest.raises(DecisionError, match="requires 2 people, so each decision needs by="):
                events.approve(asked)
            for name in ("ann", "ann"):
                events.approve(asked, by=name)
                assert [e for e in [e async for e in events] if isinstance(e, ApprovalResolved)] == []
            assert events.suspended is not None
            assert events.approve(asked, by="bob")
            seen = [event async for event in events]
    assert [row[:2] for row in resolved(seen)] == [(True, ("ann", "bob"))]
    assert (outcomes(events), ran) == ({"a": "ok"}, ["x 5"])


def test_requires_is_a_count_of_people_on_a_tool_that_asks() -> None:
    for options, words in (
        ({"approvals": 2}, "approvals=2 needs an approval; pass needs_approval= or policy=, too"),
        ({"approvals": 0, "needs_approval": True}, "approvals: expected an integer of 1 to 16, got 0"),
        ({"approvals": 17, "needs_approval": True}, "approvals: expected an integer of 1 to 16, got 17"),
        ({"approvals": True, "needs_approval": True}, "approvals: expected an integer of 1 to 16, got True"),
    ):
        with pytest.raises(TypeError, match=words):
            tool(**options)(pay.fn)  # type: ignore[call-overload]


# -- the store --


async def test_a_record_that_cannot_be_read_lets_nothing_run() -> None:
    class Strange(MemoryStore):
        async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
            return b'{"verdict": true}'

    suspended = await suspended_of()
    events, seen = await resumed(suspended, Strange())
    assert (outcomes(events), ran) == ({"a": "skipped"}, [])
    assert [e.code for e in seen if isinstance(e, StreamWarning)] == ["decision_not_kept"]


# -- the state --


async def test_a_ring_of_keys_signs_with_the_first_and_accepts_each() -> None:
    suspended, old, new = await suspended_of(), KEY, "another key of some length"
    text = suspended.to_text([old])
    for ring in (old, [old], [new, old], (old, new)):
        assert Suspended.from_text(text, ring) == suspended
    assert Suspended.from_text(suspended.to_text([new, old]), new) == suspended
    for ring in ([new], [new, b"0" * 32]):
        with pytest.raises(ValueError, match="the signature does not fit"):
            Suspended.from_text(text, ring)
    for none, words in (([], "expected 1 to 16 keys, got 0"), ([old] * 17, "got 17"), ([old, b"short"], "each key is")):
        for act in (lambda ring: suspended.to_text(ring), lambda ring: Suspended.from_text(text, ring)):
            with pytest.raises(ValueError, match=words):
                act(none)


async def test_a_state_is_read_only_for_those_it_belongs_to() -> None:
    suspended = await suspended_of()
    owners: list[Any] = [
        None, "ann", ["ann"], ["ann", "bob"], ["annbob"], ["bob", "ann"], {"user": "ann"}, {"tenant": "ann"},
        {"user": "ann", "conversation": "7"}, "", [], {}, '["ann"]', "\ud800",
    ]  # fmt: skip
    for owner in owners:
        text = suspended.to_text(KEY, bound_to=owner)
        assert "ann" not in json.dumps(json.loads(text.rpartition(".")[0])["suspended"])
        for other in owners:
            if other is owner:
                assert Suspended.from_text(text, KEY, bound_to=other) == suspended
            else:
                with pytest.raises(ValueError, match="with another key or for another `bound_to`"):
                    Suspended.from_text(text, KEY, bound_to=other)
    assert Suspended.from_text(
        suspended.to_text(KEY, bound_to={"a": "1", "b": "2"}), KEY, bound_to={"b": "2", "a": "1"}
    )
    for none in (7, [7], {"user": None}, b"ann"):
        with pytest.raises(TypeError, match="bound_to is a text, a list of texts, or a mapping"):
            suspended.to_text(KEY, bound_to=none)  # type: ignore[arg-type]


# -- who decided, and when, wherever a run is shown --


async def test_a_run_that_could_not_be_entered_for_its_decisions_does_nothing_more() -> None:
    suspended, store = await suspended_of(), MemoryStore()
    await suspended.decide([Decision.on(suspended.calls[0], True, by="ann")], store)
    decisions = [Decision.on(suspended.calls[0], False, by="bob")]
    call = {"type": "tool_use", "id": "a", "name": "pay", "input": {"to": "x", "amount": 5}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "it waits for an approval"}
    messages = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    options: dict[str, Any] = {"tools": [pay], "store": store, "decisions": decisions}
    loop: Any = agent_loop(lambda *_: b"", messages, wire="anthropic.messages", suspended=suspended, **options)
    for run in (resume(suspended, **options), loop):
        with pytest.raises(AlreadyDecided):
            await run.__aenter__()
        with anyio.fail_after(30), pytest.raises(TypeError, match="block"):
            await anext(run)
        with pytest.raises(LocalProtocolError, match="entered once"):
            await run.__aenter__()
        assert run.suspended == suspended  # to go on with, without decisions
    assert (loop.messages, ran) == (messages, [])
