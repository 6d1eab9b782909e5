"""Keeps records in Postgres, for the processes of any number of machines (extra ``postgres``).

A commit is one transaction, which first locks its records in the order of their keys, so that no two wait for each
other; where two do all the same, or both have put a new record, the server ends one of them, which tries again. That
of a single `Put` is one statement. A commit whose answer was lost is made again, and told by the numbers of its
records. Leases are judged by the server's clock as it is when a row is looked at, not as it was when its transaction
began.

Nothing is prepared, and no lock or setting outlives a transaction, so that a pooler may stand between. Who waits for a
change is told by NOTIFY, over one connection of each process that must not pass such a pooler.
https://www.postgresql.org/docs/current/sql-notify.html
https://www.pgbouncer.org/features.html
"""

from __future__ import annotations

import hashlib
import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from ..errors import LocalProtocolError
from ..ground import missing
from .record_store import RecordStore
from .records import (
    Conflict,
    DeletePrefix,
    Done,
    Expire,
    Key,
    Put,
    Record,
    Rev,
    Step,
    Touch,
    changed_keys,
    checked_seconds,
    judged,
    read_key,
    written_key,
)
from .threaded import StoreJob, ThreadedRecords

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:  # pragma: no cover - it is installed where this is measured
    raise ImportError(missing("the client of Postgres", "postgres")) from error

T = TypeVar("T")

VERSION = 1
_PASSING = (psycopg.OperationalError, psycopg.errors.UniqueViolation, psycopg.errors.ReadOnlySqlTransaction)
_SWEEP_S, _MOST_SWEPT = 60.0, 100  # between two removals of what has dropped, unless there is more
_PAUSE_S = 0.05  # between two tries while the server is gone
_AT = "clock_timestamp() + %s * interval '1 second'"
_LIVE = "(drop_at IS NULL OR drop_at > clock_timestamp())"
_FOUND = "SELECT key, value, rev, coalesce(stale_at <= clock_timestamp(), false)"
_TELL = "SELECT pg_notify(%s, told) FROM unnest(%s::text[]) told"
TABLES = (
    "CREATE TABLE {s}.records (key bytea PRIMARY KEY, value bytea NOT NULL, rev bigint NOT NULL, stale_at timestamptz,"
    " drop_at timestamptz) WITH (fillfactor = 80)",  # a renewal finds room beside the row, and changes no index
    "CREATE INDEX records_drop ON {s}.records (drop_at) WHERE drop_at IS NOT NULL",
    "CREATE TABLE {s}.version (version integer NOT NULL)",
    f"INSERT INTO {{s}}.version VALUES ({VERSION})",
)
STATEMENTS = {
    "get": f"{_FOUND} FROM {{s}}.records WHERE key = ANY(%s) AND {_LIVE}",
    "scan": f"{_FOUND} FROM {{s}}.records WHERE key >= %s AND key > %s AND key < %s AND {_LIVE} ORDER BY key LIMIT %s",
    "lock": f"{_FOUND}, {_LIVE} FROM {{s}}.records WHERE key = ANY(%s) ORDER BY key FOR UPDATE",
    "insert": f"INSERT INTO {{s}}.records (value, rev, stale_at, drop_at, key) VALUES (%s, %s, {_AT}, {_AT}, %s)",
    "update": f"UPDATE {{s}}.records SET value = %s, rev = %s, stale_at = {_AT}, drop_at = {_AT} WHERE key = %s",
    "touch": f"UPDATE {{s}}.records SET stale_at = {_AT} WHERE key = %s AND rev = %s",
    "expire": f"UPDATE {{s}}.records SET drop_at = {_AT} WHERE key = %s AND stale_at IS NULL",
    "delete": "DELETE FROM {s}.records WHERE key >= %s AND key < %s",
    "sweep": "DELETE FROM {s}.records WHERE key = ANY(ARRAY(SELECT key FROM {s}.records"
    f" WHERE drop_at <= now() ORDER BY drop_at LIMIT {_MOST_SWEPT} FOR UPDATE SKIP LOCKED))",
}
STATEMENTS["put absent"] = (
    f"WITH made AS ({STATEMENTS['insert']} ON CONFLICT (key) DO UPDATE SET (value, rev, stale_at, drop_at)"
    " = (excluded.value, excluded.rev, excluded.stale_at, excluded.drop_at) WHERE records.drop_at <= clock_timestamp()"
    " RETURNING 1) SELECT pg_notify(%s, %s) FROM made"
)
STATEMENTS["put"] = (
    f"WITH made AS ({STATEMENTS['update']} AND rev = %s AND {_LIVE} RETURNING 1) SELECT pg_notify(%s, %s) FROM made"
)
"""All that is done with records, in a schema."""


