"""Keeps claims, the ends of calls and decisions as `Records`, wherever those are: `RecordStore`.

A claim is a record that goes stale unless its process renews it, but stays; the end of its call replaces it. Each claim
has its own number, so an end replaces only the claim that it belongs to, never a later one.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self, TypeAlias, TypeVar

from pydantic_core import from_json, to_json

from ..errors import LocalProtocolError, ToolNotStarted
from ..limits import checked_bound
from .fields import Range, read_object
from .holders import Holder, checked_fingerprint, checked_key, no_room, not_claimed, this_process
from .records import (
    Check,
    Conflict,
    DeletePrefix,
    Done,
    Key,
    Op,
    Put,
    Record,
    Records,
    RecordsFull,
    Rev,
    Touch,
    checked_seconds,
    new_rev,
)
from .store import Claim, Claimed, EndUnknown, Recorded, StillRunning

T = TypeVar("T")

CallState: TypeAlias = Literal["running", "unknown", "completed"]
_MOST_OWN = 100_000  # claims whose numbers a store remembers; for any other, it reads the record
_MAX_HEAD_BYTES = 1 << 16
_MOST_SCOPE_CHARS = 256  # a key has 1,024 at most
_OPERATIONS = ("operation:run:", "operation:conversation:", "operation:forever:")


@dataclass(frozen=True, slots=True)
class ClaimedCall:
    """What is kept of a call, before its result."""

    fingerprint: str
    claimed_at: Annotated[float, Range(0.0, 2.5e11)]
    host: str = ""
    pid: int = 0  # the process that claimed it, or 0 if unknown
    boot: str = ""
    start: str = ""
    end: Literal["kept", "too large"] | None = None  # None while it is unknown
    note: str | None = None

    def written(self, result: bytes | None = None) -> bytes:
        return to_json(self, exclude=None if self.note else {"note"}) + b"\n" + (result or b"")

    def state(self, record: Record) -> CallState:
        if self.end is not None:
            return "completed"
        is_ours = bool(self.fingerprint)  # a store has written it
        is_gone = record.is_stale or not is_ours or Holder(self.host, self.pid, self.boot, self.start).is_gone()
        return "unknown" if is_gone else "running"


@dataclass(frozen=True, slots=True)
class _Own:
    rev: int
    call: ClaimedCall
    keep: float | None  # for how many seconds its end is kept


@dataclass(frozen=True, slots=True)
class StoredCall:
    key: str
    fingerprint: str
    state: CallState
    claimed_at: float  # when it was claimed, in seconds since 1970
    host: str
    pid: int  # the process that claimed it, or 0 if unknown


def call_key(key: str) -> Key:
    """Returns the key of a call's record: the calls of a run share a prefix, and so do the operations of a scope."""
    before, colon, rest = key.rpartition(":") if is_operation(key) else key.partition(":")
    return ("call", before, rest) if colon else ("call", key)


def called(key: Key) -> str:
    return ":".join(key[1:])


def decided_key(key: str) -> Key:
    return "decided", key


def lease_key(run_id: str) -> Key:
    return "lease", run_id


def read_call(record: Record) -> tuple[ClaimedCall, bytes | None]:
    """Returns a call, and its result if it is kept. If no store wrote the record, the end is unknown."""
    head, _, result = record.value.partition(b"\n")
    try:
        call = read_object(ClaimedCall, from_json(head) if len(head) <= _MAX_HEAD_BYTES else {})
    except (ValueError, TypeError):
        return ClaimedCall("", 0.0), None
    return call, result if call.end == "kept" else None


def operation_prefix(scope: str, scope_id: str) -> str:
    if len(scope_id) > _MOST_SCOPE_CHARS:
        scope_id = hashlib.sha256(scope_id.encode("utf-8", "replace")).hexdigest()
    return f"operation:{scope}:{scope_id}:"


def is_operation(key: str) -> bool:
    return key.startswith(_OPERATIONS)


async def each(records: Records, prefix: Key) -> AsyncIterator[Record]:
    """Yields all records under a prefix, in order."""
    after: Key | None = None
    while page := await records.scan(prefix, after):
        for one in page:
            yield one
        after = page[-1].key


async def all_of(records: Records, prefix: Key) -> list[Record]:
    return [one async for one in each(records, prefix)]


def state_of(record: Record | None) -> CallState | None:
    return None if record is None else read_call(record)[0].state(record)


