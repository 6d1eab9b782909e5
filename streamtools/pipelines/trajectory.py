"""Makes one run of many turns: the state that its steps share."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from ..dispatch.pool import Spent
from ..dispatch.states import RunCounts
from ..errors import LocalProtocolError, contained
from ..ground.text import class_name, type_name
from ..observers.contracts import Observer, ambient
from ..parts import Usage

if TYPE_CHECKING:
    from ..seams import Guard, Shown

_logger = logging.getLogger("streamtools")


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
        privacy: the policy for all that copies the run: recordings, spans, metrics, pages, views, logs and web frames;
            or a `Guard` of your own.

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
        privacy: Guard | None = None,
    ) -> None:
        for what, text in (("run_id", run_id), ("name", name), ("conversation_id", conversation_id)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{what} is a text, not {type(text).__name__}")
        if privacy is not None and (isinstance(privacy, type) or not hasattr(privacy, "step")):
            raise TypeError(f"privacy is a streamtools.privacy.Privacy(...), not {type(privacy).__name__}")
        self.guard = privacy
        """Decides what observers and all other copies see of the run."""
        self.name = name
        """The agent's name."""
        self.conversation_id = conversation_id
        """The conversation that the run belongs to."""
        self.run_id = run_id or os.urandom(16).hex()
        """The run's id, on each `StepStart` and on spans."""
        self.is_named = bool(run_id)
        """True if the id was given, and not made up."""
        given = () if observers is None else _checked(observers)
        around = [one for program in ambient for one in program.observers()] if default_observers else []
        self.observers = given
        if around:
            others = (one for one in around if not any(isinstance(known, type(one)) for known in given))
            self.observers = (*given, *others)
        """Those that see its events: a tuple. One that you add in the middle of the run sees its next steps."""
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
        self.kept: dict[type, Any] = {}
        """What capabilities keep for the run, each under a type of its own."""
        self._shown: Shown | None = None  # of its begin and end
        self._observations: list[int] = []  # the numbers of those of the latest step
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

    @property
    def is_entered(self) -> bool:
        """True once it has begun, by its block or that of a run."""
        return self._entered != "no"

    def enter(self) -> bool:
        """Tells the observers that the run begins; returns False if it had begun. `agent_loop` calls this."""
        if self._entered != "no":
            return False
        self._entered = "yes"
        if self.guard is not None:
            self._tell("obey", self.guard)
        self._tell("begin_run", self)
        return True

    def leave(self, outcome: str | None, error: BaseException | None = None) -> None:
        """Tells the observers that the run is over. `agent_loop` calls this."""
        if self._entered == "yes":
            self._entered = "left"
            self._tell("end_run", outcome, error)

    def traceparent(self) -> str | None:
        """Returns the span of the step that goes on, or was the last, as W3C Trace Context has it; None if none of the
        observers draws spans."""
        return next(filter(None, self._tell("traceparent")), None)

    def proposed_by(self) -> str | None:
        """Likewise returns the span of the response that has made the step's calls."""
        return next(filter(None, self._tell("proposed_by")), None)

    def _tell(self, what: str, *facts: Any) -> list[Any]:
        said: list[Any] = []
        if self.guard is not None and self._shown is None:
            self._shown = self.guard.step(self, ())
        for observer in self.observers:
            try:
                said.append(told(observer, what, facts, self._shown))
            except BaseException as error:
                kind = class_name(contained(error))
                self.observers = tuple(known for known in self.observers if known is not observer)
                _logger.warning("an observer was dropped: %s raised %s", type_name(observer), kind)
        return said

    def new_salt(self) -> str:
        """Returns a text that no other pipeline gets, for call ids that have to be made up. `pipeline` calls this."""
        self.salts += 1
        return f"{self.run_id}:{self.salts}"

    def begin_step(self, observations: list[int]) -> tuple[int, tuple[int, ...]]:
        """Begins the next step, which will put the numbers of its observations into that list; returns its number, and
        those of the observations of the step before. `pipeline` calls this."""
        step, self.steps = self.steps, self.steps + 1
        self.began_at = self.began_at or time.monotonic()
        before, self._observations = tuple(self._observations), observations
        return step, before


def sees_originals(observer: Observer) -> bool:
    return getattr(observer, "sees_originals", False)


def told(observer: Observer, method: str, facts: Sequence[Any], shown: Shown | None) -> Any:
    """Calls an optional method of an observer, if it has that, with as much of the facts as it may see."""
    call = getattr(observer, method, None)
    if call is None:
        return None
    return call(*(facts if shown is None or sees_originals(observer) else shown.fact(method, *facts)))


def _checked(observers: Any) -> tuple[Observer, ...]:
    if not isinstance(observers, Iterable):
        raise TypeError(f"observers is a list of observers, not {type(observers).__name__}; write observers=[...]")
    listed = tuple(observers)
    for one in listed:
        if isinstance(one, type) or not hasattr(one, "on_event"):
            name = f"the class {one.__name__}" if isinstance(one, type) else type(one).__name__
            raise TypeError(f"an observer has a method on_event(event), see streamtools.observers; this is {name}")
    return listed
