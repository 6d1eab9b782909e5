"""Keeps what the model answered in a run, in a file beside the calls, so that the run survives its process.

    runs        one row a run: what it began with, and how it ended
    responses   one row a step: the body of the response, and the ends of its calls once all are known
    inbox       what people put into a run, until a response is stored that was asked for with it
    waiting     which calls wait for people, whole: see `journal_waiting`
    handed_out  one row a call that is done outside: where its answer is on record

The process that holds a run's lease goes on with it: a record beside the claims of the file's `SqliteStore`, whose
thread renews it. Each write and each claim is a transaction that looks at the lease first, so that a process that has
lost it, because it stood still for too long, changes and begins nothing any more.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from string import digits
from typing import Annotated, Any, Literal, TypeVar

import anyio
from pydantic_core import PydanticSerializationError, from_json, to_json

from ..errors import AnswerError, JournalError, RunStillRunning, RunTakenOver
from ..limits import checked_bound
from ..parts import RUN_OUTCOMES, RunOutcome
from ..seams import Decision
from ..tools.context import run_prefix
from ..waiting.answers import already_answered, written_answer
from . import journal_waiting
from .fields import Range, read_object
from .record_store import call_key, decided_key, lease_key
from .records import Check, DeletePrefix, Key, new_rev, written_key
from .store import Claim, Claimed, IdempotencyStore, StillRunning
from .store_sqlite import HOLD, SqliteStore, get_in
from .suspended import Suspended

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.25
_TABLES = (
    "CREATE TABLE IF NOT EXISTS runs (number INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL UNIQUE,"
    " first TEXT NOT NULL, name TEXT, began_at REAL NOT NULL, ended_at REAL, outcome TEXT)",
    "CREATE INDEX IF NOT EXISTS runs_of ON runs (outcome)",
    "CREATE TABLE IF NOT EXISTS responses (run INTEGER NOT NULL, step INTEGER NOT NULL, facts BLOB NOT NULL,"
    " body BLOB NOT NULL, ends BLOB, PRIMARY KEY (run, step))",
    "CREATE TABLE IF NOT EXISTS inbox (number INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL,"
    " id TEXT NOT NULL, entry BLOB NOT NULL, UNIQUE (run, id))",
    journal_waiting.TABLE,
    "CREATE TABLE IF NOT EXISTS handed_out (number INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL,"
    " step INTEGER NOT NULL, call_id TEXT NOT NULL, key TEXT NOT NULL, UNIQUE (run, key))",
)
_IS_OVER = f"outcome IN ({', '.join(repr(one) for one, facts in RUN_OUTCOMES.items() if not facts.goes_on)})"
_MOST_RUN_ID_CHARS = 900  # the key of the lease, and those of calls, have room for more
_OPERATION = written_key(call_key("operation:"))[:-1]  # so the keys of operations begin, in every scope
_MOST_ENTRIES, _MOST_ENTRY_BYTES = 1_000, 1 << 20
Waiter = Callable[[], Coroutine[Any, Any, None]]  # waits until something is stored, and raises what kept it from that
T = TypeVar("T")
_Moment = Annotated[float, Range(0.0, 2.5e11)]  # to the year 9892


@dataclass(frozen=True, slots=True)
class JournaledResponse:
    step: int
    facts: bytes  # what is needed to read it again, as JSON
    body: bytes = field(repr=False)
    ends: bytes | None = field(default=None, repr=False)
    """The observations of its calls, as JSON; None while they are not known."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    run_id: str
    name: str | None
    steps: int  # how many responses are on record
    began_at: _Moment  # in seconds since 1970
    ended_at: _Moment | None  # when it was left last; None while it runs, or if its process has died
    outcome: str | None  # a `RunOutcome`; None with `ended_at` None
    is_running: bool  # True while somebody holds its lease


