"""Keeps records with a blocking driver, in a thread of its own.

Operations come from any event loop, and their answers go back to it. An operation is handed over before its caller
first awaits, and the thread does them in order. A commit that can be undone, and whose caller no longer waits, is
dropped before it is made permanent, or undone right after that; all other operations finish. Each has a deadline,
counted from when it was handed over, so that operations that wait for the same locked file give up together. Between
operations the thread renews the records that were put as `renewed`.

No connection may be open across a fork, so it is closed before one, and opened again on both sides when it is needed.
The child begins with a new thread, and renews nothing. An idle thread ends, so that forgotten `Records` leave none.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import anyio

from ..errors import LocalProtocolError
from .records import (
    Conflict,
    DeletePrefix,
    Done,
    Key,
    News,
    Op,
    Put,
    Record,
    Rev,
    Row,
    Step,
    Touch,
    changed_keys,
    checked_written_key,
    expected,
    heard,
    is_under,
    key_of,
    record_of,
    steps_of,
    waker,
    written_key,
)

T = TypeVar("T")

GRACE_S = 0.5  # after a deadline, so that the thread can raise its own error, which names the obstacle
UNASKED_S = 10.0  # for which a listener goes on listening without a request
LISTEN_S = 1.0  # for which a listener waits, before it checks whether it is still wanted
LOOK_S = 0.01  # between two looks for changes by others, while a caller waits for them
POLL_S = 0.25  # between two reads by a reader that gets no news


class Left(Exception):
    """Raised in the thread when the caller no longer waits for the commit."""


@dataclass(slots=True, eq=False)
class StoreJob:
    work: Callable[[StoreJob], object]
    patience: float  # seconds for which the operation may wait, from now on
    undo: Callable[[StoreJob], object] | None = None  # takes back what `work` has committed
    tell: Callable[[], None] = lambda: None
    until: float = field(init=False)  # when to give up, on ``time.monotonic``
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
        """Raises `Left` if the caller no longer waits for this commit. Call it before the commit is made permanent."""
        with self.lock:
            if self.left and self.undo is not None:
                raise Left

    def leave(self) -> bool:
        """Stops waiting; returns True if the operation is over, so that the caller must undo it."""
        with self.lock:
            self.left = True
            return self.over

    def taken_back(self) -> StoreJob:
        undo = self.undo if isinstance(self.value, Done) else None
        return StoreJob(undo or (lambda job: None), self.patience)

    def answer(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class ThreadedRecords(ABC):
    """`Records` with a thread of their own. An operation waits for `patience` seconds at most."""

    idle_s = 1.0  # until an idle thread ends, with its connection
    looks = False  # whether the thread looks for changes while a caller waits for one; else a server reports them

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._closed = False
        self.name = type(self).__name__  # in messages
        self.begin_anew()
        with _guard:
            _stores.add(self)

    def begin_anew(self) -> None:
        """Begins in this process with no thread and nothing to renew. Call it while no connection is open."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self.gate = threading.RLock()  # held while a connection is in use. A fork waits for it.
        self._jobs: SimpleQueue[StoreJob | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._renewed: dict[Key, tuple[int, float]] = {}  # with `rev` and `stale_in`; only the thread uses it
        self._renew_at = 0.0
        self.news = News()
        self._listener: Listener | None = None

    # -- for callers --

    async def get(self, *keys: Key) -> list[Record | None]:
        rows = await self._ask(partial(self._get, [*map(checked_written_key, keys)]))
        found = {one.key: one for one in map(record_of, rows)}
        return [found.get(key) for key in keys]

    async def scan(self, prefix: Key, after: Key | None = None, limit: int = 1_000) -> list[Record]:
        least, behind = written_key(prefix), b"" if after is None else written_key(after)
        return [*map(record_of, await self._ask(partial(self._scan, least, least + b"\xff", behind, limit)))]

    async def commit(self, *ops: Op, undo: Sequence[Op] = ()) -> Done | Conflict:
        back = partial(self._take_back, undo) if undo else None
        return await self._ask(partial(self._commit, steps_of(ops), undo), back)

    def hand_over(self, *ops: Op) -> Callable[[], Coroutine[Any, Any, Done | Conflict]]:
        return self.handed(partial(self._commit, steps_of(ops), ()))

    async def changed(self, prefix: Key, since: int, seconds: float) -> int:
        if not since:
            await self._ask(self._listen)
            return self.news.number
        look = partial(self._submit, StoreJob(self._listen, self._patience))
        return await self.news.wait(prefix, since, seconds if self._hears() else min(seconds, POLL_S), look)

    def close(self) -> None:
        """Finishes pending operations, stops renewing records, and ends the thread. Waits as long as an operation may;
        calling it twice is safe."""
        if self._pid != os.getpid():  # another process'
            return
        with self._lock:
            self._closed, thread = True, self._thread
            if self._listener is not None:
                self._listener.closed = True
            if thread is not None:
                self._jobs.put(None)
        if thread is not None:
            thread.join(self._patience + GRACE_S)
        else:
            self._disconnect()

    def wait_briefly(self) -> None:
        """Waits, after `close`, for pending operations, but only as long as an interrupted program should."""
        if (thread := self._thread) is not None:
            thread.join(GRACE_S)

    async def _ask(self, work: Callable[[StoreJob], T], undo: Callable[[StoreJob], object] | None = None) -> T:
        return await self.handed(work, undo)()

    def handed(
        self, work: Callable[[StoreJob], T], undo: Callable[[StoreJob], object] | None = None
    ) -> Callable[[], Coroutine[Any, Any, T]]:
        """Hands an operation to the thread at once; returns a function that waits for its answer."""
        ended = anyio.Event()
        job = StoreJob(work, self._patience, undo, waker(ended))
        self._submit(job)

        async def answer() -> T:
            try:
                with anyio.move_on_after(self._patience + GRACE_S) as bound:
                    await ended.wait()
            except BaseException:
                self._leave(job)
                raise
            if bound.cancelled_caught:
                self._leave(job)
                self._break_off()
                raise TimeoutError(self._busy())
            value: T = job.answer()
            return value

        return answer

    def _submit(self, job: StoreJob) -> None:
        if self._pid != os.getpid():
            text = "the process was forked by other means than `os.fork` after the store was opened"
            raise LocalProtocolError(f"{text}: open another {self.name} in the child")
        with self._lock:
            if self._closed:
                raise LocalProtocolError(f"the {self.name} is closed")
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
                if is_looking := self.looks and bool(self.news.waiting):
                    self._look()
                if self._renewed:
                    self._renew_when_due()
                elif not is_looking and self._retire():
                    return
                continue
            if job is None:
                break
            job.run()
            self._renew_when_due()
        if self._renewed:
            touches = [Touch(key, rev, 0.0) for key, (rev, _) in self._renewed.items()]
            StoreJob(partial(self._touch, touches), self._patience).run()
        self._disconnect()

    def _spare_s(self) -> float:
        spare = max(0.0, self._renew_at - time.monotonic()) if self._renewed else self.idle_s
        return min(spare, LOOK_S) if self.looks and self.news.waiting else spare

    def _retire(self) -> bool:
        with self._lock:
            if not self._jobs.empty():  # pragma: no cover - an operation has come between
                return False
            self._disconnect()
            self._thread = None
            return True

    def _renew_when_due(self) -> None:
        """Tries only once, since operations wait for this; if that fails, there is time for another try."""
        if not self._renewed or time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + min(seconds for _, seconds in self._renewed.values()) / 3
        touches = [Touch(key, rev, seconds) for key, (rev, seconds) in self._renewed.items()]
        StoreJob(partial(self._touch, touches), 0.0).run()

    def _take_back(self, undo: Sequence[Op], job: StoreJob) -> Done | Conflict:
        return self._commit(steps_of(undo), (), job)

    def _commit(self, steps: Sequence[Step], undo: Sequence[Op], job: StoreJob) -> Done | Conflict:
        job.check()
        self.let_go(steps)
        if undo and time.monotonic() >= job.until:
            raise TimeoutError(self._busy())  # it was queued after others that got no answer
        try:
            end = self._make(steps, job)
        except Exception:
            if undo:  # it may have been made, and its answer lost
                StoreJob(partial(self._make, steps_of(undo)), 0.0).run()
            raise
        self.note(steps, end)
        return end

    def let_go(self, steps: Sequence[Step]) -> None:
        """Stops renewing records that are about to be changed, even if the change fails."""
        for step in steps:
            rev, _ = self._renewed.get(key := key_of(step), (0, 0.0))
            is_meant = isinstance(expect := expected(step), Rev) and expect.number == rev
            if is_meant and any(_changes(one, key) for one in steps):
                del self._renewed[key]

    def note(self, steps: Sequence[Step], end: Done | Conflict) -> None:
        """Notes the result of a commit of these steps."""
        if isinstance(end, Done):
            for step in steps:
                if isinstance(step, Put) and step.renewed and step.stale_in is not None:
                    due = time.monotonic() + step.stale_in / 3
                    self._renew_at = min(self._renew_at, due) if self._renewed else due
                    self._renewed[step.key] = step.rev, step.stale_in
            if keys := changed_keys(steps):
                self.news.tell(*keys)

    # -- for each kind to implement, called in its thread --

    @abstractmethod
    def _get(self, keys: Sequence[bytes], job: StoreJob) -> list[Row]: ...

    @abstractmethod
    def _scan(self, least: bytes, most: bytes, behind: bytes, limit: int, job: StoreJob) -> list[Row]:
        """Returns the records from `least` up to, but not including, `most`, and only those after `behind`."""

    @abstractmethod
    def _make(self, steps: Sequence[Step], job: StoreJob) -> Done | Conflict: ...

    @abstractmethod
    def _touch(self, touches: Sequence[Touch], job: StoreJob) -> None:
        """Touches those of the records that exist."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Closes the connection, with the gate held, if one is open."""

    @abstractmethod
    def _busy(self) -> str:
        """Returns the text for an operation that timed out: what it waited for, and how long."""

    @abstractmethod
    def _listen(self, job: StoreJob) -> None:
        """Begins to listen for changes by others."""

    def _look(self) -> None:  # noqa: B027 - if `looks`
        """Looks for changes by others."""

    def _hears(self) -> bool:
        return self.looks or (self._listener is not None and self._listener.ready.is_set())

    def listen_by(self, connect: Callable[[], AbstractContextManager[Callable[[float], Iterable[str]]]]) -> None:
        """Ensures that a thread listens, and waits until it does."""
        if self._listener is None or not self._listener.is_alive():
            self._listener = Listener(self.news, connect)
            self._listener.start()
        self._listener.asked_at = time.monotonic()
        self._listener.ready.wait(min(1.0, self._patience))

    def _break_off(self) -> None:  # noqa: B027 - other drivers keep to their time limit
        """Ends an overdue operation, from another thread."""


def _changes(step: Step, key: Key) -> bool:
    if isinstance(step, DeletePrefix):
        return is_under(key, step.prefix)
    return step.key == key and (isinstance(step, Put) or (isinstance(step, Touch) and not step.stale_in))


class Listener(threading.Thread):
    """Receives the changes by others from a server, as long as a caller has recently waited for some.

    Args:
        news: gets the changed keys, and a notice that any may have changed after a time without listening.
        connect: begins to listen; returns a function that waits for some seconds and returns texts for `heard`.
    """

    def __init__(self, news: News, connect: Callable[[], AbstractContextManager[Callable[[float], Iterable[str]]]]):
        super().__init__(name="streamtools listener", daemon=True)
        self._news = news
        self._connect = connect
        self.ready, self.closed = threading.Event(), False
        self.asked_at = time.monotonic()

    def run(self) -> None:
        while self._is_wanted():
            try:
                with self._connect() as hear:
                    self._news.tell()
                    self.ready.set()
                    while self._is_wanted():
                        for text in hear(LISTEN_S):
                            self._news.tell(*heard(text))
            except Exception:  # the server is gone; readers look by themselves until it is back
                time.sleep(POLL_S)
            finally:
                self.ready.clear()
                self._news.tell()

    def _is_wanted(self) -> bool:
        is_wanted = bool(self._news.waiting) or time.monotonic() < self.asked_at + UNASKED_S
        return is_wanted and not self.closed and threading.main_thread().is_alive()


# -- forks and the end of the process --

_stores: weakref.WeakSet[ThreadedRecords] = weakref.WeakSet()
_guard = threading.RLock()
_held: list[ThreadedRecords] = []


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


atexit.register(_close_all)  # the end of the process cuts a daemon thread off, whatever it is doing
if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
