"""Decisions about the calls of a journaled run reach it wherever it goes on; its suspended calls are a ticket."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from streams import chat
from test_journal import ANSWER, Bank, on_both, pay_of, read

from streamtools import Decision, Limits, Retry, Suspended, Trajectory, resume, tool
from streamtools.dispatch import CallAnswer, MemoryStore, SqliteStore
from streamtools.dispatch.journal import Journal
from streamtools.dispatch.store import Claim
from streamtools.errors import (
    AlreadyDecided,
    AnswerError,
    DecisionError,
    JournalError,
    LocalProtocolError,
    SuspendedError,
)
from streamtools.events import AnswerRequested, ApprovalRequested, ApprovalResolved, Event
from streamtools.pipelines.agent_loop import AgentLoop
from streamtools.provenance import only_from_user

SECRET = b"0123456789abcdef"
REFUND = ("r", "refund", '{"to": "x"}')
ORDER = "order-7"


class _Claims:
    """A store of the user's that keeps no decisions."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        return await self._store.claim(key, fingerprint)

    async def complete(self, key: str, result: bytes, /) -> None:
        await self._store.complete(key, result)

    async def release(self, key: str, /) -> None:
        await self._store.release(key)

    async def abandon(self, key: str, /) -> None:
        await self._store.abandon(key)


class _Heard(SqliteStore):
    """A store that tells when a run has read a decision in its inbox."""

    def __init__(self, path: Path) -> None:
        self.has_read = anyio.Event()
        super().__init__(path)

    def hand_over(self, work: Any, *, ends: str | None = None) -> Any:
        waiter: Any = super().hand_over(work, ends=ends)

        async def heard() -> Any:
            value = await waiter()
            if isinstance(value, list) and any(isinstance(one, tuple) and b'"decision"' in one[1] for one in value):
                self.has_read.set()
            return value

        return heard


