"""Keeps the calls of a journaled run that wait for people, so that any process can decide about them.

A decision is one commit, which ensures that the call waits, with the arguments that were shown, that no decision came
before, and that the run is not over and gets it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any

from ..errors import AlreadyDecided, DecisionError, JournalError
from ..ground import one_line
from ..seams import Decision
from .desk import decision_key, look_up, put_on_record
from .record_store import RecordStore, all_of
from .records import Check, Key, Op, Put, Record, Records
from .run_records import UNREAD, hashed, read_number, read_texts, step_key
from .suspended import Suspended, SuspendedCall, read_suspended, written_suspended


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits, or has waited."""

    record: Record
    suspended: Suspended  # with this call only
    is_over: bool
    asked_at: float

    @property
    def call(self) -> SuspendedCall:
        return self.suspended.calls[0]

    def over(self) -> Put:
        return _put(self.record.key, self.suspended, is_over=True, asked_at=self.asked_at)


def marker_of(run_id: str, first: str, began_at: float) -> str:
    """Returns the name of a run in its journal; a run that was forgotten and started again has another."""
    return hashlib.sha256(json.dumps([run_id, first, began_at]).encode()).hexdigest()[:16]


def noted(run_id: str, suspended: Suspended, *, is_over: bool = False) -> Iterable[Put]:
    """Notes that calls wait, or no longer wait."""
    for call in suspended.calls:
        key = *step_key("waiting", run_id, suspended.step), hashed([call.idempotency_key, call.fingerprint])
        yield _put(key, replace(suspended, calls=(call,)), is_over=is_over, asked_at=time.time())


def _put(key: Key, suspended: Suspended, *, is_over: bool, asked_at: float) -> Put:
    head = json.dumps([is_over, asked_at]).encode()
    return Put(key, head + b"\n" + written_suspended(suspended), "any")


async def all_waiting(records: Records, run_id: str) -> list[WaitingCall]:
    """Returns the calls of a run that wait or have waited, in the order of their steps and requests."""
    found = [_read(one) for one in await all_of(records, ("waiting", run_id))]
    return sorted(found, key=lambda one: (one.suspended.step, one.asked_at))


async def handed_out(records: Records, run_id: str) -> list[tuple[int, str, str]]:
    """Returns the calls that are done outside, in the order in which they were handed out: step, call id, and the key
    of the answer. An id recurs if a call asks again, or if the provider gives it to a later call."""
    found = [(one.key[2], read_texts(one)) for one in await all_of(records, ("handed", run_id))]
    return [(read_number(step), call_id, key) for step, (call_id, key) in found]


def latest(known: Sequence[WaitingCall], marker: str, ticket: Suspended | None) -> Suspended | None:
    """Returns the waiting calls of a run's latest step, or those of a ticket; raises a `JournalError` if the ticket's
    calls no longer wait."""
    waiting = [one for one in known if not one.is_over]
    step = waiting[-1].suspended.step if waiting else None
    found = {one.call.idempotency_key: one.suspended for one in waiting if one.suspended.step == step}
    asked = () if ticket is None else ticket.calls
    if ticket is not None and (ticket.step != step or not all(call.idempotency_key in found for call in asked)):
        now = "no call of it waits now" if step is None else f"calls of step {step} wait now"
        raise JournalError(f"the ticket belongs to step {ticket.step} of the run {ticket.run_id!r}, but {now}")
    if not found:
        return None
    calls = tuple(one.calls[0] for one in found.values())
    return replace(next(iter(found.values())), calls=calls, journal=marker)


def check_ticket(ticket: Suspended, marker: str) -> None:
    if ticket.journal is None:
        raise JournalError(f"the calls belong to a run {ticket.run_id!r} without a journal; continue with `resume`")
    if ticket.journal != marker:
        raise JournalError(f"the ticket belongs to the run {ticket.run_id!r}, which is not in this journal")


async def decision_keys(store: RecordStore, known: Iterable[WaitingCall]) -> list[str]:
    keys = list[str]()
    for one in known:
        for place in count():
            key = decision_key(one.call.pending, place)
            if await store.decide(key, None) is None:
                break
            keys.append(key)
    return keys


