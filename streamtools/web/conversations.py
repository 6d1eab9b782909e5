"""Keeps which runs a conversation is made of, what began each, and what it has added to the history.

    chats   one row a conversation: the run that it ends with at present
    turns   one row a run: the run before it, the user and the message, the client's tools, the messages that the run
            added, how it ended, the calls of no known end, and where long results are
    answers one row a run: what it has shown its readers, folded

A branch begins with a run whose predecessor is not the latest one: the user has edited a message, or wants another
answer. The tables lie in the file of the journal that has the runs.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from pydantic_core import from_json, to_json

from ..dispatch import SqliteStore
from ..durable.codec import read_value, written_value
from ..durable.lease import Waiter
from ..durable.store_sqlite import get_in
from ..errors import ChatConflict, JournalError, LocalProtocolError
from ..parts import RunOutcome
from .client_input import ClientTool, UserFile, UserMessage, UserText
from .client_tools import read_tools, written_tools
from .folded import folded, written_answer
from .log import Entry, read_entries

_TABLES = (
    "CREATE TABLE IF NOT EXISTS chats (chat_id TEXT PRIMARY KEY, began_at REAL NOT NULL, head TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS turns (number INTEGER PRIMARY KEY AUTOINCREMENT, chat_id TEXT NOT NULL,"
    " run_id TEXT NOT NULL UNIQUE, before TEXT, message_id TEXT NOT NULL, message BLOB NOT NULL, user TEXT,"
    " tools BLOB, visits INTEGER NOT NULL DEFAULT 0, wire TEXT, added BLOB, outcome TEXT, unsettled TEXT, files TEXT)",
    "CREATE INDEX IF NOT EXISTS turns_of ON turns (chat_id, message_id)",
    "CREATE TABLE IF NOT EXISTS answers (run_id TEXT PRIMARY KEY, answer BLOB NOT NULL)",
)
_COLUMNS = "chat_id, run_id, before, message_id, message, user, tools, visits, wire, added, outcome"
_MAX_ADDED_BYTES = 256 << 20
_MAX_PAGE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ChatTurn:
    chat_id: str
    run_id: str
    before: str | None  # the run before it; None if it begins the conversation
    message: UserMessage = field(repr=False)
    user: str | None  # who began it, as `may` named the person; None if it named nobody
    tools: tuple[ClientTool, ...] = field(repr=False)  # those that the client declared when the run began
    visits: int  # how often somebody has gone on with it
    wire: str | None  # the wire of `added`
    added: list[Any] | None = field(repr=False)
    """The messages that the run has added so far, in the wire's shape; None before its first end."""
    outcome: str | None  # a `RunOutcome`, of the latest visit that came to its end; None if there was none

    @property
    def is_open(self) -> bool:
        """True if the run goes on by itself, or when somebody has answered."""
        return self.outcome in (None, "left", "suspended")


FILE_ERRORS = (JournalError, sqlite3.Error, OSError, LocalProtocolError)  # what is raised where the file cannot be used


def fault_of(error: BaseException | None) -> Literal["passing", "lasting"] | None:
    """Returns whether an error says that the file cannot be used, and if it may be usable soon: it is locked, or full,
    and not removed, closed, or no database."""
    cause = error.__cause__ if isinstance(error, JournalError) else error
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if isinstance(cause, TimeoutError) or code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL):
        return "passing"
    return "lasting" if isinstance(cause, FILE_ERRORS) else None


