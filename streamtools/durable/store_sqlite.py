"""Keeps records in one file, for the processes of a machine.

Each operation is one short transaction, and a commit is on the disk when it returns (``synchronous=FULL``). The file
has to be on a local disk, since SQLite's write-ahead log does not work over networks. https://sqlite.org/wal.html

Records go stale by a clock that all processes of the machine share and that nobody sets. After a restart of the machine
all that could go stale are. While somebody waits for a change, the thread looks at the number by which SQLite counts
what other connections commit. https://sqlite.org/pragma.html#pragma_data_version
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ..errors import LocalProtocolError
from ..limits import checked_bound
from .files import make_private, narrow
from .holders import boot_id, machine_clock
from .record_store import RecordStore
from .records import (
    Conflict,
    DeletePrefix,
    Done,
    Expire,
    Put,
    RecordsFull,
    Row,
    Step,
    Touch,
    checked_seconds,
    dropping,
    judged,
    record_of,
    written_key,
)
from .threaded import StoreJob, ThreadedRecords

T = TypeVar("T")

APPLICATION, VERSION = 0x73747374, 5
PAUSE_S = 0.005  # between two tries while the file is locked
_RECORDS = (
    "CREATE TABLE records (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, key BLOB NOT NULL UNIQUE,"
    " value BLOB NOT NULL, rev INTEGER NOT NULL, stale_at REAL, boot TEXT, drop_at REAL)",
    "CREATE INDEX droppable ON records (kind, drop_at) WHERE drop_at IS NOT NULL",
    # With this count a claim takes the same time however many records there are.
    "CREATE TABLE counted (kind TEXT PRIMARY KEY, records INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TRIGGER record_added AFTER INSERT ON records BEGIN INSERT INTO counted VALUES (NEW.kind, 1)"
    " ON CONFLICT (kind) DO UPDATE SET records = records + 1; END",
    "CREATE TRIGGER record_deleted AFTER DELETE ON records BEGIN"
    " UPDATE counted SET records = records - 1 WHERE kind = OLD.kind; END",
)
_COLUMNS = {
    1: ["number", "key", "fingerprint", "claimed_at", "completed", "result"],
    VERSION: ["number", "kind", "key", "value", "rev", "stale_at", "boot", "drop_at"],
}
_COLUMNS[4] = _COLUMNS[VERSION]
_COLUMNS[2] = _COLUMNS[3] = [*_COLUMNS[1], "claim_id", "host", "pid", "boot", "start", "lease_until"]
_OURS = ((0, 1), *((APPLICATION, version) for version in (2, 3, 4, VERSION)))
_FOUND = (
    "SELECT key, CAST(value AS BLOB), CAST(rev AS INTEGER), stale_at IS NOT NULL AND (stale_at <= ? OR boot IS NOT ?)"
    " FROM records"
)
_THERE = "(drop_at IS NULL OR drop_at > ?)"
STATEMENTS = {
    "get": f"{_FOUND} WHERE key = ? AND {_THERE}",
    "scan": f"{_FOUND} WHERE key >= ? AND key > ? AND key < ? AND {_THERE} ORDER BY key LIMIT ?",
    "put": "INSERT INTO records (kind, key, value, rev, stale_at, boot, drop_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (key) DO UPDATE SET (value, rev, stale_at, boot, drop_at)"
    " = (excluded.value, excluded.rev, excluded.stale_at, excluded.boot, excluded.drop_at)",
    "touch": "UPDATE records SET stale_at = ?, boot = ? WHERE key = ? AND rev = ?",
    "expire": "UPDATE records SET drop_at = ? WHERE key = ? AND stale_at IS NULL",
    "delete": "DELETE FROM records WHERE key >= ? AND key < ?",
    "sweep": "DELETE FROM records WHERE number IN (SELECT number FROM records WHERE kind = ? AND drop_at <= ?"
    " LIMIT 100)",
    "count": "SELECT records FROM counted WHERE kind = ?",
    "drop": "DELETE FROM records WHERE number = (SELECT number FROM records WHERE kind = ? AND drop_at IS NOT NULL"
    " ORDER BY drop_at, number LIMIT 1)",
}
"""All statements about records."""


class SqliteRecords(ThreadedRecords):
    """`Records` in a file, with arguments and errors of `SqliteStore`; `most` is as in `MemoryRecords`."""

    looks = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 10.0,
        must_exist: bool = False,
        most: Mapping[str, int] | None = None,
    ) -> None:
        if not os.fspath(path) or os.fspath(path).startswith((":memory:", "file:")):
            raise ValueError(f"a SqliteStore needs the path of a file, not {path!r}; MemoryStore keeps calls in memory")
        self.path = Path(path).absolute()
        self._may_make = not must_exist
        self._most = most or {}
        self._file: tuple[int, int] | None = None
        self._connection: sqlite3.Connection | None = None
        self._seen = 0  # the file's data version at the latest look
        super().__init__(checked_seconds("busy_timeout", busy_timeout))
        try:
            self.transact(lambda connection: None, StoreJob(lambda job: None, busy_timeout))
        except sqlite3.Error as error:
            error.add_note(f"the file is {str(path)!r}")
            raise
        finally:
            self._disconnect()

    # -- in the thread --

    def _get(self, keys: Sequence[bytes], job: StoreJob) -> list[Row]:
        return self.transact(partial(_found, keys), job, "DEFERRED")

    def _scan(self, least: bytes, most: bytes, behind: bytes, limit: int, job: StoreJob) -> list[Row]:
        values = (machine_clock(), boot_id(), least, behind, most, time.time(), limit)
        return self.transact(lambda connection: [*connection.execute(STATEMENTS["scan"], values)], job, "DEFERRED")

    def _make(self, steps: Sequence[Step], job: StoreJob) -> Done | Conflict:
        return self.transact(partial(self._made, steps), job)

    def _touch(self, touches: Sequence[Touch], job: StoreJob) -> None:
        rows = [(*_stale_at(one.stale_in), written_key(one.key), one.rev) for one in touches]
        self.transact(lambda connection: connection.executemany(STATEMENTS["touch"], rows), job)

    def _made(self, steps: Sequence[Step], connection: sqlite3.Connection) -> Done | Conflict:
        """Makes a commit in an open transaction."""
        keys = [written_key(one.key) for one in steps if not isinstance(one, DeletePrefix)]
        found = {one.key: one for one in map(record_of, _found(keys, connection))}
        if (end := judged(steps, found)) is not None:
            return end
        for kind in {one.key[0] for one in dropping(steps)}:
            connection.execute(STATEMENTS["sweep"], (kind, time.time()))
        for step in steps:
            if isinstance(step, Put):
                if step.key not in found:
                    self._make_room(step.key[0], connection)
                row = (step.key[0], written_key(step.key), step.value, step.rev, *_stale_at(step.stale_in))
                connection.execute(STATEMENTS["put"], (*row, _drop_at(step)))
            elif isinstance(step, Expire) and step.key in found:
                connection.execute(STATEMENTS["expire"], (_drop_at(step), written_key(step.key)))
            elif isinstance(step, Touch):
                connection.execute(STATEMENTS["touch"], (*_stale_at(step.stale_in), written_key(step.key), step.rev))
            elif isinstance(step, DeletePrefix):
                least = written_key(step.prefix)
                connection.execute(STATEMENTS["delete"], (least, least + b"\xff"))
        return Done()

    def _make_room(self, kind: str, connection: sqlite3.Connection) -> None:
        row = connection.execute(STATEMENTS["count"], (kind,)).fetchone()
        if row is None or row[0] < self._most.get(kind, 1 << 62):
            return
        if not connection.execute(STATEMENTS["drop"], (kind,)).rowcount:
            raise RecordsFull(kind, row[0])

    def _listen(self, job: StoreJob) -> None:
        if not self._seen:
            self.transact(self._note_seen, job, "DEFERRED")

    def _look(self) -> None:
        StoreJob(partial(self.transact, self._note_seen, begin="DEFERRED"), 0.0).run()

    def _note_seen(self, connection: sqlite3.Connection) -> None:
        (now,) = connection.execute("PRAGMA data_version").fetchone()
        if now != self._seen:  # or at the first look
            self.news.tell()
        self._seen = now

    # -- the file --

    def transact(self, work: Callable[[sqlite3.Connection], T], job: StoreJob, begin: str = "IMMEDIATE") -> T:
        while True:
            try:
                with self.gate, self._transaction(job, begin) as connection:
                    return work(connection)
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:  # bad UTF-8 has none
                    raise
            if time.monotonic() >= job.until:
                raise TimeoutError(self._busy())
            time.sleep(PAUSE_S)  # SQLite would wait with the gate held, and would not notice a caller that leaves
            job.check()

    def _busy(self) -> str:
        return f"{str(self.path)!r} was locked by other processes for busy_timeout={self._patience:g} s"

    @contextmanager
    def _transaction(self, job: StoreJob, begin: str) -> Iterator[sqlite3.Connection]:
        """With IMMEDIATE it locks the file at its start, so that no other process comes between reading and writing."""
        connection = self._connected()
        connection.execute(f"BEGIN {begin}")
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
                make_private(self.path)  # SQLite would make it with the mode that the umask leaves
            uri = f"{self.path.as_uri()}?mode=rw"
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
                self._seen = 0
                self.news.tell()  # changes may have been missed meanwhile

    def _set_up(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")  # to read all of it at one moment: another process may be making the file
        self._version_of(connection)  # before anything is written
        connection.execute("COMMIT")
        for suffix in ("", "-wal", "-shm"):  # a log that is made later gets the file's mode
            narrow(f"{self.path}{suffix}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        if (version := self._version_of(connection)) < 4:
            for statement in ("DROP TABLE IF EXISTS counted", *_RECORDS):
                connection.execute(statement)
        if 0 < version < VERSION:
            from .taken_over import take_over  # each file is taken over only once

            take_over(version, connection)
        if version < VERSION:
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
        status = self.path.stat()
        self._file = self._file or (status.st_dev, status.st_ino)

    def _check_file(self) -> None:
        """Refuses a file that was removed or replaced: others would claim its calls again."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._file:
            raise LocalProtocolError(f"the file {str(self.path)!r} was removed or replaced while the store was in use")

    def _version_of(self, connection: sqlite3.Connection) -> int:
        application, version = (_row(connection, f"PRAGMA {one}")[0] for one in ("application_id", "user_version"))
        if application == APPLICATION and version > VERSION:
            text = f"has version {version}, but this library reads up to {VERSION}; use another file"
            raise LocalProtocolError(f"the file {str(self.path)!r} {text}")
        (tables,) = _row(connection, "SELECT count(*) FROM sqlite_master")
        table = "records" if version > 3 else "calls"
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        is_new = (application, version) == (0, 0) and not tables and self._may_make and self._file is None
        if not is_new and ((application, version) not in _OURS or columns != _COLUMNS[version]):
            raise LocalProtocolError(f"the file {str(self.path)!r} is not a store of calls; nothing was written to it")
        return int(version)


