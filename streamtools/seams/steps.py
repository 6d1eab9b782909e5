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
    """What is known of a response that the run read before, so that its step keeps its number and ids."""

    step: int
    """The number of the step in the run."""
    salt: int
    """The number of the salt from which its generated call ids come."""
    attempt: int = 1
    """Which attempt at the answer it was; part of its calls' keys."""
    fallback: int | None = 0
    """The function that made the request, as in `AttemptBegan.fallback`; None if that is unknown."""
    traceparent: str | None = None
    """The span of the step that requested it, as a W3C Trace Context ``traceparent``."""
    proposed_by: str | None = None
    """The span of the response."""
    is_broken: bool = False
    """True if it broke off, which no longer counts as an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """The next step of a run. Without a stream, the model is asked."""

    stream: Any = None
    """The response, as `pipeline` takes it; or calls that wait (`Suspended`)."""
    asks_model: bool = False
    """True if the stream is your own request to a model, in place of ``call_model``; False if it is on record."""
    ends: Sequence[Observation] | None = None
    """How its calls ended, so none of them runs. None: they run."""
    said: Sequence[Mapping[str, Any]] | None = None
    """The entries that enter the history before it, as in `StepRequest.said`. None: all that are waiting."""
    waited: Sequence[Observation] = ()
    """The waiting calls of the history that the step resolves, as `Suspended.placeholders` returns them. Their results
    go there."""
    record: OnRecord | None = None
    """Makes it the same step as before."""


class StepRequest:
    """The request that the next step would send to the model; it is built when you read it."""

    def __init__(
        self, number: int, said: Sequence[Mapping[str, Any]], render: Callable[[], tuple[list[Any], Any]]
    ) -> None:
        self.number = number
        """How many steps have ended."""
        self.said = said
        """What was said to the run and is still unread: entries with ``id``, ``when`` and ``messages``."""
        self._render = render

    @property
    def messages(self) -> list[Any]:
        """The history including `said`, in the wire's format: a new list, yours to change."""
        return self._render()[0]

    @property
    def tools(self) -> Any:
        """The tools as `call_model` would get them; with ``mode=``, the fields of the request."""
        return self._render()[1]


class RunView(Protocol):
    """A run, as a `StepSource` sees it."""

    @property
    def run_id(self) -> str:
        """The run's id."""
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
        """True once the run was told to stop: it continues only while `StepSource.peek` of a source returns True."""
        ...

    @property
    def is_iterated(self) -> bool:
        """True while a consumer waits for the run's next event."""
        ...

    @property
    def step(self) -> Any:
        """The current step, a `Pipeline`; None between two steps."""
        ...

    @property
    def standing(self) -> Turn | None:
        """The last turn, if the run continues after it in any case; None if the model will be asked for it again."""
        ...

    def say(self, message: Any, when: Literal["next", "now"] = "next", entry_id: str | None = None) -> None:
        """Says something to the run, as `AgentLoop.say` does; use it for what is on record elsewhere."""
        ...

    def add(self, message: Any, entry_id: str) -> None:
        """Says something to the run under your own id, and records it."""
        ...

    def tell(self) -> None:
        """Makes the run call ``holds`` of its sources again."""
        ...

    def stop(self) -> None:
        """Stops the run, as `AgentLoop.stop` does; use it for a stop that is on record elsewhere."""
        ...

    def watch(self, task: Callable[[], Awaitable[None]]) -> None:
        """Runs a task alongside the steps. It is cancelled when the block is left, before `StepSource.leave`."""
        ...


class StepSource(Protocol):
    """Gives a run its steps. The model is asked only if no source has one.

    These methods are optional: ``put(entry)`` gets what is said to the run (``kind`` "say") and requests to stop it
    ("stop"), and refuses one by raising. ``cancel(call_id)`` ends background work for a call, and returns whether
    there was any. ``await read(take)`` returns the run's next event in place of ``await take()``.
    ``ticket(suspended)`` returns the waiting calls in the form that others get. ``holds(outcome)`` says whether the
    run should wait, instead of ending with that outcome or, for None, resting; it waits until `RunView.tell` or
    something is said.
    """

    async def begin(self, run: RunView) -> None:
        """Is called before the first step. If it raises, entering the block raises that error, and `leave` is not
        called."""
        ...

    def peek(self) -> bool:
        """Returns whether a next step exists without asking the model. The run then continues, whatever it has read."""
        ...

    async def next(self, request: StepRequest) -> StepPlan | RunOutcome | None:
        """Returns the next step, the outcome with which the run ends here, or None, which leaves the step to the
        next source. If the wait is cancelled, it is called again."""
        ...

    async def ended(self, turn: Turn) -> RunOutcome | None:
        """Is called with the turn of each finished step. Return an outcome to end the run."""
        ...

    async def leave(self, outcome: RunOutcome) -> None:
        """Is called when the block was left."""
        ...
