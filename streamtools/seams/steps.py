"""A source of steps says what comes next in a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from ..events import Observation
    from ..parts import RunOutcome
    from ..turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class OnRecord:
    """What is known of a response that a run had read before: its step is then the same one, with the same ids."""

    step: int
    """The number of the step in the run."""
    salt: int
    """The number of the text that its made-up call ids come from (`StreamFacts.id_salt`)."""
    attempt: int = 1
    """Which attempt at the answer it was; a part of its calls' keys."""
    fallback: int | None = 0
    """The function that was asked, as `AttemptBegan.fallback` says it; None if that is not known."""
    traceparent: str | None = None
    """The span of the step that had asked for it, as W3C Trace Context has it."""
    proposed_by: str | None = None
    """The span of the response."""
    is_broken: bool = False
    """It had broken off, which is no error any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """The next step of a run. Without a stream, the model is asked."""

    stream: Any = None
    """The response, as `pipeline` takes it; or calls that wait (`Suspended`)."""
    asks_model: bool = False
    """The stream is a request of your own to a model, in the place of ``call_model``; otherwise it is on record."""
    ends: Sequence[Observation] | None = None
    """How its calls have ended: none of them runs. None: they run."""
    said: Sequence[Mapping[str, Any]] | None = None
    """The entries that enter the history before it, as `StepRequest.said` has them. None: all that wait."""
    waited: Sequence[Observation] = ()
    """Calls of the history that the step is about, as `Suspended.placeholders` returns them: their results are put
    there."""
    record: OnRecord | None = None
    """Makes it the same step as before."""


class StepRequest:
    """What the model would be asked for in the next step; it is put together when it is read."""

    def __init__(
        self, number: int, said: Sequence[Mapping[str, Any]], render: Callable[[], tuple[list[Any], Any]]
    ) -> None:
        self.number = number
        """How many steps are over."""
        self.said = said
        """What was said to the run and waits to be read: entries with ``id``, ``when`` and ``messages``."""
        self._render = render

    @property
    def messages(self) -> list[Any]:
        """The history with what was said, in the wire's shape: a list of your own."""
        return self._render()[0]

    @property
    def tools(self) -> Any:
        """The tools as `call_model` would get them; with ``mode=``, the fields of the request."""
        return self._render()[1]


class RunView(Protocol):
    """A run, for those that give it its steps."""

    @property
    def run_id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str | None:
        """The agent's name."""
        ...

    @property
    def conversation_id(self) -> str | None:
        """The conversation that it belongs to."""
        ...

    @property
    def begun_with(self) -> list[Any]:
        """The messages that it began with."""
        ...

    @property
    def said(self) -> Sequence[Mapping[str, Any]]:
        """The entries that have entered the history, in order."""
        ...

    @property
    def unread(self) -> Sequence[Mapping[str, Any]]:
        """The entries that have not entered it yet, in order."""
        ...

    @property
    def is_stopped(self) -> bool:
        """True once the run is to stop: it goes on only as long as a source can `StepSource.peek`."""
        ...

    @property
    def is_iterated(self) -> bool:
        """True while somebody waits for the run's next event."""
        ...

    @property
    def step(self) -> Any:
        """The step that goes on, a `Pipeline`; None between two."""
        ...

    @property
    def standing(self) -> Turn | None:
        """The last turn, if the run goes on behind it in any case; None if the model is to be asked for it again."""
        ...

    def say(self, message: Any, when: Literal["next", "now"] = "next", entry_id: str | None = None) -> None:
        """Says something to the run, as `AgentLoop.say` does, that is on record elsewhere."""
        ...

    def add(self, message: Any, entry_id: str) -> None:
        """Says something to the run under an id of yours, and puts it on record."""
        ...

    def tell(self) -> None:
        """Has the run ask again whether it `StepSource.holds`."""
        ...

    def stop(self) -> None:
        """Stops the run, as `AgentLoop.stop` does, because that is on record elsewhere."""
        ...

    def watch(self, task: Callable[[], Awaitable[None]]) -> None:
        """Runs a task beside the steps. It is cancelled as the block is left, before `StepSource.leave`."""
        ...


class StepSource(Protocol):
    """Gives a run its steps. The model is asked only where no source has one.

    There may be more methods: ``put(entry)`` is told what is said to the run (``kind`` "say") and the wish that it
    stops ("stop"), and refuses it by raising. ``cancel(call_id)`` ends what goes on beside the steps for a call, and
    returns whether there is something. ``await read(take)`` returns the run's next event in the place of
    ``await take()``. ``ticket(suspended)`` returns the calls that wait as others are given them.
    ``holds(outcome)`` says whether the run is to wait, instead of ending so or, with None, resting, until it is told or
    something is said.
    """

    async def begin(self, run: RunView) -> None:
        """Is called before the first step. What it raises comes out of the block's beginning; `leave` is not called
        then."""
        ...

    def peek(self) -> bool:
        """Returns whether there is a next step without asking the model. The run then goes on, whatever it has read."""
        ...

    async def next(self, request: StepRequest) -> StepPlan | RunOutcome | None:
        """Returns the next step, the outcome with which the run ends here, or None, which leaves the step to the
        next source. If the wait is cancelled, it is asked again."""
        ...

    async def ended(self, turn: Turn) -> RunOutcome | None:
        """Is called with the turn of each step that is over; may end the run by returning an outcome."""
        ...

    async def leave(self, outcome: RunOutcome) -> None:
        """Is called when the block was left."""
        ...
