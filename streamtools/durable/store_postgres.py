"""Keeps records in Postgres, for the processes of any number of machines (extra ``postgres``).

A commit is one statement: a function in the schema first locks the records in the order of their keys, so that commits
do not wait for each other in a circle. If two still do, or both put a new record, the server ends one of them, which is
tried again. A commit whose answer was lost is repeated, and recognized by the numbers of its records. Leases are judged
by the server's clock when a row is read, not when its transaction began.

No lock or setting outlives a transaction, and statements are prepared only if the process listens at `url`, so a pooler
may stand between. NOTIFY tells processes of changes, over one connection each, which must not pass such a pooler.
https://www.postgresql.org/docs/current/sql-notify.html
https://www.pgbouncer.org/features.html
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from ..errors import LocalProtocolError
from ..ground import missing
from .record_store import RecordStore
from .records import (
    Conflict,
    Done,
    Put,
    Row,
    Step,
    Touch,
    checked_seconds,
    key_of,
    read_key,
    record_of,
    told,
    words_of,
    written_key,
)
from .threaded import StoreJob, ThreadedRecords

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
    from psycopg.pq.abc import PGconn, PGresult
except ImportError as error:  # pragma: no cover - it is installed where this is measured
    raise ImportError(missing("the client of Postgres", "postgres")) from error

VERSION = 1
_LENT = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)  # by a pooler
_PASSING = (
    psycopg.OperationalError, psycopg.errors.UniqueViolation, psycopg.errors.ReadOnlySqlTransaction, *_LENT
)  # fmt: skip
_SWEEP_S = 60.0  # between two removals of dropped records, unless there are more
_PAUSE_S = 0.05  # between two tries while the server is gone
_AT = "clock_timestamp() + {} * interval '1 second'"
_LIVE = "(drop_at IS NULL OR drop_at > clock_timestamp())"
_FOUND = "SELECT key, value, rev, coalesce(stale_at <= clock_timestamp(), false)"
TABLES = {
    # A renewal finds room on the row's page, and changes no index.
    "records": "CREATE TABLE {s}.records (key bytea PRIMARY KEY, value bytea NOT NULL, rev bigint NOT NULL,"
    " stale_at timestamptz, drop_at timestamptz) WITH (fillfactor = 80)",
    "index": "CREATE INDEX records_drop ON {s}.records (drop_at) WHERE drop_at IS NOT NULL",
    "version": f"CREATE TABLE {{s}}.version AS SELECT {VERSION} AS version",
}
# Each step has its key and its `words_of`. All are locked and checked before anything is written; a record that another
# commit has put meanwhile makes this one start over. A plan made for an empty table is still good when it has grown.
_COMMIT = f"""
CREATE FUNCTION {{s}}.{{c}}(
    keys bytea[], does text[], expects text[], numbers bigint[], revs bigint[], lengths int[], stale_in float8[],
    drop_in float8[], ordered int[], contents bytea, told text,
    OUT refused bytea, OUT content bytea, OUT met bigint, OUT is_stale boolean)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    there bytea[];
    there_rev bigint[];
    there_stale boolean[];
    begins int[] := ARRAY[1];
    at int;
