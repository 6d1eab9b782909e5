"""Keeps what readers may see of a run, so that pages can join it late, come back, or read it from another process.

An entry is an event as copies have it, or the end of a visit to the run (`RunEnd`). The numbers of a visit lie behind
those of all earlier ones, also behind those that its process did not live to write. A log is disposable: no run reads
it, but to know what its readers have seen.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import orjson
from pydantic_core import to_json

from ..dispatch import SqliteStore
from ..durable.codec import read_event, written_event
from ..durable.lease import JournalLease, Waiter
from ..errors import JournalError
from ..events import Event, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from ..parts import RUN_OUTCOMES
from .encoding import RunEnd

VISIT = 1 << 32
"""The numbers that one visit to a run has: a visit's number times this is in front of the run's own `seq`."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS log (run_id TEXT NOT NULL, seq INTEGER NOT NULL, last INTEGER NOT NULL,"
    " body BLOB NOT NULL, PRIMARY KEY (run_id, seq)) WITHOUT ROWID"
)
MAX_BODY_BYTES = 64 << 20  # bytes of a row that is read
DELTAS: frozenset[type[Any]] = frozenset({TextDelta, ReasoningDelta, RefusalDelta, ToolCallDelta})
_DELTAS: dict[str, Callable[..., Event]] = {kind.__name__: kind for kind in DELTAS}


@dataclass(frozen=True, slots=True)
class VisitEnd:
    seq: int
    outcome: str
    error_kind: str | None = None
    call_ids: tuple[str, ...] = ()  # the calls that wait for people
    retry_after: float | None = None


Entry: TypeAlias = Event | VisitEnd


class Log(Protocol):
    """What `streamtools.web.Chats` asks of a log."""

    def append(self, run_id: str, entries: Sequence[Entry], lease: JournalLease, /) -> Waiter:
        """Hands entries over at once, to be kept unless somebody else goes on with the run; returns what waits for
        that, and raises a `RunTakenOver` if so."""
        ...

    async def read(self, run_id: str, after: int, /) -> Sequence[Entry]:
        """Returns some entries with numbers above `after`, in order; none if there are none yet."""
        ...

    async def delete(self, run_ids: Collection[str], /) -> None:
        """Forgets runs."""
        ...


class MemoryLog:
    """A log in this process: pages come back to a run while it lives, and no other process reads it."""

    def __init__(self) -> None:
        self._runs: dict[str, list[Entry]] = {}

    def append(self, run_id: str, entries: Sequence[Entry], lease: JournalLease, /) -> Waiter:
        """See `Log`."""
        kept = self._runs.setdefault(run_id, [])
        if kept and entries and entries[0].seq <= kept[-1].seq:
            return partial(_taken_over, run_id)
        kept.extend(entries)
        return _at_once

    async def read(self, run_id: str, after: int, /) -> Sequence[Entry]:
        """See `Log`."""
        return [entry for entry in self._runs.get(run_id, ()) if entry.seq > after]

    async def delete(self, run_ids: Collection[str], /) -> None:
        """See `Log`."""
        for run_id in run_ids:
            self._runs.pop(run_id, None)


