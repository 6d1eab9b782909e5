"""Makes one run of many turns: the state that its steps share, and the numbers and causes of its events.

`seq` numbers the events of a run; `causes` names the events that led to one. Both are set at one place, here, when an
event is emitted, so that effects are attributed by identity and not by when they happened to be seen.

    StepStart ← the observations of the step before        StreamStart, StreamEnd ← StepStart, StreamStart
    TextStart, ReasoningStart, … ← StreamStart             TextEnd ← TextStart
    AttemptBegan ← StepStart, or the AttemptDiscarded before it, which is caused as a StepEnd is
    ToolCallStart ← StreamStart, and the start of the text or reasoning before it
    ToolCallEnd ← ToolCallStart                            ToolCallValidated ← ToolCallEnd
    ToolStarted ← ToolCallValidated, and its release       ToolProgress, Observation ← the call's event before it
    StreamWarning, UnknownPayload ← StreamStart, or StepStart before it
    StepEnd ← StreamEnd and the step's observations
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from ..dispatch.budgets import Spent
from ..dispatch.states import LongResults, RunCounts
from ..errors import LocalProtocolError
from ..events import (
    AttemptBegan,
    AttemptDiscarded,
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
from ..parts import Usage
from ..telemetry import default_observers as observers_of_application
from ..text import class_name, type_name

if TYPE_CHECKING:
    from ..dispatch.suspended import Suspended
    from ..privacy import Privacy
    from ..privacy.copies import Copies
    from ..provenance.index import Index

_START_OF: dict[type, type] = {TextEnd: TextStart, ReasoningEnd: ReasoningStart}
_logger = logging.getLogger("streamtools")
_set = object.__setattr__  # events are immutable to everybody else
_MOST_KEPT = 8 << 20  # characters of a run's results


class Trajectory:
    """A run of several steps, each a `pipeline`: one id, one numbering, and causes that reach from step to step.

    Pass the same one to the pipelines of a loop, one after the other, in its block:

        async with Trajectory(name="support") as run:
            while True:
                async with pipeline(await ask(messages), tools=tools, trajectory=run) as events: ...

    The block is optional. With it, the run has a beginning and an end of its own: a span with the steps below it.

    Args:
        name: the agent's name in traces.
        conversation_id: the conversation that the run belongs to, in traces.
        observers: see every event of every step, beside those of the application.
        default_observers: add those of the application, which draw spans and count if it has configured OpenTelemetry;
            one is left out if `observers` has another of its kind. False: `observers` alone.
        run_id: the run's name in events and spans, made up by default. A store knows calls by it, so no two runs may
            have the same.
        privacy: the policy for all that copies the run: recordings, spans, metrics, pages, views, logs and web frames.

    Raises:
        TypeError: an argument has the wrong type.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        conversation_id: str | None = None,
        observers: Iterable[Observer] | None = None,
        default_observers: bool = True,
        run_id: str | None = None,
        privacy: Privacy | None = None,
    ) -> None:
        for what, text in (("run_id", run_id), ("name", name), ("conversation_id", conversation_id)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{what} is a text, not {type(text).__name__}")
        if privacy is not None:
            from ..privacy import Privacy  # most runs have no policy

            if not isinstance(privacy, Privacy):
                raise TypeError(f"privacy is a streamtools.privacy.Privacy(...), not {type(privacy).__name__}")
        self.privacy = privacy
        """The policy for all that copies the run."""
        self.tool_names: frozenset[str] = frozenset()
        """The tools of its steps, whose names are no content; kept only where there is a policy."""
        self.made_up: dict[str, str] = {}
        """What the policy shows in the place of tools' names that the model made up, by their plain characters."""
        self.name = name
        """The agent's name."""
        self.conversation_id = conversation_id
        """The conversation that the run belongs to."""
        self.run_id = run_id or uuid.uuid4().hex
        """The run's id, on each `StepStart` and on spans."""
        self.is_named = bool(run_id)
        """True if the id was given, and not made up."""
        self.observers = () if observers is None else _checked(observers)
        if default_observers:
            given = self.observers
            self.observers += tuple(
                one for one in observers_of_application() if not any(isinstance(known, type(one)) for known in given)
            )
        self.steps = 0
        """The number of steps that have begun."""
        self.began_at = 0.0
        """When the first step began, on ``time.monotonic``."""
        self.next_seq = 0
        """The number of the next event."""
        self.counts = RunCounts()
        """The run's counts of its calls, for `Limits(max_repeated_calls=..., max_model_retries=...)`."""
        self.discarded = Usage()
        """The tokens of the attempts that were discarded (``retry=``), as far as they are known."""
        self.results: KeptResults | None = None
        """What its tools have returned; kept only where calls are read from the model's text."""
        self.offloads: LongResults | None = None
        """Keeps long results; with ``offload_above=``."""
        self.origins: Index | None = None
        """The texts of the run by origin, once a ``policy=`` needs them."""
        self._latest = Causality()
        self.salts = 0
        """How many texts `new_salt` has given out."""
        self._entered: Literal["no", "yes", "left"] = "no"

    @property
    def spent(self) -> Spent:
        """The calls and tokens that the run has used so far, for `Limits(call_budget=..., token_budget=...)`."""
        return self.counts.spent

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __enter__(self) -> Self:
        if not self.enter():
            raise LocalProtocolError("a Trajectory is entered once; make a new one for the next run")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(None, error)

    def enter(self) -> bool:
        """Tells the observers that the run begins; returns False if it had begun. `agent_loop` calls this."""
        if self._entered != "no":
            return False
        self._entered = "yes"
        if self.privacy is not None:
            self._tell("obey", self.privacy)
        self._tell("begin_run", self)
        return True

    def leave(self, outcome: str | None, error: BaseException | None = None) -> None:
        """Tells the observers that the run is over. `agent_loop` calls this."""
        if self._entered == "yes":
            self._entered = "left"
            copies = None if error is None else self.copies()
            self._tell("end_run", outcome, error if copies is None else copies.values.of(error))

    def copies(self, tool_names: Collection[str] = (), *, for_pages: bool = False) -> Copies | None:
        """Returns what makes copies of events, of a step with these tools; None if nothing is redacted."""
        if self.privacy is None or self.privacy.redact is None:
            return None
        from ..privacy.copies import Copies  # most runs have no policy

        self.tool_names |= frozenset(tool_names)
        return Copies(self.privacy.redact, self, for_pages=for_pages)

    def traceparent(self) -> str | None:
        """Returns the span of the step that goes on, or was the last, as W3C Trace Context has it; None if none of the
        observers draws spans."""
        return next(filter(None, self._tell("traceparent")), None)

    def proposed_by(self) -> str | None:
        """Likewise returns the span of the response that has made the step's calls."""
        return next(filter(None, self._tell("proposed_by")), None)

    def _tell(self, what: str, *facts: Any) -> list[Any]:
        """Calls an optional method of each observer; one that raises is dropped, and logged."""
        said: list[Any] = []
        for observer in self.observers:
            method = getattr(observer, what, None)
            try:
                said.append(None if method is None else method(*facts))
            except Exception as error:
                self.observers = tuple(known for known in self.observers if known is not observer)
                _logger.warning("an observer was dropped: %s raised %s", type_name(observer), class_name(error))
        return said

    @classmethod
    def of(
        cls, trajectory: Trajectory | None, observers: Iterable[Observer] | None, privacy: Privacy | None = None
    ) -> Trajectory:
        """Returns the run that was given, or a new one with these observers. `pipeline` calls this."""
        if trajectory is None:
            return cls(observers=observers, privacy=privacy)
        if privacy is not None:
            raise ValueError("give the policy to the Trajectory, which all its steps share, not to one pipeline")
        if observers is not None:
            raise ValueError("give the observers to the Trajectory, which all its steps share, not to one pipeline")
        return trajectory

    @classmethod
    def of_loop(
        cls,
        given: Trajectory | None,
        suspended: Suspended | None,
        name: str | None,
        conversation_id: str | None,
        run_id: str | None,
        privacy: Privacy | None,
    ) -> Trajectory:
        """Returns the run that was given, or a new one. `agent_loop` calls this."""
        if given is None:
            given = cls(name=name, conversation_id=conversation_id, run_id=run_id, privacy=privacy)
        elif any(one is not None for one in (name, conversation_id, run_id, privacy)):
            raise TypeError("give name, conversation_id, run_id and privacy to the Trajectory, which has them")
        if suspended is not None:
            if run_id not in (None, suspended.run_id):
                raise ValueError("the calls were suspended in another run than run_id names; leave it out")
            given.take_up(suspended)
        return given

    def take_up(self, suspended: Suspended) -> None:
        """Becomes the run that calls were suspended in, at the same step, with its numbering. A run that has begun, or
        was given an id of its own, stays itself. `resume` and `agent_loop` call this."""
        if self.steps or self.next_seq:
            return
        if self._entered == "no" and not self.is_named:
            self.run_id, self.is_named = suspended.run_id, True
        if self.run_id == suspended.run_id:  # else two calls would have one name
            self.steps, self.next_seq = suspended.step, suspended.seq
            self.salts = suspended.seq  # there were more events than pipelines

    def new_salt(self) -> str:
        """Returns a text that no other pipeline gets, for call ids that have to be made up. `pipeline` calls this."""
        self.salts += 1
        return f"{self.run_id}:{self.salts}"

    def begin_step(self) -> tuple[int, Causality]:
        """Begins the next step; returns its number, and its `Causality`. `pipeline` calls this."""
        step, self.steps = self.steps, self.steps + 1
        self.began_at = self.began_at or time.monotonic()
        self._latest = Causality(tuple(self._latest.observations))
        return step, self._latest


class KeptResults:
    """The texts that tools have returned in one run, each with its step."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, str]] = deque()
        self._chars = 0

    def add(self, step: int, text: str) -> None:
        """Adds a result; forgets the oldest ones beyond the bound."""
        self._kept.append((step, text))
        self._chars += len(text)
        while self._chars > _MOST_KEPT:
            self._chars -= len(self._kept.popleft()[1])

    def before(self, step: int) -> list[str]:
        """Returns the results that the model had read when it wrote the response of this step."""
        return [text for made_in, text in self._kept if made_in < step]


def _checked(observers: Any) -> tuple[Observer, ...]:
    if not isinstance(observers, Iterable):
        raise TypeError(f"observers is a list of observers, not {type(observers).__name__}; write observers=[...]")
    listed = tuple(observers)
    for one in listed:
        if isinstance(one, type) or not hasattr(one, "on_event"):
            name = f"the class {one.__name__}" if isinstance(one, type) else type(one).__name__
            raise TypeError(f"an observer has a method on_event(event), see streamtools.observers; this is {name}")
    return listed


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
    _said: int | None = None  # the start of the latest text or reasoning
    _parts: dict[type, int] = field(default_factory=dict)  # the start of the text or reasoning that now streams

    def begin_attempt(self) -> None:
        """Forgets the events of an attempt: they cause nothing more."""
        self.observations.clear()
        self._calls.clear()
        self._parts.clear()
        self._said = self._stream_end = None

    def stamp(self, event: CausedEvent, seq: int, step: int, time: float) -> None:
        """Gives an event its number, its step, its time and its causes; those that it has already stand first."""
        root: tuple[int, ...] = () if self._root is None else (self._root,)
        causes = root
        if (call_id := getattr(event, "call_id", None)) is not None:
            latest = self._calls.get(call_id)
            if latest is not None:
                causes = (latest,)
            elif self._said is not None:
                causes = (*root, self._said)
            self._calls[call_id] = seq
            if isinstance(event, Observation):
                self.observations.append(seq)
        elif isinstance(event, (TextStart, ReasoningStart)):
            self._parts[type(event)] = self._said = seq
        elif isinstance(event, (TextEnd, ReasoningEnd)):
            start = self._parts.get(_START_OF[type(event)])
            causes = root if start is None else (start,)
        elif isinstance(event, StreamEnd):
            self._stream_end = seq
        elif isinstance(event, StepEnd):
            end = () if self._stream_end is None else (self._stream_end,)
            causes = (*end, *self.observations) or root
        elif isinstance(event, (StepStart, StreamStart, AttemptBegan, AttemptDiscarded)):
            causes = self.before if isinstance(event, StepStart) else root
            if isinstance(event, AttemptDiscarded):
                causes = (*root, *self.observations)
            self._root = seq
        if event.causes:
            causes = tuple(dict.fromkeys((*event.causes, *causes)))
        _set(event, "seq", seq)
        _set(event, "step", step)
        _set(event, "time", time)
        _set(event, "causes", causes)
