"""Keeps a call from running twice: a store in which it is claimed before it runs, and kept with its result afterwards.

    claim(key, fingerprint)     Claimed: run the call now. Recorded: it has run, here is its result. StillRunning:
                                somebody runs it now. EndUnknown: it was begun, and its end is not known
    complete(key, result)       the call has run to its end
    release(key)                the call is known not to have run: the key is free again
    abandon(key)                nobody runs the call any more, and its end is not known

A claim that is never completed stays, also across a restart: this distinguishes a call whose process died in the middle
from one that was never made. A person who has found out how such a call ended settles it by `complete` or `release`. A
claim notes its host and process, and a lease, which the store renews by itself until the claim ends. While the lease
runs, the call is still running; once the lease has run out, or the process is gone, the call's end is unknown.

Theory of operation of `CallClaim`. The claim is made inside ``begin()``: after the call has its place, thread and
worker, and before any of its tool's code. So a call that only waited has claimed nothing. A claim that meets a running
call waits for that call's record, and answers from it. A claim ends in one of three ways. The call has an end: the end
is put on record, also a failure in the tool's words. The call has had no effect: it was cancelled while its claim was
being made, its tool says so, or it is suspended: the claim is given back. Nobody knows how the call ended (a timeout, a
cancellation, a lost worker): the claim is abandoned, and the next dispatch learns of that.

Once the claim is made, nothing that the store does changes how the call ended; an end that it would not take is kept,
and repeated (`UnsavedEnds`). Waits for a store are never shielded: a store finishes by itself, once asked, even if its
waiter is cancelled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from platform import node as gethostname
from typing import Any, Literal, Protocol, TypeAlias

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled, current_token
from pydantic_core import from_json, to_json

from ..content import ToolResult
from ..errors import (
    BeginRefused,
    CallStillRunning,
    LocalProtocolError,
    ToolError,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolSuspended,
    ToolTimeout,
)
from ..event_loop import call_soon, spawn
from ..limits import checked_bound
from ..text import type_name
from .executor import Emit, Executor, Invocation
from .results import decode_error, decode_result, encode_error, encode_result
from .timers import Timer, Timers

MAX_KEY_CHARS = 1024  # three ids of at most 256 bytes, and room


@dataclass(frozen=True, slots=True)
class Claimed:
    """The key was free and is the caller's now: run the call, then `complete` or `release` it."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The call has run to its end before."""

    result: bytes | None = field(repr=False)
    """The result that `complete` was given; None if it was larger than the store keeps."""


@dataclass(frozen=True, slots=True)
class StillRunning:
    """The call was begun, and its claim is alive: it runs now, in this process or another one."""

    claimed_at: float
    """When the call was claimed, in seconds since 1970; the same in every answer about one claim."""
    host: str
    """The name of the machine that runs it."""
    pid: int
    """The process on that machine."""


@dataclass(frozen=True, slots=True)
class EndUnknown:
    """The call was begun before, its claim is not alive any more, and its end is not known."""

    claimed_at: float
    """When the call was claimed, in seconds since 1970."""


Claim: TypeAlias = Claimed | Recorded | StillRunning | EndUnknown


class IdempotencyStore(Protocol):
    """Keeps claims and results. `MemoryStore` forgets them with the process; `SqliteStore` keeps them for the processes
    of one machine, `RedisStore` for those of several.

    Callers do not shield their wait for a store. If a wait for `claim` is cancelled, the store sees to it that the key
    is not claimed; work that `complete`, `release` and `abandon` have begun goes on to its end although nobody waits
    for it.
    """

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """Claims a key for the call with this fingerprint; of several callers at once, one gets `Claimed`.

        Raises:
            ToolNotStarted: the key is that of another call, or the store has no room.
        """
        ...

    async def complete(self, key: str, result: bytes, /) -> None:
        """Keeps the result of a claimed call.

        Raises:
            LocalProtocolError: the key is not claimed, or is completed already.
        """
        ...

    async def release(self, key: str, /) -> None:
        """Gives a claimed key back, since its call has not run. A key that is not claimed is left as it is."""
        ...

    async def abandon(self, key: str, /) -> None:
        """Leaves a key claimed whose call nobody runs any more, and whose end is not known. From now on `claim` returns
        `EndUnknown`."""
        ...


