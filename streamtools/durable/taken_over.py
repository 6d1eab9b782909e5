"""Takes over a file of a `SqliteStore` from before its calls were records, in the transaction that makes these."""

from __future__ import annotations

import math
import sqlite3

from .record_store import ClaimedCall, call_key, decided_key, lease_key
from .records import Key, new_rev, written_key


def take_over(version: int, connection: sqlite3.Connection) -> None:
    insert = "INSERT INTO records (kind, key, value, rev, stale_at, boot, drop_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
    more = "host, pid, boot, start, lease_until" if version > 1 else "NULL, NULL, NULL, NULL, NULL"
    rows = connection.execute(
        f"SELECT key, fingerprint, claimed_at, completed, CAST(result AS BLOB), {more} FROM calls ORDER BY number"
    )
    for key, fingerprint, at, completed, result, host, pid, boot, start, until in rows.fetchall():
        end = None if not completed else "too large" if result is None else "kept"
        call = ClaimedCall(fingerprint, at, host or "", pid or 0, boot or "", start or "", end)  # type: ignore[arg-type]
        kept = lease_key(key[4:-6]) if fingerprint == "lease" else call_key(key)
        row = (call.written(result), new_rev(), *((None, None) if completed else (until or 0.0, boot)))
        connection.execute(insert, (kept[0], written_key(kept), *row, math.inf if completed else None))
    connection.execute("DROP TABLE calls")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "decisions" in tables:
        for key, record in connection.execute("SELECT key, record FROM decisions ORDER BY number").fetchall():
            row = ("decided", written_key(decided_key(key)), record, new_rev(key, record), None, None, math.inf)
            connection.execute(insert, row)
        connection.execute("DROP TABLE decisions")
    if "held" in tables:
        held = connection.execute("SELECT key, run, step FROM held").fetchall()
        connection.execute("DROP TABLE held")
        connection.execute(
            "CREATE TABLE held (key BLOB NOT NULL, run INTEGER NOT NULL, step INTEGER NOT NULL,"
            " PRIMARY KEY (key, run, step)) WITHOUT ROWID"
        )
        connection.executemany(
            "INSERT INTO held VALUES (?, ?, ?)", [(written_key(_held(key)), run, step) for key, run, step in held]
        )


def _held(key: str) -> Key:
    return decided_key(key) if key.startswith(("decision:", "answer:")) else call_key(key)