class Conversations:
    """The conversations in a journal's file, the store."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def head(self, chat_id: str) -> ChatTurn | None:
        query = f"SELECT {_COLUMNS} FROM turns WHERE run_id = (SELECT head FROM chats WHERE chat_id = ?)"
        return await self._one(query, chat_id)

    async def turn(self, run_id: str) -> ChatTurn | None:
        return await self._one(f"SELECT {_COLUMNS} FROM turns WHERE run_id = ?", run_id)

    async def with_message(self, chat_id: str, message_id: str) -> ChatTurn | None:
        query = f"SELECT {_COLUMNS} FROM turns WHERE chat_id = ? AND message_id = ? ORDER BY number DESC LIMIT 1"
        return await self._one(query, chat_id, message_id)

    async def up_to(self, turn: ChatTurn, limit: int | None = None) -> list[ChatTurn]:
        """Returns the runs of a conversation up to this one, without the branches beside; the latest alone with a
        `limit`, and fewer than that if they are large."""
        return await self._store.hand_over(partial(_chain, turn, limit))()

    async def answer(self, run_id: str) -> list[Entry] | None:
        """Returns what a run had shown at the end of its latest visit, folded; None if nothing is kept of that."""

        def work(connection: sqlite3.Connection) -> bytes | None:
            _make_tables(connection)
            row = connection.execute("SELECT answer FROM answers WHERE run_id = ?", (run_id,)).fetchone()
            return None if row is None else row[0]

        written = await self._store.hand_over(work)()
        return None if written is None else [*read_entries(written)]

    def keep(
        self, run_id: str, entries: Sequence[Entry], check: Callable[[sqlite3.Connection], None] | None = None
    ) -> Waiter:
        """Hands over what a run has shown, to be folded and kept in place of an earlier answer; `check` is as for
        `finish`."""

        def work(connection: sqlite3.Connection) -> None:
            if check is not None:
                check(connection)
            known = "SELECT 1 FROM turns WHERE run_id = ?"
            if connection.execute(known, (run_id,)).fetchone() is not None:  # it was not removed meanwhile
                answer = written_answer(folded(entries))
                connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (run_id, answer))

        return self._store.hand_over(work)

    async def note_files(self, run_id: str, directory: str) -> None:
        """Notes in which directory a run keeps long results, beside those in which earlier visits have."""

        def work(connection: sqlite3.Connection) -> None:
            row = connection.execute("SELECT files FROM turns WHERE run_id = ?", (run_id,)).fetchone()
            known = [] if row is None or row[0] is None else json.loads(row[0])
            if directory not in known:
                written = json.dumps([*known, directory])
                connection.execute("UPDATE turns SET files = ? WHERE run_id = ?", (written, run_id))

        await self._store.hand_over(work)()

    async def files(self, chat_id: str) -> list[tuple[str, str]]:
        """Returns the runs that have kept long results in files, each with a directory of them."""

        def work(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            _make_tables(connection)
            query = "SELECT run_id, files FROM turns WHERE chat_id = ? AND files IS NOT NULL"
            rows = connection.execute(query, (chat_id,)).fetchall()
            return [(str(run_id), str(one)) for run_id, files in rows for one in json.loads(files)]

        return await self._store.hand_over(work)()

    async def begin(
        self,
        chat_id: str,
        before: str | None,
        message: UserMessage,
        user: str | None,
        tools: tuple[ClientTool, ...],
        head: str | None,
    ) -> ChatTurn | None:
        """Adds a run, and makes it the conversation's end; None if that is not `head` any more. Raises a `BadRequest`
        if the tools are too large."""
        turn = ChatTurn(chat_id, "", before, message, user, tools, 0, None, None, None)
        return await self._store.hand_over(partial(_begin, turn, _written(message), written_tools(tools), head))()

    async def next_turn(
        self, chat_id: str, before: str | None, message: UserMessage, user: str | None, tools: tuple[ClientTool, ...]
    ) -> ChatTurn:

        def work(connection: sqlite3.Connection) -> ChatTurn:
            run_id = f"{chat_id}/{_next_number(connection)}"
            return ChatTurn(chat_id, run_id, before, message, user, tools, 0, None, None, None)

        return await self._store.hand_over(work)()

    async def visit(self, run_id: str, check: Callable[[sqlite3.Connection], None]) -> ChatTurn | None:
        """Counts a visit to a run, and returns the run; None if it is gone. `check` is as for `finish`."""
        return await self._store.hand_over(partial(_visit, run_id, check))()

    def finish(
        self,
        run_id: str,
        wire: str,
        added: list[Any],
        outcome: str | None,
        unsettled: Sequence[str],
        entries: Sequence[Entry] | None,
        check: Callable[[sqlite3.Connection], None],
    ) -> list[Waiter]:
        """Hands over what a visit has come to, with the keys of the calls whose end is not known, and all that the run
        has shown, or None if the visit has shown nothing. `check` runs in the same transaction, and may raise."""
        written = to_json({"messages": written_value(added)})  # Bedrock's have bytes
        values = (wire, written, outcome, json.dumps(unsettled) if unsettled else None, run_id)

        def work(connection: sqlite3.Connection) -> None:
            check(connection)
            connection.execute(
                "UPDATE turns SET wire = ?, added = ?, outcome = ?, unsettled = ? WHERE run_id = ?", values
            )
            if entries is not None:
                connection.execute("DELETE FROM answers WHERE run_id = ?", (run_id,))

        waiter = self._store.hand_over(work)
        return [waiter] if entries is None else [waiter, self.keep(run_id, entries, check)]

    async def has_settled(self, run_id: str) -> bool | None:
        """Returns whether somebody has found out the end of a call that was not known when a run was left; None if all
        were known. Of a call that is in another store nobody can say so here: True."""

        def work(connection: sqlite3.Connection) -> bool | None:
            row = connection.execute("SELECT unsettled FROM turns WHERE run_id = ?", (run_id,)).fetchone()
            if row is None or row[0] is None:
                return None
            return any(self._store.state_in(key, connection) in (None, "completed") for key in json.loads(row[0]))

        return await self._store.hand_over(work)()

    async def so_many_before(self, turn: ChatTurn, count: int) -> ChatTurn | None:
        """Returns the run that began so many runs before this one, in any conversation, if it is over."""
        number = int(turn.run_id.rpartition("/")[2]) - count
        found = await self._one(f"SELECT {_COLUMNS} FROM turns WHERE number = ?", number)
        return None if found is None or found.is_open else found

    async def end(self, run_id: str, outcome: RunOutcome, *, begun: bool = True) -> bool:
        """Notes that a run is not to go on, so that it does not by itself; returns False if it is over, or has `begun`
        though it had not to."""
        left = "(outcome IS NULL OR outcome IN ('left', 'suspended'))" if begun else "outcome IS NULL"

        def work(connection: sqlite3.Connection) -> bool:
            change = f"UPDATE turns SET outcome = ? WHERE run_id = ? AND {left}"
            return connection.execute(change, (outcome, run_id)).rowcount > 0

        return await self._store.hand_over(work)()

    async def runs(self, chat_id: str | None = None) -> list[tuple[str, str]]:
        """Returns the conversation and the id of each run, those of all conversations without a `chat_id`."""
        return await self._store.hand_over(partial(_runs, chat_id))()

    async def close(self, chat_id: str) -> None:
        """Notes that no run of a conversation is to be gone on with, unless one goes on now. Its record is to go."""

        def work(connection: sqlite3.Connection) -> None:
            query = (
                "SELECT run_id FROM turns WHERE chat_id = ? AND (outcome IS NULL OR outcome IN ('left', 'suspended'))"
            )
            for row in connection.execute(query, (chat_id,)).fetchall():
                if not self._store.is_held_in(row[0], connection):
                    connection.execute("UPDATE turns SET outcome = 'cancelled' WHERE run_id = ?", row)

        await self._store.hand_over(work)()

    async def delete(self, chat_id: str, erased: Collection[str]) -> list[str]:
        """Forgets a conversation if these are all its runs, and none has begun since; returns the others."""

        def work(connection: sqlite3.Connection) -> list[str]:
            known = [run_id for _, run_id in _runs(chat_id, connection)]
            left = [run_id for run_id in known if run_id not in erased]
            left += [one for one in known if one in erased and get_in(("run", one), connection) is not None]
            if left:
                return left
            own = "SELECT run_id FROM turns WHERE chat_id = ?"
            connection.execute(f"DELETE FROM answers WHERE run_id IN ({own})", (chat_id,))
            connection.execute("DELETE FROM turns WHERE chat_id = ?", (chat_id,))
            connection.execute("DELETE FROM chats WHERE chat_id = ?", (chat_id,))
            return []

        return await self._store.hand_over(work)()

    async def _one(self, query: str, *values: str | int) -> ChatTurn | None:
        def work(connection: sqlite3.Connection) -> ChatTurn | None:
            _make_tables(connection)
            row = connection.execute(query, values).fetchone()
            return None if row is None else _read(row)

        return await self._store.hand_over(work)()


# -- in the store's thread --


def _make_tables(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
        connection.execute(table)
    if connection.execute("SELECT 1 FROM pragma_table_info('turns') WHERE name = 'user'").fetchone() is None:
        connection.execute("ALTER TABLE turns ADD COLUMN user TEXT")  # of a file from before there were users


def _chain(turn: ChatTurn, limit: int | None, connection: sqlite3.Connection) -> list[ChatTurn]:
    turns, known, size = [turn], {turn.run_id}, 0
    answer = "SELECT length(answer) FROM answers WHERE run_id = turns.run_id"
    size_of = f"length(message) + length(coalesce(added, '')) + coalesce(({answer}), 0)"
    query = f"SELECT {_COLUMNS}, {size_of} FROM turns WHERE run_id = ?"
    while (before := turns[-1].before) is not None:
        row = connection.execute(query, (before,)).fetchone()
        if (
            row is None
            and connection.execute("SELECT 1 FROM turns WHERE run_id = ?", (turn.run_id,)).fetchone() is None
        ):
            raise ChatConflict("expired", "the conversation was removed")
        if row is None or before in known:
            raise JournalError(f"the conversation {turn.chat_id!r} has lost a run, or is a circle")
        size += row[-1]
        if limit is not None and (len(turns) >= limit or size > _MAX_PAGE_BYTES):
            break
        known.add(before)
        turns.append(_read(row[:-1]))
    return turns[::-1]


def _begin(
    turn: ChatTurn, message: bytes, tools: bytes | None, head: str | None, connection: sqlite3.Connection
) -> ChatTurn | None:
    _make_tables(connection)
    chat_id = turn.chat_id
    found = connection.execute("SELECT head FROM chats WHERE chat_id = ?", (chat_id,)).fetchone()
    if (None if found is None else found[0]) != head:
        return None
    number = _next_number(connection)
    run_id = f"{chat_id}/{number}"
    columns = "number, chat_id, run_id, before, message_id, message, user, tools"
    values = (number, chat_id, run_id, turn.before, turn.message.id, message, turn.user, tools)
    connection.execute(f"INSERT INTO turns ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    change = "INSERT INTO chats VALUES (?, ?, ?) ON CONFLICT (chat_id) DO UPDATE SET head = excluded.head"
    connection.execute(change, (chat_id, time.time(), run_id))
    return replace(turn, run_id=run_id)


def _next_number(connection: sqlite3.Connection) -> int:
    """Returns a number of no run that ever was, also in a deleted conversation: the keys of its calls are known yet."""
    latest = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'turns'").fetchone()
    return 1 if latest is None else int(latest[0]) + 1


def _visit(run_id: str, check: Callable[[sqlite3.Connection], None], connection: sqlite3.Connection) -> ChatTurn | None:
    check(connection)
    # One that was stopped before it has begun stays so.
    outcome = "CASE outcome WHEN 'cancelled' THEN outcome END"
    change = f"UPDATE turns SET visits = visits + 1, outcome = {outcome} WHERE run_id = ?"
    connection.execute(change, (run_id,))
    row = connection.execute(f"SELECT {_COLUMNS} FROM turns WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else _read(row)


def _runs(chat_id: str | None, connection: sqlite3.Connection) -> list[tuple[str, str]]:
    _make_tables(connection)
    query = "SELECT chat_id, run_id FROM turns WHERE :chat IS NULL OR chat_id = :chat ORDER BY number"
    return [(str(chat), str(run)) for chat, run in connection.execute(query, {"chat": chat_id})]


def _read(row: tuple[Any, ...]) -> ChatTurn:
    chat_id, run_id, before, message_id, message, user, tools, visits, wire, added, outcome = row
    try:
        texts = (chat_id, run_id, message_id, *(one for one in (before, user, wire, outcome) if one is not None))
        if not all(type(one) is str for one in texts) or type(visits) is not int:
            raise ValueError("texts and a number were expected")
        parts = tuple(_read_part(**one) for one in from_json(message))
        read = None if added is None else json.loads(added[:_MAX_ADDED_BYTES])
        if isinstance(read, dict):
            read = read_value(read["messages"])
        if not isinstance(read, list | None):
            raise ValueError("messages were expected")
        said = UserMessage(message_id, parts)
        return ChatTurn(chat_id, run_id, before, said, user, read_tools(tools), visits, wire, read, outcome)
    except (ValueError, TypeError, LookupError) as error:
        raise JournalError("a conversation has a row that nobody here has written") from error


def _written(message: UserMessage) -> bytes:
    return to_json(
        [
            {"text": part.text}
            if isinstance(part, UserText)
            else {"media_type": part.media_type, "url": part.url, "filename": part.filename}
            for part in message.parts
        ]
    )


def _read_part(
    text: str | None = None, media_type: str = "", url: str = "", filename: str | None = None
) -> UserText | UserFile:
    if not all(type(one) is str for one in (text or "", media_type, url, filename or "")):
        raise ValueError("texts were expected")
    return UserFile(media_type=media_type, url=url, filename=filename) if text is None else UserText(text)
