"""Takes over a file of a `SqliteStore` from before all in it were records, in the transaction that makes these."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from .record_store import ClaimedCall, call_key, decided_key, lease_key
from .records import Key, new_rev, read_key, written_key
from .run_records import RunHead, hashed, inbox_key, step_key

Insert: TypeAlias = Callable[..., None]
"""Puts a record: its key and value, perhaps its time (`stale_at`, `boot`, `drop_at`)."""


def take_over(version: int, connection: sqlite3.Connection) -> None:
    def insert(key: Key, value: bytes, *, time: tuple[Any, Any, Any] = (None, None, None)) -> None:
        row = (key[0], written_key(key), value, new_rev(), *time)
        into = "INSERT OR REPLACE INTO records (kind, key, value, rev, stale_at, boot, drop_at)"
        connection.execute(f"{into} VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {name for (name,) in named}
    if version < 4:
        _take_calls(version, insert, connection)
    else:
        for number, key in connection.execute("SELECT number, key FROM records WHERE kind = 'call'").fetchall():
            now = written_key(call_key(":".join(read_key(key)[1:])))
            connection.execute("UPDATE records SET key = ? WHERE number = ?", (now, number))
    if "decisions" in tables:
        for key, record in connection.execute("SELECT key, record FROM decisions ORDER BY number").fetchall():
            insert(decided_key(key), record, time=(None, None, math.inf))
    if "held" in tables:  # what a run may ask for again is kept as long as the run
        for (held,) in connection.execute("SELECT DISTINCT key FROM held").fetchall():
            key = ":".join(read_key(held)[1:]) if version == 4 else held
            kept = decided_key(key) if key.startswith(("decision:", "answer:")) else call_key(key)
            connection.execute("UPDATE records SET drop_at = NULL WHERE key = ?", (written_key(kept),))
    if "runs" in tables:
        _take_runs(insert, connection)
    for table in ("decisions", "held", "runs", "responses", "inbox", "waiting", "handed_out"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def _take_calls(version: int, insert: Insert, connection: sqlite3.Connection) -> None:
    more = "host, pid, boot, start, lease_until" if version > 1 else "NULL, NULL, NULL, NULL, NULL"
    rows = connection.execute(
        f"SELECT key, fingerprint, claimed_at, completed, CAST(result AS BLOB), {more} FROM calls ORDER BY number"
    )
    for key, fingerprint, at, completed, result, host, pid, boot, start, until in rows.fetchall():
        end = None if not completed else "too large" if result is None else "kept"
        call = ClaimedCall(fingerprint, at, host or "", pid or 0, boot or "", start or "", end)  # type: ignore[arg-type]
        kept = lease_key(key[4:-6]) if fingerprint == "lease" else call_key(key)
        insert(kept, call.written(result), time=(None, None, math.inf) if completed else (until or 0.0, boot, None))
    connection.execute("DROP TABLE calls")


def _take_runs(insert: Insert, connection: sqlite3.Connection) -> None:
    steps = "(SELECT count(*) FROM responses WHERE run = number)"
    rows = connection.execute(f"SELECT number, run_id, first, name, began_at, ended_at, outcome, {steps} FROM runs")
    runs: dict[int, str] = {}
    for number, run_id, *facts in rows.fetchall():
        runs[number], head = run_id, RunHead(*facts)
        insert(("run", run_id), head.written())
        if head.is_over:
            insert(head.over_key(run_id), b"")

    def each(columns: str, table: str, order: str = "number") -> Iterable[tuple[Any, ...]]:
        for run, *row in connection.execute(f"SELECT run, {columns} FROM {table} ORDER BY {order}").fetchall():
            yield runs[run], *row

    for run_id, step, facts, body, ends in each("step, facts, body, ends", "responses", "run, step"):
        insert(step_key("response", run_id, step), facts + b"\n" + body)
        if ends is not None:
            insert(step_key("ends", run_id, step), ends)
    for run_id, number, entry_id, entry in each("number, id, entry", "inbox"):
        insert(inbox_key(run_id, number, entry_id), entry)
    for run_id, number, step, key, shown, entry, is_over in each(
        "number, step, key, fingerprint, entry, is_over", "waiting"
    ):
        written = entry.encode() if isinstance(entry, str) else entry
        waits = json.dumps([bool(is_over), float(number)]).encode()
        insert((*step_key("waiting", run_id, step), hashed([key, shown])), waits + b"\n" + written)
    for run_id, step, call_id, key in each("step, call_id, key", "handed_out"):
        insert((*step_key("handed", run_id, step), hashed([key])), json.dumps([call_id, key]).encode())