class LeasingStore(IdempotencyStore, Protocol):
    """An `IdempotencyStore` whose claims are alive for a time, and that notices when one ends.

    Each of these is optional: without `changed`, who waits for a call that runs elsewhere asks `claim` again and again;
    without `renew`, the store keeps its claims alive by itself.
    """

    @property
    def lease(self) -> float:
        """For how many seconds a claim is alive unless it is renewed."""
        ...

    async def renew(self, key: str, /) -> None:
        """Renews the lease of a claim that was made by this store and goes on. Any other is left as it is."""
        ...

    async def changed(self, key: str, seconds: float, /) -> None:
        """Returns when the claim of this key may have ended: at once if it has, and after so many seconds at the
        latest. It may return early."""
        ...


class DecidingStore(IdempotencyStore, Protocol):
    """An `IdempotencyStore` that keeps decisions, too. Without `decide`, `resume` takes no decisions: claims alone do
    not say what was decided of a call that has not begun."""

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        """Keeps a record under a key that has none, and returns the first one that was kept there, this one or an
        earlier one; of several callers at once, all get the same. None as `record` keeps nothing: None is returned if
        there is none.

        Raises:
            ToolNotStarted: the store refuses, since it may have lost records.
        """
        ...


def call_fingerprint(tool: str, arguments: Mapping[str, Any]) -> str:
    """Returns a hash of the tool's name and the arguments as plain JSON; the order of keys does not matter.

    Raises:
        ValueError: the arguments are no plain JSON.
    """
    try:
        text = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # the error's text quotes the value
        raise ValueError(f"the arguments of {tool} are no plain JSON, so they have no fingerprint") from None
    return hashlib.sha256(text.encode()).hexdigest()


