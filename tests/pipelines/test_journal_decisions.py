"""Decisions about the calls of a journaled run reach it wherever it goes on; its suspended calls are a ticket."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from dispatch.payments import OnlyClaims
from streams import chat, exhaust, until
from test_journal import ANSWER, Bank, pay_of, read

from streamtools import Decision, Limits, Suspended, Trajectory, resume, tool
from streamtools.dispatch import CallAnswer, MemoryStore, SqliteStore
from streamtools.durable.journal import Journal
from streamtools.durable.record_store import RecordStore
from streamtools.durable.records import Key, Record
from streamtools.durable.store_sqlite import SqliteRecords
from streamtools.errors import (
    AlreadyDecided,
    AnswerError,
    DecisionError,
    JournalError,
    LocalProtocolError,
    SuspendedError,
)
from streamtools.events import AnswerRequested, ApprovalRequested, ApprovalResolved, Event, StepStart, StreamWarning
from streamtools.provenance import only_from_user
from streamtools.seams import Allow, ReadyCall, StepView

pytestmark = [pytest.mark.anyio, pytest.mark.costly]
SECRET = b"0123456789abcdef"
REFUND = ("r", "refund", '{"to": "x"}')
ORDER = "order-7"


def stores(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the options of runs that keep their calls in the journal's file, in another one, and elsewhere."""
    return {"own": {}, "file": {"store": SqliteStore(folder / "calls.db")}, "claims": {"store": OnlyClaims()}}


def bank_of(*bodies: Any, approvals: int = 1) -> tuple[Bank, list[str]]:
    bank, refunds = Bank(*bodies), list[str]()

    @tool(needs_approval=True, approvals=approvals)
    async def refund(to: str) -> str:
        """Pay back."""
        refunds.append(to)
        return "paid back"

    bank.tools.append(refund)
    return bank, refunds


def resolved(events: list[Event]) -> list[tuple[bool, tuple[str, ...]]]:
    return [(event.approved, event.by) for event in events if isinstance(event, ApprovalResolved)]


async def test_a_decision_from_elsewhere_reaches_a_run_that_waits_in_its_process(tmp_path: Path) -> None:
    for verdict in (True, False):
        (tmp_path / str(verdict)).mkdir()
        for name, options in stores(tmp_path / str(verdict)).items():
            path = tmp_path / f"{name}-{verdict}.db"
            bank, refunds = bank_of(chat(calls=[REFUND, *pay_of("y")]), ANSWER)
            elsewhere, is_asked = Journal(path), anyio.Event()

            async def ask_nobody(request: ApprovalRequested) -> None:
                is_asked.set()
                await anyio.sleep_forever()

            async def decide() -> None:
                await is_asked.wait()  # so that nothing is on record then
                waiting = await elsewhere.suspended(ORDER)
                await elsewhere.decide(ORDER, Decision.on(waiting.calls[0], verdict, by="ann"))

            run = bank.run(path, approve=ask_nobody, **options)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(decide)
                events = await read(run)
            assert (name, run.outcome, refunds) == (name, "answered", ["x"] * verdict)
            assert resolved(events) == [(verdict, ("ann",))]
            assert await elsewhere.suspended(ORDER) is None
            again = bank.run(path, **options)
            await read(again)
            assert (again.messages, refunds, len(bank.asked)) == (run.messages, ["x"] * verdict, 2)


class FailsOnce(SqliteRecords):
    """Fails when records of a kind are read for the first time since it was told to."""

    kind = ""

    async def get(self, *keys: Key) -> list[Record | None]:
        self._fail(keys[0])
        return await super().get(*keys)

    async def scan(self, prefix: Key, after: Key | None = None, limit: int = 1_000) -> list[Record]:
        self._fail(prefix)
        return await super().scan(prefix, after, limit)

    def _fail(self, key: Key) -> None:
        if key[0] == self.kind:
            self.kind = ""
            raise TimeoutError