class Journal:
    """A file that runs are kept in, so that the same line goes on with a run after a crash.

        async with agent_loop(ask, messages, tools=tools, wire=wire, journal="runs.db", run_id="order-7") as run:
            ...

    Args:
        store: the file's path, or a `SqliteStore`. It contains whole responses, and is its owner's alone.
        wait: for how many seconds a run waits for its own id while somebody else runs it.
        max_runs: how many runs are kept that are over. Beyond that, the one of them that began first is forgotten, and
            the same line would begin it anew.
        max_unfinished: how many runs may not be over: those that go on, wait for people, were left, or have ended by
            an error. None of them is forgotten; beyond that, no other run begins.

    Raises:
        ValueError: the path is empty, or something is no number or out of range; and the errors of `SqliteStore`.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | SqliteStore,
        *,
        wait: float = 30.0,
        max_runs: int = 10_000,
        max_unfinished: int = 100_000,
    ) -> None:
        if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not wait >= 0:
            raise ValueError(f"wait={wait!r}: must be a number of seconds, 0 or more")
        self._wait = wait
        self._max_runs = checked_bound("max_runs", max_runs)
        self._max_unfinished = checked_bound("max_unfinished", max_unfinished)
        self.store = store if isinstance(store, SqliteStore) else SqliteStore(store)
        """Keeps the calls, in the same file."""

    def at_once(self) -> Journal:
        """Returns this journal for runs that do not wait for their own ids."""
        return Journal(self.store, wait=0, max_runs=self._max_runs, max_unfinished=self._max_unfinished)

    async def runs(self) -> list[StoredRun]:
        """Returns the runs on record, in the order in which they began."""
        return await self.store.hand_over(self._runs)()

    async def knows(self, run_id: str) -> bool:
        """Returns whether a run is on record."""

        def work(connection: sqlite3.Connection) -> bool:
            _make_tables(connection)
            return connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is not None

        return await self.store.hand_over(work)()

    async def began_with(self, run_id: str, first: str) -> bool:
        """Returns whether a run is known, and began over that wire with those messages, by their digest."""

        def work(connection: sqlite3.Connection) -> bool:
            _make_tables(connection)
            query = "SELECT 1 FROM runs WHERE run_id = ? AND first = ?"
            return connection.execute(query, (run_id, first)).fetchone() is not None

        return await self.store.hand_over(work)()

    async def forget(self, run_id: str) -> bool:
        """Removes a run that nobody runs at this moment; returns False if there is none. The store keeps its calls; see
        `erase`."""
        lease = await self._leased(run_id, 0.0)
        return await self.store.hand_over(partial(_forget, run_id), *lease.ends)()

    async def erase(self, run_id: str, *, conversation_id: str | None = None) -> list[str]:
        """Removes a run that nobody runs at this moment, and from this file the records of its calls, decisions and
        answers. Returns the keys of calls that have begun and whose end is not known, which stay until somebody says
        what became of them (`SqliteStore.settle`).

        The same run id must not be used again: its calls would run again.

        Args:
            run_id: the run's.
            conversation_id: remove the operations of this conversation (``@tool(scope="conversation")``), too.
        """
        lease = await self._leased(run_id, 0.0)
        return await self.store.hand_over(partial(self._erase, run_id, conversation_id), *lease.ends)()

    async def say(self, run_id: str, message: str | Mapping[str, Any], *, when: Literal["next", "now"] = "next") -> str:
        """Adds a message of the user's to a run, whoever runs it: see `AgentLoop.say`. It is read within a quarter of a
        second, or when somebody goes on with the run. Returns its id.

        Raises:
            JournalError: there is no such run, it is over, or its inbox is full.
            ValueError: `when` is not known, or the message is larger than 1 MB of JSON.
            TypeError: the message is neither text nor JSON, or `Untrusted` text, which wants a block of its own.
        """
        from ..provenance.history import Untrusted  # most runs are told nothing

        if isinstance(message, Untrusted):
            raise TypeError("say: Untrusted text keeps its mark only in a message, as a block of its own; pass that")
        if when not in ("next", "now"):
            raise ValueError(f"unknown when {when!r}; known: next, now")
        return await self._put(run_id, {"kind": "say", "message": message, "when": when})

    async def stop(self, run_id: str) -> None:
        """Ends a run in good order, whoever runs it: see `AgentLoop.stop`.

        Raises:
            JournalError: there is no such run, it is over, or its inbox is full.
        """
        await self._put(run_id, {"kind": "stop"})

    async def decide(self, run: str | Suspended, *decisions: Decision) -> None:
        """Decides about calls that wait in a run, whoever runs it: it reads the decisions within a quarter of a second,
        or when somebody goes on with it. They are on record when this returns, all of them or none.

            await journal.decide("order-7", Decision.on(request, True, by="ann"))

        Args:
            run: its id, or the ticket (`Suspended.to_text`) with the calls, which also names their step.
            decisions: each about a call as it was shown. The same one again, equal in all fields, is no second one.

        Raises:
            AlreadyDecided: a call was decided before; what holds is `AlreadyDecided.first`.
            DecisionError: a decision is about no call that waits, or about another one than was shown, or it needs a
                name. Of a call that the run has asked about in several steps only a ticket says which one is meant.
            JournalError: there is no such run, it is over, its inbox is full, or the ticket is another journal's.
            TypeError: one is not a `Decision`.
        """
        await self.store.hand_over(partial(self._decide, run, decisions))()

    async def suspended(self, run: str | Suspended, *, unread: bool = False) -> Suspended | None:
        """Returns the calls that wait in a run, with their arguments; None if there are none. One that was answered
        waits no longer; one that was decided does until the run goes on with it.

        Args:
            run: its id, or a ticket with calls of the step that waits.
            unread: add those whose answer the run has not read.

        Raises:
            JournalError: there is no such run, or the ticket is of another run or of a step that is over.
        """
        return await self.store.hand_over(partial(self._suspended, run, unread))()

    async def answer(self, run_id: str, call_id: str, result: Any, *, is_error: bool = False) -> None:
        """Hands in the result of a call that is done outside, whoever runs the run: see `Pipeline.answer`. It is read
        within a quarter of a second, or when somebody goes on with the run. The same answer again changes nothing.

        Raises:
            AnswerError: the run has no such call that was handed out, or has gone on without it, or the call had
                another answer before.
            JournalError: there is no such run, it is over, or its inbox is full.
            TypeError: the result is neither text, JSON nor a `ToolResult`.
            ValueError: the result is larger than 32 MB.
        """
        record = written_answer(result, is_error=is_error)
        await self.store.hand_over(partial(self._answer, run_id, call_id, record))()

    async def news(self, run_id: str, *, kind: Literal["decision", "answer", "stop"] | None = None) -> frozenset[str]:
        """Returns the ids of the decisions and answers, and of the wish to stop, that a run has not read, or those of a
        kind: it is to be gone on with. Messages are none of these, since they wait with the calls."""
        return await self.store.hand_over(partial(_news, run_id, kind))()

    async def _put(self, run_id: str, entry: Mapping[str, Any]) -> str:
        _check_id(run_id)
        entry_id = uuid.uuid4().hex
        await self.store.hand_over(partial(_put_in, run_id, entry_id, _written_entry(entry)))()
        return entry_id

    async def begin(self, run_id: str, first: str, name: str | None) -> tuple[JournalLease, list[JournaledResponse]]:
        """Takes the lease of a run, and returns it with the responses on record. `agent_loop` calls this.

        Args:
            run_id: the run's.
            first: a digest of what it begins with.
            name: the agent's.

        Raises:
            RunStillRunning: somebody holds it, and the time to wait is over.
            JournalError: the run has begun with something else, `max_unfinished` runs are not over, or the file cannot
                be used.
            ValueError: the id is too long.
        """
        try:
            return await self._begun(run_id, first, name)
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"the run {run_id!r} cannot use its journal {self.store.path}: {error}") from error

    async def _begun(self, run_id: str, first: str, name: str | None) -> tuple[JournalLease, list[JournaledResponse]]:
        lease = await self._leased(run_id, self._wait)
        try:
            responses, began_at = await self.store.hand_over(partial(self._begin, run_id, first, name))()
        except BaseException:
            self.store.hand_over(lambda connection: None, *lease.ends)
            raise
        lease.marker = journal_waiting.marker_of(run_id, first, began_at)
        return lease, responses

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

    # -- in the store's thread --

    def _begin(
        self, run_id: str, first: str, name: str | None, connection: sqlite3.Connection
    ) -> tuple[list[JournaledResponse], float]:
        _make_tables(connection)
        row = connection.execute("SELECT number, first, began_at FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            self._make_room(connection)
            insert = "INSERT INTO runs (run_id, first, name, began_at) VALUES (?, ?, ?, ?)"
            connection.execute(insert, (run_id, first, name, began_at := time.time()))
            return [], began_at
        number, known, began_at = row
        if known != first:
            raise JournalError(
                f"the run {run_id!r} began with other messages, or over another wire; give another run another run_id"
            )
        connection.execute("UPDATE runs SET ended_at = NULL, outcome = NULL WHERE number = ?", (number,))
        query = "SELECT step, facts, body, ends FROM responses WHERE run = ? ORDER BY step"
        journal_waiting.note_lost(number, connection)
        return [_read_row(JournaledResponse, row) for row in connection.execute(query, (number,))], began_at

    def _decide(self, run: str | Suspended, decisions: Sequence[Decision], connection: sqlite3.Connection) -> None:
        run_id, ticket, number, _ = _found(run, connection)
        journal_waiting.decide(
            number,
            decisions,
            ticket,
            store=self.store,
            is_held=self.store.is_held(run_id, connection),
            put_in=lambda entry_id, entry: _put_in(run_id, entry_id, _written_entry(entry), connection),
            connection=connection,
        )

    def _suspended(self, run: str | Suspended, unread: bool, connection: sqlite3.Connection) -> Suspended | None:
        _, ticket, number, marker = _found(run, connection)
        found = journal_waiting.read_waiting(number, marker, ticket, connection)
        return found if found is None or unread else journal_waiting.unanswered_of(number, found, connection)

    def _answer(self, run_id: str, call_id: str, record: bytes, connection: sqlite3.Connection) -> None:
        number, outcome = _run_of(run_id, connection)
        query = "SELECT key, step FROM handed_out WHERE run = ? AND call_id = ? ORDER BY number DESC LIMIT 1"
        row = connection.execute(query, (number, call_id)).fetchone()
        if row is None:
            raise AnswerError(call_id, "unknown_call", f"of the run {run_id!r} waits for no answer")
        key, step = row
        first = self.store.decide_in(key, None, connection)
        if first is not None and first != record:
            raise already_answered(call_id)
        if first is not None:
            return
        _check_goes_on(run_id, outcome)
        gone_on = connection.execute("SELECT 1 FROM responses WHERE run = ? AND step > ?", (number, step)).fetchone()
        if gone_on is not None:
            raise AnswerError(call_id, "over", f"waits no longer: the run {run_id!r} has gone on without its answer")
        self.store.decide_in(key, record, connection)
        _add_entry(run_id, number, key, _written_entry({"kind": "answer", "call_id": call_id}), connection)

    def _erase(self, run_id: str, conversation_id: str | None, connection: sqlite3.Connection) -> list[str]:
        from .operations import DIGEST_CHARS, operation_prefix

        _make_tables(connection)
        row = connection.execute("SELECT number FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is not None:
            keys = [*journal_waiting.decision_keys(row[0], connection)]
            keys += [key for (key,) in connection.execute("SELECT key FROM handed_out WHERE run = ?", row)]
            self.store.records.make_in([DeletePrefix(decided_key(key)) for key in keys], connection)
            _forget(run_id, connection)
        scopes = [("run", run_id)] if conversation_id is None else [("run", run_id), ("conversation", conversation_id)]
        prefixes = [(operation_prefix(*scope), DIGEST_CHARS) for scope in scopes]
        return [
            # The step follows: operations of all runs have keys that begin as those of a run "operation".
            *(key for digit in digits for key in self.store.forget_in(run_prefix(run_id) + digit, connection)),
            *(key for one, chars in prefixes for key in self.store.forget_in(one, connection, chars=chars)),
        ]

    def _make_room(self, connection: sqlite3.Connection) -> None:
        counted = f"SELECT count(CASE WHEN {_IS_OVER} THEN 1 END), count(*) FROM runs"
        over, count = connection.execute(counted).fetchone()
        if count - over >= self._max_unfinished:
            raise JournalError(
                f"the journal {self.store.path} holds max_unfinished={self._max_unfinished} runs that are not over; "
                "end or forget those that nobody goes on with"
            )
        oldest = f"SELECT run_id FROM runs WHERE {_IS_OVER} ORDER BY number LIMIT ?"
        for (known,) in connection.execute(oldest, (max(0, over - self._max_runs + 1),)).fetchall():
            _forget(known, connection)

    def _runs(self, connection: sqlite3.Connection) -> list[StoredRun]:
        _make_tables(connection)
        query = (
            "SELECT run_id, name, (SELECT count(*) FROM responses WHERE run = number), began_at, ended_at, outcome"
            " FROM runs ORDER BY number"
        )
        return [
            _read_row(StoredRun, (*row, self.store.is_held(str(row[0]), connection)))
            for row in connection.execute(query).fetchall()
        ]


@dataclass(slots=True)
class JournalLease:
    store: SqliteStore
    run_id: str
    epoch: int = field(default_factory=new_rev)
    marker: str = ""  # names the run in this journal, for tickets

    @property
    def ends(self) -> tuple[Check, DeletePrefix]:
        """Gives the lease back, unless somebody else has it."""
        return Check(lease_key(self.run_id), self.epoch), DeletePrefix(lease_key(self.run_id))

    async def claim(self, store: IdempotencyStore, step: int, key: str, fingerprint: str) -> Claim:
        """Claims a call of a step: in the transaction that looks at the lease, if the store is the journal's own, and
        right after that one otherwise. Raises `RunTakenOver`, and claims nothing, if somebody else goes on with the
        run."""
        if store is self.store:
            return await self.store.claim_if(key, fingerprint, partial(self._hold, step, call_key(key)))
        await self.check_held()
        return await store.claim(key, fingerprint)

    async def check_held(self) -> None:
        """Raises `RunTakenOver` if somebody else goes on with the run."""
        await self.store.hand_over(self.check)()

    def keep(self, response: JournaledResponse, ends: Sequence[tuple[int, bytes]], read: Sequence[str] = ()) -> Waiter:
        return self.store.hand_over(partial(self._keep, response, tuple(ends), tuple(read)))

    def put(self, entry_id: str, entry: Mapping[str, Any]) -> Waiter:
        return self.store.hand_over(partial(_put_in, self.run_id, entry_id, _written_entry(entry)))

    def note_waiting(self, suspended: Suspended) -> Waiter:
        return self.store.hand_over(
            lambda connection: journal_waiting.note_waiting(self._number(connection), suspended, connection)
        )

    def note_over(self, key: str) -> Waiter:
        return self.store.hand_over(
            lambda connection: journal_waiting.note_over(self._number(connection), key, connection)
        )

    def note_handed_out(self, step: int, call_id: str, key: str) -> Waiter:
        return self.store.hand_over(partial(self._note_handed_out, step, call_id, key))

    async def inbox(self) -> list[tuple[Any, Any]]:
        return await self.store.hand_over(self._inbox)()

    def end(self, outcome: str | None, ends: Sequence[tuple[int, bytes]], read: Sequence[str] = ()) -> Waiter:
        return self.store.hand_over(partial(self._end, outcome, tuple(ends), tuple(read)), *self.ends)

    # -- in the store's thread --

    def check(self, connection: sqlite3.Connection) -> None:
        if (held := get_in(lease_key(self.run_id), connection)) is None or held.rev != self.epoch:
            raise RunTakenOver(self.run_id)

    def _number(self, connection: sqlite3.Connection) -> int:
        self.check(connection)
        (number,) = connection.execute("SELECT number FROM runs WHERE run_id = ?", (self.run_id,)).fetchone()
        return int(number)

    def _hold(self, step: int, key: Key, connection: sqlite3.Connection) -> None:
        connection.execute(HOLD, (written_key(key), self._number(connection), step))

    def _note_handed_out(self, step: int, call_id: str, key: str, connection: sqlite3.Connection) -> None:
        self._hold(step, decided_key(key), connection)
        insert = "INSERT OR IGNORE INTO handed_out (run, step, call_id, key) VALUES (?, ?, ?, ?)"
        connection.execute(insert, (self._number(connection), step, call_id, key))

    def _inbox(self, connection: sqlite3.Connection) -> list[tuple[Any, Any]]:
        query = "SELECT id, substr(entry, 1, ?) FROM inbox WHERE run = ? ORDER BY number LIMIT ?"
        return connection.execute(query, (_MOST_ENTRY_BYTES + 1, self._number(connection), _MOST_ENTRIES)).fetchall()

    def _noted(self, ends: Sequence[tuple[int, bytes]], read: Sequence[str], connection: sqlite3.Connection) -> int:
        number = self._number(connection)
        connection.executemany("DELETE FROM inbox WHERE run = ? AND id = ?", [(number, one) for one in read])
        for step, written in ends:
            connection.execute("UPDATE responses SET ends = ? WHERE run = ? AND step = ?", (written, number, step))
            # The step claims nothing again; an operation may be asked for in a later one.
            end = "DELETE FROM held WHERE run = ? AND step = ? AND substr(key, 1, ?) != ?"
            connection.execute(end, (number, step, len(_OPERATION), _OPERATION))
        return number

    def _keep(
        self,
        response: JournaledResponse,
        ends: tuple[tuple[int, bytes], ...],
        read: tuple[str, ...],
        connection: sqlite3.Connection,
    ) -> None:
        number = self._noted(ends, read, connection)
        values = (number, response.step, response.facts, response.body, response.ends)
        connection.execute("INSERT INTO responses (run, step, facts, body, ends) VALUES (?, ?, ?, ?, ?)", values)

    def _end(
        self,
        outcome: str | None,
        ends: tuple[tuple[int, bytes], ...],
        read: tuple[str, ...],
        connection: sqlite3.Connection,
    ) -> None:
        number = self._noted(ends, read, connection)
        change = "UPDATE runs SET ended_at = ?, outcome = ? WHERE number = ?"
        connection.execute(change, (time.time(), outcome, number))
        over = f"SELECT number FROM runs WHERE number = ? AND {_IS_OVER}"
        connection.execute(f"DELETE FROM held WHERE run IN ({over})", (number,))


def journal_of(given: Any) -> Journal:
    if isinstance(given, Journal):
        return given
    if isinstance(given, (str, os.PathLike, SqliteStore)):
        return Journal(given)
    raise TypeError(f"journal is the path of a file, a SqliteStore or a Journal, not {type(given).__name__}")


def _check_id(run_id: Any) -> None:
    if not isinstance(run_id, str):
        raise TypeError(f"run_id is a text, not {type(run_id).__name__}")


def marked(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry of an inbox with the ways to the texts in it that are marked `Untrusted`, as JSON loses that."""
    from ..provenance.history import marked_in  # most runs are told nothing

    return {**entry, "marked": list(marked_in(entry))}


