"""A store's own thread: operations go in from any event loop, and their answers come back into it.

Theory of operation. An operation is handed over before its caller first awaits, and the thread does one after the
other. Callers may leave at any time, and at once. A claim that nobody waits for any more is dropped before it is made
lasting, or taken back by the same thread right after that; all other operations go on to their end. Each has a
deadline, counted from when it was handed over, so that operations that wait for the same locked file give up together.
Between two operations the thread renews the leases of the store's open claims.

No connection may be open across a fork, so it is closed before and opened again, on both sides, when it is needed. The
child begins with a new thread, and with no claims of its own. An idle thread ends, and a forgotten store with it.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Self, TypeVar

import anyio
from anyio.lowlevel import current_token

from ..errors import LocalProtocolError, ToolNotStarted
from ..event_loop import call_soon
from .store import Claim, Claimed, checked_key, this_process

__all__ = ["StoreJob", "ThreadedStore", "checked_seconds"]

T = TypeVar("T")

IDLE_S = 1.0  # until a thread with nothing to do ends
GRACE_S = 0.5  # after a deadline, so that the thread can raise its own error, which says what was in the way


class Left(Exception):
    """Raised in the thread when nobody waits for the claim any more."""


@dataclass(slots=True, eq=False)
class StoreJob:
    """One operation on its way through the thread."""

    work: Callable[[StoreJob], object]
    """Does the operation, in the thread."""
    patience: float
    """For how many seconds the operation may wait, from now on."""
    undo: Callable[[StoreJob], object] | None = None
    """Takes back the claim that `work` has made."""
    tell: Callable[[], None] = lambda: None
    """Is called in the thread when the operation has ended."""
    until: float = field(init=False)
    """When to give up, on ``time.monotonic``."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    left: bool = False
    over: bool = False
    value: Any = None
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.patience

    def run(self) -> None:
        """Does the operation, in the thread; raises nothing."""
        try:
            self.value = self.work(self)
        except Exception as error:
            self.error = error
        with self.lock:
            self.over, late = True, self.left
        if late:
            self.taken_back().run()
        self.tell()

    def check(self) -> None:
        """Raises `Left` if nobody waits for this claim any more. Call it before a claim is made lasting."""
        with self.lock:
            if self.left and self.undo is not None:
                raise Left

    def leave(self) -> bool:
        """Stops waiting; returns True if the operation is over, so that the caller has to take it back."""
        with self.lock:
            self.left = True
            return self.over

    def taken_back(self) -> StoreJob:
        """Returns the operation that undoes this one, or that does nothing if this one has claimed nothing."""
        undo = self.undo if isinstance(self.value, Claimed) else None
        return StoreJob(undo or (lambda job: None), self.patience)

    def answer(self) -> Any:
        """Returns the value of `work`, or raises its error."""
        if self.error is not None:
            raise self.error
        return self.value


