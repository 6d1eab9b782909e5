"""Keeps the model's answers in a run, and its calls, so that the run survives its process.

    run       what it began with, and how it ended
    response  for each step: what is needed to read it again, and its body
    ends      for each step, once all are known: those of its calls
    inbox     what people put into a run, until the response to it is stored
    waiting   the calls that wait for people, whole: see `journal_waiting`
    handed    for each call that is done outside: the key under which its answer is stored
    over      the runs that are over, in the order of their ends

The process that holds a run's lease runs it. The lease is a record beside the claims of the `RecordStore`, which renews
it. Each write and each claim is a commit that checks the lease, so a process that was paused for too long and lost it
can neither change nor begin anything.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio

from ..errors import AnswerError, JournalError, RunStillRunning
from ..limits import checked_bound
from ..parts import RUN_OUTCOMES
from ..seams import Decision
from ..tools.context import run_prefix
from ..waiting.answers import already_answered, written_answer
from . import journal_waiting
from .addresses import store_of
from .lease import JournalLease, dropped
from .record_store import RecordStore, all_of, called, decided_key, operation_prefix, read_call, state_of
from .records import Check, DeletePrefix, Done, Op, Put, Record, Rev
from .run_records import (
    MOST_ENTRIES,
    UNREAD,
    JournaledResponse,
    JournaledRun,
    inbox_is_full,
    inbox_key,
    read_head,
    read_number,
    read_put,
    step_key,
    written_entry,
)
from .store import Claimed, StillRunning
from .suspended import Suspended

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.25
_PATIENCE_S = 10.0  # for a commit of records that others are changing
_MOST_RUN_ID_CHARS = 900  # the key of the lease, and those of calls, have room for more
_OF_A_RUN = ("run", "response", "ends", "inbox", "waiting", "handed")
_MOST_DELETED = 500  # records in one commit


@dataclass(frozen=True, slots=True)
class StoredRun:
    run_id: str
    name: str | None
    steps: int  # how many responses were stored when it was last left
    began_at: float  # in seconds since 1970
    ended_at: float | None  # when it was last left; None while it runs, or if its process has died
    outcome: str | None  # a `RunOutcome`; None with `ended_at` None
    is_running: bool  # True while a process holds its lease


class Journal:
    """Keeps runs, so that the same code continues a run after a crash, on any machine that reaches its records.

        async with agent_loop(ask, messages, tools=tools, wire=wire, journal="runs.db", run_id="order-7") as run:
            ...

    Args:
        store: a file's path, the URL of a Postgres or Redis server, or a store. It contains whole responses: only the
            owner can read a file.
        wait: seconds for which a run waits while another process runs the same id.
        max_runs: the approximate number of ended runs to keep. Beyond that, and a tenth more, those that ended first
            are forgotten, and the same code would start them again. No other run is forgotten.

    Raises:
        ValueError: the path is empty, or a number is invalid or out of range; also the errors of the store.
        TypeError: `store` cannot keep runs.
    """

    def __init__(
        self, store: str | os.PathLike[str] | RecordStore, *, wait: float = 30.0, max_runs: int = 10_000
    ) -> None:
        if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not wait >= 0:
            raise ValueError(f"wait={wait!r}: must be a number of seconds, 0 or more")
        self._wait = wait
        self._max_runs = checked_bound("max_runs", max_runs)
        self.store = store_of(store)
        """Keeps the calls and the runs."""
        self.decided = RecordStore(self.store.records, keep=None)
        """Keeps decisions and answers, as long as their runs."""

    def at_once(self) -> Journal:
        """Returns this journal with `wait` 0: a run raises at once if another process runs its id."""
        return Journal(self.store, wait=0, max_runs=self._max_runs)

    async def runs(self) -> list[StoredRun]:
        """Returns the stored runs, in the order in which they began."""
        records, found = self.store.records, list[StoredRun]()
        held = {one.key[-1] for one in await all_of(records, ("lease",)) if state_of(one) == "running"}
        for record in await all_of(records, ("run",)):
            head, run_id = read_head(record), record.key[-1]
            known = head.name, head.steps, head.began_at, head.ended_at, head.outcome
            found.append(StoredRun(run_id, *known, run_id in held))
        return sorted(found, key=lambda run: run.began_at)

    async def knows(self, run_id: str) -> bool:
        """Returns whether a run is stored."""
        return await self._head(run_id) is not None

    async def began_with(self, run_id: str, first: str) -> bool:
        """Returns whether a run is known and began with the wire and messages of this digest."""
        head = await self._head(run_id)
        return head is not None and head[1].first == first

    async def forget(self, run_id: str) -> bool:
        """Removes a run that is not in progress; returns False if there is none. The store keeps its calls; see
        `erase`."""
        async with self._held(run_id) as lease:
            calls = [one.key for one in await all_of(self.store.records, ("call", _run_part(run_id)))]
            await self._commit_all(lease, [op for one in calls for op in dropped(one, self.store.keep)])
            return await self._remove(lease)

    async def erase(self, run_id: str, *, conversation_id: str | None = None) -> list[str]:
        """Removes a run that is not in progress, with the records of its calls, decisions and answers. Returns the keys
        of calls with an unknown outcome, which stay until they are settled (`settle` of the store).

        The same run id must not be used again: its calls would run again.

        Args:
            run_id: the run's id.
            conversation_id: also remove the operations of this conversation (``@tool(scope="conversation")``).
        """
        scopes = [("run", run_id)] + ([] if conversation_id is None else [("conversation", conversation_id)])
        ended, left = list[Op](), list[str]()
        async with self._held(run_id) as lease:
            for part in (_run_part(run_id), *(operation_prefix(*scope)[:-1] for scope in scopes)):
                for one in await all_of(self.store.records, ("call", part)):
                    if read_call(one)[0].end is None:
                        left.append(called(one.key))
                    else:
                        ended.append(DeletePrefix(one.key))
            await self._commit_all(lease, ended)
            await self._remove(lease)
        return left

    async def say(self, run_id: str, message: str | Mapping[str, Any], *, when: Literal["next", "now"] = "next") -> str:
        """Adds a user message to a run in any process: see `AgentLoop.say`. The run reads it within a quarter of a
        second, or when it is continued. Returns its id.

        Raises:
            JournalError: there is no such run, it is over, or its inbox is full.
            ValueError: `when` is not known, or the message is larger than 1 MB of JSON.
            TypeError: the message is neither text nor JSON, or is `Untrusted` text, which needs a separate block.
        """
        from ..provenance.history import Untrusted  # most runs are told nothing

        if isinstance(message, Untrusted):
            raise TypeError("say: Untrusted text keeps its mark only in a message, as a block of its own; pass that")
        if when not in ("next", "now"):
            raise ValueError(f"unknown when {when!r}; known: next, now")
        return await self._put(run_id, {"kind": "say", "message": message, "when": when})

    async def stop(self, run_id: str) -> None:
        """Ends a run in any process in an orderly way: see `AgentLoop.stop`.

        Raises:
            JournalError: there is no such run, it is over, or its inbox is full.
        """
        await self._put(run_id, {"kind": "stop"})

    async def decide(self, run: str | Suspended, *decisions: Decision) -> None:
        """Decides about waiting calls of a run in any process, which reads the decisions within a quarter of a second,
        or when it is continued. When this returns, all of them are stored, or none.

            await journal.decide("order-7", Decision.on(request, True, by="ann"))

        Args:
            run: its id, or the ticket (`Suspended.to_text`) with the calls, which also names their step.
            decisions: each about a call as it was shown. An equal decision, repeated, changes nothing.

        Raises:
            AlreadyDecided: a call was decided before; what holds is `AlreadyDecided.first`.
            DecisionError: a decision is about no waiting call, or about one that differs from the shown one, or lacks a
                name. If the run has asked about equal calls in several steps, pass a ticket.
            JournalError: there is no such run, it is over, its inbox is full, or the ticket is another journal's.
            TypeError: one is not a `Decision`.
        """
        await self._changed(lambda: self._deciding(run, decisions))

    async def suspended(self, run: str | Suspended, *, unread: bool = False) -> Suspended | None:
        """Returns the waiting calls of a run, with their arguments; None if there are none. An answered call no longer
        waits; a decided one waits until the run continues it.

        Args:
            run: its id, or a ticket with calls of the step that waits.
            unread: include calls whose answer the run has not read.

        Raises:
            JournalError: there is no such run, or the ticket is of another run or of a step that is over.
        """
        _, ticket, _, marker = await self._found(run)
        run_id, records = run if isinstance(run, str) else run.run_id, self.store.records
        known = await journal_waiting.all_waiting(records, run_id)
        found = journal_waiting.latest(known, marker, ticket)
        if found is None or unread:
            return found
        handed = {} if all(call.waits_for != "answer" for call in found.calls) else await self._handed(run_id)
        answered = set[str]()
        for call in found.calls:
            step, key = handed.get(call.call_id, (-1, ""))
            if call.waits_for == "answer" and step == found.step and await self.decided.decide(key, None) is not None:
                answered.add(call.call_id)
        calls = tuple(call for call in found.calls if call.call_id not in answered)
        return replace(found, calls=calls) if calls else None

    async def answer(self, run_id: str, call_id: str, result: Any, *, is_error: bool = False) -> None:
        """Passes the result of a deferred call to a run in any process: see `Pipeline.answer`. The run reads it within
        a quarter of a second, or when it is continued. Repeating the answer changes nothing.

        Raises:
            AnswerError: the run has no such deferred call, has continued without it, or the call has another answer.
            JournalError: there is no such run, it is over, or its inbox is full.
            TypeError: the result is neither text, JSON nor a `ToolResult`.
            ValueError: the result is larger than 32 MB.
        """
        record = written_answer(result, is_error=is_error)
        await self._changed(lambda: self._answering(run_id, call_id, record))

    async def news(self, run_id: str, *, kind: Literal["decision", "answer", "stop"] | None = None) -> frozenset[str]:
        """Returns the ids of the decisions, answers and stop requests that a run has not read, or those of one kind:
        the run should be continued. Messages are not included, since they wait with the calls."""
        found = await self.store.records.scan(("inbox", run_id), limit=MOST_ENTRIES)
        kinds = {one.key[-1]: read_put(one.key[-1], one.value)["kind"] for one in found}
        return frozenset(one for one, known in kinds.items() if known != "say" and kind in (None, known))

    async def _put(self, run_id: str, entry: Mapping[str, Any]) -> str:
        _check_id(run_id)
        entry_id, written = uuid.uuid4().hex, written_entry(entry)

        async def change() -> list[Op]:
            record, head = await self._known(run_id)
            return await self._entered(record, head, {entry_id: written})

        await self._changed(change)
        return entry_id

    async def begin(self, run_id: str, first: str, name: str | None) -> tuple[JournalLease, list[JournaledResponse]]:
        """Takes the lease of a run, and returns it with the stored responses. `agent_loop` calls this.

        Args:
            run_id: the run's id.
            first: a digest of the messages and the wire that it begins with.
            name: the agent's name.

        Raises:
            RunStillRunning: another process still holds the lease after `wait` seconds.
            JournalError: the run began with other messages, or the journal cannot be used.
            ValueError: the id is too long.
        """
        try:
            lease = await self._leased(run_id, self._wait)
            try:
                return lease, await self._begun(lease, first, name)
            except BaseException:
                lease.let_go()
                raise
        except (sqlite3.Error, OSError) as error:
            where = getattr(self.store, "path", type(self.store).__name__)
            raise JournalError(f"the run {run_id!r} cannot use its journal {where}: {error}") from error

    async def _begun(self, lease: JournalLease, first: str, name: str | None) -> list[JournaledResponse]:
        run_id, known = lease.run_id, await self._head(lease.run_id)
        responses, ops = list[JournaledResponse](), list[Op]()
        if known is None:
            await self._make_room()
            head = JournaledRun(first, name, time.time())
            ops.append(Put(("run", run_id), head.written()))
        else:
            record, head = known
            if head.first != first:
                text = "began with other messages or over another wire; use another run_id for another run"
                raise JournalError(f"the run {run_id!r} {text}")
            if head.ended_at is not None:
                if head.is_over:
                    ops.append(DeletePrefix(head.over_key(run_id)))
                head = replace(head, ended_at=None, outcome=None)
                ops.append(Put(record.key, head.written(), Rev(record.rev)))
            responses = await self._responses(run_id)
            stored = {one.step for one in responses}
            # Calls of responses that are not stored no longer wait: the model is asked again.
            lost = (one for one in await journal_waiting.all_waiting(self.store.records, run_id))
            ops += [one.over() for one in lost if one.suspended.step not in stored and not one.is_over]
        if ops:
            lease.check(await self.store.records.commit(lease.fence, *ops))
        lease.head, lease.steps = head, len(responses)
        lease.marker = journal_waiting.marker_of(run_id, head.first, head.began_at)
        return responses

    async def _responses(self, run_id: str) -> list[JournaledResponse]:
        records = self.store.records
        ends = {one.key: one.value for one in await all_of(records, ("ends", run_id))}
        found = list[JournaledResponse]()
        for one in await all_of(records, ("response", run_id)):
            facts, newline, body = one.value.partition(b"\n")
            if not newline:
                raise JournalError(UNREAD)
            found.append(JournaledResponse(read_number(one.key[2]), facts, body, ends.get(("ends", *one.key[1:]))))
        return found

    async def _leased(self, run_id: str, patience: float) -> JournalLease:
        _check_id(run_id)
        if len(run_id) > _MOST_RUN_ID_CHARS:
            raise ValueError(f"run_id: expected at most {_MOST_RUN_ID_CHARS} characters, got {len(run_id)}")
        lease = JournalLease(self.store, run_id)
        until, pause_s = anyio.current_time() + patience, _FIRST_PAUSE_S
        while not isinstance(claim := await self.store.take(run_id, lease.epoch), Claimed):
            left = until - anyio.current_time()
            if left <= 0:
                where = f"process {claim.pid} on {claim.host}" if isinstance(claim, StillRunning) else "elsewhere"
                raise RunStillRunning(run_id, where)
            await anyio.sleep(min(left, pause_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return lease

    # -- what is on record --

    async def _head(self, run_id: str) -> tuple[Record, JournaledRun] | None:
        (found,) = await self.store.records.get(("run", run_id))
        return None if found is None else (found, read_head(found))

    async def _known(self, run_id: str) -> tuple[Record, JournaledRun]:
        if (found := await self._head(run_id)) is None:
            raise JournalError(f"there is no run {run_id!r} in this journal")
        return found

    async def _found(self, run: str | Suspended) -> tuple[Record, Suspended | None, JournaledRun, str]:
        run_id, ticket = (run, None) if isinstance(run, str) else (run.run_id, run)
        record, head = await self._known(run_id)
        marker = journal_waiting.marker_of(run_id, head.first, head.began_at)
        if ticket is not None:
            journal_waiting.check_ticket(ticket, marker)
        return record, ticket, head, marker

    async def _handed(self, run_id: str) -> dict[str, tuple[int, str]]:
        """Returns the calls that are done outside, each id with the latest step and key of an answer."""
        found = await journal_waiting.handed_out(self.store.records, run_id)
        return {call_id: (step, key) for step, call_id, key in found}

    # -- changes by any process --

    async def _changed(self, change: Callable[[], Awaitable[Sequence[Op]]]) -> None:
        """Commits the operations that `change` derives from the records; derives them again after a conflict."""
        until = anyio.current_time() + _PATIENCE_S
        while ops := await change():
            if isinstance(await self.store.records.commit(*ops), Done):
                return
            if anyio.current_time() > until:
                raise TimeoutError("other processes keep changing the run")

    async def _entered(self, record: Record, head: JournaledRun, entries: Mapping[str, bytes]) -> list[Op]:
        """Returns the operations that put entries into the inbox of a run, replacing those with the same ids."""
        run_id = record.key[-1]
        if head.outcome is not None and head.outcome not in RUN_OUTCOMES:
            raise JournalError(f"the run {run_id!r} has an outcome that this version does not know")
        if head.is_over:
            raise JournalError(f"the run {run_id!r} is over ({head.outcome}); begin another run with its messages")
        found = await self.store.records.scan(("inbox", run_id), limit=MOST_ENTRIES)
        keys = {one.key[-1]: one.key for one in found}
        last = read_number(found[-1].key[2]) if found else 0
        for entry_id in entries:
            if entry_id not in keys:
                last += 1
                keys[entry_id] = inbox_key(run_id, last, entry_id)
        if len(keys) > MOST_ENTRIES:
            raise inbox_is_full(run_id)
        return [Check(record.key, record.rev), *(Put(keys[one], entry, "any") for one, entry in entries.items())]

    async def _deciding(self, run: str | Suspended, decisions: Sequence[Decision]) -> list[Op]:
        record, ticket, head, _ = await self._found(run)
        run_id = record.key[-1]
        known = await journal_waiting.all_waiting(self.store.records, run_id)
        is_held = await self.store.is_held(run_id)
        deciding = journal_waiting.Deciding(self.decided, known, ticket, is_held=is_held)
        for one in decisions:
            await deciding.add(one)
        if not deciding.entries:
            return []
        entered = await self._entered(record, head, {k: written_entry(e) for k, e in deciding.entries.items()})
        return [*entered, *deciding.ops]

    async def _answering(self, run_id: str, call_id: str, answer: bytes) -> list[Op]:
        record, head = await self._known(run_id)
        step, key = (await self._handed(run_id)).get(call_id, (0, None))
        if key is None:
            raise AnswerError(call_id, "unknown_call", f"of the run {run_id!r} waits for no answer")
        first = await self.decided.decide(key, None)
        if first == answer:
            return []
        if first is not None:
            raise already_answered(call_id)
        entered = await self._entered(record, head, {key: written_entry({"kind": "answer", "call_id": call_id})})
        later = await self.store.records.scan(("response", run_id), step_key("response", run_id, step), 1)
        known = await journal_waiting.all_waiting(self.store.records, run_id)
        of_id = [one for one in known if (one.call.call_id, one.suspended.step) == (call_id, step)]
        asked = of_id[-1:]  # those before it were discarded with their response
        if later or any(one.is_over for one in asked):
            raise AnswerError(call_id, "over", f"no longer waits: the run {run_id!r} continued without its answer")
        checks = (Check(one.record.key, one.record.rev) for one in asked)
        return [*entered, *checks, self.decided.deciding(key, answer)]

    # -- removals --

    async def _make_room(self) -> None:
        """Forgets runs beyond `max_runs`; only now and then, since counting them takes time."""
        if random.randrange(self._max_runs // 10 + 1):
            return
        over = [one.key[-1] for one in await all_of(self.store.records, ("over",))]
        for run_id in over[: max(0, len(over) - self._max_runs + 1)]:
            try:
                await self.forget(run_id)
            except RunStillRunning:  # a process is reading it again
                continue

    async def _commit_all(self, lease: JournalLease, ops: Sequence[Op]) -> None:
        for at in range(0, len(ops), _MOST_DELETED):
            lease.check(await self.store.records.commit(lease.fence, *ops[at : at + _MOST_DELETED]))

    @asynccontextmanager
    async def _held(self, run_id: str) -> AsyncIterator[JournalLease]:
        lease = await self._leased(run_id, 0.0)
        try:
            yield lease
        except BaseException:
            lease.let_go()
            raise
        # A commit of its own: one whose answer was lost is made again, and must still find the lease.
        await lease.let_go()()

    async def _remove(self, lease: JournalLease) -> bool:
        run_id, records, known = lease.run_id, self.store.records, await self._head(lease.run_id)
        keys = [key for *_, key in await journal_waiting.handed_out(records, run_id)]
        keys += await journal_waiting.decision_keys(self.decided, await journal_waiting.all_waiting(records, run_id))
        await self._commit_all(lease, [DeletePrefix(decided_key(key)) for key in keys])
        over = () if known is None or not known[1].is_over else (known[1].over_key(run_id),)
        kinds = ((kind, run_id) for kind in _OF_A_RUN)
        lease.check(await records.commit(lease.fence, *map(DeletePrefix, (*kinds, *over))))
        return known is not None


def journal_of(given: Any) -> Journal:
    return given if isinstance(given, Journal) else Journal(given)


def _run_part(run_id: str) -> str:
    return run_prefix(run_id)[:-1]


def _check_id(run_id: Any) -> None:
    if not isinstance(run_id, str):
        raise TypeError(f"run_id must be a string, not {type(run_id).__name__}")
