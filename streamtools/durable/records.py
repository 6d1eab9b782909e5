"""Keeps small values under keys: the one contract of memory, SQLite, Postgres and Redis.

A commit is made as a whole or not at all. Each `Put` gives its record a new and unique number, `rev`. So a commit whose
answer was lost can be repeated: if it finds its own number, it was made. A deleted record that is put again has another
number, which no earlier holder of the key knows.

A claim or a lease goes stale, but stays; a cached value is dropped. The database's clock decides both. Keys are ordered
by their parts, as bytes, and a prefix consists of whole parts. The writer of a log numbers its entries, since readers
of a database sequence would miss entries that are committed late.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Literal, Protocol, TypeAlias

import anyio
from anyio.lowlevel import current_token

from ..dispatch.event_loop import call_soon

Key: TypeAlias = tuple[str, ...]
MAX_KEY_BYTES = 2_600  # of a stored key: the limit of a Postgres index, a third of a page
MAX_VALUE_BYTES = 64 << 20


def new_rev(*of: str | bytes | int) -> int:
    """Returns a number for a record: random, or derived from the arguments."""
    digest = sha256()
    for one in of:
        written = one if isinstance(one, bytes) else repr(one).encode()
        digest.update(f"{type(one).__name__} {len(written)} ".encode())
        digest.update(written)
    return int.from_bytes(digest.digest()[:8] if of else os.urandom(8)) >> 1 or 1


@dataclass(frozen=True, slots=True)
class Record:
    key: Key
    value: bytes = field(repr=False)
    rev: int
    is_stale: bool  # by the database's clock


@dataclass(frozen=True, slots=True)
class Rev:
    """Expects the record with this number; with `stale`, only if it is stale, or is not."""

    number: int
    stale: bool | None = None


@dataclass(frozen=True, slots=True)
class Put:
    key: Key
    value: bytes = field(repr=False)
    expect: Rev | Literal["absent", "any"] = "absent"
    stale_in: float | None = None  # seconds
    drop_in: float | None = None  # seconds; infinite: only to make room, if there are `most` records of its kind
    renewed: bool = False  # whether these `Records` renew it until they change it
    rev: int = field(default_factory=new_rev)


@dataclass(frozen=True, slots=True)
class Touch:
    """Sets when a record goes stale; its number stays."""

    key: Key
    rev: int
    stale_in: float


@dataclass(frozen=True, slots=True)
class Expire:
    """Sets when a record is dropped, if it exists and does not go stale; its number stays."""

    key: Key
    drop_in: float | None  # as in `Put`


@dataclass(frozen=True, slots=True)
class Check:
    """Expects the record with this number, or any; it is neither changed nor replaced meanwhile."""

    key: Key
    rev: int | None


@dataclass(frozen=True, slots=True)
class Append:
    """Appends items to a log after the number `after`, which must be its last."""

    log: Key
    after: int
    items: Sequence[bytes] = field(repr=False)
    drop_in: float | None = None  # as in `Put`, for each item


@dataclass(frozen=True, slots=True)
class DeletePrefix:
    """Deletes the record with this key, and those under it, before the commit puts any."""

    prefix: Key


Step: TypeAlias = Put | Touch | Expire | Check | DeletePrefix
Op: TypeAlias = Step | Append


@dataclass(frozen=True, slots=True)
class Done:
    """The commit is made."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Nothing was changed."""

    key: Key
    found: Record | None  # in place of what was expected


class RecordsFull(Exception):
    """A kind has as many records as allowed, and none of them may be dropped."""

    def __init__(self, kind: str, most: int) -> None:
        super().__init__(kind, most)
        self.most = most


