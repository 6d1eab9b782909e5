"""The records of a run: its head, its responses, its inbox, and the keys of all these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Annotated, Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from ..errors import JournalError
from ..parts import RUN_OUTCOMES
from .fields import Range, read_object
from .records import Key, Record

MOST_ENTRIES, MOST_ENTRY_BYTES = 1_000, 1 << 20  # of an inbox
UNREAD = "the journal has a record that this library did not write"
_MOST_HEAD_BYTES = 1 << 16
_Moment = Annotated[float, Range(0.0, 2.5e11)]  # to the year 9892


def step_key(kind: str, run_id: str, step: int) -> Key:
    return kind, run_id, f"{step:08x}"


def inbox_key(run_id: str, number: int, entry_id: str) -> Key:
    return *step_key("inbox", run_id, number), entry_id


def hashed(named: Sequence[str]) -> str:
    """Returns a part of a key for texts of any length."""
    return sha256(json.dumps(named).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class JournaledResponse:
    step: int
    facts: bytes  # what is needed to read it again, as JSON
    body: bytes = field(repr=False)
    ends: bytes | None = field(default=None, repr=False)
    """The observations of its calls, as JSON; None while they are unknown."""


@dataclass(frozen=True, slots=True)
class JournaledRun:
    """The head of a run: what is stored besides its responses."""

    first: str  # a digest of what it began with
    name: str | None
    began_at: _Moment
    ended_at: _Moment | None = None
    outcome: str | None = None
    steps: Annotated[int, Range(0, 1 << 53)] = 0

    def written(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def is_over(self) -> bool:
        return is_over(self.outcome)

    def over_key(self, run_id: str) -> Key:
        return "over", f"{(self.ended_at or 0.0) * 1000:015.0f}", run_id


def is_over(outcome: str | None) -> bool:
    facts = RUN_OUTCOMES.get(outcome)  # type: ignore[call-overload]  # None, or ``left``
    return facts is not None and not facts.goes_on


def read_number(written: str) -> int:
    try:
        return int(written, 16)
    except ValueError:
        raise JournalError(UNREAD) from None


def read_head(record: Record) -> JournaledRun:
    try:
        written = from_json(record.value) if len(record.value) <= _MOST_HEAD_BYTES else None
        head: JournaledRun = read_object(JournaledRun, written if isinstance(written, dict) else {})
    except ValueError as error:
        raise JournalError(f"{UNREAD}: {error}") from error
    return head


def read_texts(record: Record) -> list[str]:
    try:
        texts = from_json(record.value) if len(record.value) <= _MOST_HEAD_BYTES else None
    except ValueError:
        texts = None
    if not isinstance(texts, list) or list(map(type, texts)) != [str, str]:
        raise JournalError(UNREAD)
    return texts


# -- the inbox --


def inbox_is_full(run_id: str) -> JournalError:
    return JournalError(f"the inbox of the run {run_id!r} is full: it has {MOST_ENTRIES} unread entries")


def marked(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry of an inbox with the paths to its texts that are marked `Untrusted`, since JSON loses that."""
    from ..provenance.history import marked_in  # most runs get no messages

    return {**entry, "marked": list(marked_in(entry))}


def read_entry(written: dict[str, Any]) -> dict[str, Any]:
    from ..provenance.history import mark_again  # as above

    mark_again(written, written.pop("marked"))
    return written


def read_put(entry_id: Any, written: Any) -> dict[str, Any]:
    """Returns an entry of an inbox, with its id, as it was put in; raises a `ValueError`, `TypeError` or `LookupError`
    if it is not as a journal writes it."""
    if type(entry_id) is not str or type(written) is not bytes or len(written) > MOST_ENTRY_BYTES:
        raise ValueError("an id, and so many bytes, were expected")
    entry = from_json(written)
    if not isinstance(entry, dict):
        raise ValueError("an object was expected")
    return {**read_entry(entry), "id": entry_id}


def written_entry(entry: Mapping[str, Any]) -> bytes:
    try:
        written = to_json(marked(entry))
    except (PydanticSerializationError, RecursionError) as error:
        raise TypeError("the input of a run must be text or JSON") from error
    if len(written) > MOST_ENTRY_BYTES:
        raise ValueError(f"the input of a run must have at most {MOST_ENTRY_BYTES} bytes of JSON, not {len(written)}")
    return written
