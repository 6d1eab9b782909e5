"""Tracks the events that readers of a run were shown, so that a later visit repeats nothing and retracts the rest.

A process that dies has shown more than it has written: events with numbers after the end of the log are retracted. A
step that broke off in the middle becomes an `AttemptDiscarded` ("crash"), followed by the step again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .. import events as of
from ..errors import AnswerPending, ApprovalPending
from ..parts import StepOutcome
from .log import Entry, VisitEnd

_OF_CALLS = (
    of.AnswerRequested, of.ApprovalRequested, of.ApprovalResolved, of.ToolStarted, of.ToolProgress, of.Observation,
)  # fmt: skip
_LEFT_STEPS = ("cancelled", "abandoned")
_OF_ATTEMPTS = (of.AttemptBegan, of.AttemptCommitted, of.MessageAdded)


@dataclass(slots=True)
class _Step:
    seq: int  # that of its `StepStart`
    attempt: int = 1
    is_read: bool = False  # its response was shown to its end
    read_at: float = math.inf  # the number of that end
    outcome: StepOutcome | None = None  # its end; None while it is open
    facts: set[tuple[Any, ...]] = field(default_factory=set)  # what was said about its calls, by kind and id
    observed: set[str] = field(default_factory=set)  # the ids of the calls whose ends were shown
    left: set[str] = field(default_factory=set)  # those whose ends may be that of a visit alone

    def note(self, event: of.Event) -> None:
        if isinstance(event, of.AttemptDiscarded):
            self.attempt = event.attempt + 1
            if event.from_seq <= self.read_at:
                self.is_read = False
                self.facts.clear()
                self.observed.clear()
                self.left.clear()
        elif isinstance(event, of.StreamEnd):
            self.is_read, self.read_at = True, event.seq
        elif isinstance(event, of.StepEnd):
            self.outcome = event.outcome
        elif isinstance(event, of.StepStart):
            self.outcome = None
        elif isinstance(event, of.Observation):
            if event.outcome != "unknown":  # somebody finds out
                self.observed.add(event.call_id)
            if is_left(event):
                self.left.add(event.call_id)
        elif isinstance(event, _OF_CALLS) and not isinstance(event, of.ToolProgress):
            self.facts.add(_fact(event))

    def leave(self) -> None:
        """Notes the end of a visit that was left in the middle, as by the end of its process."""
        self.observed -= self.left
        if self.outcome in _LEFT_STEPS:
            self.outcome = "suspended"

    def has_shown(self, event: of.Event) -> bool:
        """Returns whether an event of this step, as it goes on, says what was said before."""
        if isinstance(event, of.Observation):
            return event.call_id in self.observed
        return getattr(event, "call_id", None) in self.observed or _fact(event) in self.facts


def _fact(event: Any) -> tuple[Any, ...]:
    return (type(event), event.call_id, getattr(event, "fingerprint", None), getattr(event, "attempt", None))


def is_left(event: of.Event) -> bool:
    """Returns whether this may be the end of a call or step that only its visit has come to: the next goes on."""
    if isinstance(event, of.StepEnd):
        return event.outcome in _LEFT_STEPS
    return isinstance(event, of.Observation) and event.outcome in ("cancelled", "skipped")


def is_pending(event: of.Event) -> bool:
    """Returns whether this is the end of a call that only its block has come to: somebody is still to decide."""
    return isinstance(event, of.Observation) and isinstance(event.error, (ApprovalPending, AnswerPending))


class ShownRun:
    """What the readers of one run have been shown, and what is to be added. `entries` are those of earlier visits, and
    `visit` is how many there were: one that died at once has written nothing."""

    def __init__(self, entries: Iterable[Entry] = (), visit: int = 0) -> None:
        self._steps: dict[int, _Step] = {}
        # Before this visit has begun a step: the number of the last entry, and whether more was shown behind it.
        self._last: float = -1 if visit else math.inf
        self._is_cut = bool(visit)
        self._again: _Step | None = None  # the step that this visit shows once more
        self._is_reading = False  # its response
        for entry in entries:
            self._note(entry)

    def _note(self, entry: Entry) -> None:
        self._last, self._is_cut = entry.seq, not isinstance(entry, VisitEnd)
        if isinstance(entry, VisitEnd):
            if entry.outcome == "left" and self._steps:
                self._steps[max(self._steps)].leave()
            return
        if isinstance(entry, of.AttemptDiscarded):
            self._steps = {at: one for at, one in self._steps.items() if one.seq < entry.from_seq}
        if isinstance(entry, of.StepStart) and entry.step not in self._steps:
            self._steps[entry.step] = _Step(entry.seq)
        if (step := self._steps.get(entry.step)) is not None:
            step.note(entry)

    def added(self, event: of.Event, seq: int) -> list[of.Event]:
        """Returns what to add to the log for an event of this visit, with a number in front of it for a retraction."""
        if is_pending(event):
            return []
        if isinstance(event, of.StepStart):
            return self._begun(event, seq)
        step = self._again
        if step is None:
            return [event]
        if isinstance(event, _OF_CALLS):
            return [] if step.has_shown(event) else [event]
        if self._is_reading:
            self._is_reading = not isinstance(event, of.StreamEnd)
            return []
        if isinstance(event, of.StepEnd):
            self._again = None
            return [event] if step.outcome in (None, "suspended") else []
        return [] if isinstance(event, _OF_ATTEMPTS) else [event]

    def _begun(self, event: of.StepStart, seq: int) -> list[of.Event]:
        step, self._again = self._steps.get(event.step), None
        is_known = step is not None and event.continued and step.is_read
        back = self._taken_back(event.step, step, is_known)
        self._last, self._is_cut = math.inf, False
        added: list[of.Event] = []
        if back is not None:
            attempt = 1 if step is None else step.attempt
            added.append(of.AttemptDiscarded(attempt, back, "crash", seq=seq, step=event.step))
        if step is None or step.seq >= (math.inf if back is None else back):
            return [*added, event]
        if not is_known:  # it goes on behind its begin
            return added
        self._again, self._is_reading = step, True
        return [*added, event] if step.outcome == "suspended" else added

    def _taken_back(self, number: int, step: _Step | None, is_known: bool) -> int | None:
        """Returns the number from which on readers have to forget what they were shown; None if they are right."""
        later = [one.seq for at, one in self._steps.items() if at > number]
        self._steps = {at: one for at, one in self._steps.items() if at <= number}
        if later:
            return min(later)
        if step is not None and not is_known and self._last != math.inf:
            return step.seq + 1
        # A process that dies has shown more than it has written.
        return int(self._last) + 1 if self._is_cut else None
