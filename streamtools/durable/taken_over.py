"""Converts an older file of a `SqliteStore`, which had tables of its own, to records, in one transaction."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias

from .record_store import ClaimedCall, call_key, decided_key, lease_key
from .records import Key, new_rev, read_key, written_key
from .run_records import JournaledRun, hashed, inbox_key, step_key

Insert: TypeAlias = Callable[..., None]
"""Puts a record: its key and value, and optionally its time (`stale_at`, `boot`, `drop_at`)."""


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
    if "held" in tables:  # records that a run may ask for again are kept as long as the run
        for (held,) in connection.execute("SELECT DISTINCT key FROM held").fetchall():
            key = ":".join(read_key(held)[1:]) if version == 4 else held
            kept = decided_key(key) if key.startswith(("decision:", "answer:")) else call_key(key)
            connection.execute("UPDATE records SET drop_at = NULL WHERE key = ?", (written_key(kept),))
    if "runs" in tables:
        _take_runs(insert, connection)
    if "turns" in tables:
        take_over_chats(tables, insert, connection)
    of_chats = ("chats", "turns", "answers", "log")
    for table in ("decisions", "held", "runs", "responses", "inbox", "waiting", "handed_out", *of_chats):
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
        runs[number], head = run_id, JournaledRun(*facts)
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


def take_over_chats(tables: Collection[str], insert: Insert, connection: sqlite3.Connection) -> None:
    """Converts the conversations of `streamtools.web.Chats` to the records of its ``conversations``."""

    def part(run_id: str) -> tuple[str, str]:
        chat_id, _, number = run_id.rpartition("/")
        return chat_id, f"{int(number):016x}"

    def rows(query: str, table: str) -> list[Any]:
        return connection.execute(query).fetchall() if table in tables else []

    connection.row_factory = sqlite3.Row
    known, first, latest = rows("SELECT * FROM turns ORDER BY number", "turns"), dict[str, Any](), dict[str, Any]()
    connection.row_factory = None
    for row in map(dict, known):
        key, before = part(row["run_id"]), None if row["before"] is None else int(row["before"].rpartition("/")[2])
        latest[row["run_id"]], number = row, int(key[1], 16)
        first.setdefault(key[0], row)
        said = {"message": {"id": row["message_id"], "parts": json.loads(row["message"])}}
        tools = [
            dict(zip(("name", "description", "parameters"), one, strict=True))
            for one in json.loads(row["tools"] or "[]")
        ]
        facts = {name: row.get(name) for name in ("user", "visits", "wire", "outcome")}
        facts |= {"before": before, "unsettled": json.loads(row["unsettled"] or "[]"), "size": len(row["added"] or b"")}
        turn = {"chat_id": key[0], "number": number, **facts, **said, "tools": tools}
        insert(("turn", *key), json.dumps(turn).encode())
        insert(("said", key[0], hashed([row["message_id"]])), str(number).encode())
        if row["added"] is not None and row["wire"] is not None:
            added = json.loads(row["added"])
            added = added["messages"] if isinstance(added, dict) else added
            insert(
                ("added", *key), json.dumps({"before": before, "wire": row["wire"], "messages": added, **said}).encode()
            )
        for directory in json.loads(row["files"] or "[]"):
            insert(("files", *key, hashed([directory])), directory.encode("utf-8", "surrogatepass"))
    for run_id, answer in rows("SELECT run_id, answer FROM answers", "answers"):
        insert(("answer", *part(run_id)), answer)
    now = time.time()
    for run_id, last, body in rows("SELECT run_id, last, body FROM log", "log"):
        insert(("log", *part(run_id), f"{last:016x}"), body, time=(None, None, now + 7 * 86400))
    for (written,) in connection.execute("SELECT key FROM records WHERE kind = 'call'").fetchall():
        chat_id, _, gone = read_key(written)[1].rpartition("/")
        if gone.isdecimal() and chat_id not in first:  # a removed one may be begun again
            insert(("gone", chat_id), gone.encode())
    for chat_id, began_at, head in rows("SELECT chat_id, began_at, head FROM chats", "chats"):
        began, due, owner = int(began_at * 1e3), int(now * 1e3), first[chat_id].get("user")
        times = {"began_ms": began, "changed_ms": began, "due_ms": due}
        chat = {"id": chat_id, "owner": owner, "words": "", "number": int(part(head)[1], 16), **times, "is_open": False}
        insert(("chat", chat_id), json.dumps(chat).encode())
        insert(("due", f"{due:013d}", chat_id), b"")
        if owner is not None:
            insert(("owner", hashed([owner]), f"{10**13 - 1 - began:013d}", chat_id), b"")
        if latest[head]["outcome"] in (None, "left", "suspended"):
            insert(("open", chat_id), b"")