class PostgresRecords(ThreadedRecords):
    """`Records` in a schema of a Postgres database; the arguments are those of `PostgresStore`."""

    loses_answers = True

    def __init__(
        self, url: str, *, schema: str = "streamtools", timeout: float = 5.0, listen: str | bool = True
    ) -> None:
        for one in (url, listen):
            if isinstance(one, str):
                _check_url(one)
        self._url, self._schema = url, schema
        self._listens_at = url if listen is True else listen
        quoted = '"' + schema.replace('"', '""') + '"'
        self._sql = {name: text.replace("{s}", quoted).encode() for name, text in STATEMENTS.items()}
        self._tables = [text.replace("{s}", quoted).encode() for text in (*TABLES, "SELECT version FROM {s}.version")]
        self._channel = f"streamtools_{hashlib.sha256(schema.encode()).hexdigest()[:16]}"
        self._connection: psycopg.Connection[Any] | None = None
        self._sweep_at = 0.0
        super().__init__(checked_seconds("timeout", timeout))

    # -- in the thread --

    def _get(self, keys: Sequence[bytes], job: StoreJob) -> list[Record | None]:
        rows = self._tried(lambda connection: connection.execute(self._sql["get"], [list(keys)]).fetchall(), job)
        found = {bytes(row[0]): _record(*row) for row in rows}
        return [found.get(key) for key in keys]

    def _scan(self, prefix: Key, after: Key | None, limit: int, job: StoreJob) -> list[Record]:
        least, most = _range(prefix)
        values = least, b"" if after is None else written_key(after), most, limit
        rows = self._tried(lambda connection: connection.execute(self._sql["scan"], values).fetchall(), job)
        return [_record(*row) for row in rows]

    def _make(self, steps: Sequence[Step], job: StoreJob) -> Done | Conflict:
        if time.monotonic() >= self._sweep_at:
            swept = self._tried(lambda connection: connection.execute(self._sql["sweep"]).rowcount, job)
            self._sweep_at = time.monotonic() + (0.0 if swept == _MOST_SWEPT else _SWEEP_S)
        make = self._in_a_statement if _is_single(steps) else self._in_a_transaction
        return self._tried(partial(make, steps), job)

    def _touch(self, touches: Sequence[Touch], job: StoreJob) -> None:
        rows = [(one.stale_in, written_key(one.key), one.rev) for one in touches]
        self._tried(lambda connection: connection.cursor().executemany(self._sql["touch"], rows), job)

    def _in_a_statement(self, steps: Sequence[Step], connection: psycopg.Connection[Any]) -> Done | Conflict:
        (step,) = steps
        assert isinstance(step, Put), "checked"
        told = self._channel, written_key(step.key).hex()
        while True:
            if isinstance(step.expect, Rev):
                values = (*_values(step), step.expect.number, *told)
                made = connection.execute(self._sql["put"], values).fetchone()
            else:
                made = connection.execute(self._sql["put absent"], (*_values(step), *told)).fetchone()
            if made is not None:
                return Done()
            row = connection.execute(self._sql["get"], [[written_key(step.key)]]).fetchone()
            end = judged(steps, {step.key: None if row is None else _record(*row)})
            if end is not None:  # else it has changed again
                return end

    def _in_a_transaction(self, steps: Sequence[Step], connection: psycopg.Connection[Any]) -> Done | Conflict:
        keys = {written_key(one.key): one.key for one in steps if not isinstance(one, DeletePrefix)}
        with connection.pipeline(), connection.transaction():
            rows = connection.execute(self._sql["lock"], [sorted(keys)]).fetchall()
            found = {keys[bytes(row[0])]: _record(*row[:4]) for row in rows if row[4]}
            if (end := judged(steps, {key: found.get(key) for key in keys.values()})) is not None:
                return end
            there = {bytes(row[0]) for row in rows}
            for step in sorted(steps, key=lambda one: (isinstance(one, Put) and written_key(one.key)) or b""):
                if isinstance(step, Put):
                    name = "update" if written_key(step.key) in there else "insert"
                    connection.execute(self._sql[name], _values(step))
                elif isinstance(step, Touch):
                    connection.execute(self._sql["touch"], (step.stale_in, written_key(step.key), step.rev))
                elif isinstance(step, Expire) and step.key in found:
                    connection.execute(self._sql["expire"], (_drop_in(step), written_key(step.key)))
                elif isinstance(step, DeletePrefix):
                    connection.execute(self._sql["delete"], _range(step.prefix))
            if changed := changed_keys(steps):
                connection.execute(_TELL, (self._channel, [written_key(key).hex() for key in changed]))
        return Done()

    def _tried(self, work: Callable[[psycopg.Connection[Any]], T], job: StoreJob) -> T:
        """Does work, again if the server ended it to let another one through, or is gone for a moment."""
        while True:
            try:
                with self.gate:
                    return work(self._connected(job))
            except psycopg.Error as error:
                reason = str(error).partition("\n")[0]  # values are quoted in further lines
                if not isinstance(error, _PASSING):
                    raise OSError(f"Postgres has refused an operation: {reason}") from error
                is_standby = isinstance(error, psycopg.errors.ReadOnlySqlTransaction)  # another server has taken over
                if self._connection is not None and (self._connection.closed or is_standby):
                    self._disconnect()
                if time.monotonic() >= job.until:
                    raise TimeoutError(f"{self._busy()} ({reason})") from error
            job.check()
            time.sleep(_PAUSE_S if self._connection is None else _PAUSE_S / 10)

    def _connected(self, job: StoreJob) -> psycopg.Connection[Any]:
        if self._connection is None:
            seconds = max(2, math.ceil(job.until - time.monotonic()))
            connection = _connect(self._url, seconds)
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        *tables, version = self._tables
        try:
            found = connection.execute(version).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [self._channel])
                if connection.execute("SELECT to_regnamespace(quote_ident(%s))", [self._schema]).fetchone() == (None,):
                    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
                named = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename IN ('records', 'version')"
                if connection.execute(named, [self._schema]).fetchone() is None:
                    for table in tables:
                        connection.execute(table)
            found = connection.execute(version).fetchone()
        if found is None or found[0] != VERSION:
            got = "none" if found is None else found[0]
            text = f"is of version {got}, and this library reads {VERSION}; use another schema"
            raise LocalProtocolError(f"the schema {self._schema!r} of the Postgres database {text}")

    def _disconnect(self) -> None:
        with self.gate:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _break_off(self) -> None:
        # The thread stands in the driver, which waits for a server that is silent: it reads the end of its connection.
        with suppress(psycopg.Error, OSError):
            if (connection := self._connection) is not None:
                with socket.socket(fileno=os.dup(connection.pgconn.socket)) as used:
                    used.shutdown(socket.SHUT_RDWR)

    def _busy(self) -> str:
        return f"Postgres has given no answer within timeout={self._patience:g} s"

    def _listen(self, job: StoreJob) -> None:
        if self._listens_at:
            self.listen_by(partial(_heard, self._listens_at, self._channel))


