"""Stamps every event with its place in its run and the events that caused it.

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

from ..events import (
    ApprovalRequested,
    ApprovalResolved,
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
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolProgress,
    ToolStarted,
)

__all__ = ["Causality"]

_CallEvent = (
    ToolCallStart,
    ToolCallEnd,
    ToolCallValidated,
    ApprovalRequested,
    ApprovalResolved,
    ToolStarted,
    ToolProgress,
    Observation,
)
_set = object.__setattr__  # events are immutable to everybody else


class Causality:
    """Stamps those events of one step that are not deltas.

    Args:
        before: `seq` of each event that caused the step.
    """

    def __init__(self, before: tuple[int, ...] = ()) -> None:
        self.observations: list[int] = []
        """`seq` of the step's observations so far."""
        self._before = before
        self._root: int | None = None  # StreamStart, or StepStart before there is one
        self._stream_end: int | None = None
        self._calls: dict[str, int] = {}  # the latest event of each call
        self._parts: dict[type, int] = {}  # the start of the text or reasoning that now streams

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
        if isinstance(event, _CallEvent):
            latest = self._calls.get(event.call_id)
            return root if latest is None else (latest,)
        if isinstance(event, StepStart):
            return self._before
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
        elif isinstance(event, _CallEvent):
            self._calls[event.call_id] = seq
            if isinstance(event, Observation):
                self.observations.append(seq)


_START_OF: dict[type, type] = {TextEnd: TextStart, ReasoningEnd: ReasoningStart}