def read_entry(written: dict[str, Any]) -> dict[str, Any]:
    from ..provenance.history import mark_again  # as above

    mark_again(written, written.pop("marked"))
    return written


def read_put(entry_id: Any, written: Any) -> dict[str, Any]:
    """Returns an entry of an inbox, with its id, as it was put in; raises a `ValueError`, `TypeError` or `LookupError`
    if no journal has written it."""
    if type(entry_id) is not str or type(written) is not bytes or len(written) > _MOST_ENTRY_BYTES:
        raise ValueError("an id, and so many bytes, were expected")
    entry = from_json(written)
    if not isinstance(entry, dict):
        raise ValueError("an object was expected")
    return {**read_entry(entry), "id": entry_id}


def _written_entry(entry: Mapping[str, Any]) -> bytes:
    try:
        written = to_json(marked(entry))
    except (PydanticSerializationError, RecursionError) as error:
        raise TypeError("what is put into a run is text, or JSON") from error
    if len(written) > _MOST_ENTRY_BYTES:
        raise ValueError(f"what is put into a run has at most {_MOST_ENTRY_BYTES} bytes of JSON, not {len(written)}")
    return written


def _put_in(run_id: str, entry_id: str, entry: bytes, connection: sqlite3.Connection) -> None:
    number, outcome = _run_of(run_id, connection)
    _check_goes_on(run_id, outcome)
    _add_entry(run_id, number, entry_id, entry, connection)


