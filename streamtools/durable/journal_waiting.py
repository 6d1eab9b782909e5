"""Keeps which calls of a journaled run wait for people, so that anybody may decide about them from anywhere.

A decision is one transaction over the tables ``waiting`` (one row a call), the records of the `SqliteStore` in the
same file, and ``inbox``: it is about a call that waits, with the arguments that were shown; it is the first; and it
reaches the run. All functions here run in the store's thread.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any, TypeAlias

from ..errors import AlreadyDecided, DecisionError, JournalError
from ..ground import one_line
from ..seams import Decision
from .desk import at_once, decision_key, look_up, put_on_record
from .record_store import decided_key
from .records import written_key
from .store_sqlite import HOLD, SqliteStore, get_in
from .suspended import Suspended, SuspendedCall, read_suspended, written_suspended

TABLE = (
    "CREATE TABLE IF NOT EXISTS waiting (number INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL,"
    " step INTEGER NOT NULL, call_id TEXT NOT NULL, fingerprint TEXT NOT NULL, key TEXT NOT NULL, entry BLOB NOT NULL,"
    " is_over INTEGER NOT NULL DEFAULT 0, UNIQUE (run, key, fingerprint))"
)
PutIn: TypeAlias = Callable[[str, Mapping[str, Any]], None]  # puts an entry into the inbox of the run, by its id


def marker_of(run_id: str, first: str, began_at: float) -> str:
    """Returns the name of a run in its journal; one that was forgotten and begun anew has another."""
    return hashlib.sha256(json.dumps([run_id, first, began_at]).encode()).hexdigest()[:16]


def note_waiting(number: int, suspended: Suspended, connection: sqlite3.Connection) -> None:
    for call in suspended.calls:
        entry = written_suspended(replace(suspended, calls=(call,)))
        change = (
            "INSERT INTO waiting (run, step, call_id, fingerprint, key, entry) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (run, key, fingerprint) DO UPDATE SET entry = excluded.entry, is_over = 0"
        )
        key, shown, step = call.idempotency_key, call.fingerprint, suspended.step
        connection.execute(change, (number, step, call.call_id, shown, key, entry))
        held = [written_key(decided_key(decision_key(key, shown, n))) for n in range(call.approvals)]
        connection.executemany(HOLD, [(one, number, step) for one in held])


def note_over(number: int, key: str, connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE waiting SET is_over = 1 WHERE run = ? AND key = ?", (number, key))


def decision_keys(number: int, connection: sqlite3.Connection) -> Iterator[str]:
    waiting = connection.execute("SELECT key, fingerprint FROM waiting WHERE run = ?", (number,)).fetchall()
    for key, fingerprint in waiting:
        for place in count():
            found = decision_key(key, fingerprint, place)
            if get_in(decided_key(found), connection) is None:
                break
            yield found


def note_lost(number: int, connection: sqlite3.Connection) -> None:
    """Notes that the calls of responses which are not on record wait no longer: the model is asked again."""
    stored = "SELECT step FROM responses WHERE run = ?"
    connection.execute(f"UPDATE waiting SET is_over = 1 WHERE run = ? AND step NOT IN ({stored})", (number, number))


def read_waiting(
    number: int, marker: str, ticket: Suspended | None, connection: sqlite3.Connection
) -> Suspended | None:
    """Returns the calls of a run's latest step that wait, or those of a ticket; raises a `JournalError` if that is of a
    run that this journal does not know, or of a step that is over."""
    rows = connection.execute(
        "SELECT step, key, entry FROM waiting WHERE run = ? AND NOT is_over ORDER BY step, number", (number,)
    ).fetchall()
    step = rows[-1][0] if rows else None
    found = {key: _read(entry) for at, key, entry in rows if at == step}
    asked = () if ticket is None else ticket.calls
    if ticket is not None and (ticket.step != step or not all(call.idempotency_key in found for call in asked)):
        now = "nothing waits in it now" if step is None else f"calls of step {step} wait in it now"
        raise JournalError(f"the ticket is of step {ticket.step} of the run {ticket.run_id!r}, and {now}")
    if not found:
        return None
    calls = tuple(one.calls[0] for one in found.values())
    return replace(next(iter(found.values())), calls=calls, journal=marker)


def unanswered_of(number: int, found: Suspended, connection: sqlite3.Connection) -> Suspended | None:
    query = "SELECT key FROM handed_out WHERE run = ? AND step = ? AND call_id = ? ORDER BY number DESC LIMIT 1"

    def is_answered(call: SuspendedCall) -> bool:
        row = connection.execute(query, (number, found.step, call.call_id)).fetchone()
        return row is not None and get_in(decided_key(row[0]), connection) is not None

    calls = tuple(call for call in found.calls if call.waits_for != "answer" or not is_answered(call))
    return replace(found, calls=calls) if calls else None


def check_ticket(ticket: Suspended, marker: str) -> None:
    if ticket.journal is None:
        raise JournalError(f"the calls are those of a run {ticket.run_id!r} without a journal; go on with `resume`")
    if ticket.journal != marker:
        raise JournalError(f"the ticket is of another run {ticket.run_id!r}, which is not in this journal")


def decide(
    number: int,
    decisions: Sequence[Decision],
    ticket: Suspended | None,
    *,
    store: SqliteStore,
    is_held: bool,
    put_in: PutIn,
    connection: sqlite3.Connection,
) -> None:
    """Raises `AlreadyDecided`; a `DecisionError` for a decision about no call that waits, about another one than was
    shown, or without a name where one is needed."""
    keys = None if ticket is None else {call.call_id: call.idempotency_key for call in ticket.calls}
    places = _Transaction(store, connection)
    for one in decisions:
        call, step, is_over = _known(number, one, None if keys is None else keys.get(one.call_id, ""), connection)
        call.pending.check(one)
        known = at_once(look_up(places, call.pending))
        if one not in known and call.pending.is_settled(known):
            raise AlreadyDecided(one.call_id, known[-1])
        if call.waits_for != "approval" and not known:
            raise DecisionError(
                one.call_id, "unknown_call", f"the call {_shown(one)} waits for an answer, not a decision"
            )
        if is_over or not (is_held or _is_stored(number, step, connection)):
            if one in known:
                continue
            raise DecisionError(one.call_id, "unknown_call", f"the call {_shown(one)} waits no longer")
        at_once(put_on_record(places, call.pending, one))
        entry = {"kind": "decision", "step": step, "key": call.idempotency_key, "decision": asdict(one)}
        put_in(f"decision-{hashlib.sha256(json.dumps(entry).encode()).hexdigest()[:32]}", entry)


@dataclass(frozen=True, slots=True)
class _Transaction:
    store: SqliteStore
    connection: sqlite3.Connection

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        return self.store.decide_in(key, record, self.connection)


def _known(
    number: int, decision: Decision, key: str | None, connection: sqlite3.Connection
) -> tuple[SuspendedCall, int, bool]:
    if not isinstance(decision, Decision):
        kind = type(decision).__name__
        raise TypeError(f"decide takes Decisions, not {kind}: an id alone does not say which arguments were shown")
    rows = connection.execute(
        "SELECT fingerprint, step, key, is_over, entry FROM waiting WHERE run = ? AND call_id = ? ORDER BY number DESC",
        (number, decision.call_id),
    ).fetchall()
    rows = [row for row in rows if key is None or row[2] == key]
    if not rows:
        text = f"no call {_shown(decision)} waits in this run"
        raise DecisionError(decision.call_id, "unknown_call", text)
    fits = [row for row in rows if row[0] == decision.fingerprint]
    if not fits:
        text = f"the call {_shown(decision)} that waits is not the one that was shown: its tool or arguments differ"
        raise DecisionError(decision.call_id, "changed_call", text)
    if len(steps := sorted({row[1] for row in fits})) > 1:
        text = f"the run has asked about such a call {_shown(decision)} in the steps {steps}; decide by the ticket"
        raise DecisionError(decision.call_id, "changed_call", text)
    _, step, _, is_over, entry = fits[0]
    return _read(entry).calls[0], step, bool(is_over)


def _is_stored(number: int, step: int, connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM responses WHERE run = ? AND step = ?"
    return connection.execute(query, (number, step)).fetchone() is not None


def _shown(decision: Decision) -> str:
    return repr(one_line(decision.call_id, 100))


def _read(entry: Any) -> Suspended:
    try:
        return read_suspended(entry)
    except (ValueError, TypeError, LookupError, RecursionError):  # the error's text quotes the row
        raise JournalError("the journal has a row of a waiting call that no journal has written") from None
