"""Keeps a run's boundaries, and finds a call's place among them: `Cursor`."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from ..events import (
    AnswerRequested,
    ApprovalRequested,
    ApprovalResolved,
    Event,
    Observation,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    StreamWarning,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from ..limits import checked_bound
from ..observers.contracts import Observer
from ..parts import Outcome

BOUNDARIES = frozenset({  # the events that a cursor keeps
    StepStart, StreamStart, ToolCallStart, ToolCallEnd, ToolCallValidated, ApprovalRequested, ApprovalResolved,
    AnswerRequested, ToolStarted, Observation, StreamWarning, StreamEnd, StepEnd,
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorPoint:
    """One call's place in its run."""

    call_id: str
    step: int
    seq: int
    """`seq` of the event that announced the call."""
    events: tuple[Event, ...] = field(repr=False)
    """The call's boundaries in order: announced, ended, ready, approved, started, observed."""
    before: tuple[Event, ...] = field(repr=False)
    """The kept boundaries of the run before the call was announced."""
    after: tuple[Event, ...] = field(repr=False)
    """The boundaries of the run after the call's last one."""

    @property
    def observation(self) -> Observation | None:
        """The call's `Observation`; None until the call has ended."""
        last = self.events[-1]
        return last if isinstance(last, Observation) else None

    @property
    def outcome(self) -> Outcome | None:
        """The call's outcome; None until the call has ended."""
        return self.observation.outcome if self.observation else None


class Cursor(Observer):
    """An observer that keeps a run's boundaries. Give each run its own, through `Trajectory` or `pipeline`.

    Args:
        max_events: the boundaries to keep; the oldest of a longer run are dropped, and `forgotten` counts them.
    """

    def __init__(self, *, max_events: int = 10_000) -> None:
        self._events: deque[Event] = deque(maxlen=checked_bound("max_events", max_events))
        self.run_id: str | None = None
        """The run; None before it has begun."""
        self.step: int | None = None
        """The current step, or the last one."""
        self.forgotten = 0
        """How many boundaries are no longer kept."""

    # -- as an observer --

    @property
    def event_types(self) -> Collection[type[Event]]:
        """The types of the boundaries."""
        return BOUNDARIES

    def on_event(self, event: Event) -> None:
        """Keeps a boundary, and drops the oldest if there are too many."""
        if isinstance(event, StepStart):
            self.run_id, self.step = event.run_id, event.step
        self.forgotten += len(self._events) == self._events.maxlen
        self._events.append(event)

    # -- the record --

    def __iter__(self) -> Iterator[Event]:
        return iter(tuple(self._events))

    def __len__(self) -> int:
        return len(self._events)

    @property
    def position(self) -> int | None:
        """`seq` of the latest boundary; None before the first."""
        return self._events[-1].seq if self._events else None

    def since(self, seq: int) -> tuple[Event, ...]:
        """Returns the boundaries from this number on, for a reader that stopped there."""
        return tuple(event for event in self._events if event.seq >= seq)

    def calls(self) -> tuple[tuple[int, str], ...]:
        """Returns step and id of each call, in the order in which the calls were announced."""
        return tuple((event.step, event.call_id) for event in self._events if isinstance(event, ToolCallStart))

    def at(self, call_id: str, *, step: int | None = None) -> CursorPoint:
        """Returns the place of one call.

        Args:
            call_id: the call's id.
            step: the call's step, if calls of several steps have this id; by default the latest.

        Raises:
            KeyError: no call with this id is kept.
        """
        # Models use ids again: the same id in several steps names several calls.
        steps = [at for at, name in self.calls() if name == call_id and step in (None, at)]
        if not steps:
            raise KeyError(f"no call {call_id!r} is kept" + ("" if step is None else f" of step {step}"))
        own = [e for e in self._events if e.step == steps[-1] and getattr(e, "call_id", None) == call_id]
        first, last = own[0].seq, own[-1].seq
        return CursorPoint(
            call_id=call_id,
            step=steps[-1],
            seq=first,
            events=tuple(own),
            before=tuple(event for event in self._events if event.seq < first),
            after=tuple(event for event in self._events if event.seq > last),
        )