class Records(Protocol):
    """A place for records. A commit that was handed over finishes even if its caller stops waiting."""

    async def get(self, *keys: Key) -> list[Record | None]: ...

    async def scan(self, prefix: Key, after: Key | None = None, limit: int = 1_000) -> list[Record]:
        """Returns the records under a prefix, in order, from behind the key `after` on."""
        ...

    async def commit(self, *ops: Op, undo: Sequence[Op] = ()) -> Done | Conflict:
        """Makes all changes or none; commits `undo` after them if the wait is cancelled."""
        ...

    def hand_over(self, *ops: Op) -> Callable[[], Awaitable[Done | Conflict]]:
        """Queues a commit at once, after all earlier ones; returns a function that waits for its result."""
        ...

    async def changed(self, prefix: Key, since: int, seconds: float) -> int:
        """Waits until something under a prefix may have changed since the number `since`, at most `seconds`; returns
        the new number. It may return early. With `since` 0 it returns at once: read, then wait with that number."""
        ...

    def close(self) -> None: ...


Row: TypeAlias = tuple[Any, Any, Any, Any]  # a record as it is stored, with its key as bytes


def record_of(row: Row) -> Record:
    key, value, rev, is_stale = row
    return Record(read_key(key), bytes(value), int(rev), bool(is_stale))


def log_key(log: Key, number: int) -> Key:
    return *log, f"{number:016x}"


def key_of(step: Step) -> Key:
    return step.prefix if isinstance(step, DeletePrefix) else step.key


def is_under(key: Key, prefix: Key) -> bool:
    return key[: len(prefix)] == prefix


