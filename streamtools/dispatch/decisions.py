"""Puts decisions on record in a store, so that the first one counts, wherever and whenever somebody decides.

Input: a call that waits, and a `Decision`. Output: the decisions on record, or `AlreadyDecided`. A record's key is made
of the call's idempotency key, which names run, step, response and call, and of the fingerprint that was shown: an id
that recurs, or other arguments under it, is another key. A tool with ``requires=2`` has a second place, which is taken
only when the first one has an approval; so the order of several people is the same for everybody.

A decision is on record before its call begins. So a run that died between the two goes on with the recorded verdict,
and nobody decides again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

from ..errors import AlreadyDecided, DecisionError, ToolNotStarted
from ..text import one_line
from .approval import Decision, resolved

if TYPE_CHECKING:
    from .store import DecidingStore, IdempotencyStore

Steps: TypeAlias = Generator[tuple[str, "bytes | None"], "bytes | None", list[Decision]]
"""Asks a store to `decide` one key after the other, and returns decisions: the same where a store is awaited as in the
transaction of a journal."""


class Waiting(Protocol):
    """A call that waits for decisions or an answer."""

    @property
    def call_id(self) -> str:
        """The call's id."""
        ...

    @property
    def fingerprint(self) -> str:
        """That of the arguments that are shown."""
        ...

    @property
    def idempotency_key(self) -> str:
        """The call's own key."""
        ...

    @property
    def requires(self) -> int:
        """The number of people who have to approve it."""
        ...


def decides(store: IdempotencyStore | None) -> TypeGuard[DecidingStore]:
    """Returns whether a store keeps decisions."""
    return hasattr(store, "decide")


async def look_up(store: DecidingStore, call: Waiting) -> list[Decision]:
    """Returns the decisions about a call that are on record, in their order."""
    return await _decided(store, looking_up(call))


async def put_on_record(store: DecidingStore, call: Waiting, decision: Decision) -> list[Decision]:
    """Puts a decision about a call on record; returns all that are on record then, this one last. The same decision
    again, equal in all fields, changes nothing and is no second one.

    Raises:
        AlreadyDecided: the call was decided before, or this person has approved it before.
        DecisionError: the call needs several people, and this decision has no name, or other arguments.
    """
    return await _decided(store, putting_on_record(call, decision))


async def _decided(store: DecidingStore, steps: Steps) -> list[Decision]:
    try:
        asked = next(steps)
        while True:
            asked = steps.send(await store.decide(*asked))
    except StopIteration as end:
        found: list[Decision] = end.value
        return found


def decided_at_once(decide: Callable[[str, bytes | None], bytes | None], steps: Steps) -> list[Decision]:
    """Does as `look_up` or `put_on_record`, where nothing has to be awaited."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(decide(*asked))
    except StopIteration as end:
        found: list[Decision] = end.value
        return found


def looking_up(call: Waiting) -> Steps:
    """Looks up as `look_up` does."""
    found: list[Decision] = []
    while resolved(found, call.requires) is None:
        record = yield _key(call, len(found)), None
        if record is None:
            break
        found.append(_read(record, call))
    return found


def putting_on_record(call: Waiting, decision: Decision) -> Steps:
    """Puts on record as `put_on_record` does."""
    check_named(call, decision)
    found: list[Decision] = []
    ours = _written(decision)
    while True:
        record = yield _key(call, len(found)), ours
        assert record is not None, "a record was given"
        found.append(one := _read(record, call))
        if one == decision:
            return found
        if resolved(found, call.requires) is not None or (decision.verdict and one.by == decision.by):
            raise AlreadyDecided(decision.call_id, one)


def check_named(call: Waiting, decision: Decision) -> None:
    """Refuses a decision about a call that needs several people, if it has no name, or arguments that only one of them
    has seen."""
    if call.requires > 1 and (decision.by is None or decision.arguments is not None):
        needs = f"the call {one_line(call.call_id, 100)!r} requires {call.requires} people, so each decision"
        if decision.by is None:
            raise DecisionError(call.call_id, "unnamed", f"{needs} says by= whom it is")
        raise DecisionError(call.call_id, "edited", f"{needs} is about the arguments that were shown to all")


def _key(call: Waiting, place: int) -> str:
    return decision_key(call.idempotency_key, call.fingerprint, place)


def decision_key(call_key: str, fingerprint: str, place: int) -> str:
    """Returns the key of one of the decisions about a call."""
    text = json.dumps([call_key, fingerprint, place])
    return f"decision:{hashlib.sha256(text.encode()).hexdigest()}"


def _written(decision: Decision) -> bytes:
    fields: Sequence[str] = ("call_id", "fingerprint", "verdict", "by", "at", "reason", "arguments")
    return json.dumps({name: getattr(decision, name) for name in fields}).encode()


def _read(record: bytes, call: Waiting) -> Decision:
    try:
        return Decision(**json.loads(record))
    except (ValueError, TypeError) as error:  # a user's own store, or a record that another version wrote
        text = f"not run: the decision about the call {one_line(call.call_id, 100)!r} on record cannot be read"
        raise ToolNotStarted(text) from error
