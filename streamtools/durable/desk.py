"""Stores responses, so that the first one counts, wherever and whenever people decide or answer.

A record's key is made of the call's idempotency key and the fingerprint that was shown, so a recurring id or other
arguments make another key. If several people must approve a call, each has a place of their own, which is taken only
once those before it have an approval. A response is stored before its call continues, so that nobody decides again
after a crash, and no call is handed out that was answered meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol, TypeGuard

from ..errors import AlreadyDecided, ToolNotStarted
from ..ground import one_line
from ..seams import Decision, Pending, Response, WrittenAnswer

if TYPE_CHECKING:
    from .store import DecidingStore, IdempotencyStore


class Places(Protocol):
    """A `DecidingStore`, or the changes to make in one."""

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None: ...


def decides(store: IdempotencyStore | None) -> TypeGuard[DecidingStore]:
    return hasattr(store, "decide")


@dataclass(frozen=True, slots=True, eq=False)
class StoreDesk:
    store: DecidingStore
    note: Callable[[Pending], Awaitable[None]] | None = None  # gets a call's pending question before people are asked

    async def look(self, pending: Pending, /) -> Sequence[Response]:
        if self.note is not None:
            await self.note(pending)
        if pending.kind == "approval":
            return await look_up(self.store, pending)
        found = await self.store.decide(answer_key(pending), None)
        return [] if found is None else [_answer(pending, found)]

    async def respond(self, pending: Pending, response: Response, /) -> Sequence[Response]:
        if isinstance(response, WrittenAnswer):
            found = await self.store.decide(answer_key(pending), response.record)
            assert found is not None, "a record was given"
            return [_answer(pending, found)]
        try:
            return await put_on_record(self.store, pending, response)
        except AlreadyDecided:
            return await look_up(self.store, pending)


def _answer(pending: Pending, record: bytes) -> WrittenAnswer:
    return WrittenAnswer(call_id=pending.call_id, fingerprint=pending.fingerprint, record=record)


def answer_key(pending: Pending) -> str:
    return f"answer:{_hashed([pending.key, pending.fingerprint])}"


async def look_up(store: Places, pending: Pending) -> list[Decision]:
    found: list[Decision] = []
    while not pending.is_settled(found):
        record = await store.decide(decision_key(pending, len(found)), None)
        if record is None:
            break
        found.append(_read(record, pending))
    return found


async def put_on_record(store: Places, pending: Pending, decision: Decision) -> list[Decision]:
    """Stores a decision; returns all that are on record then, this one last. Repeating one changes nothing. Raises
    `AlreadyDecided` after another decision, and a `DecisionError` for a decision without a name or with other arguments
    if several people are needed."""
    pending.check(decision)
    found: list[Decision] = []
    ours = _written(decision)
    while True:
        record = await store.decide(decision_key(pending, len(found)), ours)
        assert record is not None, "a record was given"
        found.append(one := _read(record, pending))
        if one == decision:
            return found
        if pending.is_settled(found) or (decision.verdict and one.by == decision.by):
            raise AlreadyDecided(decision.call_id, one)


def decision_key(pending: Pending, place: int) -> str:
    return f"decision:{_hashed([pending.key, pending.fingerprint, place])}"


def _hashed(named: list[str | int]) -> str:
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def _written(decision: Decision) -> bytes:
    return json.dumps(asdict(decision)).encode()


def _read(record: bytes, pending: Pending) -> Decision:
    try:
        return Decision(**json.loads(record))
    except (ValueError, TypeError) as error:  # a user's own store, or a record that another version wrote
        text = f"not run: the stored decision about the call {one_line(pending.call_id, 100)!r} cannot be read"
        raise ToolNotStarted(text) from error