def written_key(key: Key) -> bytes:
    """Returns a key as bytes that sort like its parts, and that begin with the bytes of any prefix of it."""
    # Each part ends in a zero, and a zero in it is followed by a byte that UTF-8 never has.
    return b"".join(part.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\xff") + b"\0" for part in key)


def read_key(written: bytes) -> Key:
    parts = bytes(written).replace(b"\0\xff", b"\xff").split(b"\0")[:-1]
    return tuple(part.replace(b"\xff", b"\0").decode("utf-8", "surrogatepass") for part in parts)


def steps_of(ops: Iterable[Op]) -> list[Step]:
    """Returns the checked steps of a commit, including those of each log, in the order in which they are made. Raises a
    `ValueError` for an invalid commit."""
    steps = [step for op in ops for step in (_appended(op) if isinstance(op, Append) else (op,))]
    steps.sort(key=lambda step: not isinstance(step, DeletePrefix))
    put = set[Key]()
    for step in steps:
        checked_written_key(key_of(step))
        if isinstance(step, Put):
            if step.key in put:
                raise ValueError("a commit must not put a record twice")
            put.add(step.key)
            if len(step.value) > MAX_VALUE_BYTES:
                raise ValueError(f"a record has at most {MAX_VALUE_BYTES} bytes, not {len(step.value)}")
    return steps


def checked_written_key(key: Key) -> bytes:
    if not key or not all(isinstance(part, str) for part in key):
        raise ValueError("a key must be a non-empty tuple of strings")
    if len(written := written_key(key)) > MAX_KEY_BYTES:
        raise ValueError(f"a key has at most {MAX_KEY_BYTES} bytes, not {len(written)}")
    return written


def _appended(op: Append) -> list[Step]:
    first: list[Step] = [Check(log_key(op.log, op.after), None)] if op.after else []
    rev = new_rev()
    numbered = enumerate(op.items, op.after + 1)
    return [*first, *(Put(log_key(op.log, n), one, drop_in=op.drop_in, rev=rev) for n, one in numbered)]


def judged(steps: Sequence[Step], found: Mapping[Key, Record | None]) -> Done | Conflict | None:
    """Returns None if a commit can be made, `Done` if it was made before, else the `Conflict`."""
    for step in steps:
        if isinstance(step, Put) and (one := found.get(step.key)) is not None and one.rev == step.rev:
            return Done()
    for step in steps:
        if not _is_met(expected(step), one := found.get(key_of(step))):
            return Conflict(key_of(step), one)
    return None


def expected(step: Step) -> Rev | Literal["absent", "there", "any"]:
    if isinstance(step, Put):
        return step.expect
    if isinstance(step, (Touch, Check)):
        return "there" if step.rev is None else Rev(step.rev)
    return "any"


def _is_met(expect: Rev | str, found: Record | None) -> bool:
    if isinstance(expect, Rev):
        return found is not None and found.rev == expect.number and expect.stale in (None, found.is_stale)
    return expect == "any" or (found is None) == (expect == "absent")


def dropping(steps: Iterable[Step]) -> list[Put | Expire]:
    """Returns the steps whose records are dropped after some time."""
    return [one for one in steps if isinstance(one, (Put, Expire)) and one.drop_in not in (None, math.inf)]


class News:
    """The waits for a change in this process, and the latest changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard: deque[tuple[int, tuple[Key, ...]]] = deque(maxlen=1_000)
        self.number = 1
        self.waiting: dict[object, tuple[Key, Callable[[], object]]] = {}

    def tell(self, *keys: Key) -> None:
        """Notes that records with these keys, or under them, have changed; without keys, any may have."""
        with self._lock:
            self.number += 1
            self._heard.append((self.number, keys))
            wakes = [wake for prefix, wake in self.waiting.values() if _concerns(keys, prefix)]
        for wake in wakes:
            wake()

    async def wait(self, prefix: Key, since: int, seconds: float, begun: Callable[[], object] = lambda: None) -> int:
        changed, this = anyio.Event(), object()
        with self._lock:
            missed = since < self.number - len(self._heard)
            if missed or any(number > since and _concerns(keys, prefix) for number, keys in self._heard):
                return self.number
            self.waiting[this] = prefix, waker(changed)
        try:
            begun()
            with anyio.move_on_after(seconds):
                await changed.wait()
        finally:
            with self._lock:
                del self.waiting[this]
        return self.number


def _concerns(keys: Sequence[Key], prefix: Key) -> bool:
    return not keys or any(is_under(key, prefix) or is_under(prefix, key) for key in keys)


def waker(event: anyio.Event) -> Callable[[], None]:
    """Returns a function that sets an event of this event loop from any thread."""
    return partial(call_soon, current_token(), event.set)


def changed_keys(steps: Iterable[Step]) -> list[Key]:
    """Returns the prefixes under which a commit changes records: one for a whole log, whose readers wait for any."""
    return list(dict.fromkeys(key_of(one)[:2] for one in steps if isinstance(one, (Put, DeletePrefix))))


def told(steps: Iterable[Step]) -> str:
    """Returns the text with which a server announces a commit."""
    text = " ".join(written_key(key).hex() for key in changed_keys(steps))
    return text if len(text) < 8_000 else "any"  # the limit of Postgres


def heard(text: str) -> list[Key]:
    """Returns the keys of such a text; none if any key may have changed."""
    return [] if text == "any" else [read_key(bytes.fromhex(one)) for one in text.split()]


def words_of(step: Step) -> tuple[str, str, int, int, bytes, float | None, float | None]:
    """Returns a step for the program of a server: its name, the expectation and its number; its own number, its value,
    and the seconds until its record goes stale, and until it is dropped."""
    expect, drop_in = expected(step), getattr(step, "drop_in", None)
    expects, number = (expect, 0) if isinstance(expect, str) else (_EXPECTS[expect.stale], expect.number)
    rev, value = (step.rev, step.value) if isinstance(step, Put) else (0, b"")
    stale_in, drop_in = getattr(step, "stale_in", None), None if drop_in == math.inf else drop_in
    return type(step).__name__, expects, number, rev, value, stale_in, drop_in


_EXPECTS = {None: "number", True: "stale", False: "fresh"}


def checked_seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not 0 < value <= threading.TIMEOUT_MAX:
        raise ValueError(f"{name}={value!r}: must be a number of seconds greater than 0")
    return float(value)