class SqliteStore(RecordStore):
    """A `DecidingStore` in a file.

        with SqliteStore("calls.sqlite3") as store:
            ...

    Args:
        path: the file, created if missing. It contains results in clear text, so only its owner is given access.
        max_entries: the number of keys to keep; see `MemoryStore`. Calls that an unfinished run of a journal could
            claim again are kept.
        max_result_bytes: the largest result to keep; see `MemoryStore`.
        busy_timeout: seconds for which an operation waits while another process locks the file.
        lease: seconds for which a claim is alive if its process stands still. If there is a ``/proc``, the end of a
            process is noticed at once.
        must_exist: never create a file, nor turn an empty one into a store.

    Raises:
        ValueError: the path is empty, or is not that of a file.
        LocalProtocolError: the file belongs to another application, or to a newer version of this library.
        TimeoutError: another process locks the file.
        OSError: the file cannot be created; or it is another user's, a symbolic link, or not a regular file.
        sqlite3.Error: the file cannot be opened, or is not a database.
    """

    records: SqliteRecords

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
        checked_bound("max_result_bytes", max_result_bytes)
        checked_seconds("lease", lease)
        most: dict[str, int] = dict.fromkeys(("call", "decided"), checked_bound("max_entries", max_entries))
        records = self._records(path, busy_timeout=busy_timeout, must_exist=must_exist, most=most)
        super().__init__(records, lease=lease, max_result_bytes=max_result_bytes)
        records.name = type(self).__name__

    _records: ClassVar[type[SqliteRecords]] = SqliteRecords

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self.records.path


# -- in a transaction --


def _found(keys: Iterable[bytes], connection: sqlite3.Connection) -> list[Row]:
    now = machine_clock(), boot_id()
    return [row for key in keys for row in connection.execute(STATEMENTS["get"], (*now, key, time.time()))]


def _stale_at(stale_in: float | None) -> tuple[float | None, str | None]:
    return (None, None) if stale_in is None else (machine_clock() + stale_in, boot_id())


def _drop_at(step: Put | Expire) -> float | None:
    return None if step.drop_in is None else time.time() + step.drop_in


def _row(connection: sqlite3.Connection, query: str, *values: Any) -> Any:
    with closing(connection.execute(query, values)) as cursor:
        return cursor.fetchone()