BEGIN
    SELECT array_agg(one.key), array_agg(one.live_rev), array_agg(one.stale) INTO there, there_rev, there_stale FROM (
        SELECT key, CASE WHEN {_LIVE} THEN rev END AS live_rev, coalesce(stale_at <= clock_timestamp(), false) AS stale
        FROM {{s}}.records WHERE key = ANY(keys) ORDER BY key FOR UPDATE) one;
    FOR at IN 1 .. cardinality(keys) LOOP
        begins[at + 1] := begins[at] + lengths[at];
        IF does[at] = 'Put' AND revs[at] = there_rev[array_position(there, keys[at])] THEN RETURN; END IF;
    END LOOP;
    FOR at IN 1 .. cardinality(keys) LOOP
        met := there_rev[array_position(there, keys[at])];
        is_stale := there_stale[array_position(there, keys[at])];
        CONTINUE WHEN CASE expects[at]
            WHEN 'any' THEN true
            WHEN 'absent' THEN met IS NULL
            WHEN 'there' THEN met IS NOT NULL
            ELSE met = numbers[at] AND (expects[at] = 'number' OR (expects[at] = 'stale') = is_stale) END;
        SELECT value INTO content FROM {{s}}.records WHERE key = keys[at] AND rev = met;
        refused := keys[at];
        RETURN;
    END LOOP;
    FOREACH at IN ARRAY ordered LOOP
        IF does[at] = 'Put' THEN
            INSERT INTO {{s}}.records AS old (key, value, rev, stale_at, drop_at)
            VALUES (keys[at], substr(contents, begins[at], lengths[at]), revs[at], {_AT.format("stale_in[at]")},
                {_AT.format("drop_in[at]")})
            ON CONFLICT (key) DO UPDATE SET (value, rev, stale_at, drop_at)
                = (excluded.value, excluded.rev, excluded.stale_at, excluded.drop_at) WHERE old.key = ANY(there);
            IF NOT FOUND THEN RAISE unique_violation; END IF;
        ELSIF does[at] = 'Touch' THEN
            UPDATE {{s}}.records SET stale_at = {_AT.format("stale_in[at]")} WHERE key = keys[at] AND rev = numbers[at];
        ELSIF does[at] = 'Expire' AND there_rev[array_position(there, keys[at])] IS NOT NULL THEN
            UPDATE {{s}}.records SET drop_at = {_AT.format("drop_in[at]")} WHERE key = keys[at] AND stale_at IS NULL;
        ELSIF does[at] = 'DeletePrefix' THEN
            DELETE FROM {{s}}.records WHERE key >= keys[at] AND key < keys[at] || '\\xff'::bytea;
        END IF;
    END LOOP;
    IF told <> '' THEN PERFORM pg_notify('{{channel}}', told); END IF;
