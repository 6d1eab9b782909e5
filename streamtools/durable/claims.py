"""Claims one call in a store before it runs, and gives the store its end.

Theory of operation of `CallClaim`. The claim is made inside ``begin()``: after the call has its place, thread and
worker, and before any of its tool's code, so a call that only waited has claimed nothing. A claim that meets a running
call waits for that call's record, and answers from it. A claim ends in one of three ways. The end is stored, including
a failure with the tool's own text. The claim is released, if the call had no effect (it was cancelled while its claim
was being made, its tool says so, or it is suspended). Or it is abandoned, if the call's end is unknown (a timeout, a
cancellation, a lost worker), and the next dispatch learns of that.

Once the claim is made, the store cannot change how the call ended; an end that it refused is kept and repeated
(`UnsavedEnds`). Waits for a store are never shielded: once asked, a store finishes even if its caller is cancelled.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from pydantic_core import from_json, to_json

from ..content import ToolResult
from ..dispatch import Emit, Executor, Invocation
from ..dispatch.event_loop import Timer, Timers, spawn
from ..dispatch.results import decode_error, decode_result, encode_error, encode_result
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
from ..ground import type_name
from ..seams import call_fingerprint
from .holders import checked_fingerprint
from .store import Claim, Claimed, IdempotencyStore, Recorded, StillRunning

StoreWork: TypeAlias = Literal["complete", "release", "abandon"]
StoreFailed: TypeAlias = Callable[[StoreWork, Exception], object]
"""Takes a failure of the store after the claim: the work that it could not do, and the error. The key stays claimed."""

_LEASE_S = 30.0  # of a store that has no lease of its own
_BEGUN = "not run again: the call was begun before, and its end is unknown"
_NOT_KEPT = "[the call has run before; the idempotency store could not keep its result]"
_TOO_LARGE = "[the call has run before; its result was larger than the idempotency store keeps]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallValue:
    """The value of a call, and its origin."""

    value: Any = field(repr=False)
    recorded: bool = False
    """True if the value comes from the store, so that nothing ran now."""
    not_kept: Exception | None = None
    """The reason why the valid value could not be stored. If the store failed, the call will be unknown next time; if
    JSON cannot express the value, the text for the model is stored."""


@dataclass(slots=True, eq=False)
class CallClaim:
    """A claim whose ends raise nothing: each of them returns the store's error, if there is one."""

    _store: IdempotencyStore
    _key: str
    _tool: str
    _noted: Callable[[bytes], bytes] | None = None
    """Adds the call's key to a record, if the call is claimed under the key of its operation."""
    claim: Callable[[str, str], Awaitable[Claim]] | None = None  # in place of the store's own method
    goes_on: bool = False  # from its note, if its process died
    noted: str | None = None
    _fingerprint: str = ""
    _lease_s: float = _LEASE_S
    _timers: set[Timer] = field(default_factory=set)
    _ends: UnsavedEnds = field(init=False)
    """The ends that the store has not stored; claims and releases of a key go through it."""

    def __post_init__(self) -> None:
        self._ends = unsaved_ends(self._store)

    async def make(
        self, fingerprint: str, patience: float = math.inf, meets: Callable[[], object] = lambda: None
    ) -> Recorded | None:
        """Claims the key for the call; returns the record of its end if it has run before. If it is running elsewhere,
        calls `meets` and waits for that record, for `patience` seconds. Raises `ToolNotStarted` if the key is another
        call's, or the store refused or failed; `CallStillRunning`; `ToolOutcomeUnknown` if the call was begun before,
        and its end is unknown."""
        self._fingerprint = fingerprint
        since, until, pause_s = -math.inf, 0.0, _FIRST_PAUSE_S
        while True:
            claim = await self._claimed()
            if not isinstance(claim, StillRunning):
                break
            now = anyio.current_time()
            if claim.claimed_at != since:  # another claim than before, with its own time
                since, until, pause_s = claim.claimed_at, now + patience, _FIRST_PAUSE_S
                meets()
            if now >= until:
                raise CallStillRunning(
                    f"not run again: the call is running already (process {claim.pid} on {claim.host})"
                )
            await self._changed(min(until - now, pause_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if isinstance(claim, Recorded):
            return claim
        if not isinstance(claim, Claimed):
            raise ToolOutcomeUnknown(_BEGUN)
        self._ends.hold(self._key, self)
        self._renew_later()
        self.noted = claim.noted
        if self.noted is not None and not self.goes_on:
            await self.abandon()
            raise ToolOutcomeUnknown(_BEGUN)
        return None

    async def note(self, text: str) -> None:
        """Keeps a text with the claim, from which the call can be continued. Raises the store's errors."""
        keep = getattr(self._store, "note", None)
        if keep is not None:
            self.noted = text  # before the store answers: it may have stored the text, and its answer be lost
            await keep(self._key, text)

    async def _claimed(self) -> Claim:
        try:
            # Read before the claim, after which a bad value could no longer be refused.
            self._lease_s = float(getattr(self._store, "lease", _LEASE_S))
            return await self._ends.claim(self._store, self._key, self._fingerprint, self.claim)
        except ToolNotStarted:
            raise
        except Exception as error:  # a store of the user's, a full disk, a locked file
            ours = isinstance(error, LocalProtocolError)  # such as a store that is closed
            why = str(error) if ours else type_name(error)
            raise ToolNotStarted(f"not run: the idempotency store failed ({why})") from error

    async def _changed(self, seconds: float) -> None:
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
            due = anyio.current_time() + self._lease_s / 3
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

    async def _give(
        self, work: Awaitable[None], result: bytes | None = None, *, repeats: bool = True
    ) -> Exception | None:
        """Gives the store the claim's end; returns its error, unless a later claim shows that the end was stored. An
        end that was not is repeated: `result`, or the release of the key."""
        for timer in list(self._timers):
            timer.stop()
        failure: Exception | None = None
        try:
            await work
        except Exception as error:  # a store of the user's, a full disk
            failure = error
        finally:
            is_latest = self._ends.let_go(self._key, self)
        if failure is None or not is_latest:
            return None
        if repeats:
            self._ends.add(self._key, UnsavedEnd(self._fingerprint, result, time.monotonic() + self._lease_s))
            spawn(self._ends.repeat, self._store)
        return failure

    async def release(self) -> Exception | None:
        if self.noted is not None:  # it continues elsewhere
            return await self.abandon()
        return await self._give(self._store.release(self._key))

    async def abandon(self) -> Exception | None:
        return await self._give(self._store.abandon(self._key), repeats=False)

    async def fail(self, error: ToolError) -> Exception | None:
        return await self._keep(to_json({"error": encode_error(self._tool, error)}))

    async def complete(self, value: Any, notes: Mapping[str, Any] | None = None) -> Exception | None:
        """Returns a `ToolError` if JSON cannot express all of a value, and stores the model's part of it. If there is
        no such part, stores the error as the call's failure, and raises it."""
        try:
            data, unsaid = encode_result(value), None
        except ToolError as error:  # it has run, and there is no way to keep its value
            if not isinstance(value, ToolResult):
                await self.fail(error)
                raise
            data, unsaid = _without_value(value), error
        if notes:
            data = data[:-1] + b',"notes":' + to_json(notes) + b"}"
        return await self._keep(data) or unsaid

    async def _keep(self, data: bytes) -> Exception | None:
        data = data if self._noted is None else self._noted(data)
        return await self._give(self._store.complete(self._key, data), data)


# -- known ends that a store did not store --


@dataclass(frozen=True, slots=True)
class UnsavedEnd:
    fingerprint: str
    result: bytes | None = field(repr=False)  # the result; None if the claim is to be released
    until: float  # when to give up, on ``time.monotonic``


class UnsavedEnds:
    """The known ends of one store's calls that it did not store: answered from here, and repeated until their leases
    expire.

    A store knows a claim only by its key. So an end must not be repeated once the key is claimed again, as happens if
    the store had stored the end and its answer was lost: the repetition would end the new claim.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[str, UnsavedEnd] = OrderedDict()
        self._bytes = 0
        self._repeats = False
        self._asked: dict[object, str] = {}  # the keys that the store is claiming or ending at this moment
        self._lock = threading.Lock()  # calls in several threads, each with its loop, may share the store
        self._holders: dict[str, CallClaim] = {}  # the latest claim of a key, until the store was given its end

    def add(self, key: str, end: UnsavedEnd) -> None:
        self.forget(key)
        self._ends[key] = end
        self._bytes += len(end.result or b"")
        while len(self._ends) > _MOST_UNSAVED or self._bytes > _MOST_UNSAVED_BYTES:
            self.forget(next(iter(self._ends)))

    def forget(self, key: str) -> None:
        if (end := self._ends.pop(key, None)) is not None:
            self._bytes -= len(end.result or b"")

    async def claim(
        self,
        store: IdempotencyStore,
        key: str,
        fingerprint: str,
        make: Callable[[str, str], Awaitable[Claim]] | None = None,
    ) -> Claim:
        """Claims a key, after any pending release of it; answers from here if only this process has the end."""
        while True:
            with self._asking(key) as is_free:
                if is_free:
                    return await (make or store.claim)(key, fingerprint)
            end = self._ends.get(key)
            if end is None:
                continue
            checked_fingerprint(key, fingerprint, end.fingerprint)
            if end.result is not None:
                return Recorded(end.result)
            with self._asking(key, end) as is_ours:
                if is_ours:
                    await store.release(key)
                    self.forget(key)
                else:
                    await anyio.sleep(_FIRST_PAUSE_S)

    def hold(self, key: str, claim: CallClaim) -> None:
        """Notes a new claim of a key. The key was free, so the store has the end of any earlier claim."""
        self.forget(key)
        self._holders[key] = claim

    def let_go(self, key: str, claim: CallClaim) -> bool:
        """Notes that the store was given the end of a claim; returns False if the key is already claimed again."""
        if self._holders.get(key) is not claim:
            return False
        del self._holders[key]
        return True

    @contextmanager
    def _asking(self, key: str, end: UnsavedEnd | None = None) -> Iterator[bool]:
        """Yields whether the store may be asked about a key now: for a claim, if the key has no unsaved end; for the
        repetition of `end`, if it is still the key's, and no other request is under way."""
        this = object()
        with self._lock:
            may = self._ends.get(key) is end and (end is None or key not in self._asked.values())
            if may:
                self._asked[this] = key
        try:
            yield may
        finally:
            self._asked.pop(this, None)

    async def repeat(self, store: IdempotencyStore) -> None:
        if self._repeats:
            return
        self._repeats, pause_s = True, _FIRST_PAUSE_S
        try:
            while self._ends:
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_REPEAT_S)
                for key, end in list(self._ends.items()):
                    with self._asking(key, end) as is_ours:
                        if is_ours and (time.monotonic() >= end.until or await _is_taken(store, key, end)):
                            self.forget(key)
        finally:
            self._repeats = False


async def _is_taken(store: IdempotencyStore, key: str, end: UnsavedEnd) -> bool:
    try:
        await (store.release(key) if end.result is None else store.complete(key, end.result))
    except LocalProtocolError:  # it is stored: the answer was lost, or a person has settled it
        return True
    except Exception:
        return False
    return True


def unsaved_ends(store: IdempotencyStore) -> UnsavedEnds:
    try:
        return _unsaved.setdefault(store, UnsavedEnds())
    except TypeError:  # it has no weak references, or is not hashable
        return UnsavedEnds()


_unsaved: weakref.WeakKeyDictionary[IdempotencyStore, UnsavedEnds] = weakref.WeakKeyDictionary()
if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows has no fork
    os.register_at_fork(after_in_child=_unsaved.clear)  # the parent repeats its own
_MOST_UNSAVED = 1_000
_MOST_UNSAVED_BYTES = 16 << 20
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.25
_LONGEST_REPEAT_S = 5.0
"""Between two tries to save ends: other operations queue after them, perhaps for a server that does not answer."""


async def run_once(
    store: IdempotencyStore,
    executor: Executor,
    call: Invocation,
    emit: Emit = lambda report: None,
    *,
    seconds: float = math.inf,
    store_failed: StoreFailed = lambda work, error: None,
) -> CallValue:
    """Runs a call on an executor, unless it ran before.

    Args:
        store: keeps claims and results.
        executor: runs the call, unless the store has a record of it.
        call: the call; its `key` is claimed for its tool and arguments.
        emit: called with the tool's reports.
        seconds: the time limit of the call once it has begun.
        store_failed: called with failures of the store after the claim, which change nothing else.

    Raises:
        ToolOutcomeUnknown: the call was begun, before or now, and its end is unknown.
        ToolNotStarted: the call did not run: the key belongs to another call, or the store or the executor refused.
        ToolError: the call failed, now or before.
    """
    claim = CallClaim(store, call.key, call.tool)
    refused: Exception | None = None
    found: Recorded | None = None
    begun = False

    def tell(work: StoreWork, failure: Exception | None) -> None:
        if failure is not None:
            store_failed(work, failure)

    async def begin() -> float:
        nonlocal refused, found, begun
        try:
            found = await claim.make(call_fingerprint(call.tool, call.arguments))
            if found is not None:
                raise BeginRefused("not run: the call has run before")
            try:
                await checkpoint_if_cancelled()
            except BaseException:  # cancelled while the claim was being made: nothing has run, and nothing will
                tell("release", await claim.release())
                raise
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
            tell("release", await claim.release())
        elif isinstance(failure, ToolError) and not isinstance(failure, (ToolOutcomeUnknown, ToolTimeout)):
            tell("complete", await claim.fail(failure))
        else:
            tell("abandon", await claim.abandon())
        if failure is error:
            raise
        raise failure from error
    not_kept = await claim.complete(value)
    if not isinstance(not_kept, ToolError):
        tell("complete", not_kept)
    return CallValue(value=value, not_kept=not_kept)


def _after_begin(error: BaseException) -> BaseException:
    """Returns the error to report for one that came after the call had begun, so it cannot mean "not started"."""
    if isinstance(error, ToolNotStarted) and not error.by_tool:
        return ToolOutcomeUnknown(f"the executor raised {type_name(error)} after the call had begun")
    return error


def recorded_value(tool: str, claim: Recorded) -> Any:
    if claim.result is None:
        return _TOO_LARGE
    try:
        read = from_json(claim.result)
        known = decode_error(read["error"]) if "error" in read else decode_result(claim.result)
    except Exception as error:  # a user's own store, or a record that another version wrote
        text = f"not run again: the call of {tool} ran before, but its record cannot be read"
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