async def test_a_decision_from_elsewhere_is_looked_up_again_after_the_store_has_failed(tmp_path: Path) -> None:
    for kind, warned in (("decided", ["decision_not_kept"]), ("inbox", [])):
        path, is_asked = tmp_path / f"{kind}.db", anyio.Event()
        bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
        elsewhere, records = Journal(path), FailsOnce(path)

        async def ask_nobody(request: ApprovalRequested) -> None:
            is_asked.set()
            await anyio.sleep_forever()

        async def decide() -> None:
            await is_asked.wait()
            waiting = await elsewhere.suspended(ORDER)
            assert waiting is not None
            records.kind = kind
            await elsewhere.decide(ORDER, Decision.on(waiting.calls[0], True, by="ann"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(decide)
            events = await read(bank.run(Journal(RecordStore(records)), approve=ask_nobody))
        assert [event.code for event in events if isinstance(event, StreamWarning)] == warned
        assert (resolved(events), refunds, records.kind) == ([(True, ("ann",))], ["x"], "")


async def test_a_run_that_looks_up_a_decision_again_and_again_can_be_left_at_once(tmp_path: Path) -> None:
    class Fails(FailsOnce):
        def _fail(self, key: Key) -> None:
            if key[0] == self.kind:
                raise TimeoutError

    path = tmp_path / "runs.db"
    bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
    elsewhere, records = Journal(path), Fails(path)

    async def ask_nobody(request: ApprovalRequested) -> None:
        records.kind = "decided"
        waiting = await elsewhere.suspended(ORDER)
        await elsewhere.decide(ORDER, Decision.on(waiting.calls[0], True, by="ann"))
        await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with bank.run(Journal(RecordStore(records)), approve=ask_nobody) as run:
            async for event in run:
                if isinstance(event, StreamWarning) and event.code == "decision_not_kept":
                    records.kind = ""  # so that it can be left; the look is in its pause
                    break
    assert refunds == []
    await read(bank.run(Journal(path)))
    assert refunds == ["x"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="THERE ARE NO FORKS HERE: no process has died in a decided call")
def test_a_decision_whose_process_died_in_its_call_is_read_and_the_run_rests(tmp_path: Path) -> None:
    """Or each page that asks whether the run goes on would have it gone on with."""
    bank, path, here = Bank(chat(calls=[REFUND, ("s", "refund", '{"to": "y"}')])), tmp_path / "runs.db", os.getpid()

    @tool(needs_approval=True)
    async def refund(to: str) -> str:
        """Pay back."""
        if os.getpid() != here:
            os._exit(0)
        return "paid back"

    bank.tools.append(refund)

    async def decide() -> None:
        await read(bank.run(path))
        waiting = await Journal(path).suspended(ORDER)
        await Journal(path).decide(ORDER, Decision.on(waiting.calls[0], True, by="ann"))

    async def rest() -> None:
        run = bank.run(path)
        await read(run)
        assert ([seen.outcome for seen in run.unsettled], run.outcome) == (["unknown"], "suspended")
        assert not await Journal(path).news(ORDER)

    anyio.run(decide)
    if (child := os.fork()) == 0:
        anyio.run(read, bank.run(path))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "it died in the call"
    anyio.run(rest)


async def test_a_decision_on_record_between_two_visits_holds_with_its_edited_arguments(tmp_path: Path) -> None:
    for (name, options), to in zip(stores(tmp_path).items(), ("x", "ada", "ada"), strict=True):
        path = tmp_path / f"{name}.db"
        bank, refunds = bank_of(chat(calls=[REFUND, *pay_of("y")]), ANSWER)
        for _ in range(2):  # nobody decides, twice
            events = await read(run := bank.run(path, **options))
            assert sum(isinstance(event, ApprovalRequested) for event in events) == 1
            assert (run.outcome, refunds) == ("suspended", [])
        journal = Journal(path)
        waiting = await journal.suspended(ORDER)
        (call,) = waiting.calls
        assert (call.tool_name, call.arguments) == ("refund", {"to": "x"})
        first = Decision.on(call, True, by="ann", arguments=None if to == "x" else {"to": to})
        with pytest.raises(TypeError, match=r"await journal\.decide"):
            await waiting.decide([first], journal.store)
        await journal.decide(ORDER, first)
        await journal.decide(ORDER, first)  # a queue repeats it
        for other in (Decision.on(call, False, by="bob"), Decision.on(call, True, by="ann")):
            with pytest.raises(AlreadyDecided) as raised:
                await journal.decide(ORDER, other)
            assert raised.value.first == first
        events = await read(again := bank.run(path, **options))
        assert (name, again.outcome, refunds, bank.paid) == (name, "answered", [to], ["y"])
        assert resolved(events) == [(True, ("ann",))]
        noted = ["a person approved this call with other arguments" in str(one) for one in again.messages]
        assert any(noted) == (to != "x")
        await journal.decide(ORDER, first)
        with pytest.raises(AlreadyDecided):
            await journal.decide(ORDER, Decision.on(call, False))


class _Slow:
    """Judges edited arguments until the approval was shown."""

    def __init__(self) -> None:
        self.judging, self.shown = anyio.Event(), anyio.Event()

    async def judge(self, call: ReadyCall, step: StepView) -> Allow:
        if call.is_edited:
            self.judging.set()
            await self.shown.wait()
        return Allow()


async def test_a_decision_that_counts_is_not_reported_while_its_arguments_are_judged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, rule = tmp_path / "runs.db", _Slow()
    bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
    await read(run := bank.run(path))
    decision = Decision.on(run.suspended.calls[0], True, arguments={"to": "ada"})
    await Journal(path).decide(ORDER, decision)
    async with bank.run(path, capabilities=[rule]) as again:
        async for event in again:
            if isinstance(event, StepStart) and not refunds:
                await rule.judging.wait()
            elif isinstance(event, ApprovalRequested):
                rule.shown.set()
    assert (again.outcome, refunds, caplog.messages) == ("answered", ["ada"], [])


async def test_a_decision_that_fits_no_waiting_call_fails_in_words(tmp_path: Path) -> None:
    bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
    journal = Journal(tmp_path / "runs.db")
    with pytest.raises(JournalError, match="there is no run 'order-7' in this journal"):
        await journal.decide(ORDER, Decision(call_id="r", fingerprint="", verdict=True))
    run = bank.run(journal)
    await read(run)
    (call,) = run.suspended.calls
    for made, code, text in (
        (Decision(call_id="z", fingerprint=call.fingerprint, verdict=True), "unknown_call", "no call 'z' waits"),
        (Decision(call_id="r", fingerprint="f" * 64, verdict=True), "changed_call", "its tool or arguments differ"),
    ):
        with pytest.raises(DecisionError, match=text) as raised:
            await journal.decide(ORDER, Decision.on(call, True), made)
        assert raised.value.code == code
    with pytest.raises(TypeError, match="decide takes Decisions, not bool"):
        await journal.decide(ORDER, True)  # type: ignore[arg-type]
    await read(run := bank.run(journal))
    assert (run.outcome, refunds) == ("suspended", []), "of several decisions all count, or none"

    async with bank.run(journal) as run:
        await exhaust(run)
        run.stop()
        await exhaust(run)
    assert (run.outcome, refunds) == ("cancelled", [])
    with pytest.raises(DecisionError, match="the call 'r' no longer waits"):
        await journal.decide(ORDER, Decision.on(call, True))


async def test_an_id_that_recurs_is_decided_by_the_ticket_alone(tmp_path: Path) -> None:
    bank, refunds = bank_of(chat(calls=[REFUND]), chat(calls=[REFUND]), ANSWER)
    journal = Journal(tmp_path / "runs.db")
    await read(run := bank.run(journal))
    old = Suspended.from_text(run.suspended.to_text(SECRET), SECRET)
    first = Decision.on(old.calls[0], True, by="ann")
    await journal.decide(old, first)
    await read(run := bank.run(journal))
    assert (run.outcome, refunds) == ("suspended", ["x"])
    with pytest.raises(DecisionError, match=r"asked about equal calls 'r' in the steps \[0, 1\]; pass a ticket"):
        await journal.decide(ORDER, first)
    with pytest.raises(AlreadyDecided):
        await journal.decide(old, Decision.on(old.calls[0], True, by="bob"))
    with pytest.raises(JournalError, match=r"ticket belongs to step 0 .* calls of step 1 wait now"):
        await journal.suspended(old)
    new = await journal.suspended(ORDER)
    await journal.decide(new, Decision.on(new.calls[0], False, by="ann"))
    await read(run := bank.run(journal))
    assert (run.outcome, refunds, len(bank.asked)) == ("answered", ["x"], 3)


async def test_what_was_approved_is_judged_again_when_the_call_would_run(tmp_path: Path) -> None:
    for name in ("policy", "types", "gone"):
        bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
        journal = Journal(tmp_path / f"{name}.db")
        await read(run := bank.run(journal))
        await journal.decide(ORDER, Decision.on(run.suspended.calls[0], True))

        @tool(needs_approval=True)
        async def refund(to: Literal["ada"]) -> str:
            """Pay back."""
            refunds.append(to)
            return "paid back"

        options: dict[str, Any] = {"policy": only_from_user("to").denies()} if name == "policy" else {}
        if name != "policy":
            options["tools"] = [*bank.tools[:2], *([refund] if name == "types" else [])]
        await read(run := bank.run(journal, **options))
        ends = {"policy": "denied", "types": "invalid", "gone": "unknown_tool"}
        assert (run.outcome, refunds) == ("answered", [])
        assert [seen.outcome for seen in run.turns[0].observations] == [ends[name]]


async def test_suspended_calls_of_a_journaled_run_are_a_ticket_that_leaves_the_arguments_in_the_journal(
    tmp_path: Path,
) -> None:
    large = json.dumps({"to": "x" * 300_000})
    bank, refunds = bank_of(chat(calls=[("r", "refund", large)]), ANSWER)
    journal = Journal(tmp_path / "runs.db")
    limits = Limits(max_argument_bytes=1 << 20)
    await read(run := bank.run(journal, limits=limits))
    text = run.suspended.to_text(SECRET, bound_to="ann")
    assert len(text) < 1_000
    assert "xxx" not in text
    with pytest.raises(SuspendedError):
        Suspended.from_text(text, SECRET, bound_to="bob")
    ticket = Suspended.from_text(text, SECRET, bound_to="ann")
    (call,) = ticket.calls
    with pytest.raises(LocalProtocolError, match="a ticket has no arguments"):
        _ = call.arguments
    whole = await journal.suspended(ticket)
    assert whole.calls[0].arguments == json.loads(large)
    assert whole.to_text(SECRET, bound_to="ann") == text
    with pytest.raises(TypeError, match=r"agent_loop\(\.\.\., journal=\.\.\., suspended=\.\.\.\)"):
        resume(ticket, tools=bank.tools, store=journal.store)
    with pytest.raises(TypeError, match="pass journal=, too"):
        bank.run(None, run_id=None, suspended=ticket)
    other, _ = bank_of(chat(calls=[REFUND]), ANSWER)
    with pytest.raises(JournalError, match="there is no run 'order-7' in this journal"):
        await read(other.run(tmp_path / "empty.db", suspended=ticket))
    await read(other.run(tmp_path / "other.db"))
    with pytest.raises(JournalError, match="the ticket belongs to the run 'order-7'"):
        await read(other.run(tmp_path / "other.db", suspended=ticket))
    with pytest.raises(ValueError, match="another run than run_id"):
        bank.run(journal, run_id="order-8", suspended=ticket)

    run = bank.run(journal, run_id=None, limits=limits, suspended=ticket, decisions=[Decision.on(call, True)])
    await read(run)
    assert (run.outcome, len(refunds), len(bank.asked)) == ("answered", 1, 2)
    with pytest.raises(JournalError, match=r"ticket belongs to step 0 .* no call of it waits now"):
        await read(bank.run(journal, limits=limits, suspended=ticket))
    await journal.forget(ORDER)
    with pytest.raises(JournalError, match="there is no run"):
        await journal.suspended(ticket)

    alone, _ = bank_of(chat(calls=[REFUND]), ANSWER)
    known = Trajectory(run_id=ORDER)
    await read(without := alone.run(None, run_id=None, trajectory=known, store=MemoryStore()))
    assert without.suspended is not None
    with pytest.raises(TypeError, match="a run without a journal"):
        bank.run(journal, suspended=without.suspended)
    with pytest.raises(JournalError, match="there is no run"):
        await journal.decide(without.suspended)
    with pytest.raises(JournalError, match=r"without a journal; continue with `resume`"):
        await Journal(tmp_path / "other.db").decide(without.suspended)


async def test_a_ticket_also_takes_answers_to_calls_that_are_done_outside(tmp_path: Path) -> None:
    @tool(deferred="wait")
    def choose(of: str) -> str:
        """Choose."""
        raise AssertionError("it is done outside")

    calls = [REFUND, ("c", "choose", '{"of": "cities"}')]
    bank, refunds = bank_of(chat(calls=calls), ANSWER)
    bank.tools.append(choose)
    journal = Journal(tmp_path / "runs.db")
    async with bank.run(journal) as run:
        await until(run, AnswerRequested)
    waiting = await journal.suspended(ORDER)
    assert (waiting.calls, waiting.journal) == (run.suspended.calls, run.suspended.journal)
    ticket = Suspended.from_text(waiting.to_text(SECRET), SECRET)
    by_id = {call.call_id: call for call in ticket.calls}
    assert {name: call.waits_for for name, call in by_id.items()} == {"r": "approval", "c": "answer"}
    with pytest.raises(DecisionError, match="waits for an answer, not a decision"):
        await journal.decide(ticket, Decision.on(by_id["c"], True))
    with pytest.raises(TypeError, match=r"await journal\.answer"):
        await ticket.answer([CallAnswer.to(by_id["c"], "Rome")], journal.store)
    with pytest.raises(AnswerError):
        wrong = CallAnswer(call_id="c", fingerprint="f" * 64, result="Oslo")
        await read(bank.run(journal, suspended=ticket, answers=[wrong]))
    await journal.answer(ORDER, "c", "Rome")
    for one in (ORDER, ticket):
        waiting = await journal.suspended(one)
        assert [call.call_id for call in waiting.calls] == ["r"], "the other one was answered"
    run = bank.run(
        journal,
        suspended=ticket,
        decisions=[Decision.on(by_id["r"], True)],
        answers=[CallAnswer.to(by_id["c"], "Rome")],
    )
    await read(run)
    assert (run.outcome, refunds, len(bank.asked)) == ("answered", ["x"], 2)
    assert [seen.model_content for seen in run.turns[0].observations] == ["paid back", "Rome"]
    with closing(sqlite3.connect(tmp_path / "runs.db")) as file, file:
        file.execute("UPDATE records SET value = CAST('{\"secret\": 1}' AS BLOB) WHERE kind = 'waiting'")
    with pytest.raises(JournalError, match="that this library did not write") as raised:
        await journal.suspended(ORDER)
    assert "secret" not in str(raised.value)
    for act in (journal.forget, journal.erase):
        with pytest.raises(JournalError, match="that this library did not write"):
            await act(ORDER)
        assert [known.is_running for known in await journal.runs()] == [False], "the lease was given back"
