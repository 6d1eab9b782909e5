"""Keeps calls from running twice, by a store in one file that outlives the process.

Each operation is one short transaction, and is on the disk when it returns (``synchronous=FULL``). The file has to be
on a local disk, since SQLite's write-ahead log does not work over networks. https://sqlite.org/wal.html

Leases are measured by a clock that all processes of the machine share and that nobody sets. After a restart of the
machine the end of all earlier claims is unknown.

Theory of operation of `ThreadedStore`. Operations go in from any event loop, and their answers come back into it. An
operation is handed over before its caller first awaits, and the thread does one after the other. A claim for which
nobody waits any more is dropped before it is made lasting, or taken back right after that; all other operations go on
to their end. Each has a deadline, counted from when it was handed over, so that operations that wait for the same
locked file give up together. Between two operations the thread renews the leases of the store's open claims.

No connection may be open across a fork, so it is closed before and opened again, on both sides, when it is needed. The
child begins with a new thread, and with no claims of its own. An idle thread ends, and a forgotten store with it.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal, Self, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import current_token

from ..dispatch.event_loop import call_soon
from ..errors import LocalProtocolError, ToolNotStarted
from ..limits import checked_bound
from .files import make_private, narrow
from .holders import (
    Holder,
    boot_id,
    checked_fingerprint,
    checked_key,
    machine_clock,
    no_room,
    not_claimed,
    this_process,
)
from .store import Claim, Claimed, EndUnknown, Recorded, StillRunning

T = TypeVar("T")

CallState: TypeAlias = Literal["running", "unknown", "completed"]
IDLE_S = 1.0  # until a thread with nothing to do ends
_MOST_FAILED = 10_000  # claims whose ends could not be written, more than are repeated at any time
GRACE_S = 0.5  # after a deadline, so that the thread can raise its own error, which says what was in the way


class Left(Exception):
    """Raised in the thread when nobody waits for the claim any more."""


@dataclass(slots=True, eq=False)
class StoreJob:
    work: Callable[[StoreJob], object]
    patience: float  # for how many seconds the operation may wait, from now on
    undo: Callable[[StoreJob], object] | None = None  # takes back the claim that `work` has made
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
        undo = self.undo if isinstance(self.value, Claimed) else None
        return StoreJob(undo or (lambda job: None), self.patience)

    def answer(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class ThreadedStore(ABC):
    """A `DecidingStore` with a thread of its own, for any number of event loops and threads. An operation waits for
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
        self.gate = threading.RLock()  # held while a connection is in use. A fork waits for it.
        self._jobs: SimpleQueue[StoreJob | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # Keys and ids of this store's claims, for its thread alone: those that are open, and those whose end failed, so
        # that repeating it cannot meet the claim of somebody else.
        self._open: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._renew_at = 0.0

    # -- for callers --

    @property
    def lease(self) -> float:
        """For how many seconds a claim is alive unless it is renewed; the store renews its claims by itself."""
        return self._lease

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """See `IdempotencyStore`."""
        claim_id = os.urandom(8).hex()
        return await self._asked(key, claim_id, partial(self._claimed, key, fingerprint, claim_id))

    async def complete(self, key: str, result: bytes, /) -> None:
        """See `IdempotencyStore`."""
        await self._ask(partial(self._completed, key, result))

    async def release(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        await self._ask(partial(self._released, key))

    async def abandon(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        await self._ask(partial(self._abandoned, key))

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        """See `DecidingStore`."""
        checked_key(key)
        return await self._ask(partial(self._decide, key, record))

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

    async def _asked(self, key: str, claim_id: str, make: Callable[[StoreJob], Claim]) -> Claim:
        checked_key(key)
        try:
            return await self._ask(make, partial(self._taken_back, key, claim_id))
        except TimeoutError as error:
            raise ToolNotStarted(f"not run: {error}") from error

    async def _ask(self, work: Callable[[StoreJob], T], undo: Callable[[StoreJob], object] | None = None) -> T:
        return await self._handed(work, undo)()

    def _handed(
        self, work: Callable[[StoreJob], T], undo: Callable[[StoreJob], object] | None = None
    ) -> Callable[[], Coroutine[Any, Any, T]]:
        """Hands an operation to the thread at once; returns what waits for its answer."""
        ended = anyio.Event()
        job = StoreJob(work, self._patience, undo, partial(call_soon, current_token(), ended.set))
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
                raise TimeoutError(self._busy())
            value: T = job.answer()
            return value

        return answer

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
        return self._opened(key, claim_id, self._claim(key, fingerprint, claim_id, job))

    def _opened(self, key: str, claim_id: str, claim: Claim) -> Claim:
        if isinstance(claim, Claimed):
            if not self._open:
                self._renew_at = time.monotonic() + self._lease / 3
            self._open[key] = claim_id
            self._failed.pop(key, None)
        return claim

    def _taken_back(self, key: str, claim_id: str, job: StoreJob) -> None:
        if self._open.get(key) == claim_id:  # pragma: no branch - it was released and claimed again meanwhile
            del self._open[key]
        self._release(key, claim_id, job)

    # A claim that ends is not renewed any more, even if the store now fails.

    def _completed(self, key: str, result: bytes, job: StoreJob) -> None:
        with self._ended(key) as claim_id:
            self._complete(key, claim_id, result, job)

    def _released(self, key: str, job: StoreJob) -> None:
        with self._ended(key) as claim_id:
            self._release(key, claim_id, job)

    def _abandoned(self, key: str, job: StoreJob) -> None:
        with self._ended(key) as claim_id:
            self._renew({key: claim_id}, None, job)

    @contextmanager
    def _ended(self, key: str) -> Iterator[str | None]:
        claim_id = self._open.pop(key, None) or self._failed.pop(key, None)
        try:
            yield claim_id
        except Exception:
            if claim_id is not None:
                self._failed[key] = claim_id
                if len(self._failed) > _MOST_FAILED:
                    del self._failed[next(iter(self._failed))]
            raise

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
    def _decide(self, key: str, record: bytes | None, job: StoreJob) -> bytes | None: ...

    @abstractmethod
    def _disconnect(self) -> None:
        """Closes the connection, with the gate held, if one is open."""

    @abstractmethod
    def _busy(self) -> str:
        """Returns the text for an operation that waited in vain: for what, and how long."""


def checked_seconds(name: str, value: float) -> float:
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


# -- the store in a file --


APPLICATION, VERSION = 0x73747374, 3
LEASE = "lease"  # stands for the fingerprint of what is no call
PAUSE_S = 0.005  # between two tries while the file is locked

_COLUMNS = {
    1: "number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,"
    " claimed_at REAL NOT NULL, completed INTEGER NOT NULL DEFAULT 0, result BLOB",
    2: "claim_id TEXT, host TEXT, pid INTEGER, boot TEXT, start TEXT, lease_until REAL",
}
_OURS = ((0, 1), (APPLICATION, 2), (APPLICATION, 3))
_NAMES = {n: [one.split()[0] for version in range(1, n + 1) for one in _COLUMNS[version].split(",")] for n in (1, 2)}
_NAMES[3] = _NAMES[2]
_AROUND = (  # a claim takes the same time however many calls there are
    "CREATE INDEX completed_calls ON calls (number) WHERE completed",
    "CREATE TABLE counted (calls INTEGER NOT NULL)",
    "INSERT INTO counted SELECT count(*) FROM calls",
    "CREATE TRIGGER call_added AFTER INSERT ON calls BEGIN UPDATE counted SET calls = calls + 1; END",
    "CREATE TRIGGER call_deleted AFTER DELETE ON calls BEGIN UPDATE counted SET calls = calls - 1; END",
)
_DECISIONS = (
    "CREATE TABLE decisions (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, record BLOB NOT NULL)",
    f"PRAGMA application_id={APPLICATION}",
    f"PRAGMA user_version={VERSION}",
)
_HELD = (  # what is kept while a step of a journal's run may ask for it again
    "CREATE TABLE IF NOT EXISTS held (key TEXT NOT NULL, run INTEGER NOT NULL, step INTEGER NOT NULL,"
    " PRIMARY KEY (key, run, step)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS held_by ON held (run, step)",
)
HOLD = "INSERT OR IGNORE INTO held (key, run, step) VALUES (?, ?, ?)"
_CLAIM = "claimed_at, completed, lease_until, host, pid, boot, start"


@dataclass(frozen=True, slots=True)
class StoredCall:
    key: str
    fingerprint: str
    state: Literal["running", "unknown", "completed"]
    claimed_at: float  # when it was claimed, in seconds since 1970
    host: str
    pid: int  # the process that claimed it, or 0 if that is not known


class SqliteStore(ThreadedStore):
    """A `DecidingStore` in a file.

        with SqliteStore("calls.sqlite3") as store:
            ...

    Args:
        path: the file; it is made if there is none. It contains results in the clear, so it is narrowed to its
            owner if others may read it.
        max_entries: how many keys are kept; see `MemoryStore`. Those that a run of a journal would claim again stay.
        max_result_bytes: how large a kept result may be; see `MemoryStore`.
        busy_timeout: for how many seconds an operation waits while another process holds the file.
        lease: for how many seconds a claim is alive if its process stands still. A process that has ended is noticed
            at once, where there is a ``/proc``.
        must_exist: never make a file, nor turn an empty one into a store.

    Raises:
        ValueError: the path is empty, or names no file.
        LocalProtocolError: the file is another application's, or of a newer version of this library.
        TimeoutError: another process holds the file.
        OSError: the file cannot be made; or it is another user's, a symbolic link, or no regular file.
        sqlite3.Error: the file cannot be opened, or is no database.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_entries: int = 100_000,
        max_result_bytes: int = 1 << 20,
        busy_timeout: float = 10.0,
        lease: float = 30.0,
        must_exist: bool = False,
    ) -> None:
        if not os.fspath(path) or os.fspath(path).startswith((":memory:", "file:")):
            raise ValueError(f"a SqliteStore needs the path of a file, not {path!r}; MemoryStore keeps calls in memory")
        self._path = Path(path).absolute()
        self._max_entries = checked_bound("max_entries", max_entries)
        self._max_result_bytes = checked_bound("max_result_bytes", max_result_bytes)
        self._may_make = not must_exist
        self._file: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None
        super().__init__(checked_seconds("busy_timeout", busy_timeout), lease)
        try:
            self._transact(lambda connection: None, StoreJob(lambda job: None, busy_timeout))
        except sqlite3.Error as error:
            error.add_note(f"the file is {str(path)!r}")
            raise
        finally:
            self._disconnect()

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._path

    async def calls(self, *, completed: bool = False) -> list[StoredCall]:
        """Returns the calls that run or whose end is not known, in the order of their claims.

        Args:
            completed: return those on record, too.
        """
        return await self._ask(partial(self._transact, partial(_calls, completed)))

    async def settle(self, key: str, result: bytes | None, *, force: bool = False) -> None:
        """Notes what became of a call whose end is not known.

        Args:
            key: the call's.
            result: is put on record (see `streamtools.dispatch.results`); None if the call is known not to have run, so
                that it may.
            force: settle the call even if it still runs.

        Raises:
            LocalProtocolError: there is no such call, it is on record, or it still runs.
        """
        await self._ask(partial(self._transact, partial(self._settle, key, result, force)))

    # -- for a journal, whose tables stand beside the calls --

    async def take(self, key: str, claim_id: str, /) -> Claim:
        """Claims a key as `claim` does, also if its holder is gone: the lease of something that goes on."""
        checked_key(key)
        make = partial(self._made, key, claim_id, partial(self._take_in, key, claim_id))
        return await self._ask(make, partial(self._taken_back, key, claim_id))

    async def claim_if(self, key: str, fingerprint: str, allowed: Callable[[sqlite3.Connection], object], /) -> Claim:
        """Claims a key as `claim` does, unless `allowed`, which reads in the same transaction, raises."""
        claim_id = os.urandom(8).hex()

        def work(connection: sqlite3.Connection) -> Claim:
            allowed(connection)
            return self._claim_in(key, fingerprint, claim_id, connection)

        return await self._asked(key, claim_id, partial(self._made, key, claim_id, work))

    def hand_over(
        self, work: Callable[[sqlite3.Connection], T], *, ends: str | None = None
    ) -> Callable[[], Coroutine[Any, Any, T]]:
        """Hands over work for one transaction, which goes on if nobody waits for it; returns what waits for its answer.

        Args:
            work: reads and writes, in the store's thread.
            ends: the key that was taken, if it is given back with this.
        """
        return self._handed(partial(self._worked, work, ends))

    def is_held(self, key: str, connection: sqlite3.Connection) -> bool:
        """Returns whether somebody holds a key that was taken; in the store's thread."""
        return self.state_in(key, connection) == "running"

    def state_in(self, key: str, connection: sqlite3.Connection) -> CallState | None:
        """Returns the state of a call; None if nobody has claimed it. In the store's thread."""
        row = _row(connection, f"SELECT {_CLAIM} FROM calls WHERE key = ?", key)
        return None if row is None else _state(*row)

    def _made(self, key: str, claim_id: str, work: Callable[[sqlite3.Connection], Claim], job: StoreJob) -> Claim:
        job.check()
        return self._opened(key, claim_id, self._transact(work, job))

    def _take_in(self, key: str, claim_id: str, connection: sqlite3.Connection) -> Claim:
        claim = self._claim_in(key, LEASE, claim_id, connection)
        if isinstance(claim, EndUnknown):
            connection.execute("DELETE FROM calls WHERE key = ?", (key,))
            claim = self._claim_in(key, LEASE, claim_id, connection)
        return claim

    def _worked(self, work: Callable[[sqlite3.Connection], T], ends: str | None, job: StoreJob) -> T:
        if ends is None:
            return self._transact(work, job)
        with self._ended(ends) as claim_id:

            def and_end(connection: sqlite3.Connection) -> T:
                value = work(connection)
                connection.execute("DELETE FROM calls WHERE key = ? AND claim_id = ?", (ends, claim_id))
                return value

            return self._transact(and_end, job)

    # -- the file --

    def _transact(self, work: Callable[[sqlite3.Connection], T], job: StoreJob) -> T:
        while True:
            try:
                with self.gate, self._transaction(job) as connection:
                    return work(connection)
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:  # bad UTF-8 has none
                    raise
            if time.monotonic() >= job.until:
                raise TimeoutError(self._busy())
            time.sleep(PAUSE_S)  # SQLite would wait with the gate held, and would not notice a waiter that leaves
            job.check()

    def _busy(self) -> str:
        return f"{str(self._path)!r} was held by others for busy_timeout={self._patience:g} s"

    @contextmanager
    def _transaction(self, job: StoreJob) -> Iterator[sqlite3.Connection]:
        """Locks the file at its start, so that no other process comes between reading and writing."""
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._check_file()
            yield connection
            job.check()
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # pragma: no branch - not after some errors, as of a full disk
                connection.execute("ROLLBACK")
            raise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._file is not None:
                self._check_file()
            elif self._may_make:
                make_private(self._path)  # SQLite would make it with the mode that the umask leaves
            uri = f"{self._path.as_uri()}?mode=rw"
            connection = sqlite3.connect(uri, timeout=0, isolation_level=None, check_same_thread=False, uri=True)
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _disconnect(self) -> None:
        with self.gate:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _set_up(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")  # so that all is read at one moment: another process may be making the file
        self._version_of(connection)  # before anything is written
        connection.execute("COMMIT")
        for suffix in ("", "-wal", "-shm"):  # a log that is made later gets the file's mode
            narrow(f"{self._path}{suffix}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        _migrate(connection, self._version_of(connection))
        connection.execute("COMMIT")
        status = self._path.stat()
        self._file = self._file or (status.st_dev, status.st_ino)

    def _check_file(self) -> None:
        """Refuses a file that was removed or replaced: others would claim its calls again."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._file:
            raise LocalProtocolError(f"the file {str(self._path)!r} was removed or replaced while the store was in use")

    def _version_of(self, connection: sqlite3.Connection) -> int:
        application, version = (_row(connection, f"PRAGMA {one}")[0] for one in ("application_id", "user_version"))
        if application == APPLICATION and version > VERSION:
            text = f"is of version {version}, and this library reads up to {VERSION}; use another file"
            raise LocalProtocolError(f"the file {str(self._path)!r} {text}")
        (tables,) = _row(connection, "SELECT count(*) FROM sqlite_master")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(calls)")]
        is_new = (application, version) == (0, 0) and not tables and self._may_make and self._file is None
        if not is_new and ((application, version) not in _OURS or columns != _NAMES[version]):
            raise LocalProtocolError(f"the file {str(self._path)!r} is no store of calls; nothing was written to it")
        return int(version)

    # -- in a transaction --

    def _claim(self, key: str, fingerprint: str, claim_id: str, job: StoreJob) -> Claim:
        return self._transact(partial(self._claim_in, key, fingerprint, claim_id), job)

    def _claim_in(self, key: str, fingerprint: str, claim_id: str, connection: sqlite3.Connection) -> Claim:
        row = _row(connection, f"SELECT {_CLAIM}, fingerprint, result FROM calls WHERE key = ?", key)
        if row is not None:
            *claim, known, result = row
            checked_fingerprint(key, fingerprint, known)
            state = _state(*claim)
            if state == "completed":
                return Recorded(result)
            claimed_at, _, _, host, pid, *_ = claim
            return StillRunning(claimed_at, host, pid) if state == "running" else EndUnknown(claimed_at)
        if fingerprint != LEASE:
            self._make_room(connection)
        until = machine_clock() + self._lease
        insert = f"INSERT INTO calls (key, fingerprint, claim_id, {_CLAIM}) VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?)"
        connection.execute(insert, (key, fingerprint, claim_id, time.time(), until, *astuple(self._holder)))
        return Claimed()

    def _make_room(self, connection: sqlite3.Connection) -> None:
        (count,) = _row(connection, "SELECT calls FROM counted")
        if count < self._max_entries:
            return
        oldest = "SELECT number FROM calls WHERE completed AND key NOT IN (SELECT key FROM held)"
        if not connection.execute(f"DELETE FROM calls WHERE number = ({oldest} ORDER BY number LIMIT 1)").rowcount:
            raise no_room(self._max_entries)

    def _complete(self, key: str, claim_id: str | None, result: bytes, job: StoreJob) -> None:
        kept = result if len(result) <= self._max_result_bytes else None
        if not self._change("UPDATE calls SET completed = 1, result = ?", [(kept, key, claim_id)], job):
            raise not_claimed(key)

    def _release(self, key: str, claim_id: str | None, job: StoreJob) -> None:
        self._change("DELETE FROM calls", [(key, claim_id)], job)

    def _renew(self, claims: Mapping[str, str | None], lease: float | None, job: StoreJob) -> None:
        until = None if lease is None else machine_clock() + lease
        self._change("UPDATE calls SET lease_until = ?", [(until, *claim) for claim in claims.items()], job)

    def _change(self, what: str, claims: list[tuple[Any, ...]], job: StoreJob) -> int:
        change = f"{what} WHERE key = ? AND claim_id IS coalesce(?, claim_id) AND NOT completed"
        return self._transact(lambda connection: connection.executemany(change, claims).rowcount, job)

    def _decide(self, key: str, record: bytes | None, job: StoreJob) -> bytes | None:
        return self._transact(partial(self.decide_in, key, record), job)

    def decide_in(self, key: str, record: bytes | None, connection: sqlite3.Connection) -> bytes | None:
        """Does as `decide`, in a transaction that is open; in the store's thread."""
        row = _row(connection, "SELECT record FROM decisions WHERE key = ?", key)
        if row is not None or record is None:
            return None if row is None else bytes(row[0])
        number = connection.execute("INSERT INTO decisions (key, record) VALUES (?, ?)", (key, record)).lastrowid
        assert number is not None, "a row was inserted"
        older = "DELETE FROM decisions WHERE number <= ? AND key NOT IN (SELECT key FROM held)"
        connection.execute(older, (number - self._max_entries,))
        return record

    def forget_in(self, prefix: str, connection: sqlite3.Connection, *, chars: int | None = None) -> list[str]:
        """Removes the records of the calls whose keys begin so, in a transaction that is open, in the store's thread.
        Claims stay: returns the keys of those, whose end is not on record.

        Args:
            prefix: the beginning of the keys, not empty.
            connection: that of the transaction.
            chars: how many characters follow it; by default any number.
        """
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        found = connection.execute("SELECT key, completed FROM calls WHERE key >= ? AND key < ?", (prefix, end))
        meant = [(key, over) for key, over in found.fetchall() if chars is None or len(key) == len(prefix) + chars]
        connection.executemany("DELETE FROM calls WHERE key = ?", [(key,) for key, over in meant if over])
        return [key for key, over in meant if not over]

    def _settle(self, key: str, result: bytes | None, force: bool, connection: sqlite3.Connection) -> None:
        row = _row(connection, f"SELECT {_CLAIM} FROM calls WHERE key = ?", key)
        if row is None:
            raise LocalProtocolError(f"there is no call with the key {key!r}")
        state = _state(*row)
        if state == "completed":
            raise LocalProtocolError(f"the call {key!r} is completed: its result is on record")
        if state == "running" and not force:
            raise LocalProtocolError(
                f"the call {key!r} still runs (process {row[4]} on {row[3]}); only force settles it"
            )
        if result is None:
            connection.execute("DELETE FROM calls WHERE key = ?", (key,))
        else:
            connection.execute("UPDATE calls SET completed = 1, result = ? WHERE key = ?", (result, key))


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    if version == 0:
        connection.execute(f"CREATE TABLE calls ({_COLUMNS[1]}, {_COLUMNS[2]})")
    elif version == 1:
        for column in _COLUMNS[2].split(","):
            connection.execute(f"ALTER TABLE calls ADD COLUMN {column}")
    for statement in (*(_AROUND if version < 2 else ()), *(_DECISIONS if version < VERSION else ()), *_HELD):
        connection.execute(statement)


def _calls(completed: bool, connection: sqlite3.Connection) -> list[StoredCall]:
    found = []
    wanted = "(? OR NOT completed) AND fingerprint != ?"
    rows = connection.execute(f"SELECT key, fingerprint, {_CLAIM} FROM calls WHERE {wanted}", (completed, LEASE))
    for key, fingerprint, *claim in rows:
        claimed_at, _, _, host, pid, *_ = claim
        found.append(StoredCall(key, fingerprint, _state(*claim), claimed_at, host or "", pid or 0))
    return found


def _state(
    claimed_at: float, completed: int, until: float | None, host: str, pid: int, boot: str, start: str
) -> CallState:
    if completed:
        return "completed"
    if until is None or boot != boot_id() or machine_clock() >= until or Holder(host, pid, boot, start).is_gone():
        return "unknown"
    return "running"


def _row(connection: sqlite3.Connection, query: str, *values: Any) -> Any:
    with closing(connection.execute(query, values)) as cursor:
        return cursor.fetchone()
