"""Defines the observers of a pipeline, which see every event and change nothing. `Cursor` keeps a run's record.

    cursor = Cursor()
    run = Trajectory(observers=[cursor])
    ...
    cursor.at("call_1").outcome            how a call ended: proposed, refused, run, failed
    cursor.since(cursor.at("call_1").seq)  the events from there on

The boundaries that a cursor keeps are the events that are not deltas. Their `causes` show which led to which.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .errors import StreamError
from .events import (
    AnswerRequested,
    ApprovalRequested,
    ApprovalResolved,
    CausedEvent,
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
from .limits import checked_bound
from .parts import Outcome, Part

__all__ = [
    "Cursor",
    "CursorPoint",
    "EarlyEnd",
    "EarlyObserver",
    "Observer",
    "PartsObserver",
    "PrivacyFacts",
    "PrivacyObserver",
    "RunFacts",
    "RunObserver",
    "ServerObserver",
    "StreamFacts",
    "StreamObserver",
    "Withheld",
]


# -- what observers may see --------------------------------------------------------------------------------------------


class Observer(Protocol):
    """Sees the events of a run as they happen. Spans, recordings and sinks are observers.

    The calls are synchronous and on the hot path: be quick, and do not block. An observer that raises is dropped for
    the rest of the step, with a `StreamWarning` event (``observer_failed``); the stream goes on.

    Under a policy (`streamtools.privacy`) it sees redacted copies of the events, and of a body the sizes alone.
    With ``sees_originals = True`` it is a part of the run: it sees everything, and is to show nothing.
    """

    @property
    def event_types(self) -> Collection[type[Event]] | None:
        """The event classes that it wants to see; None for all. Leave the deltas out if you can: there are many."""
        ...

    def on_event(self, event: Event) -> None:
        """Takes an event, which already has its `seq`, `causes` and `time`."""
        ...

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns a context manager to be held, in the tool's own task, while the tool's body runs; or None."""
        ...


class RunObserver(Observer, Protocol):
    """An observer that also learns when the whole run begins and ends: that of an `agent_loop`, or an entered
    `Trajectory`. All four methods are optional. Like `on_event` they must be quick; an exception drops the
    observer."""

    def begin_run(self, run: RunFacts, /) -> None:
        """Learns that a run begins, before its first step."""
        ...

    def end_run(self, outcome: str | None, error: BaseException | None, /) -> None:
        """Learns that the run is over: its `RunOutcome`, or None for a loop of the caller's own; and the exception that
        left the block."""
        ...

    def traceparent(self) -> str | None:
        """Returns the span of the step that goes on, or was the last, as W3C Trace Context has it."""
        ...

    def proposed_by(self) -> str | None:
        """Likewise returns the span of the response that has made the step's calls."""
        ...


class RunFacts(Protocol):
    """The facts about a run that observers learn: a `Trajectory`."""

    run_id: str
    name: str | None
    conversation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyEnd:
    """What has become of a call that a tap has started early, or of one that a framework has made."""

    tool_name: str
    call_id: str | None
    """The call's identity in the stream; None if it was missed: a framework does not say which one it makes."""
    fate: Literal["claimed", "missed", "never_asked"]
    reason: str | None = None
    """Why it was missed: a code of `streamtools.integrations.early_runs.MISSES`."""
    began: float
    """The begin of the early run, on the clock of events; of a missed call, the time at which it was made."""
    ended: float
    """The time at which the framework had the result, or nobody could ask for it any more."""
    seconds_won: float = 0.0
    """How long the run had gone on when the framework asked."""


class EarlyObserver(Observer, Protocol):
    """An observer that also learns what has become of the calls under a tap. This may be after the end of the step, and
    in another thread."""

    def see_early(self, end: EarlyEnd, /) -> None:
        """Learns that a call under a tap was claimed, missed, or never asked for."""
        ...


class PartsObserver(Observer, Protocol):
    """An observer that looks at whole responses, and so needs no deltas: they are many, and a turn collects them
    anyway."""

    def see_parts(self, parts: Callable[[], tuple[Part, ...]], /) -> None:
        """Takes, before each `StepStart`, a function that returns the pieces of the step's response so far. It is
        linear in their size, so call it at the end."""
        ...


class ServerObserver(Observer, Protocol):
    """An observer that also learns which server answers."""

    def see_server(self, host: str, port: int | None, /) -> None:
        """Takes the host and the port of a step's response, after its `StepStart`, where the HTTP library has them."""
        ...


class PrivacyFacts(Protocol):
    """The policy of a run, as observers learn it: a `streamtools.privacy.Privacy`."""

    @property
    def redact(self) -> Callable[[str], str] | None:
        """Returns a text as it may be kept; None if all texts may be."""
        ...

    @property
    def content_in_spans(self) -> bool | None:
        """Whether spans hold content; None if the environment decides."""
        ...


class PrivacyObserver(Observer, Protocol):
    """An observer that has something to do under a policy. Both methods are optional."""

    def obey(self, privacy: PrivacyFacts, /) -> None:
        """Learns the policy, before the run or its next step begins."""
        ...

    def give_up(self) -> None:
        """Ends what is open: the policy's function has failed, and no further event comes."""
        ...


@dataclass(frozen=True, slots=True)
class Withheld:
    """Stands for a piece of a body that a policy does not let observers see."""

    size: int
    """Bytes, or characters, or those of a payload's JSON."""

    @classmethod
    def of(cls, item: bytes | str | Mapping[str, Any]) -> Withheld:
        """Returns what stands for an item."""
        return cls(len(item if isinstance(item, (bytes, str)) else json.dumps(item, default=repr)))