def _check_url(url: str) -> None:
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # the error's text quotes the URL, with a password
        text = "the URL of the Postgres database cannot be read: postgresql://[user:password@]host[:port]/database"
        raise ValueError(text) from None


def _connect(url: str, seconds: int) -> psycopg.Connection[Any]:
    connection = psycopg.connect(url, autocommit=True, prepare_threshold=None, connect_timeout=seconds)
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # whatever the database's default is
    return connection


@contextmanager
def _heard(url: Any, channel: str) -> Iterator[Callable[[float], Iterable[bytes]]]:
    with _connect(url, 5) as connection:
        connection.execute(f"LISTEN {channel}".encode())
        yield lambda seconds: [bytes.fromhex(one.payload) for one in connection.notifies(timeout=seconds, stop_after=1)]


def _is_single(steps: Sequence[Step]) -> bool:
    """Returns whether these are one `Put` that its statement can judge."""
    if len(steps) != 1 or not isinstance(step := steps[0], Put):
        return False
    return step.expect == "absent" or (isinstance(step.expect, Rev) and step.expect.stale is None)


def _values(put: Put) -> tuple[Any, ...]:
    return put.value, put.rev, put.stale_in, _drop_in(put), written_key(put.key)


def _drop_in(step: Put | Expire) -> float | None:
    return None if step.drop_in == math.inf else step.drop_in


def _range(prefix: Key) -> tuple[bytes, bytes]:
    written = written_key(prefix)
    return written, written + b"\xff"


def _record(key: bytes, value: bytes, rev: int, is_stale: bool) -> Record:
    return Record(read_key(key), bytes(value), rev, is_stale)


class PostgresStore(RecordStore):
    """A `DecidingStore` in a Postgres database. Nothing is sent before the first call.

        with PostgresStore("postgresql://app:secret@db.example/app") as store:
            ...

    Args:
        url: where the database is, as psycopg takes it; it appears in no message.
        schema: has the tables, and is made if there is none. Programs that share it share their calls.
        keep_completed: for how many seconds a call is kept on record; then it would run again. None is for ever. A
            decision is kept as long: longer than a state may wait for it.
        max_result_bytes: how large a kept result may be; see `MemoryStore`.
        timeout: for how many seconds an operation waits for the server.
        lease: for how many seconds a claim is alive if its process stands still or has lost the server.
        listen: the address of the server itself, where `url` is that of a pooler that lends a connection for each
            transaction; False to look four times a second instead, and True to listen at `url`.

    Raises:
        ValueError: the URL cannot be read, or a number is none.
    """

    records: PostgresRecords

    def __init__(
        self,
        url: str,
        *,
        schema: str = "streamtools",
        keep_completed: float | None = 30 * 86400.0,
        max_result_bytes: int = 1 << 20,
        timeout: float = 5.0,
        lease: float = 30.0,
        listen: str | bool = True,
    ) -> None:
        keep = None if keep_completed is None else checked_seconds("keep_completed", keep_completed)
        records = PostgresRecords(url, schema=schema, timeout=timeout, listen=listen)
        super().__init__(records, lease=lease, keep=keep, max_result_bytes=max_result_bytes)
        records.name = type(self).__name__
