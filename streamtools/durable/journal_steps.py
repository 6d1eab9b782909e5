"""Stores a run in its journal, and continues it from there.

Theory of operation. The `ResponseWriter` sees each body as it is read, and the `JournalGate` admits no call before its
response is stored. So a call that must not run twice has begun only if its response is on record: when the run
continues, it decodes that response again, with the same ids, and the store knows which of its calls have begun. The
observations of a step are stored with the next response, or at the end. A step that is stored with its observations
runs nothing: its events are only replayed for the consumer.
"""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from anyio import CancelScope
from pydantic_core import PydanticSerializationError, to_json

from ..errors import JournalError
from ..events import AnswerRequested, ApprovalRequested, Event
from ..observers import Observer
from ..parts import RunOutcome
from ..pipelines import Trajectory
from ..seams import Gate, OnRecord, Pending, RunView, StepPlan, StepRequest, StepSource
from ..turn import Turn
from ..wires import Wire, find
from .desk import StoreDesk, answer_key
from .inbox import StoredInbox
from .journal import Journal
from .journal_gate import JournalGate
from .lines import Line, read_line
from .place import JournalPlace
from .run_records import JournaledResponse
from .writer import ResponseWriter

if TYPE_CHECKING:
    from ..dispatch import CallAnswer, Decision, Suspended

    Ticket: TypeAlias = tuple[Suspended, tuple[Decision, ...], tuple[CallAnswer, ...]]