class StreamObserver(Observer, Protocol):
    """An observer that also sees a response as it is read, before it is decoded. All three methods are optional, and
    bound by the rules of `on_event`: be quick, and do not block; one that raises drops the observer for the step."""

    def begin_stream(self, stream: StreamFacts, /) -> None:
        """Learns that a response is read now, after its `StepStart`."""
        ...

    def on_item(self, item: bytes | str | Mapping[str, Any] | Withheld, /) -> None:
        """Takes a piece of the body as it was read, its encoding undone; or a payload, where an SDK has parsed it."""
        ...

    def end_stream(self, error: StreamError | None, /) -> None:
        """Learns that the body is over, and of the error that ended it, if there was one. Not called if the step is
        left before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """The facts about a response that a decoder needs beside its body."""

    wire: str | None
    """The name of the wire, if it was given."""
    id_salt: str
    """Makes ids of calls that have none differ from other responses'."""
    tools: tuple[str, ...]
    """The names of the tools: a call of a known name is announced as soon as that name is whole."""
    is_plain: bool
    """True if the default stages alone stand between the wire and the events: then its body decodes to the same events
    again. False with stages or transforms of the caller's, and where a cut turn is continued."""


# -- the record of a run -----------------------------------------------------------------------------------------------

BOUNDARIES: frozenset[type[Event]] = frozenset(
    {
        StepStart,
        StreamStart,
        ToolCallStart,
        ToolCallEnd,
        ToolCallValidated,
        ApprovalRequested,
        ApprovalResolved,
        AnswerRequested,
        ToolStarted,
        Observation,
        StreamEnd,
        StepEnd,
        StreamWarning,
    }
)
"""The events that a cursor keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorPoint:
    """One call's place in its run."""

    call_id: str
    step: int
    seq: int
    """`seq` of the event that announced the call."""
    events: tuple[Event, ...] = field(repr=False)
    """The call's own boundaries, in order: announced, ended, ready, approved, started, observed."""
    before: tuple[Event, ...] = field(repr=False)
    """The run's boundaries before the call was announced, as far as they are kept."""
    after: tuple[Event, ...] = field(repr=False)
    """The run's boundaries after the call's last one."""

    @property
    def observation(self) -> Observation | None:
        """The call's outcome with its record; None while the call goes on."""
        last = self.events[-1]
        return last if isinstance(last, Observation) else None

    @property
    def outcome(self) -> Outcome | None:
        """The call's outcome; None while the call goes on."""
        return self.observation.outcome if self.observation else None


class Cursor:
    """An observer that keeps a run's boundaries. Give each run its own, through `Trajectory` or `pipeline`.

    Args:
        max_events: how many are kept; of a longer run the oldest are forgotten, and `forgotten` counts them.
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
        """The boundaries."""
        return BOUNDARIES

    def on_event(self, event: Event) -> None:
        """Keeps a boundary, and forgets the oldest if there are too many."""
        if isinstance(event, StepStart):
            self.run_id, self.step = event.run_id, event.step
        self.forgotten += len(self._events) == self._events.maxlen
        self._events.append(event)

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns None: nothing is to be held."""
        return None

    # -- the record --

    def __iter__(self) -> Iterator[Event]:
        """Iterates over the boundaries that are kept, in order."""
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
            step: the call's step, if calls of several steps have this id; by default the latest one.

        Raises:
            KeyError: no call of that id is kept.
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

    def to_json(self) -> dict[str, Any]:
        """Returns the record as plain JSON, for a log or a verifier: names, ids, outcomes and causes; no arguments, no
        values, no text."""
        return {
            "run_id": self.run_id,
            "step": self.step,
            "position": self.position,
            "forgotten": self.forgotten,
            "boundaries": [_boundary(event) for event in self._events],
        }


def _boundary(event: Event) -> dict[str, Any]:
    # Named fields alone: a field that an event gets later may have content, and a log must not show it by itself.
    boundary: dict[str, Any] = {"event": type(event).__name__, "seq": event.seq, "step": event.step}
    if isinstance(event, CausedEvent):
        boundary |= {"causes": list(event.causes), "time": event.time}
    if isinstance(event, (ToolCallEnd, ToolCallValidated)):
        boundary |= {"call_id": event.call_id, "tool_name": event.call.name, "status": event.call.status}
    for name in _FIELDS_OF.get(type(event), ()):
        boundary[name] = getattr(event, name)
    return boundary


_FIELDS_OF: dict[type[Event], tuple[str, ...]] = {
    ToolCallStart: ("call_id", "name", "kind"),
    ApprovalRequested: ("call_id", "tool_name"),
    ApprovalResolved: ("call_id", "tool_name", "approved", "by", "at"),
    AnswerRequested: ("call_id", "tool_name", "rests"),
    ToolStarted: ("call_id", "tool_name", "attempt"),
    Observation: (
        "call_id", "tool_name", "outcome", "schema_source", "validated", "validation_error", "observation_type",
        "duration", "attempts",
    ),
    StreamStart: ("wire", "model"),
    StreamEnd: ("finish", "complete"),
    StepEnd: ("outcome",),
    StreamWarning: ("code",),
}  # fmt: skip
"""The fields of each boundary that are not content."""