class SqliteLog:
    """A log in the file of a journal. A batch of entries is a row.

    Args:
        store: the file of the journal that has the runs.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def append(self, run_id: str, entries: Sequence[Entry], lease: JournalLease, /) -> Waiter:
        """See `Log`."""
        if not entries:
            return _at_once
        return self._store.hand_over(partial(_insert, run_id, tuple(entries), lease.check_in))

    async def read(self, run_id: str, after: int, /) -> Sequence[Entry]:
        """See `Log`.

        Raises:
            JournalError: no log has written this.
        """
        rows = await self._store.hand_over(partial(_select, run_id, after))()
        return [entry for row in rows for entry in read_entries(row) if entry.seq > after]

    async def delete(self, run_ids: Collection[str], /) -> None:
        """See `Log`."""
        await self._store.hand_over(partial(_delete, tuple(run_ids)))()


async def _at_once() -> None:
    return


async def _taken_over(run_id: str) -> None:
    from ..errors import RunTakenOver  # nearly never

    raise RunTakenOver(run_id)


# -- in the store's thread --


def _insert(
    run_id: str, entries: Sequence[Entry], check: Callable[[sqlite3.Connection], None], connection: sqlite3.Connection
) -> None:
    check(connection)
    connection.execute(_TABLE)
    row = (run_id, entries[0].seq, entries[-1].seq, written_entries(entries))
    connection.execute("INSERT INTO log (run_id, seq, last, body) VALUES (?, ?, ?, ?)", row)


def _select(run_id: str, after: int, connection: sqlite3.Connection) -> list[bytes]:
    connection.execute(_TABLE)
    # The row that `after` lies in, and those behind it, up to a megabyte.
    query = "SELECT substr(body, 1, ?) FROM log WHERE run_id = ? AND last > ? ORDER BY seq"
    bodies, size = [], 0
    for (body,) in connection.execute(query, (MAX_BODY_BYTES + 1, run_id, after)):
        bodies.append(body)
        size += len(body)
        if size > 1 << 20:
            break
    return bodies


def _delete(run_ids: Sequence[str], connection: sqlite3.Connection) -> None:
    connection.execute(_TABLE)
    connection.executemany("DELETE FROM log WHERE run_id = ?", [(run_id,) for run_id in run_ids])


# -- what is written --


def written_entries(entries: Sequence[Entry]) -> bytes:
    written: list[dict[str, Any]] = []
    key: Any = None
    for entry in entries:
        kind = type(entry)
        if kind in DELTAS:
            text: str
            if isinstance(entry, ToolCallDelta):
                call_id, text = entry.call_id, entry.delta
            else:
                call_id, text = None, entry.text  # type: ignore[union-attr]
            if key == (kind, entry.step, call_id):  # type: ignore[union-attr]
                written[-1]["seqs"].append(entry.seq)
                written[-1]["texts"].append(text)
                continue
            key = (kind, entry.step, call_id)  # type: ignore[union-attr]
            named = {} if call_id is None else {"call_id": call_id}
            written.append({"deltas": kind.__name__, "step": key[1], **named, "seqs": [entry.seq], "texts": [text]})
            continue
        key = None
        if isinstance(entry, VisitEnd):
            facts = {"seq": entry.seq, "outcome": entry.outcome}
            facts |= {"error_kind": entry.error_kind, "call_ids": list(entry.call_ids)}
            written.append({"end": facts | {"retry_after": entry.retry_after}})
        else:
            written.append(written_event(entry))
    try:
        return orjson.dumps(written)
    except (TypeError, ValueError):  # an integer of more than 64 bits, half a surrogate pair, or very deep
        return to_json(written)


def read_entries(body: Any) -> Iterator[Entry]:
    """Yields the entries of a row; raises a `JournalError` if no log has written it."""
    try:
        if type(body) is not bytes or len(body) > MAX_BODY_BYTES:
            raise ValueError("so many bytes were not expected")
        for written in orjson.loads(body):
            if "deltas" in written:
                yield from _read_deltas(written)
            elif "end" in written:
                yield _read_end(**written["end"])
            else:
                yield read_event(written)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise JournalError("the log of a run has a row that no log has written") from error


def _read_deltas(written: dict[str, Any]) -> list[Event]:
    kind, step, call_id = _DELTAS[written["deltas"]], written["step"], written.get("call_id")
    if type(step) is not int or (call_id is not None and type(call_id) is not str):
        raise ValueError("a step was expected")
    make: Callable[..., Event] = kind if call_id is None else partial(kind, call_id)
    seqs, texts = written["seqs"], written["texts"]
    if not set(map(type, seqs)) <= {int} or not set(map(type, texts)) <= {str}:
        raise ValueError("numbers and texts were expected")
    return [make(text, seq=seq, step=step) for seq, text in zip(seqs, texts, strict=True)]


def _read_end(seq: Any, outcome: Any, error_kind: Any, call_ids: Any, retry_after: Any = None) -> VisitEnd:
    texts = [outcome, *call_ids, *(() if error_kind is None else (error_kind,))]
    is_time = retry_after is None or type(retry_after) is float
    if type(seq) is not int or not is_time or not all(type(one) is str for one in texts) or outcome not in RUN_OUTCOMES:
        raise ValueError("the end of a visit was expected")
    return VisitEnd(seq, outcome, error_kind, tuple(call_ids), retry_after)


def run_end(end: VisitEnd) -> RunEnd:
    kind, ids = end.error_kind, end.call_ids
    return RunEnd(outcome=end.outcome, error_kind=kind, call_ids=ids, retry_after=end.retry_after)