def stores(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the options of runs that keep their calls in the journal's file, in another one, and elsewhere."""
    return {"own": {}, "file": {"store": SqliteStore(folder / "calls.db")}, "claims": {"store": _Claims()}}


def bank_of(*bodies: Any, requires: int = 1) -> tuple[Bank, list[str]]:
    bank, refunds = Bank(*bodies), list[str]()

    @tool(needs_approval=True, requires=requires)
    async def refund(to: str) -> str:
        """Pay back."""
        refunds.append(to)
        return "paid back"

    bank.tools.append(refund)
    return bank, refunds


async def nobody_here(request: ApprovalRequested) -> None:
    """Is asked, and never answers: the run waits for somebody elsewhere."""
    await anyio.sleep_forever()


async def read_deciding(run: AgentLoop, decide: Callable[[ApprovalRequested], Any]) -> list[Event]:
    events = []
    async with run:
        async for event in run:
            events.append(event)
            if isinstance(event, ApprovalRequested):
                await decide(event)
    return events


def resolved(events: list[Event]) -> list[tuple[bool, tuple[str, ...]]]:
    return [(event.approved, event.by) for event in events if isinstance(event, ApprovalResolved)]


def test_a_decision_from_elsewhere_reaches_a_run_that_waits_in_its_process(tmp_path: Path) -> None:
    async def case(folder: Path) -> None:
        for verdict in (True, False):
            (folder / str(verdict)).mkdir()
            for name, options in stores(folder / str(verdict)).items():
                path = folder / f"{name}-{verdict}.db"
                bank, refunds = bank_of(chat(calls=[REFUND, *pay_of("y")]), ANSWER)
                elsewhere, is_asked = Journal(path), anyio.Event()

                async def ask_nobody(request: ApprovalRequested) -> None:
                    is_asked.set()
                    await anyio.sleep_forever()

                async def decide() -> None:
                    await is_asked.wait()  # so that nothing is on record then
                    waiting = await elsewhere.suspended(ORDER)
                    assert waiting is not None
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

    on_both(case, tmp_path)


def test_a_decision_about_a_run_that_nobody_runs_holds_when_the_line_runs_again(tmp_path: Path) -> None:
    async def case(folder: Path) -> None:
        for name, options in stores(folder).items():
            path = folder / f"{name}.db"
            bank, refunds = bank_of(chat(calls=[REFUND, *pay_of("y")]), ANSWER)
            run = bank.run(path, **options)
            await read(run)
            assert (run.outcome, refunds) == ("suspended", [])
            journal = Journal(path)
            waiting = await journal.suspended(ORDER)
            assert waiting is not None
            (call,) = waiting.calls
            assert (call.tool_name, call.arguments) == ("refund", {"to": "x"})
            first = Decision.on(call, True, by="ann")
            await journal.decide(ORDER, first)
            await journal.decide(ORDER, first)  # a queue repeats it
            for other in (Decision.on(call, False, by="bob"), Decision.on(call, True, by="ann")):
                with pytest.raises(AlreadyDecided) as raised:
                    await journal.decide(ORDER, other)
                assert raised.value.first == first
            events = await read(again := bank.run(path, **options))
            assert (name, again.outcome, refunds, bank.paid) == (name, "answered", ["x"], ["y"])
            assert resolved(events) == [(True, ("ann",))]
            await journal.decide(ORDER, first)
            with pytest.raises(AlreadyDecided):
                await journal.decide(ORDER, Decision.on(call, False))

    on_both(case, tmp_path)


def test_of_two_people_elsewhere_both_approve_by_name(tmp_path: Path) -> None:
    async def case(folder: Path) -> None:
        for name, options in stores(folder).items():
            path = folder / f"{name}.db"
            bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER, requires=2)
            elsewhere = Journal(path)
            await read(bank.run(path, **options))
            waiting = await elsewhere.suspended(ORDER)
            assert waiting is not None
            with pytest.raises(DecisionError, match="requires 2 people"):
                await elsewhere.decide(ORDER, Decision.on(waiting.calls[0], True))
            await elsewhere.decide(ORDER, Decision.on(waiting.calls[0], True, by="ann"))
            with pytest.raises(AlreadyDecided):
                await elsewhere.decide(ORDER, Decision.on(waiting.calls[0], True, by="ann"))

            async def second(event: ApprovalRequested) -> None:
                assert refunds == []
                await elsewhere.decide(ORDER, Decision.on(event, True, by="bob"))

            events = await read_deciding(run := bank.run(path, approve=nobody_here, **options), second)
            assert (name, run.outcome, refunds) == (name, "answered", ["x"])
            assert resolved(events) == [(True, ("ann", "bob"))]

    on_both(case, tmp_path)


def test_a_decision_that_fits_no_waiting_call_fails_in_words(tmp_path: Path) -> None:
    async def case(folder: Path) -> None:
        bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
        journal = Journal(folder / "runs.db")
        with pytest.raises(JournalError, match="there is no run 'order-7' in this journal"):
            await journal.decide(ORDER, Decision(call_id="r", fingerprint="", verdict=True))
        run = bank.run(journal)
        await read(run)
        assert run.suspended is not None
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
            async for _ in run:
                pass
            run.stop()
            async for _ in run:
                pass
        assert (run.outcome, refunds) == ("cancelled", [])
        with pytest.raises(DecisionError, match="the call 'r' waits no longer"):
            await journal.decide(ORDER, Decision.on(call, True))

    on_both(case, tmp_path)


def test_a_run_at_rest_leaves_a_decision_to_the_next_visit_unless_it_is_read_on(tmp_path: Path) -> None:
    """Else the call would begin, and be cut off as the block is left."""

    async def case(folder: Path) -> None:
        for reads_on in (True, False):
            path = folder / f"{reads_on}.db"
            bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
            journal, store = Journal(path), _Heard(path)
            async with bank.run(store) as run:
                async for _ in run:
                    pass
                assert run.suspended is not None
                await journal.decide(ORDER, Decision.on(run.suspended.calls[0], True))
                with anyio.fail_after(5):
                    await store.has_read.wait()
                assert refunds == []
                if reads_on:
                    async for _ in run:
                        pass
            assert (run.outcome, refunds) == (("answered", ["x"]) if reads_on else ("suspended", []))
            await read(run := bank.run(journal))
            assert (run.outcome, refunds) == ("answered", ["x"])

    on_both(case, tmp_path)