class JournalSteps:
    def __init__(
        self,
        journal: Journal,
        run: Trajectory,
        *,
        wire: Wire | str,
        messages: Sequence[Any],
        gate: Gate | None,
        starts_by_hand: bool,
        ticket: Ticket | None,
        skip_replayed: bool,
    ) -> None:
        if not run.is_named:
            raise TypeError('journal= needs a run_id that finds the run again after a crash, such as run_id="order-7"')
        if "dbos" in sys.modules and sys.modules["dbos"].DBOS.workflow_id is not None:
            raise TypeError("journal=: DBOS already keeps the run of this workflow; leave journal= out")
        self.place = JournalPlace(journal, run.run_id, _digest(wire, messages))
        self._inbox = StoredInbox(self.place)
        self._writer = ResponseWriter(self.place, run, self._inbox)
        self.gate = JournalGate(self.place, self._writer, gate, starts_by_hand=starts_by_hand)
        # Decisions and answers are stored in the journal, whatever the store: other processes put theirs there.
        self.desk = StoreDesk(journal.decided, self._note_handed_out)
        self._trajectory = run
        self._ticket = ticket
        self._skips = skip_replayed
        self._view: RunView | None = None
        self._on_record: deque[JournaledResponse] = deque()
        self._line: Line | None = None  # of the step, if its response is on record
        self._unshown: Event | None = None
        self._observers: tuple[Observer, ...] = (self._writer, self._inbox)

    async def begin(self, run: RunView) -> None:
        if self._ticket is not None:
            await _redeem(self.place.journal, *self._ticket)
        self._on_record.extend(await self.place.take(run.name))
        self._view = run
        self._writer.begin(run)
        self._trajectory.observers += self._observers
        try:
            await self._inbox.begin(run)
        except BaseException as error:
            with CancelScope(shield=True):
                await self.leave("error" if isinstance(error, Exception) else "left")
            raise

    async def _note_handed_out(self, pending: Pending) -> None:
        if self.place.held is not None and pending.kind != "approval":
            await self.place.held.note_handed_out(self._writer.step, pending.call_id, answer_key(pending))

    def peek(self) -> bool:
        return bool(self._on_record)

    async def next(self, request: StepRequest) -> StepPlan | RunOutcome | None:
        """Raises a `JournalError` if the response cannot be read."""
        self._line = None
        if not self._on_record:
            return None
        response = self._on_record.popleft()
        try:
            self._line = line = read_line(response)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise self._unreadable(response.step) from error
        self._writer.go_on_from(line.step, len(line.said))
        facts = line.facts
        return StepPlan(
            stream=_each(line.items),
            ends=None if line.ends is None else line.ends.observations,
            said=line.said,
            record=OnRecord(
                step=line.step,
                salt=facts.salt,
                attempt=facts.attempt,
                fallback=0 if facts.attempt == 1 else facts.fallback,
                traceparent=facts.traceparent,
                proposed_by=facts.proposed_by,
                is_broken=facts.broken,
            ),
        )

    def _unreadable(self, step: int, why: str = "") -> JournalError:
        return JournalError(f"step {step} of the run {self.place.run_id!r} cannot be read from its journal{why}")

    async def read(self, take: Callable[[], Awaitable[Event]]) -> Event:
        """Returns the next event; one that asks people only once the journal has the waiting call, so that they can
        decide elsewhere."""
        self._inbox.apply()
        while True:
            event = self._unshown or await take()
            if isinstance(event, (ApprovalRequested, AnswerRequested)):
                self._unshown = event  # if this wait is cancelled
                await self._inbox.noted()
                self._unshown = None
            if not (self._skips and self._line is not None and self._line.ends is not None):
                return event

    async def ended(self, turn: Turn) -> RunOutcome | None:
        """Ends the run if the end of a call is unknown. Raises a `JournalError` if the response could not be stored, or
        the run was taken over before a call began."""
        if self.place.lost is not None:
            raise self.place.lost
        if self._line is not None and self._line.ends is not None:
            self._go_back_to(self._line, turn)
        else:
            await self._writer.end_step(turn)
        assert self._view is not None, "known since the run began"
        is_over = self._view.is_stopped and not self.peek()
        is_broken = self._line is not None and self._line.facts.broken
        is_unknown = any(seen.outcome == "unknown" for seen in turn.observations)
        return "suspended" if is_unknown and not is_over and not is_broken else None

    def _go_back_to(self, line: Line, turn: Turn) -> None:
        assert line.ends is not None, "checked"
        run, ends = self._trajectory, line.ends
        if not {seen.call_id for seen in ends.observations} <= {call.call_id for call in turn.calls}:
            raise self._unreadable(line.step, ": its response has other calls than the stored ones")
        run.spent.calls, run.spent.tokens = ends.calls, ends.tokens

    def put(self, entry: Mapping[str, Any]) -> None:
        self._inbox.put(entry)

    def ticket(self, suspended: Suspended) -> Suspended:
        return replace(suspended, journal=self.place.marker)

    async def leave(self, outcome: RunOutcome) -> None:
        """Stores the end of this visit to the run, and releases the lease, even if the wait is cancelled. Raises a
        `JournalError` if the run was taken over, or its store failed."""
        if self.place.held is None:
            return
        waiters = self._writer.leave(outcome)
        self.place.held = None
        self._trajectory.observers = tuple(one for one in self._trajectory.observers if one not in self._observers)
        for waiter, what in waiters:
            await self.place.stored(waiter, what)
        await self._inbox.leave()


async def _redeem(
    journal: Journal, ticket: Suspended, decisions: Sequence[Decision], answers: Sequence[CallAnswer]
) -> None:
    """Without decisions and answers, the calls must still wait. Raises the errors of `Journal.suspended`, `decide` and
    `answer`."""
    ticket.checked_answers(answers)
    await journal.decide(ticket, *decisions)
    if answers or not decisions:
        await journal.suspended(ticket)
    for one in answers:
        await journal.answer(ticket.run_id, one.call_id, one.result, is_error=one.is_error)


def place_of(sources: Sequence[StepSource]) -> JournalPlace | None:
    return next((source.place for source in sources if isinstance(source, JournalSteps)), None)


def _digest(wire: Wire | str, messages: Sequence[Any]) -> str:
    try:
        written = to_json([find(wire).name, list(messages)], bytes_mode="base64")  # Bedrock's pictures
    except PydanticSerializationError as error:
        raise TypeError("journal= recognises a run by its messages, but one of them is not JSON") from error
    return hashlib.sha256(written).hexdigest()


async def _each(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item
