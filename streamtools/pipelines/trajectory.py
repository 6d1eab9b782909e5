"""Many turns as one run: the state that the steps of an agent's loop share, and the numbers and causes of its events.

`seq` numbers the events of a run; `causes` names the events that led to one. Both are set at one place, here, when an
event is emitted, so that effects are attributed by identity and not by when they happened to be seen.

    StepStart ← the observations of the step before        StreamStart, StreamEnd ← StepStart, StreamStart
    TextStart, ToolCallStart, … ← StreamStart              TextEnd ← TextStart
    ToolCallEnd ← ToolCallStart                            ToolCallValidated ← ToolCallEnd
    ToolStarted ← ToolCallValidated, and its release       ToolProgress, Observation ← the call's event before it
    StreamWarning, UnknownPayload ← StreamStart, or StepStart before it
    StepEnd ← StreamEnd and the step's observations
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..dispatch.call import RunCounts
from ..dispatch.suspended import Suspended
from ..events import (
    CausedEvent,
    Observation,
    ReasoningEnd,
    ReasoningStart,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    TextEnd,
    TextStart,
)
from ..observers import Observer
from ..telemetry import default_observers

__all__ = ["Causality", "Trajectory"]

_START_OF: dict[type, type] = {TextEnd: TextStart, ReasoningEnd: ReasoningStart}
_set = object.__setattr__  # events are immutable to everybody else


class Trajectory:
    """A run of several steps, each a `pipeline`: one id, one numbering, and causes that reach from step to step.

    Pass the same one to the pipelines of a loop, one after the other:

        run = Trajectory()
        while True:
            async with pipeline(await ask(messages), tools=tools, trajectory=run) as events: ...

    Args:
        observers: see every event of every step. By default spans are drawn if the application has configured
            OpenTelemetry, and nothing watches if it has not.
        run_id: the run's name in events and spans, made up by default. A store knows calls by it, so no two runs may
            have the same.
    """

    def __init__(self, *, observers: Iterable[Observer] | None = None, run_id: str | None = None) -> None:
        if run_id is not None and not isinstance(run_id, str):
            raise TypeError(f"run_id is a text, not {type(run_id).__name__}")
        self.run_id = run_id or uuid.uuid4().hex
        """The run's id, on each `StepStart` and on spans."""
        self.observers: tuple[Observer, ...] = tuple(default_observers() if observers is None else observers)
        self.steps = 0
        """The number of steps that have begun."""
        self.began_at = 0.0
        """When the first step began, on ``time.monotonic``."""
        self.next_seq = 0
        """The number of the next event."""
        self.counts = RunCounts()
        """The run's counts of its calls, for `Limits(max_repeated_calls=..., max_model_retries=...)`."""
        self._latest = Causality()
        self._salts = 0

    @classmethod
    def of(cls, trajectory: Trajectory | None, observers: Iterable[Observer] | None) -> Trajectory:
        """Returns the run that was given, or a new one with these observers. `pipeline` calls this."""
        if trajectory is None:
            return cls(observers=observers)
        if observers is not None:
            raise ValueError("give the observers to the Trajectory, which all its steps share, not to one pipeline")
        return trajectory

    @classmethod
    def resumed(cls, suspended: Suspended, *, observers: Iterable[Observer] | None = None) -> Trajectory:
        """Returns the run that calls were suspended in, at the same step, with its numbering. `resume` calls this."""
        run = cls(observers=observers, run_id=suspended.run_id)
        run.steps, run.next_seq = suspended.step, suspended.seq
        run._salts = suspended.seq  # there were more events than pipelines
        return run

    def new_salt(self) -> str:
        """Returns a text that no other pipeline gets, for call ids that have to be made up. `pipeline` calls this."""
        self._salts += 1
        return f"{self.run_id}:{self._salts}"

    def begin_step(self) -> tuple[int, Causality]:
        """Begins the next step; returns its number, and its `Causality`. `pipeline` calls this."""
        step, self.steps = self.steps, self.steps + 1
        self.began_at = self.began_at or time.monotonic()
        self._latest = Causality(tuple(self._latest.observations))
        return step, self._latest


@dataclass(slots=True, eq=False)
class Causality:
    """Stamps those events of one step that are not deltas."""

    before: tuple[int, ...] = ()
    """`seq` of each event that caused the step."""
    observations: list[int] = field(default_factory=list)
    """`seq` of the step's observations so far."""
    _root: int | None = None  # StreamStart, or StepStart before there is one
    _stream_end: int | None = None
    _calls: dict[str, int] = field(default_factory=dict)  # the latest event of each call
    _parts: dict[type, int] = field(default_factory=dict)  # the start of the text or reasoning that now streams

    def stamp(self, event: CausedEvent, seq: int, step: int, time: float) -> None:
        """Gives an event its number, its step, its time and its causes; those that it has already stand first."""
        causes = self._causes(event)
        if event.causes:
            causes = tuple(dict.fromkeys((*event.causes, *causes)))
        _set(event, "seq", seq)
        _set(event, "step", step)
        _set(event, "time", time)
        _set(event, "causes", causes)
        self._remember(event, seq)

    def _causes(self, event: CausedEvent) -> tuple[int, ...]:
        root = () if self._root is None else (self._root,)
        if (call_id := getattr(event, "call_id", None)) is not None:
            latest = self._calls.get(call_id)
            return root if latest is None else (latest,)
        if isinstance(event, StepStart):
            return self.before
        if isinstance(event, (TextEnd, ReasoningEnd)):
            start = self._parts.get(_START_OF[type(event)])
            return root if start is None else (start,)
        if isinstance(event, StepEnd):
            end = () if self._stream_end is None else (self._stream_end,)
            return (*end, *self.observations) or root
        return root

    def _remember(self, event: CausedEvent, seq: int) -> None:
        if isinstance(event, (StepStart, StreamStart)):
            self._root = seq
        elif isinstance(event, (TextStart, ReasoningStart)):
            self._parts[type(event)] = seq
        elif isinstance(event, StreamEnd):
            self._stream_end = seq
        elif (call_id := getattr(event, "call_id", None)) is not None:
            self._calls[call_id] = seq
            if isinstance(event, Observation):
                self.observations.append(seq)
