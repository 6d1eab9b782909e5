"""An idempotency store in one file, which outlives the process. Nothing to install, nothing to run.

Each operation is one short transaction in a thread, and is on the disk when it returns (``synchronous=FULL``). Several
processes may share the file; it has to be on a local disk, since SQLite's write-ahead log does not work over networks.
https://sqlite.org/wal.html
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from os import PathLike
from types import TracebackType
from typing import Self, TypeVar

from anyio import to_thread

from ..errors import LocalProtocolError
from .store import Claim, Claimed, checked_bound, checked_key, claim_of, no_room, not_claimed

__all__ = ["SqliteStore"]

T = TypeVar("T")

VERSION = 1
BUSY_S = 10.0  # how long another process may hold the file
PAUSE_S = 0.005  # between two tries where SQLite itself does not wait

_TABLE = """
CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,
    claimed_at REAL NOT NULL,
    completed INTEGER NOT NULL DEFAULT 0,
    result BLOB
)
"""


class SqliteStore:
    """An `IdempotencyStore` in a file.

        with SqliteStore("calls.sqlite3") as store:
            ...

    Args:
        path: the file; it is made if there is none. It holds results in the clear: protect it as you would them.
        max_entries: how many keys are kept; see `MemoryStore`.
        max_result_bytes: how large a kept result may be; see `MemoryStore`.

    Raises:
        LocalProtocolError: the file belongs to another version of this library.
        sqlite3.Error: it cannot be opened, or is no database.
    """

    def __init__(
        self, path: str | PathLike[str], *, max_entries: int = 100_000, max_result_bytes: int = 1 << 20
    ) -> None:
        self._max_entries = checked_bound("max_entries", max_entries)
        self._max_result_bytes = checked_bound("max_result_bytes", max_result_bytes)
        self._lock = threading.Lock()
        self._closed = False
        # Transactions are begun and ended by `_transaction` alone.
        try:
            self._connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            error.add_note(f"the file is {str(path)!r}")
            raise
        try:
            self._log_ahead()
            self._connection.execute("PRAGMA synchronous=FULL")
            with self._transaction() as connection:
                self._make_table(connection)
        except BaseException:
            self.close()
            raise

    def _log_ahead(self) -> None:
        """Have a write-ahead log. While others open a new file at the same time, SQLite refuses it without waiting."""
        until = time.monotonic() + BUSY_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() >= until:
                    raise
                time.sleep(PAUSE_S)

    def close(self) -> None:
        """Close the file. It may be called twice."""
        with self._lock:
            self._closed = True
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """See `IdempotencyStore`."""
        checked_key(key)
        return await self._in_thread(partial(self._claim, key, fingerprint))

    async def complete(self, key: str, result: bytes, /) -> None:
        """See `IdempotencyStore`."""
        await self._in_thread(partial(self._complete, key, result))

    async def release(self, key: str, /) -> None:
        """See `IdempotencyStore`."""
        await self._in_thread(partial(self._release, key))

    # -- in a thread --

    async def _in_thread(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await to_thread.run_sync(self._transacted, work)

    def _transacted(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._closed:
                raise LocalProtocolError("the SqliteStore is closed")
            with self._transaction() as connection:
                return work(connection)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The lock on the file is taken at the start, so that no other process comes between reading and writing."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite has ended it itself after some errors, as of a full disk
                self._connection.execute("ROLLBACK")
            raise

    def _make_table(self, connection: sqlite3.Connection) -> None:
        with closing(connection.execute("PRAGMA user_version")) as cursor:
            (version,) = cursor.fetchone()
        if version not in (0, VERSION):
            raise LocalProtocolError(
                f"the file is of version {version}, this library reads {VERSION}; use another file"
            )
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA user_version={VERSION}")

    def _claim(self, key: str, fingerprint: str, connection: sqlite3.Connection) -> Claim:
        select = "SELECT fingerprint, claimed_at, completed, result FROM calls WHERE key = ?"
        with closing(connection.execute(select, (key,))) as cursor:
            row = cursor.fetchone()
        if row is not None:
            known, claimed_at, completed, result = row
            return claim_of(key, fingerprint, known, claimed_at, bool(completed), result)
        self._make_room(connection)
        insert = "INSERT INTO calls (key, fingerprint, claimed_at) VALUES (?, ?, ?)"
        connection.execute(insert, (key, fingerprint, time.time()))
        return Claimed()

    def _make_room(self, connection: sqlite3.Connection) -> None:
        with closing(connection.execute("SELECT count(*) FROM calls")) as cursor:
            (count,) = cursor.fetchone()
        if count < self._max_entries:
            return
        oldest = "SELECT number FROM calls WHERE completed ORDER BY number LIMIT 1"
        if not connection.execute(f"DELETE FROM calls WHERE number = ({oldest})").rowcount:
            raise no_room(self._max_entries)

    def _complete(self, key: str, result: bytes, connection: sqlite3.Connection) -> None:
        kept = result if len(result) <= self._max_result_bytes else None
        update = "UPDATE calls SET completed = 1, result = ? WHERE key = ? AND NOT completed"
        if not connection.execute(update, (kept, key)).rowcount:
            raise not_claimed(key)

    def _release(self, key: str, connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM calls WHERE key = ? AND NOT completed", (key,))