class MemoryStore:
    """A `DecidingStore` for one process and one event loop.

    Args:
        max_entries: how many keys are kept. Beyond that, the completed key that was claimed first is forgotten, and its
            call would run again; if none is completed, a claim is refused. Of decisions, the oldest is forgotten.
        max_result_bytes: how large a kept result may be. Of a larger result the store keeps only that there was one.
    """

    def __init__(self, *, max_entries: int = 10_000, max_result_bytes: int = 1 << 20) -> None:
        self._max_entries = checked_bound("max_entries", max_entries)
        self._max_result_bytes = checked_bound("max_result_bytes", max_result_bytes)
        self._entries: dict[str, _Entry] = {}
        self._decisions: dict[str, bytes] = {}

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """See `IdempotencyStore`."""
        await checkpoint()
        checked_key(key)
        entry = self._entries.get(key)
        if entry is not None:
            checked_fingerprint(key, fingerprint, entry.fingerprint)
            if entry.completed:
                return Recorded(entry.result)
            alive = entry.runs
            return StillRunning(entry.claimed_at, gethostname(), os.getpid()) if alive else EndUnknown(entry.claimed_at)
        if len(self._entries) >= self._max_entries:
            self._forget_one()
        self._entries[key] = _Entry(fingerprint, time.time())
        return Claimed()

    async def complete(self, key: str, result: bytes, /) -> None:
        """See `IdempotencyStore`."""
        entry = self._entries.get(key)
        if entry is None or entry.completed:
            raise not_claimed(key)
        entry.completed = True
        entry.result = result if len(result) <= self._max_result_bytes else None
        entry.ends()

    async def release(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        entry = self._entries.get(key)
        if entry is not None and not entry.completed:
            del self._entries[key]
            entry.ends()

    async def abandon(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.runs = False
            entry.ends()

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        """See `DecidingStore`."""
        await checkpoint()
        checked_key(key)
        if record is not None and key not in self._decisions:
            self._decisions[key] = record
            if len(self._decisions) > self._max_entries:
                del self._decisions[next(iter(self._decisions))]
        return self._decisions.get(key)

    async def changed(self, key: str, seconds: float, /) -> None:
        """See `LeasingStore`."""
        entry = self._entries.get(key)
        if entry is None or entry.completed or not entry.runs:
            return
        ended = anyio.Event()
        wake = partial(call_soon, current_token(), ended.set)  # the call may run in another event loop
        entry.waiting.append(wake)
        try:
            with anyio.move_on_after(seconds):
                await ended.wait()
        finally:
            entry.waiting.remove(wake)

    def _forget_one(self) -> None:
        oldest = next((key for key, entry in self._entries.items() if entry.completed), None)
        if oldest is None:
            raise no_room(self._max_entries)
        del self._entries[oldest]


@dataclass(slots=True)
class _Entry:
    fingerprint: str
    claimed_at: float
    runs: bool = True
    completed: bool = False
    result: bytes | None = None
    waiting: list[Callable[[], None]] = field(default_factory=list)  # wake those who wait for the claim's end

    def ends(self) -> None:
        for wake in list(self.waiting):
            wake()


# -- the process that has made a claim ---------------------------------------------------------------------------------
#
# A process is identified by its number, which may be reused, the machine's start (its boot id) and its own start. Where
# there is no ``/proc``, all but the number is empty, and only a claim's lease shows whether it is alive.


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has made a claim."""

    host: str
    pid: int
    boot: str
    """Tells this run of the machine from others; empty if that is not known."""
    start: str
    """Tells the process from others with its number: their namespace, and when it began; empty if not known."""

    def is_gone(self) -> bool:
        """Returns whether the process has certainly ended, as far as this one can see."""
        if not self.start or self.boot != boot_id() or self.start.split()[0] != _namespace():
            return False
        return self.start != _start(self.pid)


def this_process() -> Holder:
    """Returns the holder of claims that are made here; a fork's child is a different one."""
    return Holder(gethostname(), os.getpid(), boot_id(), _start(os.getpid()))


def machine_clock() -> float:
    """Returns the seconds since the machine's start, the same in all of its processes; setting a clock does not move
    them. Where a machine's start is not known, returns those of the wall clock."""
    return time.monotonic() if boot_id() else time.time()


@cache
def boot_id() -> str:
    """Returns the name of this run of the machine; empty if it has none."""
    return _read("/proc/sys/kernel/random/boot_id")


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:  # pragma: no cover - no Linux
        return ""


def _start(pid: int) -> str:
    """Returns the namespace and the start of a process; empty if it has ended."""
    state = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()  # its name, in brackets, may contain anything
    # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: the fields from the third on
    return f"{_namespace()} {state[19]}" if state and state[0] not in "ZX" else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:  # no such process; or no Linux
        return ""


# -- checks and errors that all stores share ---------------------------------------------------------------------------


def checked_fingerprint(key: str, fingerprint: str, known: str) -> None:
    """Refuses a call whose key belongs to another one, by its fingerprint, with `ToolNotStarted`."""
    if fingerprint != known:
        raise ToolNotStarted(f"not run: the idempotency key {key!r} belongs to a call with another tool or arguments")


def checked_key(key: str) -> None:
    """Refuses a value that is no key."""
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS:
        raise ValueError(f"an idempotency key is a text of 1 to {MAX_KEY_CHARS} characters")


def no_room(max_entries: int) -> ToolNotStarted:
    """Returns the error for a store that is full of claims."""
    return ToolNotStarted(
        f"not run: the store holds max_entries={max_entries} calls whose end is not known; "
        "complete or release those that somebody has looked into"
    )


def not_claimed(key: str) -> LocalProtocolError:
    """Returns the error for a result without a claim."""
    return LocalProtocolError(f"complete({key!r}): the key is not claimed; claim it before the call runs")


# -- the claim of one call ---------------------------------------------------------------------------------------------


StoreFailed: TypeAlias = Callable[[Literal["complete", "release", "abandon"], Exception], object]
"""Takes a failure of the store after the claim: the work that it could not do, and the error. The key stays claimed."""

_NOT_KEPT = "[the call has run before; the idempotency store could not keep its result]"
_TOO_LARGE = "[the call has run before; its result was larger than the idempotency store keeps]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallValue:
    """The value of a call, and where it comes from."""

    value: Any = field(repr=False)
    recorded: bool = False
    """True if the value comes from the store, and nothing has run now."""
    not_kept: Exception | None = None
    """Why the value, which is good, could not be kept. If the store failed, the call is unknown next time; if JSON
    cannot express the value, the words that the model read are on record."""


@dataclass(slots=True, eq=False)
class CallClaim:
    """The claim of one call."""

    _store: IdempotencyStore
    _key: str
    _tool: str
    _failed: StoreFailed
    """Is called with the store's failures after the claim."""
    _noted: Callable[[bytes], bytes] | None = None
    """Adds to a record which call it is of, where the call is claimed under the key of its operation."""
    _fingerprint: str = ""
    _timers: set[Timer] = field(default_factory=set)
    """The timer of the lease's next renewal."""
    _ends: UnsavedEnds = field(init=False)
    """The ends that the store has not taken: the claims of one key, and the giving back, go through it."""

    def __post_init__(self) -> None:
        self._ends = unsaved_ends(self._store)

    async def make(
        self, fingerprint: str, patience: float = math.inf, meets: Callable[[], object] = lambda: None
    ) -> Recorded | None:
        """Claims the key for the call; returns the record of its end if it has run before. While it runs elsewhere,
        waits for that record.

        Args:
            fingerprint: the call's.
            patience: for how many seconds to wait for one run; a claim that is no longer alive ends the wait, too.
            meets: is called if there is a run to wait for.

        Raises:
            ToolNotStarted: the key is another call's, or the store refused or failed.
            CallStillRunning: the call still runs elsewhere.
            ToolOutcomeUnknown: the call was begun before, and its end is not known.
        """
        self._fingerprint = fingerprint
        since, until, pause_s = -math.inf, 0.0, _FIRST_PAUSE_S
        while True:
            claim = await self._claimed()
            if not isinstance(claim, StillRunning):
                break
            now = anyio.current_time()
            if claim.claimed_at != since:  # another run than before, which has its own time
                since, until, pause_s = claim.claimed_at, now + patience, _FIRST_PAUSE_S
                meets()
            if now >= until:
                raise CallStillRunning(f"not run again: the call runs already (process {claim.pid} on {claim.host})")
            await self._changed(min(until - now, pause_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if isinstance(claim, Recorded):
            return claim
        if not isinstance(claim, Claimed):
            raise ToolOutcomeUnknown("not run again: the call was begun before, and how that ended is not known")
        self._ends.hold(self._key, self)
        try:
            await checkpoint_if_cancelled()
        except BaseException:  # cancelled while the claim was being made: nothing has run, and nothing will
            await self.release()
            raise
        self._renew_later()
        return None

    async def _claimed(self) -> Claim:
        try:
            return await self._ends.claim(self._store, self._key, self._fingerprint)
        except ToolNotStarted:
            raise
        except Exception as error:  # a store of the user's, a full disk, a locked file
            ours = isinstance(error, LocalProtocolError)  # such as a store that is closed
            why = str(error) if ours else type_name(error)
            raise ToolNotStarted(f"not run: the idempotency store failed ({why})") from error

    async def _changed(self, seconds: float) -> None:
        """Waits until the claim of somebody else may have ended."""
        changed = getattr(self._store, "changed", None)
        if changed is None:
            await anyio.sleep(seconds)
            return
        try:
            await changed(self._key, seconds)
        except Exception:  # the next claim shows what is wrong with the store
            await anyio.sleep(seconds)

    def _renew_later(self) -> None:
        if hasattr(self._store, "renew"):
            due = anyio.current_time() + lease_of(self._store) / 3
            Timers.current().at(due, self._renew, self._timers)

    def _renew(self) -> None:
        self._renew_later()
        spawn(CallClaim._renewed, self)

    async def _renewed(self) -> None:
        if self._timers:  # else the claim has ended
            try:
                await self._store.renew(self._key)  # type: ignore[attr-defined]
            except Exception:  # there is time for another try
                return

    async def _give(self, work: Awaitable[None]) -> Exception | None:
        """Gives the store the claim's end; returns its error, unless a later claim shows that it has taken the end."""
        for timer in list(self._timers):
            timer.stop()
        failure: Exception | None = None
        try:
            await work
        except Exception as error:  # a store of the user's, a full disk
            failure = error
        finally:
            is_latest = self._ends.let_go(self._key, self)
        return failure if is_latest else None

    async def release(self) -> None:
        """Gives the claim back, since the call has had no effect."""
        if (error := await self._give(self._store.release(self._key))) is not None:
            self._unsaved(None)
            self._failed("release", error)

    async def abandon(self) -> None:
        """Notes that nobody runs the call any more, and that its end is not known."""
        if (error := await self._give(self._store.abandon(self._key))) is not None:
            self._failed("abandon", error)

    async def fail(self, error: ToolError) -> None:
        """Puts the call's failure on record."""
        await self._keep(to_json({"error": encode_error(self._tool, error)}))

    async def complete(self, value: Any) -> Exception | None:
        """Puts the call's value on record; returns the error if the value could not be kept.

        Raises:
            ToolError: JSON cannot express the value. This error is then on record, as the call's failure.
        """
        try:
            data, unsaid = encode_result(value), None
        except ToolError as error:  # it has run, and there is no way to keep its value
            if not isinstance(value, ToolResult):
                await self.fail(error)
                raise
            data, unsaid = _without_value(value), error
        return await self._keep(data) or unsaid

    async def _keep(self, data: bytes) -> Exception | None:
        data = data if self._noted is None else self._noted(data)
        if (error := await self._give(self._store.complete(self._key, data))) is not None:
            self._unsaved(data)
            self._failed("complete", error)
        return error

    def _unsaved(self, result: bytes | None) -> None:
        until = time.monotonic() + lease_of(self._store)
        self._ends.add(self._key, UnsavedEnd(self._fingerprint, result, until))
        spawn(self._ends.repeat, self._store)


# -- known ends that a store would not take ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnsavedEnd:
    """The end of a call that is claimed in a store, which failed when it was given the end."""

    fingerprint: str
    result: bytes | None = field(repr=False)
    """The result; None if the claim is to be released."""
    until: float
    """When to give up, on ``time.monotonic``."""


class UnsavedEnds:
    """The known ends of one store's calls that it would not take: answered from here, and repeated until their leases
    are over.

    A store knows a claim by its key alone. So an end must not be repeated once the key is claimed anew, as it is where
    the store had taken the end and its answer was lost: the repetition would end the new claim.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[str, UnsavedEnd] = OrderedDict()
        self._bytes = 0
        self._repeats = False
        self._given: set[str] = set()  # the keys of ends that the store is given at this moment
        self._claimed: dict[object, str] = {}  # the keys that the store is asked for at this moment
        self._lock = threading.Lock()  # calls in several threads, each with its loop, may share the store
        self._holders: dict[str, CallClaim] = {}  # the latest claim of a key, until the store was given its end

    def add(self, key: str, end: UnsavedEnd) -> None:
        """Keeps an end, and forgets the oldest ones beyond the bounds."""
        self.forget(key)
        self._ends[key] = end
        self._bytes += len(end.result or b"")
        while len(self._ends) > _MOST_UNSAVED or self._bytes > _MOST_UNSAVED_BYTES:
            self.forget(next(iter(self._ends)))

    def forget(self, key: str) -> None:
        """Forgets an end, which the store has taken, or takes no more."""
        if (end := self._ends.pop(key, None)) is not None:
            self._bytes -= len(end.result or b"")

    async def claim(self, store: IdempotencyStore, key: str, fingerprint: str) -> Claim:
        """Claims a key, after giving back what waits for that; answers from here if only this process has the end."""
        while True:
            with self._claiming(key) as is_free:
                if is_free:
                    return await store.claim(key, fingerprint)
            end = self._ends.get(key)
            if end is None:
                continue
            checked_fingerprint(key, fingerprint, end.fingerprint)
            if end.result is not None:
                return Recorded(end.result)
            with self._giving(key, end) as is_ours:
                if is_ours:
                    await store.release(key)
                    self.forget(key)
                else:
                    await anyio.sleep(_FIRST_PAUSE_S)

    def hold(self, key: str, claim: CallClaim) -> None:
        """Notes the claim that was made of a key. The key was free: the store has taken the end of an earlier one."""
        self.forget(key)
        self._holders[key] = claim

    def let_go(self, key: str, claim: CallClaim) -> bool:
        """Notes that the store was given the end of a claim; returns False if the key is claimed anew already."""
        if self._holders.get(key) is not claim:
            return False
        del self._holders[key]
        return True

    @contextmanager
    def _claiming(self, key: str) -> Iterator[bool]:
        """Keeps the key's end from being repeated meanwhile; yields False if there is one."""
        this = object()
        with self._lock:
            is_free = key not in self._ends
            if is_free:
                self._claimed[this] = key
        try:
            yield is_free
        finally:
            self._claimed.pop(this, None)

    @contextmanager
    def _giving(self, key: str, end: UnsavedEnd) -> Iterator[bool]:
        """Yields whether the store may be given this end now: by one at a time, and not while the key is claimed."""
        with self._lock:
            busy = key in self._given or key in self._claimed.values()
            is_ours = self._ends.get(key) is end and not busy
            if is_ours:
                self._given.add(key)
        try:
            yield is_ours
        finally:
            if is_ours:
                self._given.discard(key)

    async def repeat(self, store: IdempotencyStore) -> None:
        """Gives the store the ends again and again, until it has taken them or the time is over."""
        if self._repeats:
            return
        self._repeats, pause_s = True, _FIRST_PAUSE_S
        try:
            while self._ends:
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_REPEAT_S)
                for key, end in list(self._ends.items()):
                    with self._giving(key, end) as is_ours:
                        if is_ours and (time.monotonic() >= end.until or await _is_taken(store, key, end)):
                            self.forget(key)
        finally:
            self._repeats = False


async def _is_taken(store: IdempotencyStore, key: str, end: UnsavedEnd) -> bool:
    try:
        await (store.release(key) if end.result is None else store.complete(key, end.result))
    except LocalProtocolError:  # it is on record: the answer was lost, or a person has settled it
        return True
    except Exception:
        return False
    return True


def unsaved_ends(store: IdempotencyStore) -> UnsavedEnds:
    """Returns the ends that a store has not taken in this process."""
    try:
        return _unsaved.setdefault(store, UnsavedEnds())
    except TypeError:  # it cannot be referred to weakly, or is no key
        return UnsavedEnds()


def lease_of(store: IdempotencyStore) -> float:
    """Returns for how many seconds a claim of this store is alive."""
    return float(getattr(store, "lease", _LEASE_S))


_unsaved: weakref.WeakKeyDictionary[IdempotencyStore, UnsavedEnds] = weakref.WeakKeyDictionary()
if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows has no fork
    os.register_at_fork(after_in_child=_unsaved.clear)  # the parent repeats its own
_MOST_UNSAVED = 1_000
_MOST_UNSAVED_BYTES = 16 << 20
_LEASE_S = 30.0
"""Of a store that has no lease of its own."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.25
_LONGEST_REPEAT_S = 5.0
"""Between two tries to save ends: other operations wait behind them, perhaps for a server that does not answer."""


async def run_once(
    store: IdempotencyStore,
    executor: Executor,
    call: Invocation,
    emit: Emit = lambda report: None,
    *,
    seconds: float = math.inf,
    store_failed: StoreFailed = lambda work, error: None,
) -> CallValue:
    """Runs a call on an executor, unless it has run before.

    Args:
        store: where claims and results are kept.
        executor: runs the call, unless the store has a record of it.
        call: its `key` is claimed, for its tool and arguments.
        emit: takes the tool's reports.
        seconds: how long the call may run once it has begun.
        store_failed: is called with the store's failures after the claim, which change nothing else.

    Raises:
        ToolOutcomeUnknown: the call was begun, before or now, and its end is not known.
        ToolNotStarted: the call has not run: the key is another call's, or the store or the executor refused.
        ToolError: the call has failed, now or before.
    """
    claim = CallClaim(store, call.key, call.tool, store_failed)
    refused: Exception | None = None
    found: Recorded | None = None
    begun = False

    async def begin() -> float:
        nonlocal refused, found, begun
        try:
            found = await claim.make(call_fingerprint(call.tool, call.arguments))
            if found is not None:
                raise BeginRefused("not run: the call has run before")
        except Exception as error:
            refused = error
            raise
        begun = True
        return seconds

    try:
        value = await executor.run(call, begin, emit)
    except BaseException as error:
        if not begun:
            if found is not None:
                return CallValue(value=recorded_value(call.tool, found), recorded=True)
            if refused is not None and isinstance(error, Exception):
                raise refused from None
            raise
        failure = _after_begin(error)
        if isinstance(failure, (ToolSuspended, ToolNotStarted)):
            await claim.release()
        elif isinstance(failure, ToolError) and not isinstance(failure, (ToolOutcomeUnknown, ToolTimeout)):
            await claim.fail(failure)
        else:
            await claim.abandon()
        if failure is error:
            raise
        raise failure from error
    return CallValue(value=value, not_kept=await claim.complete(value))


def _after_begin(error: BaseException) -> BaseException:
    """Returns the meaning of an error that came after the call had begun, too late to claim that it has not."""
    if isinstance(error, ToolNotStarted) and not error.by_tool:
        return ToolOutcomeUnknown(f"the executor raised {type_name(error)} after the call had begun")
    return error


def recorded_value(tool: str, claim: Recorded) -> Any:
    """Returns the value on record, or raises the failure there; `ToolOutcomeUnknown` if the record cannot be read."""
    if claim.result is None:
        return _TOO_LARGE
    try:
        read = from_json(claim.result)
        known = decode_error(read["error"]) if "error" in read else decode_result(claim.result)
    except Exception as error:  # a user's own store, or a record that another version wrote
        text = f"not run again: the call of {tool} has run before, and its record cannot be read"
        raise ToolOutcomeUnknown(text) from error
    if isinstance(known, ToolError):
        raise known
    return known


def _without_value(result: ToolResult) -> bytes:
    """Returns the model's part of a result that contains Python objects for the program."""
    for left in (replace(result, value=None, display=None), replace(result, value=None, display=None, native={})):
        try:
            return encode_result(left)
        except ToolError:
            continue
    return encode_result(ToolResult(blocks=[_NOT_KEPT], is_error=result.is_error))