class RecordStore:
    """A `DecidingStore` over `Records`.

    Args:
        records: keep the calls.
        lease: seconds for which a claim is alive if its process stands still.
        keep: seconds for which completed calls and decisions are kept; then the call would run again. Infinite: as
            long as there is room. None: for ever.
        max_result_bytes: the largest result to keep. For a larger one the store only notes that there was a result.
    """

    def __init__(
        self, records: Records, *, lease: float = 30.0, keep: float | None = math.inf, max_result_bytes: int = 1 << 20
    ) -> None:
        self.records = records
        self.lease = checked_seconds("lease", lease)
        self.keep = keep
        self._max_result_bytes = checked_bound("max_result_bytes", max_result_bytes)
        self._own: dict[str, _Own] = {}  # the claims that were made here
        self._taken: dict[str, int] = {}  # the epochs of leases
        self._holder: Holder | None = None
        self.is_closed = False

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """See `IdempotencyStore`."""
        claim = await self._claimed(key, fingerprint, (), self.keep)
        assert claim is not None, "nothing else was expected"
        return claim

    async def claim_within(self, lease: Check, key: str, fingerprint: str) -> Claim | None:
        """Claims a key like `claim`, in a commit that checks a lease; None if the lease is lost. The end is kept until
        an `Expire` of it."""
        return await self._claimed(key, fingerprint, (lease,), None)

    async def complete(self, key: str, result: bytes, /) -> None:
        """See `IdempotencyStore`."""
        if (own := self._own.get(key) or await self._open(key)) is None:
            raise not_claimed(key)
        await self._end(key, own, result)

    async def release(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        if (found := self._own.get(key) or await self._open(key)) is not None:
            await self.records.commit(Check(call_key(key), found.rev), DeletePrefix(call_key(key)))
            self._own.pop(key, None)

    async def abandon(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        if (found := self._own.get(key) or await self._open(key)) is not None:
            await self.records.commit(Touch(call_key(key), found.rev, 0.0))

    async def note(self, key: str, text: str, /) -> None:
        """See `LeasingStore`."""
        if (own := self._own.get(key)) is None:
            raise not_claimed(key)
        call = replace(own.call, note=text)
        put = Put(call_key(key), call.written(), Rev(own.rev), stale_in=self.lease, renewed=True)
        self._own[key] = _Own(put.rev, call, own.keep)  # for operations handed over after it, if its wait is cancelled
        try:
            end = await self.records.commit(put)
        except Exception:
            self._own.pop(key, None)  # only the record shows whether the commit was made
            raise
        if isinstance(end, Conflict):
            self._own.pop(key, None)
            raise not_claimed(key)

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        """See `DecidingStore`."""
        checked_key(key)
        if record is None:
            (found,) = await self.records.get(decided_key(key))
            return None if found is None else bytes(found.value)
        while True:
            end = await self._made(self.deciding(key, record))
            if isinstance(end, Done):
                return record
            if end.found is not None:
                return end.found.value

    async def changed(self, key: str, seconds: float, /) -> None:
        """See `LeasingStore`."""
        since = await self.records.changed(call_key(key), 0, 0.0)
        (found,) = await self.records.get(call_key(key))
        if state_of(found) == "running":
            await self.records.changed(call_key(key), since, seconds)

    async def calls(self, *, completed: bool = False) -> list[StoredCall]:
        """Returns the calls that are running or whose end is unknown, in the order of their claims.

        Args:
            completed: also return completed calls.
        """
        calls = list[StoredCall]()
        async for one in each(self.records, ("call",)):
            call = read_call(one)[0]
            if (state := call.state(one)) != "completed" or completed:
                given = (call.fingerprint, state, call.claimed_at, call.host, call.pid)
                calls.append(StoredCall(called(one.key), *given))
        return sorted(calls, key=lambda call: call.claimed_at)

    async def settle(self, key: str, result: bytes | None, *, force: bool = False) -> None:
        """Records the end of a call whose end is unknown.

        Args:
            key: the call's key.
            result: the result to store (see `streamtools.dispatch.results`); None if the call did not run, so that it
                may run.
            force: settle the call even if it is still running.

        Raises:
            LocalProtocolError: there is no such call, it is completed, or it is still running.
        """
        (found,) = await self.records.get(call_key(key))
        if found is None:
            raise LocalProtocolError(f"no call has the key {key!r}")
        call, _ = read_call(found)
        state = call.state(found)
        if state == "completed":
            raise LocalProtocolError(f"the call {key!r} is completed: its result is stored")
        if state == "running" and not force:
            where = f"process {call.pid} on {call.host}"
            raise LocalProtocolError(f"the call {key!r} is still running ({where}); only force settles it")
        if result is not None:
            await self._end(key, _Own(found.rev, call, None), result)  # the run may continue later
        else:
            await self.records.commit(Check(call_key(key), found.rev), DeletePrefix(call_key(key)))

    async def take(self, run_id: str, number: int, /) -> Claimed | StillRunning:
        """Takes the lease of a run if it is free or its holder is gone; `number` is its epoch."""
        key, call = lease_key(run_id), self._call("lease")
        put = Put(key, call.written(), stale_in=self.lease, renewed=True, rev=number)
        while True:
            end = await self._made(put, (Check(key, number), DeletePrefix(key)))
            if isinstance(end, Done):
                _add(self._taken, run_id, number)
                return Claimed()
            if end.found is not None and (holder := read_call(end.found)[0]).state(end.found) == "running":
                return StillRunning(holder.claimed_at, holder.host, holder.pid)
            put = replace(put, expect="absent" if end.found is None else Rev(end.found.rev))

    async def let_go(self, run_id: str) -> None:
        """Releases the lease of a run that was taken here, and whose end could not be written."""
        if (number := self._taken.pop(run_id, None)) is not None:
            await self.records.commit(Check(lease_key(run_id), number), DeletePrefix(lease_key(run_id)))

    async def is_held(self, run_id: str) -> bool:
        """Returns whether a process holds the lease of a run."""
        (found,) = await self.records.get(lease_key(run_id))
        return state_of(found) == "running"

    async def state(self, key: str) -> CallState | None:
        """Returns the state of a call; None if it is not claimed."""
        (found,) = await self.records.get(call_key(key))
        return state_of(found)

    def deciding(self, key: str, record: bytes) -> Put:
        return Put(decided_key(key), record, drop_in=self.keep, rev=new_rev(key, record))

    def close(self) -> None:
        """Finishes pending operations, and abandons the remaining claims. Waits as long as an operation may; calling it
        twice is safe."""
        self.is_closed = True
        self.records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _call(self, fingerprint: str) -> ClaimedCall:
        if self._holder is None or self._holder.pid != os.getpid():  # it was forked
            self._holder = this_process()
        by = self._holder
        return ClaimedCall(fingerprint, time.time(), by.host, by.pid, by.boot, by.start)

    async def _claimed(self, key: str, fingerprint: str, within: Sequence[Check], keep: float | None) -> Claim | None:
        checked_key(key)
        call = self._call(fingerprint)
        put = Put(call_key(key), call.written(), stale_in=self.lease, renewed=True)
        undo: tuple[Op, ...] = (Check(put.key, put.rev), DeletePrefix(put.key))
        while True:
            try:
                end = await self._made(put, undo, within)
            except TimeoutError as error:
                raise ToolNotStarted(f"not run: {error}") from error
            if isinstance(end, Done):
                _add(self._own, key, _Own(put.rev, call, keep))
                return Claimed(call.note)
            if end.key != put.key:
                return None
            if end.found is None:  # it was released meanwhile
                continue
            known, note = _known(key, fingerprint, end.found), read_call(end.found)[0].note
            if note is None or not isinstance(known, EndUnknown):
                return known
            call = replace(call, note=note)
            put = replace(put, value=call.written(), expect=Rev(end.found.rev), rev=new_rev())
            undo = (Touch(put.key, put.rev, 0.0),)

    async def _made(self, put: Put, undo: Sequence[Op] = (), within: Sequence[Check] = ()) -> Done | Conflict:
        try:
            return await self.records.commit(*within, put, undo=undo)
        except RecordsFull as error:
            raise no_room(error.most) from error

    async def _end(self, key: str, own: _Own, result: bytes) -> None:
        is_kept = len(result) <= self._max_result_bytes
        value = replace(own.call, end="kept" if is_kept else "too large").written(result if is_kept else None)
        put = Put(call_key(key), value, Rev(own.rev), drop_in=own.keep, rev=new_rev(own.rev, result))
        end = await self.records.commit(put)
        self._own.pop(key, None)
        if isinstance(end, Conflict):
            raise not_claimed(key)

    async def _open(self, key: str) -> _Own | None:
        (found,) = await self.records.get(call_key(key))
        call = None if found is None else read_call(found)[0]
        return None if found is None or call is None or call.end is not None else _Own(found.rev, call, self.keep)


def _add(known: dict[str, T], key: str, value: T) -> None:
    known[key] = value
    if len(known) > _MOST_OWN:
        del known[next(iter(known))]


def _known(key: str, fingerprint: str, found: Record) -> Claim:
    call, result = read_call(found)
    state = call.state(found)
    if call.fingerprint:  # else no store wrote it
        checked_fingerprint(key, fingerprint, call.fingerprint)
    if state == "completed":
        return Recorded(result)
    return StillRunning(call.claimed_at, call.host, call.pid) if state == "running" else EndUnknown(call.claimed_at)