END $$"""
_MADE = """SELECT to_regnamespace(quote_ident(%(schema)s)) IS NOT NULL,
    EXISTS (SELECT FROM pg_tables WHERE schemaname = %(schema)s AND tablename IN ('records', 'version')),
    EXISTS (SELECT FROM pg_proc WHERE proname = %(name)s AND pronamespace = to_regnamespace(quote_ident(%(schema)s)))"""
_NAME = f"commit_{hashlib.sha256(_COMMIT.encode()).hexdigest()[:8]}"
STATEMENTS = {
    "get": f"{_FOUND} FROM {{s}}.records WHERE key = ANY($1) AND {_LIVE}",
    "scan": f"{_FOUND} FROM {{s}}.records WHERE key >= $1 AND key > $2 AND key < $3 AND {_LIVE} ORDER BY key LIMIT $4",
    "sweep": "DELETE FROM {s}.records WHERE key = ANY(ARRAY(SELECT key FROM {s}.records WHERE drop_at <= now()"
    " ORDER BY drop_at LIMIT 100 FOR UPDATE SKIP LOCKED)) RETURNING 1, 1, 1, 1",
    "commit": "SELECT * FROM {s}.{c}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
}
"""All statements about the records of a schema."""


class PostgresRecords(ThreadedRecords):
    """`Records` in a schema of a Postgres database; the arguments are those of `PostgresStore`."""

    idle_s = 30.0  # a new connection takes ten times as long as a commit

    def __init__(
        self, url: str, *, schema: str = "streamtools", timeout: float = 5.0, listen: str | bool = True
    ) -> None:
        for one in (url, listen):
            if isinstance(one, str):
                _check_url(one)
        self._url, self._schema = url, schema
        self._listens_at = url if listen is True else listen
        quoted = '"' + schema.replace('"', '""') + '"'
        texts = {**STATEMENTS, **TABLES, "program": _COMMIT, "read version": "SELECT version FROM {s}.version"}.items()
        self._channel = f"streamtools_{hashlib.sha256(schema.encode()).hexdigest()[:16]}"
        names = {"{s}": quoted, "{c}": _NAME, "{channel}": self._channel}
        self._sql = {name: re.sub(r"\{\w+\}", lambda at: names[at[0]], text).encode() for name, text in texts}
        self._connection: psycopg.Connection[Any] | None = None
        self._prepares, self._prepared = self._listens_at == url, set[bytes]()
        self._sweep_at = 0.0
        super().__init__(checked_seconds("timeout", timeout))

    # -- in the thread --

    def _get(self, keys: Sequence[bytes], job: StoreJob) -> list[Row]:
        return self._tried("get", job, _keys(keys))

    def _scan(self, least: bytes, most: bytes, behind: bytes, limit: int, job: StoreJob) -> list[Row]:
        return self._tried("scan", job, least, behind, most, str(limit))

    def _make(self, steps: Sequence[Step], job: StoreJob, expects: str | None = None) -> Done | Conflict:
        if time.monotonic() >= self._sweep_at:
            swept = self._tried("sweep", job)
            self._sweep_at = time.monotonic() + (_SWEEP_S if len(swept) < 100 else 0.0)
        keys = [written_key(key_of(step)) for step in steps]
        order = [*range(1, len(keys) + 1)]
        order.sort(key=lambda at: keys[at - 1] if isinstance(steps[at - 1], Put) else b"")
        does, wants, numbers, revs, contents, *times = zip(*map(words_of, steps), strict=True) if steps else [()] * 7
        wants = (expects,) * len(keys) if expects else wants
        words = [_array(one) for one in (does, wants, numbers, revs, map(len, contents), *times, order)]
        (row,) = self._tried("commit", job, _keys(keys), *words, b"".join(contents), told(steps))
        refused, value, *_ = row  # with the record that was found
        return Done() if refused is None else Conflict(read_key(refused), None if value is None else record_of(row))

    def _touch(self, touches: Sequence[Touch], job: StoreJob) -> None:
        self._make(touches, job, "any")

    def _tried(self, name: str, job: StoreJob, *values: str | bytes) -> list[Row]:
        """Executes a statement; repeats it if the server ended it in favor of another one, or is gone for a moment."""
        while True:
            try:
                with self.gate:
                    return self._executed(name, values, self._connected(job))
            except psycopg.Error as error:
                is_quoted = isinstance(error, psycopg.DataError)  # others do so after their first line
                reason = type(error).__name__ if is_quoted else str(error).partition("\n")[0]
                if not isinstance(error, _PASSING):
                    raise OSError(f"Postgres refused an operation: {reason}") from error
                self._prepares = self._prepares and not isinstance(error, _LENT)
                is_standby = isinstance(error, psycopg.errors.ReadOnlySqlTransaction)  # another server has taken over
                if self._connection is not None and (self._connection.closed or is_standby):
                    self._disconnect()
                if time.monotonic() >= job.until:
                    raise TimeoutError(f"{self._busy()} ({reason})") from error
            job.check()
            time.sleep(_PAUSE_S if self._connection is None else _PAUSE_S / 10)

    def _executed(self, name: str, values: Sequence[str | bytes], connection: psycopg.Connection[Any]) -> list[Row]:
        # The driver's cursors take three times as long as the server.
        given = [one if isinstance(one, bytes) else one.encode() for one in values]
        formats, link = [int(isinstance(one, bytes)) for one in values], connection.pgconn
        if not self._prepares:
            result = link.exec_params(self._sql[name], given, None, formats, 1)
        else:
            title = hashlib.sha256(self._sql[name]).hexdigest().encode()  # unique among the statements of all programs
            if title not in self._prepared:
                _checked(link.prepare(title, self._sql[name]), link)
                self._prepared.add(title)
            result = link.exec_prepared(title, given, formats, 1)
        rows = ([result.get_value(row, at) for at in range(4)] for row in range(_checked(result, link).ntuples))
        return [(key, value, int.from_bytes(rev or b""), is_stale == b"\1") for key, value, rev, is_stale in rows]

    def _connected(self, job: StoreJob) -> psycopg.Connection[Any]:
        if self._connection is None:
            seconds = max(2, math.ceil(job.until - time.monotonic()))
            connection = _connect(self._url, seconds)
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._prepared = connection, set[bytes]()
        return self._connection

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        names = {"schema": self._schema, "name": _NAME}
        if not all(connection.execute(_MADE, names).fetchone() or ()):
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [self._channel])
                has_schema, has_tables, has_program = connection.execute(_MADE, names).fetchone() or (True,) * 3
                if not has_schema:
                    connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
                for table in () if has_tables else TABLES:
                    connection.execute(self._sql[table])
                self._check_version(connection)
                if not has_program:
                    connection.execute(self._sql["program"])
        self._check_version(connection)

    def _check_version(self, connection: psycopg.Connection[Any]) -> None:
        found = connection.execute(self._sql["read version"]).fetchone()
        if found is None or found[0] != VERSION:
            got = "none" if found is None else found[0]
            text = f"has version {got}, but this library reads {VERSION}; use another schema"
            raise LocalProtocolError(f"the schema {self._schema!r} of the Postgres database {text}")

    def _disconnect(self) -> None:
        with self.gate:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _break_off(self) -> None:
        # The thread is in the driver, which waits for a silent server: it now reads the end of its connection.
        with suppress(psycopg.Error, OSError):
            if (connection := self._connection) is not None:
                with socket.socket(fileno=os.dup(connection.pgconn.socket)) as used:
                    used.shutdown(socket.SHUT_RDWR)

    def _busy(self) -> str:
        return f"Postgres did not answer within timeout={self._patience:g} s"

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
def _heard(url: Any, channel: str) -> Iterator[Callable[[float], Iterable[str]]]:
    with _connect(url, 5) as connection:
        connection.execute(f"LISTEN {channel}".encode())
        yield lambda seconds: [one.payload for one in connection.notifies(timeout=seconds, stop_after=1)]


def _checked(result: PGresult, link: PGconn) -> PGresult:
    if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        return result
    if link.status != ConnStatus.OK:
        raise psycopg.OperationalError(link.error_message.decode(errors="replace"))
    state, text = (
        result.error_field(one) or b"" for one in (DiagnosticField.SQLSTATE, DiagnosticField.MESSAGE_PRIMARY)
    )
    try:
        kind = psycopg.errors.lookup(state.decode())
    except KeyError:
        kind = psycopg.DatabaseError
    raise kind(text.decode(errors="replace"))


def _keys(keys: Iterable[bytes]) -> str:
    return _array(rf'"\\x{key.hex()}"' for key in keys)


def _array(values: Iterable[object]) -> str:
    return "{" + ",".join("NULL" if one is None else str(one) for one in values) + "}"


class PostgresStore(RecordStore):
    """A `DecidingStore` in a Postgres database. Nothing is sent before the first call.

        with PostgresStore("postgresql://app:secret@db.example/app") as store:
            ...

    Args:
        url: the address of the database for psycopg; it appears in no message.
        schema: the schema of the tables, created if missing. Programs that share it share their calls.
        keep_completed: seconds for which completed calls and decisions are kept. None: for ever. After that a call
            would run again, so keep them longer than a suspended run may wait.
        max_result_bytes: the largest result to keep; see `MemoryStore`.
        timeout: seconds for which an operation waits for the server.
        lease: seconds for which a claim is alive if its process stands still or has lost the server.
        listen: True listens for changes at `url`. If `url` is a pooler that lends a connection per transaction, pass
            the address of the server itself, or False to poll four times a second.

    Raises:
        ValueError: the URL or a number is invalid.
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