class Deciding:
    """Decisions to make in one commit, about calls as they are stored.

    Args:
        store: keeps decisions.
        known: the calls of the run that wait or have waited.
        ticket: names the calls to decide about.
        is_held: whether a process is running the run.
    """

    def __init__(
        self, store: RecordStore, known: Sequence[WaitingCall], ticket: Suspended | None, *, is_held: bool
    ) -> None:
        self._store = store
        self._known = known
        self._keys = None if ticket is None else {call.call_id: call.idempotency_key for call in ticket.calls}
        self._is_held = is_held
        self._puts: dict[str, Put] = {}
        self._checks: dict[Key, Check] = {}
        self.entries: dict[str, Mapping[str, Any]] = {}
        """The entries for the run's inbox, by their ids."""

    @property
    def ops(self) -> list[Op]:
        return [*self._checks.values(), *self._puts.values()]

    async def add(self, one: Decision) -> None:
        """Raises `AlreadyDecided`; a `DecisionError` for a decision about no waiting call, about another call than was
        shown, or without a required name."""
        found = self._found(one)
        call, step, record = found.call, found.suspended.step, found.record
        call.pending.check(one)
        known = await look_up(self, call.pending)
        if one not in known and call.pending.is_settled(known):
            raise AlreadyDecided(one.call_id, known[-1])
        if call.waits_for != "approval" and not known:
            raise DecisionError(
                one.call_id, "unknown_call", f"the call {_shown(one)} waits for an answer, not a decision"
            )
        if found.is_over or not (self._is_held or await self._is_stored(record.key[1], step)):
            if one in known:
                return
            raise DecisionError(one.call_id, "unknown_call", f"the call {_shown(one)} no longer waits")
        await put_on_record(self, call.pending, one)
        self._checks[record.key] = Check(record.key, record.rev)
        entry = {"kind": "decision", "step": step, "key": call.idempotency_key, "decision": asdict(one)}
        self.entries[f"decision-{hashlib.sha256(json.dumps(entry).encode()).hexdigest()[:32]}"] = entry

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        """See `Places`: the commit stores what is not stored yet."""
        if key not in self._puts:
            found = await self._store.decide(key, None)
            if found is not None or record is None:
                return found
            self._puts[key] = self._store.deciding(key, record)
        return self._puts[key].value

    async def _is_stored(self, run_id: str, step: int) -> bool:
        (found,) = await self._store.records.get(step_key("response", run_id, step))
        return found is not None

    def _found(self, decision: Decision) -> WaitingCall:
        if not isinstance(decision, Decision):
            kind = type(decision).__name__
            raise TypeError(f"decide takes Decisions, not {kind}, since an id does not say which arguments were shown")
        key = None if self._keys is None else self._keys.get(decision.call_id, "")
        of_id = [one for one in self._known if one.call.call_id == decision.call_id]
        found = [one for one in of_id if key is None or one.call.idempotency_key == key]
        if not found:
            text = f"no call {_shown(decision)} waits in this run"
            raise DecisionError(decision.call_id, "unknown_call", text)
        fits = [one for one in found if one.call.fingerprint == decision.fingerprint]
        if not fits:
            text = f"the waiting call {_shown(decision)} is not the one that was shown: its tool or arguments differ"
            raise DecisionError(decision.call_id, "changed_call", text)
        if len(steps := sorted({one.suspended.step for one in fits})) > 1:
            text = f"the run asked about equal calls {_shown(decision)} in the steps {steps}; pass a ticket to name one"
            raise DecisionError(decision.call_id, "changed_call", text)
        return fits[-1]


def _shown(decision: Decision) -> str:
    return repr(one_line(decision.call_id, 100))


def _read(record: Record) -> WaitingCall:
    try:
        head, _, entry = record.value.partition(b"\n")
        is_over, asked_at = json.loads(head[:100])
        if type(is_over) is not bool or type(asked_at) is not float:
            raise ValueError("whether it is over, and a time, were expected")
        return WaitingCall(record, read_suspended(entry), is_over, asked_at)
    except (ValueError, TypeError, LookupError, RecursionError):  # the error's text quotes the record
        raise JournalError(UNREAD) from None
