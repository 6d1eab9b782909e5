"""Defines what an observer may learn: contracts, and the facts that come with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..errors import StreamError
from ..events import Event
from ..parts import Part


class Observer(Protocol):
    """Sees the events of a run as they happen. Spans, recordings and sinks are observers.

    The calls are synchronous and on the hot path: be quick, and do not block. An observer that raises is dropped for
    the rest of the step, with a `StreamWarning` event (``observer_failed``); the stream goes on.

    Under a policy (`streamtools.privacy`) it sees redacted copies of the events, and of a body the sizes alone; under a
    `streamtools.seams.Guard` what that shows.
    With ``sees_originals = True`` it is a part of the run: it sees everything, and is to show nothing.
    """

    @property
    def event_types(self) -> Collection[type[Event]] | None:
        """The event classes that it wants to see; None for all. Leave the deltas out if you can: there are many."""
        return None

    def on_event(self, event: Event) -> None:
        """Takes an event, which already has its `seq`, `causes` and `time`."""
        ...

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns a context manager to be held, in the tool's own task, while the tool's body runs; or None."""
        return None


class RunObserver(Observer, Protocol):
    """An observer that also learns when the whole run begins and ends: that of an `agent_loop`, or an entered
    `Trajectory`. All methods are optional. Like `on_event` they must be quick; an exception drops the
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

    def beside(self) -> Observer:
        """Returns an observer for a job that goes on beside the run's steps (``background=True``). Without it, the job
        is seen by the application's observers alone."""
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
    """The policy of a run, as observers learn it: a `streamtools.privacy.Privacy`. A `Guard` of your own may lack
    them."""

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


# -- what the program around all runs brings --


class Ambient(Protocol):
    def observers(self) -> Iterable[Observer]:
        """Returns those that every run has beside its own."""
        ...

    def carrier(self) -> Mapping[str, str]:
        """Returns what is current around a call, such as a span, to travel with the call."""
        ...

    def carried(self, carrier: Mapping[str, str], /) -> AbstractContextManager[object]:
        """Makes that current again, where the call runs."""
        ...


ambient: list[Ambient] = []  # of this process


@contextmanager
def carried(carrier: Mapping[str, str]) -> Iterator[None]:
    with ExitStack() as held:
        for one in ambient:
            held.enter_context(one.carried(carrier))
        yield