def test_an_id_that_recurs_is_decided_by_the_ticket_alone(tmp_path: Path) -> None:
    async def case(folder: Path) -> None:
        bank, refunds = bank_of(chat(calls=[REFUND]), chat(calls=[REFUND]), ANSWER)
        journal = Journal(folder / "runs.db")
        await read(run := bank.run(journal))
        assert run.suspended is not None
        old = Suspended.from_text(run.suspended.to_text(SECRET), SECRET)
        first = Decision.on(old.calls[0], True, by="ann")
        await journal.decide(old, first)
        await read(run := bank.run(journal))
        assert (run.outcome, refunds) == ("suspended", ["x"])
        with pytest.raises(DecisionError, match=r"asked about such a call 'r' in the steps \[0, 1\]"):
            await journal.decide(ORDER, first)
        with pytest.raises(AlreadyDecided):
            await journal.decide(old, Decision.on(old.calls[0], True, by="bob"))
        with pytest.raises(JournalError, match=r"ticket is of step 0 .* calls of step 1 wait in it now"):
            await journal.suspended(old)
        new = await journal.suspended(ORDER)
        assert new is not None
        await journal.decide(new, Decision.on(new.calls[0], False, by="ann"))
        await read(run := bank.run(journal))
        assert (run.outcome, refunds, len(bank.asked)) == ("answered", ["x"], 3)

    on_both(case, tmp_path)