def _news(run_id: str, kind: str | None, connection: sqlite3.Connection) -> frozenset[str]:
    _make_tables(connection)
    query = "SELECT id, entry FROM inbox JOIN runs ON runs.number = inbox.run WHERE run_id = ?"
    return frozenset(
        str(entry_id)
        for entry_id, entry in connection.execute(query, (run_id,))
        if len(entry) <= _MOST_ENTRY_BYTES and (found := read_put(entry_id, entry)["kind"]) != "say"
        if kind in (None, found)
    )


def _run_of(run_id: str, connection: sqlite3.Connection) -> tuple[int, RunOutcome | None]:
    _make_tables(connection)
    row = connection.execute("SELECT number, outcome FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise JournalError(f"there is no run {run_id!r} in this journal")
    number, outcome = row
    return number, outcome


def _check_goes_on(run_id: str, outcome: RunOutcome | None) -> None:
    if outcome is not None and outcome not in RUN_OUTCOMES:
        raise JournalError(f"the run {run_id!r} has an outcome that is not known here")
    if outcome is not None and not RUN_OUTCOMES[outcome].goes_on:
        raise JournalError(f"the run {run_id!r} is over ({outcome}); begin another one with its messages")


def _add_entry(run_id: str, number: int, entry_id: str, entry: bytes, connection: sqlite3.Connection) -> None:
    others = "SELECT count(*) FROM inbox WHERE run = ? AND id != ?"
    (count,) = connection.execute(others, (number, entry_id)).fetchone()
    if count >= _MOST_ENTRIES:
        raise JournalError(f"the inbox of the run {run_id!r} is full: {_MOST_ENTRIES} entries wait in it")
    insert = (
        "INSERT INTO inbox (run, id, entry) VALUES (?, ?, ?) ON CONFLICT (run, id) DO UPDATE SET entry = excluded.entry"
    )
    connection.execute(insert, (number, entry_id, entry))


def _found(run: str | Suspended, connection: sqlite3.Connection) -> tuple[str, Suspended | None, int, str]:
    _make_tables(connection)
    run_id, ticket = (run, None) if isinstance(run, str) else (run.run_id, run)
    row = connection.execute("SELECT number, first, began_at FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise JournalError(f"there is no run {run_id!r} in this journal")
    number, first, began_at = row
    marker = journal_waiting.marker_of(run_id, first, began_at)
    if ticket is not None:
        journal_waiting.check_ticket(ticket, marker)
    return run_id, ticket, number, marker


def _read_row(kind: type[T], row: Sequence[Any]) -> T:
    try:
        read: T = read_object(kind, dict(zip(kind.__slots__, row, strict=True)))  # type: ignore[attr-defined]
    except ValueError as error:
        raise JournalError(f"the journal has a row that no journal has written: {error}") from error
    return read


def _make_tables(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
        connection.execute(table)


def _forget(run_id: str, connection: sqlite3.Connection) -> bool:
    _make_tables(connection)
    row = connection.execute("SELECT number FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        return False
    for table in ("responses", "inbox", "waiting", "handed_out", "held"):
        connection.execute(f"DELETE FROM {table} WHERE run = ?", row)
    connection.execute("DELETE FROM runs WHERE number = ?", row)
    return True