class ThreadedStore(ABC):
    """An `IdempotencyStore` with a thread of its own, for any number of event loops and threads. An operation waits for
    `patience` seconds at most; a claim that is not renewed is alive for `lease` seconds."""

    def __init__(self, patience: float, lease: float) -> None:
        self._patience = patience
        self._lease = checked_seconds("lease", lease)
        self._closed = False
        self.begin_anew()
        with _guard:
            _stores.add(self)

    def begin_anew(self) -> None:
        """Begins in this process with no thread and no claims. Call it while no connection is open."""
        self._holder = this_process()
        self._lock = threading.Lock()
        self.gate = threading.RLock()
        """Held while a connection is in use. A fork waits for it."""
        self._jobs: SimpleQueue[StoreJob | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._open: dict[str, str] = {}  # keys and ids of this store's open claims: for its thread alone
        self._renew_at = 0.0

    # -- for callers --

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """See `IdempotencyStore`."""
        checked_key(key)
        claim_id = os.urandom(8).hex()
        make, undo = partial(self._claimed, key, fingerprint, claim_id), partial(self._taken_back, key, claim_id)
        try:
            claim: Claim = await self._ask(make, undo)
        except TimeoutError as error:
            raise ToolNotStarted(f"not run: {error}") from error
        return claim

    async def complete(self, key: str, result: bytes, /) -> None:
        """See `IdempotencyStore`."""
        await self._ask(partial(self._completed, key, result))

    async def release(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        await self._ask(partial(self._released, key))

    async def abandon(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        await self._ask(partial(self._abandoned, key))

    def close(self) -> None:
        """Finishes the operations that were handed over, abandons the claims that are left, and ends the thread. Waits
        as long as an operation may; may be called twice."""
        if self._holder.pid != os.getpid():  # another process' store
            return
        with self._lock:
            self._closed, thread = True, self._thread
            if thread is not None:
                self._jobs.put(None)
        if thread is not None:
            thread.join(self._patience + GRACE_S)
        else:
            self._disconnect()

    def wait_briefly(self) -> None:
        """Waits, after `close`, for the operations that were handed over, no longer than an interrupted program may."""
        if (thread := self._thread) is not None:
            thread.join(GRACE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def _ask(self, work: Callable[[StoreJob], T], undo: Callable[[StoreJob], object] | None = None) -> T:
        ended = anyio.Event()
        job = StoreJob(work, self._patience, undo, partial(call_soon, current_token(), ended.set))
        self._submit(job)
        try:
            with anyio.move_on_after(self._patience + GRACE_S) as bound:
                await ended.wait()
        except BaseException:
            self._leave(job)
            raise
        if bound.cancelled_caught:
            self._leave(job)
            raise TimeoutError(self._busy())
        value: T = job.answer()
        return value

    def _submit(self, job: StoreJob) -> None:
        if self._holder.pid != os.getpid():
            text = "the process was forked by other means than Python's, behind the opening of the store"
            raise LocalProtocolError(f"{text}: open a {type(self).__name__} of its own in it")
        with self._lock:
            if self._closed:
                raise LocalProtocolError(f"the {type(self).__name__} is closed")
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name=f"streamtools {type(self).__name__}", daemon=True)
                thread.start()
                self._thread = thread
            self._jobs.put(job)

    def _leave(self, job: StoreJob) -> None:
        if job.leave():
            self._jobs.put(job.taken_back())

    # -- in the thread --

    def _serve(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._spare_s())
            except Empty:
                if self._open:
                    self._renew_open()
                elif self._retire():  # pragma: no branch - as in it
                    return
                continue
            if job is None:
                break
            job.run()
            if self._open and time.monotonic() >= self._renew_at:
                self._renew_open()
        if self._open:
            StoreJob(partial(self._renew, self._open, None), self._patience).run()
        self._disconnect()

    def _spare_s(self) -> float:
        return max(0.0, self._renew_at - time.monotonic()) if self._open else IDLE_S

    def _retire(self) -> bool:
        with self._lock:
            if not self._jobs.empty():  # pragma: no cover - an operation has come between
                return False
            self._disconnect()
            self._thread = None
            return True

    def _renew_open(self) -> None:
        """Renews the leases of the open claims. Tries once, since operations wait behind this; if that fails, there is
        time for another try."""
        self._renew_at = time.monotonic() + self._lease / 3
        StoreJob(partial(self._renew, self._open, self._lease), 0.0).run()

    def _claimed(self, key: str, fingerprint: str, claim_id: str, job: StoreJob) -> Claim:
        job.check()
        claim = self._claim(key, fingerprint, claim_id, job)
        if isinstance(claim, Claimed):
            if not self._open:
                self._renew_at = time.monotonic() + self._lease / 3
            self._open[key] = claim_id
        return claim

    def _taken_back(self, key: str, claim_id: str, job: StoreJob) -> None:
        if self._open.get(key) == claim_id:  # pragma: no branch - it was released and claimed again meanwhile
            del self._open[key]
        self._release(key, claim_id, job)

    # A claim that ends is not renewed any more, even if the store now fails.

    def _completed(self, key: str, result: bytes, job: StoreJob) -> None:
        self._complete(key, self._open.pop(key, None), result, job)

    def _released(self, key: str, job: StoreJob) -> None:
        self._release(key, self._open.pop(key, None), job)

    def _abandoned(self, key: str, job: StoreJob) -> None:
        self._renew({key: self._open.pop(key, None)}, None, job)

    # -- for each kind of store to implement, called in its thread. A claim's id is None if another store has made it --

    @abstractmethod
    def _claim(self, key: str, fingerprint: str, claim_id: str, job: StoreJob) -> Claim: ...

    @abstractmethod
    def _complete(self, key: str, claim_id: str | None, result: bytes, job: StoreJob) -> None: ...

    @abstractmethod
    def _release(self, key: str, claim_id: str | None, job: StoreJob) -> None: ...

    @abstractmethod
    def _renew(self, claims: Mapping[str, str | None], lease: float | None, job: StoreJob) -> None:
        """Renews the leases of these claims, or ends them if `lease` is None."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Closes the connection, with the gate held, if one is open."""

    @abstractmethod
    def _busy(self) -> str:
        """Returns the text for an operation that waited in vain: for what, and how long."""


def checked_seconds(name: str, value: float) -> float:
    """Returns a number of seconds to wait, or refuses a value that is none."""
    if isinstance(value, bool) or not 0 < value <= threading.TIMEOUT_MAX:
        raise ValueError(f"{name}={value!r}: must be a number of seconds greater than 0")
    return value


# -- forks and the end of the process --

_stores: weakref.WeakSet[ThreadedStore] = weakref.WeakSet()
_guard = threading.RLock()
_held: list[ThreadedStore] = []


def _before_fork() -> None:
    _guard.acquire()
    for store in list(_stores):
        store.gate.acquire()
        _held.append(store)
        store._disconnect()


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().gate.release()
    _guard.release()


def _after_fork_in_child() -> None:  # pragma: no cover - nobody measures there
    global _guard
    _guard = threading.RLock()
    while _held:
        _held.pop().begin_anew()


def _close_all() -> None:  # pragma: no cover - nobody measures so late
    for store in list(_stores):
        try:
            store.close()
        except KeyboardInterrupt:  # a second Ctrl-C: the user does not want to wait for a locked file
            try:
                store.wait_briefly()
            except KeyboardInterrupt:
                continue


atexit.register(_close_all)  # a daemon thread is cut off by the end of the process, wherever it is
if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