def test_a_decision_that_comes_too_late_is_ignored_and_logged_without_values(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def case(folder: Path) -> None:
        bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
        elsewhere = Journal(folder / "runs.db")

        async def decide_and_cancel(event: ApprovalRequested) -> None:
            await is_asked.wait()  # so that nothing is on record then
            await elsewhere.decide(run.trajectory.run_id, Decision.on(event, True, by="ann"))
            await store.has_read.wait()
            assert run.cancel(event)

        async def decide_twice(event: ApprovalRequested) -> None:
            await elsewhere.decide(run.trajectory.run_id, Decision.on(event, False, by="ann"))
            await store.has_read.wait()
            run.approve(event, by="bob")

        async def ask_nobody(request: ApprovalRequested) -> None:
            is_asked.set()
            await anyio.sleep_forever()

        for decide, warned in ((decide_and_cancel, 1), (decide_twice, 0)):
            caplog.clear()
            bank.asked.clear()
            store, is_asked = _Heard(folder / "runs.db"), anyio.Event()
            run = bank.run(store, run_id=f"{ORDER}{warned}", approve=ask_nobody)
            with caplog.at_level(logging.WARNING, "streamtools"):
                events = await read_deciding(run, decide)
            assert (run.outcome, refunds) == ("answered", [])
            assert resolved(events) == [(False, ("ann",))] * (1 - warned)
            words = [one.getMessage() for one in caplog.records]
            assert words == ["run order-71: a decision from elsewhere, of step 0, is about no call that waits"] * warned

    on_both(case, tmp_path)


def test_a_message_waits_for_the_decision_and_decides_nothing(tmp_path: Path) -> None:
    async def case(folder: Path) -> None:
        bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
        elsewhere = Journal(folder / "runs.db")

        async def decide(event: ApprovalRequested) -> None:
            run.say("Hurry.", when="now")
            await elsewhere.decide(ORDER, Decision.on(event, True))

        run = bank.run(folder / "runs.db", approve=nobody_here)
        await read_deciding(run, decide)
        assert (run.outcome, refunds) == ("answered", ["x"])
        assert bank.asked[1][-1] == {"role": "user", "content": "Hurry."}

    on_both(case, tmp_path)


def test_a_decision_is_about_the_attempt_that_counts(tmp_path: Path) -> None:
    async def case(folder: Path) -> None:
        whole, refunds = chat(calls=[REFUND]), list[str]()
        bank = Bank([*whole[:-2], ConnectionResetError()], whole, ANSWER)

        @tool(effect="idempotent", needs_approval=True)
        async def refund(to: str) -> str:
            """Pay back."""
            refunds.append(to)
            return "paid back"

        bank.tools = [refund]
        elsewhere = Journal(folder / "runs.db")

        async def decide(event: ApprovalRequested) -> None:
            if len(bank.asked) == 2:
                await elsewhere.decide(ORDER, Decision.on(event, True))

        retry = Retry(backoff=0, attempts=2, after_output=True)
        events = await read_deciding(run := bank.run(elsewhere, approve=nobody_here, retry=retry), decide)
        assert (run.outcome, refunds, len(bank.asked)) == ("answered", ["x"], 3)
        assert resolved(events) == [(True, ())]

    on_both(case, tmp_path)


def test_what_was_approved_is_judged_again_when_the_call_would_run(tmp_path: Path) -> None:
    async def case(folder: Path) -> None:
        for name in ("policy", "types", "gone"):
            bank, refunds = bank_of(chat(calls=[REFUND]), ANSWER)
            journal = Journal(folder / f"{name}.db")
            await read(run := bank.run(journal))
            assert run.suspended is not None
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

    on_both(case, tmp_path)


def test_suspended_calls_of_a_journaled_run_are_a_ticket_that_leaves_the_arguments_in_the_journal(
    tmp_path: Path,
) -> None:
    async def case(folder: Path) -> None:
        large = json.dumps({"to": "x" * 300_000})
        bank, refunds = bank_of(chat(calls=[("r", "refund", large)]), ANSWER)
        journal = Journal(folder / "runs.db")
        limits = Limits(max_argument_bytes=1 << 20)
        await read(run := bank.run(journal, limits=limits))
        assert run.suspended is not None
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
        assert whole is not None
        assert whole.calls[0].arguments == json.loads(large)
        assert whole.to_text(SECRET, bound_to="ann") == text
        with pytest.raises(TypeError, match=r"agent_loop\(\.\.\., journal=\.\.\., suspended=\.\.\.\)"):
            resume(ticket, tools=bank.tools, store=journal.store)
        with pytest.raises(TypeError, match="pass journal=, too"):
            bank.run(None, run_id=None, suspended=ticket)
        other, _ = bank_of(chat(calls=[REFUND]), ANSWER)
        with pytest.raises(JournalError, match="there is no run 'order-7' in this journal"):
            await read(other.run(folder / "empty.db", suspended=ticket))
        await read(other.run(folder / "other.db"))
        with pytest.raises(JournalError, match="the ticket is of another run 'order-7'"):
            await read(other.run(folder / "other.db", suspended=ticket))
        with pytest.raises(ValueError, match="another run than run_id names"):
            bank.run(journal, run_id="order-8", suspended=ticket)

        run = bank.run(journal, run_id=None, limits=limits, suspended=ticket, decisions=[Decision.on(call, True)])
        await read(run)
        assert (run.outcome, len(refunds), len(bank.asked)) == ("answered", 1, 2)
        with pytest.raises(JournalError, match=r"ticket is of step 0 .* nothing waits in it now"):
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
        with pytest.raises(JournalError, match=r"without a journal; go on with `resume`"):
            await Journal(folder / "other.db").decide(without.suspended)

    on_both(case, tmp_path)


def test_a_ticket_also_takes_answers_to_calls_that_are_done_outside(tmp_path: Path) -> None:
    @tool(external=True)
    def choose(of: str) -> str:
        """Choose."""
        raise AssertionError("it is done outside")

    async def case(folder: Path) -> None:
        calls = [REFUND, ("c", "choose", '{"of": "cities"}')]
        bank, refunds = bank_of(chat(calls=calls), ANSWER)
        bank.tools.append(choose)
        journal = Journal(folder / "runs.db")
        async with bank.run(journal) as run:
            async for event in run:
                if isinstance(event, AnswerRequested):
                    break
        waiting = await journal.suspended(ORDER)
        assert waiting is not None
        assert run.suspended is not None
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
            assert waiting is not None
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
        with closing(sqlite3.connect(folder / "runs.db")) as file, file:
            file.execute("UPDATE waiting SET entry = '{\"secret\": 1}', is_over = 0")
        with pytest.raises(JournalError, match="that no journal has written") as raised:
            await journal.suspended(ORDER)
        assert "secret" not in str(raised.value)

    on_both(case, tmp_path)
