"""Stores the events of a run for readers, so that pages can join late, return, or read from another process.

    log, conversation, number of the run, last seq    a batch of entries

An entry is an event as copies have it, or the end of a visit to the run (`RunEnd`). The numbers of a visit lie behind
those of all earlier ones, also behind those that its process did not live to write. A log is disposable, and drops some
days later: no run reads it, but to know what its readers have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import orjson
from pydantic_core import to_json

from ..durable.codec import read_event, written_event
from ..durable.fields import read_object
from ..durable.lease import JournalLease, Waiter
from ..durable.records import Key, Put, Records
from ..errors import JournalError
from ..events import Event, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from ..parts import RUN_OUTCOMES
from .encoding import RunEnd

VISIT = 1 << 32
"""The numbers that one visit to a run has: a visit's number times this is in front of the run's own `seq`."""
KEPT_S = 7 * 86400.0
_MOST_READ = 100  # batches at once
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


class RunLog:
    """The logs of all runs."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def append(self, run_id: str, entries: Sequence[Entry], lease: JournalLease) -> Waiter:
        """Hands entries over at once, to be kept unless somebody else goes on with the run; returns what waits for
        that, and raises a `RunTakenOver` if so."""
        key = *log_key(run_id), f"{entries[-1].seq:016x}"
        return lease.commit(Put(key, written_entries(entries), "any", drop_in=KEPT_S))

    async def read(self, run_id: str, after: int) -> list[Entry]:
        """Returns some entries with numbers above `after`, in order; none if there are none yet. Raises a
        `JournalError` if no log has written this."""
        log = log_key(run_id)
        behind = None if after < 0 else (*log, f"{after:016x}")
        rows = await self._records.scan(log, behind, _MOST_READ)
        return [entry for row in rows for entry in read_entries(row.value) if entry.seq > after]

    async def changed(self, run_id: str, since: int, seconds: float) -> int:
        """Waits for more; see `Records.changed`."""
        return await self._records.changed(log_key(run_id), since, seconds)


def log_key(run_id: str) -> Key:
    return "log", *numbered(run_id)


def numbered(run_id: str) -> tuple[str, str]:
    """Returns the parts of a run's id as its keys have them."""
    chat_id, _, number = run_id.rpartition("/")
    return chat_id, f"{int(number):016x}"


# -- what is written --


def row_of(entry: Entry) -> tuple[type, int, str | None] | None:
    """Returns what deltas of one text, or of the arguments of one call, have in common; None of anything else."""
    kind: Any = type(entry)
    return (kind, entry.step, getattr(entry, "call_id", None)) if kind in DELTAS else None  # type: ignore[union-attr]


def text_of(delta: Any) -> str:
    text: str = delta.delta if isinstance(delta, ToolCallDelta) else delta.text
    return text


def written_entries(entries: Sequence[Entry]) -> bytes:
    written: list[dict[str, Any]] = []
    for row, found in groupby(entries, row_of):
        if row is None:
            written += ({"end": asdict(one)} if isinstance(one, VisitEnd) else written_event(one) for one in found)
            continue
        kind, step, call_id = row
        named, deltas = {} if call_id is None else {"call_id": call_id}, [*found]
        seqs, texts = [one.seq for one in deltas], [*map(text_of, deltas)]
        written.append({"deltas": kind.__name__, "step": step, **named, "seqs": seqs, "texts": texts})
    try:
        return orjson.dumps(written)
    except (TypeError, ValueError):  # an integer of more than 64 bits, half a surrogate pair, or very deep
        return to_json(written)


def read_entries(body: Any) -> Iterator[Entry]:
    """Yields the entries of a row; raises a `JournalError` if no log has written it."""
    try:
        for written in orjson.loads(body):
            if "deltas" in written:
                yield from _read_deltas(written)
            elif "end" in written:
                yield _read_end(written["end"])
            else:
                yield read_event(written)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise JournalError("the log of a run has a row that this program did not write") from error


def _read_deltas(written: dict[str, Any]) -> list[Event]:
    kind, step, call_id = _DELTAS[written["deltas"]], written["step"], written.get("call_id")
    if type(step) is not int or (call_id is not None and type(call_id) is not str):
        raise ValueError("a step was expected")
    make: Callable[..., Event] = kind if call_id is None else partial(kind, call_id)
    seqs, texts = written["seqs"], written["texts"]
    if not set(map(type, seqs)) <= {int} or not set(map(type, texts)) <= {str}:
        raise ValueError("numbers and texts were expected")
    return [make(text, seq=seq, step=step) for seq, text in zip(seqs, texts, strict=True)]


def _read_end(written: dict[str, Any]) -> VisitEnd:
    end: VisitEnd = read_object(VisitEnd, written)
    if end.outcome not in RUN_OUTCOMES:
        raise ValueError("an outcome of a run was expected")
    return end


def run_end(end: VisitEnd) -> RunEnd:
    kind, ids = end.error_kind, end.call_ids
    return RunEnd(outcome=end.outcome, error_kind=kind, call_ids=ids, retry_after=end.retry_after)
