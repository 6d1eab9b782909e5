"""Defines the contracts of observers, and the facts that observers get."""

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

    Under a policy (`streamtools.privacy`) it sees redacted copies of the events, and only the sizes of body pieces;
    under a `streamtools.seams.Guard` it sees what the guard shows. An observer with ``sees_originals = True`` sees
    everything, and must not publish any of it.
    """

    @property
    def event_types(self) -> Collection[type[Event]] | None:
        """The event classes to see; None: all. Omit the deltas if you can, since there are many."""
        return None

    def on_event(self, event: Event) -> None:
        """Called for each event, which already has its `seq`, `causes` and `time`."""
        ...

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns a context manager that is entered in the tool's own task while the tool's body runs; or None."""
        return None


class RunObserver(Observer, Protocol):
    """An observer that also learns when a whole run begins and ends: that of an `agent_loop`, or of an entered
    `Trajectory`. All methods are optional, and must be quick like `on_event`; an exception drops the observer."""

    def begin_run(self, run: RunFacts, /) -> None:
        """Called when a run begins, before its first step."""
        ...

    def end_run(self, outcome: str | None, error: BaseException | None, /) -> None:
        """Called when the run is over, with its `RunOutcome` (None for your own loop) and the exception that left the
        block."""
        ...

    def traceparent(self) -> str | None:
        """Returns the span of the current or last step, as a ``traceparent`` (W3C Trace Context)."""
        ...

    def proposed_by(self) -> str | None:
        """Returns the span of the response that made the step's calls, as a ``traceparent``."""
        ...

    def beside(self) -> Observer:
        """Returns an observer for a job that runs beside the run's steps (``background=True``). Without it, only the
        application's observers see the job."""
        ...


class RunFacts(Protocol):
    """The facts about a run that observers get: a `Trajectory`."""

    run_id: str
    name: str | None
    conversation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyEnd:
    """The end of a call that a tap started early, or of one that a framework made."""

    tool_name: str
    call_id: str | None
    """The call's identity in the stream; None for a missed call, since a framework does not say which call it makes."""
    fate: Literal["claimed", "missed", "never_asked"]
    reason: str | None = None
    """The reason of a miss: a code of `streamtools.integrations.early_runs.MISSES`."""
    began: float
    """The time when the early run began, on the clock of events; for a missed call, when it was made."""
    ended: float
    """The time when the framework got the result, or could no longer ask for it."""
    seconds_won: float = 0.0
    """The seconds that the run had been going on when the framework asked."""


class EarlyObserver(Observer, Protocol):
    """An observer that also learns how the calls under a tap ended, perhaps after the end of the step and in another
    thread."""

    def see_early(self, end: EarlyEnd, /) -> None:
        """Called when a call under a tap was claimed, missed, or never asked for."""
        ...


class PartsObserver(Observer, Protocol):
    """An observer that looks at whole responses, and so needs no deltas, which a turn collects anyway."""

    def see_parts(self, parts: Callable[[], tuple[Part, ...]], /) -> None:
        """Called before each `StepStart` with a function that returns the pieces of the step's response so far, in time
        linear in their size: call it at the end."""
        ...


class ServerObserver(Observer, Protocol):
    """An observer that also learns the address of the server."""

    def see_server(self, host: str, port: int | None, /) -> None:
        """Called with the host and port of a step's response, after its `StepStart`, if the HTTP library has them."""
        ...


class PrivacyFacts(Protocol):
    """The privacy policy of a run for observers: a `streamtools.privacy.Privacy`. Your own `Guard` may lack these."""

    @property
    def redact(self) -> Callable[[str], str] | None:
        """Returns the redacted text; None if all texts may be kept."""
        ...

    @property
    def content_in_spans(self) -> bool | None:
        """True if spans contain content; None if the environment decides."""
        ...


class PrivacyObserver(Observer, Protocol):
    """An observer that reacts to a privacy policy. Both methods are optional."""

    def obey(self, privacy: PrivacyFacts, /) -> None:
        """Called with the policy before the run or its next step begins."""
        ...

    def give_up(self) -> None:
        """Called if the policy's function failed: close what is open, since no further event comes."""
        ...


@dataclass(frozen=True, slots=True)
class Withheld:
    """Replaces a piece of a body that a policy hides from observers."""

    size: int
    """The size in bytes or characters; for a payload, of its JSON."""

    @classmethod
    def of(cls, item: bytes | str | Mapping[str, Any]) -> Withheld:
        """Returns the replacement for an item."""
        return cls(len(item if isinstance(item, (bytes, str)) else json.dumps(item, default=repr)))


class StreamObserver(Observer, Protocol):
    """An observer that also sees a response as it is read, before it is decoded. All three methods are optional. Like
    `on_event` they must be quick and must not block; an exception drops the observer for the step."""

    def begin_stream(self, stream: StreamFacts, /) -> None:
        """Called when reading a response begins, after its `StepStart`."""
        ...

    def on_item(self, item: bytes | str | Mapping[str, Any] | Withheld, /) -> None:
        """Called with a piece of the decompressed body, or with a payload if an SDK has parsed it."""
        ...

    def end_stream(self, error: StreamError | None, /) -> None:
        """Called at the end of the body, with the error that ended it, if any. Not called if the step is left
        before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """The facts about a response that a decoder needs besides its body."""

    wire: str | None
    """The name of the wire, if it was given."""
    id_salt: str
    """Makes generated call ids differ from those of other responses."""
    tools: tuple[str, ...]
    """The names of the tools: a call of a known name is announced as soon as the name is complete."""
    is_plain: bool
    """True if only the default stages run between wire and events, so that the body decodes to the same events again.
    False with your own stages or transforms, and where a cut turn is continued."""


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
