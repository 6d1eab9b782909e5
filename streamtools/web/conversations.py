"""Stores the runs of a conversation: what began each, and what it added to the history.

    chat, id                 its latest run, who began it, and when
    turn, id, number         a run: the run before it, the user and the message, the client's tools, how it ended
    said, id, message        the number of the latest run that answers the message
    added, id, number        the run's message and all that it has added, in its wire's shape
    answer, id, number       what it has shown its readers, folded
    files, id, number, name  a directory in which it keeps long results
    gone, id                 the number of the latest run of a conversation that was removed
    owner, open, due         have no value: who began it, whether it is open, and when it last changed

A branch begins with a run whose predecessor is not the latest one: the user has edited a message, or wants another
answer. Only the process that holds a run's lease writes the run's records.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from ..durable.fields import Range, read_object
from ..durable.lease import JournalLease, Waiter
from ..durable.record_store import RecordStore, all_of
from ..durable.records import Check, Conflict, DeletePrefix, Key, Op, Put, Record, Rev
from ..durable.run_records import hashed
from ..errors import ChatConflict, JournalError, LocalProtocolError
from ..parts import Carry, RunOutcome
from .client_input import ClientTool, UserMessage
from .folded import folded, written_answer
from .log import Entry, log_key, numbered, read_entries
from .past import Past, read_past, written_past

MAX_ID_CHARS = 256  # of a conversation's id
_MAX_PAGE_BYTES = 16 << 20
_FIRST_PAGE = 16  # turns that are read at once; then twice as many
_MOVES_AFTER_MS = 60_000  # a conversation that was changed so lately counts as changed then
_END_OF_TIME_MS = 10**13 - 1


@dataclass(frozen=True, slots=True)
class ChatHead:
    """A conversation, as a list shows it."""

    id: str
    owner: str | None
    """Who began it, as `may` named the person."""
    began_ms: Annotated[int, Range(0, _END_OF_TIME_MS)]
    """Milliseconds since 1970."""
    changed_ms: Annotated[int, Range(0, _END_OF_TIME_MS)]
    """When a message was added, or a run continued."""
    words: str = field(repr=False)
    """The first words of its first message, as the policy leaves them."""
    number: int = field(repr=False)
    due_ms: int = field(repr=False)
    is_open: bool = False
    """True if its latest run is in progress, or waits for people. Stored separately."""


@dataclass(frozen=True, slots=True)
class ChatTurn:
    chat_id: str
    number: int
    before: int | None  # the number of the run before it; None if it begins the conversation
    message: UserMessage = field(repr=False)
    user: str | None  # who began it, as `may` named the person; None if it named nobody
    tools: tuple[ClientTool, ...] = field(repr=False)  # those that the client declared when the run began
    visits: int = 0  # how often a process has begun or continued it
    wire: str | None = None  # that of the messages that it added
    outcome: str | None = None  # a `RunOutcome`, of the latest visit that ended; None if none has
    unsettled: tuple[str, ...] = ()  # the keys of the calls whose end is unknown
    size: int = 0  # bytes of what it has shown and added
    rev: int = 0  # of its record

    @property
    def run_id(self) -> str:
        return f"{self.chat_id}/{self.number}"

    @property
    def is_open(self) -> bool:
        """True if the run continues by itself, or once its calls are answered."""
        return self.outcome in (None, "left", "suspended")


FILE_ERRORS = (JournalError, sqlite3.Error, OSError, LocalProtocolError)  # raised where records cannot be used


def fault_of(error: BaseException | None) -> Literal["passing", "lasting"] | None:
    """Returns whether an error says that the records cannot be used: ``passing`` if they may be usable soon, since a
    file is locked or full, or a server does not answer; ``lasting`` if a file is removed, closed, or no database."""
    cause = error.__cause__ if isinstance(error, JournalError) else error
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    is_gone = isinstance(cause, (TimeoutError, ConnectionError))
    if is_gone or code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL):
        return "passing"
    return "lasting" if isinstance(cause, FILE_ERRORS) else None


class Conversations:
    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._records = store.records

    # -- what is there --

    async def head(self, chat_id: str) -> ChatTurn | None:
        return (await self.look(chat_id))[0]

    async def look(self, chat_id: str, message_id: str | None = None) -> tuple[ChatTurn | None, ChatTurn | None]:
        """Returns the latest run of a conversation, and the latest one that answers a message."""
        if len(chat_id) > MAX_ID_CHARS:
            return None, None
        keys = [_head_key(chat_id)] if message_id is None else [_head_key(chat_id), _said_key(chat_id, message_id)]
        chat, *said = await self._records.get(*keys)
        if chat is None:
            return None, None
        numbers = [_read_head(chat).number, *(int(one.value) for one in said if one is not None)]
        turns = await self._turns(chat_id, numbers)
        if turns[0] is None:  # removed between the two looks
            return None, None
        return turns[0], turns[1] if len(turns) > 1 else None

    async def turn(self, chat_id: str, run_id: str) -> ChatTurn | None:
        """Returns a run of a conversation by its id."""
        number = run_id.removeprefix(f"{chat_id}/")
        if number == run_id or len(chat_id) > MAX_ID_CHARS or not (number.isdecimal() and number.isascii()):
            return None
        return (await self._turns(chat_id, [int(number[:16])]))[0]

    async def chat(self, chat_id: str) -> ChatHead | None:
        (found,) = await self._records.get(_head_key(chat_id))
        return None if found is None else _read_head(found)

    async def up_to(self, turn: ChatTurn, limit: int) -> list[ChatTurn]:
        """Returns the latest runs of a conversation up to this one, without other branches: `limit`, or fewer if they
        are large."""
        turns, size, page = [turn], 0, dict[int, ChatTurn]()
        while (before := turns[-1].before) is not None and len(turns) < limit:
            if before not in page:
                count = min(limit - len(turns), _FIRST_PAGE * 2 ** len(turns).bit_length())
                found = await self._turns(turn.chat_id, range(before, max(before - count, 0), -1))
                page = {one.number: one for one in found if one is not None}
            if (one := page.get(before)) is None or before >= turns[-1].number:
                raise await self._lost(turn)
            size += one.size
            if size > _MAX_PAGE_BYTES:
                break
            turns.append(one)
        return turns[::-1]

    async def past(self, turn: ChatTurn) -> list[Past]:
        """Returns what all runs before one have added to the history, without other branches."""
        number, chain = turn.before, list[Past]()
        added = {} if number is None else {int(one.key[-1], 16): one for one in await self._all("added", turn.chat_id)}
        while number is not None:
            before, one = _read_added(added[number]) if number in added else await self._unanswered(turn, number)
            if before is not None and before >= number:
                raise await self._lost(turn)
            chain.append(one)
            number = before
        return chain[::-1]

    async def _unanswered(self, turn: ChatTurn, number: int) -> tuple[int | None, Past]:
        (found,) = await self._turns(turn.chat_id, [number])
        if found is None:
            raise await self._lost(turn)
        return found.before, Past(None, [], found.message)

    async def _lost(self, turn: ChatTurn) -> Exception:
        if (await self._turns(turn.chat_id, [turn.number])) == [None]:
            return ChatConflict("expired", "the conversation was removed")
        return JournalError(f"the conversation {turn.chat_id!r} lacks a run, or its runs form a circle")

    async def answers(self, turns: Sequence[ChatTurn]) -> list[list[Entry] | None]:
        """Returns what runs had shown at the end of their latest visits, folded; None for a run without a record."""
        found = await self._records.get(*(_key("answer", one.chat_id, one.number) for one in turns)) if turns else []
        return [None if one is None else [*read_entries(one.value)] for one in found]

    async def has_settled(self, turn: ChatTurn) -> bool | None:
        """Returns whether a call whose end was unknown when its run was left has been settled; None if there is no such
        call. Returns True for a call in another store, since it cannot be looked up here."""
        if not turn.unsettled:
            return None
        states = [await self._store.state(key) for key in turn.unsettled]
        return any(one in (None, "completed") for one in states)

    async def files(self, chat_id: str) -> list[tuple[str, str]]:
        """Returns the runs that have kept long results in files, each with a directory of them."""
        found = await self._all("files", chat_id)
        return [(_run_id(one.key), one.value.decode("utf-8", "surrogatepass")) for one in found]

    # -- lists --

    async def of(self, owner: str, before: str | None, limit: int) -> tuple[list[ChatHead], str | None]:
        """Returns the conversations that a person began, the latest change first, and the `before` of the next page, if
        there are more."""
        prefix = ("owner", hashed([owner]))
        after = None if before is None else (*prefix, *before.partition(".")[::2])
        keys = [one.key for one in await self._records.scan(prefix, after, limit + 1)]
        ids = [key[-1] for key in keys[:limit]]
        found = await self._records.get(*map(_head_key, ids), *(("open", one) for one in ids)) if ids else []
        chats = [
            replace(_read_head(head), is_open=is_open is not None)
            for head, is_open in zip(found, found[len(ids) :], strict=False)
            if head is not None
        ]
        return chats, ".".join(keys[limit - 1][-2:]) if len(keys) > limit else None

    async def open(self) -> list[str]:
        """Returns the conversations whose latest run is not over."""
        return [one.key[-1] for one in await self._all("open")]

    async def due(self, before: float, limit: int) -> list[Key]:
        """Returns the keys, which end in their ids, of some conversations that have not changed since a time, in
        seconds since 1970."""
        found = await self._records.scan(("due",), None, limit)
        return [one.key for one in found if int(one.key[1]) < before * 1e3]

    async def put_off(self, due: Key) -> None:
        """Notes that a conversation was removed, or cannot be now."""
        (found,) = await self._records.get(_head_key(due[-1]))
        moved = [] if found is None else _moved(found, replace(_read_head(found), due_ms=_now_ms()))
        await self._records.commit(DeletePrefix(due), *moved)

    # -- changes --

    async def begin(self, turn: ChatTurn, latest: ChatTurn | None, words: str) -> ChatTurn | None:
        """Adds a run at the end of the conversation; returns None if `latest` is no longer the end, or has changed."""
        chat_id = turn.chat_id
        while True:
            found, gone = await self._records.get(_head_key(chat_id), ("gone", chat_id))
            old = None if found is None else _read_head(found)
            if (None if old is None else old.number) != (None if latest is None else latest.number):
                return None
            number = 1 + (old.number if old is not None else 0 if gone is None else int(gone.value))
            now = _now_ms()
            if old is None:
                chat = ChatHead(chat_id, turn.user, now, now, words, number, now)
            else:
                chat = replace(old, number=number, changed_ms=now, due_ms=now)
            turn = replace(turn, number=number)
            put, is_open = _put_turn(turn, "any"), Put(("open", chat_id), b"", "any")
            said = Put(_said_key(chat_id, turn.message.id), str(number).encode(), "any")
            free = [] if latest is None else [Check(_turn_key(latest), latest.rev)]
            end = await self._records.commit(*_moved(found, chat), *free, put, said, is_open)
            if not isinstance(end, Conflict):
                return replace(turn, rev=put.rev)
            if latest is not None and end.key == _turn_key(latest):
                return None

    async def visit(self, run_id: str, lease: JournalLease, directory: str | None) -> ChatTurn | None:
        """Counts a visit to a run, and returns the run; None if it is gone. Notes in which directory it keeps long
        results. Raises `RunTakenOver` if another process has continued it."""
        while True:
            turn, found = await self._both(run_id)
            if turn is None or found is None:
                return None
            # A run that was stopped before it began stays stopped.
            outcome = turn.outcome if turn.outcome == "cancelled" else None
            visited = replace(turn, visits=turn.visits + 1, outcome=outcome)
            put, ops = _put_turn(visited, Rev(turn.rev)), list[Op]()
            if directory is not None:
                key = *_turn_key(turn)[1:], hashed([directory])
                ops.append(Put(("files", *key), directory.encode("utf-8", "surrogatepass"), "any"))
            chat, now = _read_head(found), _now_ms()
            if chat.number == turn.number and now > chat.changed_ms + _MOVES_AFTER_MS:
                ops += _moved(found, replace(chat, changed_ms=now, due_ms=now))
            end = await self._records.commit(lease.fence, put, *ops)
            if not isinstance(end, Conflict):
                return replace(visited, rev=put.rev)
            if end.key == lease.fence.key:
                lease.check(end)

    def finish(
        self, turn: ChatTurn, lease: JournalLease, added: list[Any], carry: Carry, entries: Sequence[Entry]
    ) -> Waiter:
        """Hands over the outcome of a visit, with all that the run has added and shown."""
        wire = turn.wire
        assert wire is not None, "known to the run"
        messages = written_past(turn.before, turn.message, added, wire, turn.outcome, carry)
        answer = written_answer(folded(entries))
        turn = replace(turn, size=len(messages) + len(answer))
        ops = [
            _put_turn(turn, "any"),
            Put(_key("added", turn.chat_id, turn.number), messages, "any"),
            Put(_key("answer", turn.chat_id, turn.number), answer, "any"),
        ]
        return lease.commit(*ops, *([] if turn.is_open else [DeletePrefix(("open", turn.chat_id))]))

    async def keep(self, turn: ChatTurn, entries: Iterable[Entry], *, with_log: bool = True) -> None:
        """Keeps what a run has shown, unless it was continued meanwhile."""
        put = Put(_key("answer", turn.chat_id, turn.number), written_answer(folded(entries)), "any")
        log = [] if with_log else [DeletePrefix(log_key(turn.run_id))]
        await self._records.commit(Check(_turn_key(turn), turn.rev), put, *log)

    async def end(self, run_id: str, outcome: RunOutcome, *, begun: bool = True) -> ChatTurn | None:
        """Notes that a run must not continue by itself; returns the run, or None if it is over, or if it has begun and
        `begun` is False."""
        while True:
            turn, found = await self._both(run_id)
            if turn is None or found is None or not turn.is_open or not (begun or turn.outcome is None):
                return None
            ended, ops = replace(turn, outcome=outcome), list[Op]()
            put = _put_turn(ended, Rev(turn.rev))
            if _read_head(found).number == turn.number:
                ops = [Check(found.key, found.rev), DeletePrefix(("open", turn.chat_id))]
            if not isinstance(await self._records.commit(put, *ops), Conflict):
                return replace(ended, rev=put.rev)

    async def delete(self, chat_id: str, erased: Collection[str]) -> list[str] | None:
        """Removes a conversation if these are all its runs, and none has begun since; returns the others, or None if
        there is no such conversation."""
        while True:
            (found,) = await self._records.get(_head_key(chat_id))
            if found is None:
                return None
            chat = _read_head(found)
            run_id = f"{chat_id}/{chat.number}"
            latest, run = await self._records.get(_key("turn", chat_id, chat.number), ("run", run_id))
            known = [_run_id(one.key) for one in await self._all("turn", chat_id)]
            left = [run_id for run_id in known if run_id not in erased]
            if left or run is not None:  # which has begun since
                return left or [run_id]
            free = [] if latest is None else [Check(latest.key, latest.rev)]
            kinds = ("turn", "said", "added", "answer", "files", "log", "open")
            ops = [*_moved(found, None), *(DeletePrefix((kind, chat_id)) for kind in kinds)]
            gone = Put(("gone", chat_id), str(chat.number).encode(), "any")
            if not isinstance(await self._records.commit(*free, *ops, gone), Conflict):
                return []

    async def _all(self, *prefix: str) -> list[Record]:
        return await all_of(self._records, prefix)

    async def _turns(self, chat_id: str, numbers: Iterable[int]) -> list[ChatTurn | None]:
        found = await self._records.get(*(_key("turn", chat_id, number) for number in numbers))
        return [None if one is None else _read_turn(one) for one in found]

    async def _both(self, run_id: str) -> tuple[ChatTurn | None, Record | None]:
        chat_id, number = numbered(run_id)
        turn, chat = await self._records.get(("turn", chat_id, number), _head_key(chat_id))
        return None if turn is None else _read_turn(turn), chat


# -- keys --


def _key(kind: str, chat_id: str, number: int) -> Key:
    return kind, chat_id, f"{number:016x}"


def _head_key(chat_id: str) -> Key:
    return "chat", chat_id


def _run_id(key: Key) -> str:
    return f"{key[1]}/{int(key[2], 16)}"


def _turn_key(turn: ChatTurn) -> Key:
    return _key("turn", turn.chat_id, turn.number)


def _said_key(chat_id: str, message_id: str) -> Key:
    return "said", chat_id, hashed([message_id])


def _now_ms() -> int:
    return int(time.time() * 1e3)


def _moved(found: Record | None, new: ChatHead | None) -> Iterator[Op]:
    """Yields the operations that replace a conversation's record, and the keys that find it."""
    before = set() if found is None else {*_found_by(_read_head(found))}
    after = set() if new is None else {*_found_by(new)}
    if new is not None:
        yield Put(_head_key(new.id), to_json(asdict(new)), "absent" if found is None else Rev(found.rev))
    elif found is not None:
        yield from (Check(found.key, found.rev), DeletePrefix(found.key))
    yield from map(DeletePrefix, before - after)
    yield from (Put(key, b"", "any") for key in after - before)


def _found_by(chat: ChatHead) -> Iterator[Key]:
    yield "due", f"{chat.due_ms:013d}", chat.id
    if chat.owner is not None:
        yield "owner", hashed([chat.owner]), f"{_END_OF_TIME_MS - chat.changed_ms:013d}", chat.id


# -- values --


_TURN = TypeAdapter(ChatTurn)


def _put_turn(turn: ChatTurn, expect: Rev | Literal["any"]) -> Put:
    return Put(_turn_key(turn), _TURN.dump_json(turn, exclude={"rev"}), expect)


def _read_turn(record: Record) -> ChatTurn:
    try:
        return replace(_TURN.validate_json(record.value), rev=record.rev)
    except ValueError as error:
        raise _unread() from error


def _read_head(record: Record) -> ChatHead:
    try:
        head: ChatHead = read_object(ChatHead, from_json(record.value))
    except (ValueError, TypeError) as error:
        raise _unread() from error
    return head


def _read_added(record: Record) -> tuple[int | None, Past]:
    try:
        return read_past(record.value)
    except (ValueError, TypeError, LookupError) as error:
        raise _unread() from error


def _unread() -> JournalError:
    return JournalError("a conversation has a record that this program did not write")
