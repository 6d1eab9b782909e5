"""Makes the steps of a run, as its sources plan them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias

from ..dispatch import CallPool, DispatchOptions
from ..dispatch.endings import is_exhausted
from ..dispatch.pool import Budgets
from ..events import Event, Observation, StreamEnd, StreamWarning
from ..ground.own import FIXED, MESSAGES, own
from ..limits import Limits
from ..parts import RunOutcome
from ..pipelines.agent_loop import CallModel
from ..pipelines.runner import Runner
from ..pipelines.trajectory import Trajectory
from ..seams import Seams
from ..sources import ModelRequest
from ..turn import Turn
from .carrying import NOBODY, Carrying
from .checked import CheckedOptions, Request
from .face import Pipeline
from .streams import step_of

if TYPE_CHECKING:
    from ..seams import OnRecord, RunView, StepPlan, StepRequest

Asked: TypeAlias = tuple[Callable[[], list[Any]], Callable[[], Any]]
"""Makes the messages and the tools of a request, anew for each caller that may change them."""


class PipelineMaker:
    def __init__(
        self,
        asks: Sequence[CallModel],
        checked: CheckedOptions,
        trajectory: Trajectory,
        carrying: Carrying,
        *,
        has_mode: bool,
    ) -> None:
        self._asks: tuple[Any, ...] = tuple(asks)  # the others are fallbacks
        self._carrying = carrying
        self._checked = checked
        self._once = replace(checked, attempts=None)  # for a response that is there, or another's request
        self.asks_again = checked.attempts is not None or len(self._asks) > 1
        self._run = trajectory
        self._has_mode = has_mode
        self._history = _History()
        self.warnings: list[StreamWarning] = []  # of the next request
        self.plainly: Callable[[list[Any]], tuple[list[Any], Any]] | None = None  # messages and tools for a fallback

    def block_in_threads(self) -> None:
        from .blocking import AttemptsInThreads, in_threads  # most programs have an event loop

        self._asks = tuple(map(in_threads, self._asks))
        if self._checked.attempts is not None:
            self._checked = replace(self._checked, attempts=AttemptsInThreads(self._checked.attempts))

    def make(self, plan: StepPlan, asked: tuple[list[Any], Any] | None) -> Pipeline:
        block = self._made(plan, asked)
        warnings, self.warnings = self.warnings, []
        if plan.record is None:
            if (unsent := self._carrying.unsent()) is not None:
                warnings.append(StreamWarning("carry_unsent", unsent))
            block._runner.begin_with(warnings)
        return block

    def use(self, checked: CheckedOptions) -> None:
        self._checked = replace(checked, attempts=self._checked.attempts)  # which may run in threads
        self._once = replace(checked, attempts=None)

    def _made(self, plan: StepPlan, asked: tuple[list[Any], Any] | None) -> Pipeline:
        if plan.stream is not None and (resumed := self._resumed(plan.stream)) is not None:
            return resumed
        assert asked is not None, "it reads a response"
        anew = self._anew(*asked)
        if plan.record is not None:
            self._run.steps, self._run.salts = plan.record.step, plan.record.salt - 1
            number = 0 if len(self._asks) == 1 else plan.record.fallback
            self._carrying.asked = number if number is not None and number < len(self._asks) else NOBODY
        if plan.ends is not None:
            block = step_of(self._replaying(plan.ends), self._run, plan.stream)
        else:
            elsewhere = self._carrying.elsewhere
            request = cache(lambda: {"messages": anew[0](), **elsewhere})  # for those who read it
            if plan.stream is None or plan.asks_model:
                return self._asking(plan.stream, anew, request)
            block = step_of(self._once, self._run, plan.stream, request=request)
        _put_on_record(block._runner, plan.record, replayed=plan.ends is not None)
        return block

    def _anew(self, messages: list[Any], tools: Any) -> Asked:
        if self._has_mode:  # an adapter's messages are not ours
            return partial(own, messages, MESSAGES), partial(own, tools, MESSAGES)
        if not self._history.begins(messages):  # they were repaired
            self._history = _History()
        return self._history.copies(messages), partial(own, tools, MESSAGES)

    def _resumed(self, stream: Any) -> Pipeline | None:
        from ..durable.suspended import Suspended  # most runs ask the model alone
        from .at_hand import check_suspended, resumed_step

        if not isinstance(stream, Suspended):
            return None
        check_suspended(stream, self._once.store)
        return resumed_step(replace(self._once, quoted_calls="refuse"), self._run, stream)

    def _asking(self, stream: Any, asked: Asked, request: Request) -> Pipeline:
        requested_at = time.monotonic()
        self._run.began_at = self._run.began_at or requested_at
        ask, *others = (partial(self._ask, number, asked) for number in range(len(self._asks)))
        checked = self._checked if stream is None and self.asks_again else self._once
        if stream is None:
            stream = ask if self.asks_again else ModelRequest(ask, checked.wire)
        else:
            self._carrying.asked = 0  # who makes requests of their own ask the provider of the run
        fallback = others if checked is self._checked else ()
        return step_of(checked, self._run, stream, fallback=fallback, requested_at=requested_at, request=request)

    def _ask(self, number: int, asked: Asked) -> Any:
        """Makes a request with lists of its own: what it does to them reaches no other attempt, and no history."""
        messages, beside = self._carrying.request(number, asked[0]())
        tools = asked[1]()
        if self._carrying.numbers[number] and self.plainly is not None:
            messages, tools = self.plainly(messages)
        return self._asks[number](messages, tools, **beside)

    def _replaying(self, ends: Sequence[Observation]) -> CheckedOptions:
        """Returns the options of a step whose calls do not run: their ends follow the response."""
        checked, seams = self._once, self._once.dispatch.seams
        kept = Seams(rules=seams.rules, filters=seams.filters)  # rules keep the texts of the run, filters long results
        step = replace(checked.step, transforms=(*checked.step.transforms, _then(ends)))
        return replace(checked, dispatch=DispatchOptions(start="off", seams=kept), step=step)


class _History:
    """Copies the messages of one request after the other. Each mostly has those of the request before, to which others
    are added; the dicts and lists of these are found once, so that a copy costs a quarter of what `own` costs."""

    def __init__(self) -> None:
        self._messages: list[Any] = []
        self._shells: list[Callable[[], Any]] = []  # each copies a dict or a list without what is in it
        self._inner: list[tuple[int, Any, int]] = []  # what is in it: its number, the place, the number of the other
        self._at: list[int] = []  # the numbers of the messages

    def begins(self, messages: list[Any]) -> bool:
        return len(self._messages) <= len(messages) and all(map(is_, self._messages, messages))

    def copies(self, messages: list[Any]) -> Callable[[], list[Any]]:
        """Returns a function that makes copies, as `own` does, of messages that nobody changes, and that begin so."""
        self._at += [self._numbered(message, MESSAGES - 1) for message in messages[len(self._messages) :]]
        self._messages = messages
        return partial(self._copied, len(self._shells), len(self._inner), len(messages))

    def _copied(self, shells: int, inner: int, messages: int) -> list[Any]:
        made = [copied() for copied in islice(self._shells, shells)]
        for outer, place, number in islice(self._inner, inner):
            made[outer][place] = made[number]
        return [made[at] for at in islice(self._at, messages)]

    def _numbered(self, value: Any, levels: int) -> int:
        number, kind = len(self._shells), type(value)
        if not levels or not (kind is list or isinstance(value, dict)):
            self._shells.append(lambda: value)
            return number
        self._shells.append(value.copy if kind is list or kind is dict else partial(copy, value))
        for place, one in enumerate(value) if kind is list else value.items():
            if type(one) not in FIXED and (type(one) is list or isinstance(one, dict)):
                self._inner.append((number, place, self._numbered(one, levels - 1)))
        return number


def _put_on_record(runner: Runner, record: OnRecord | None, *, replayed: bool) -> None:
    """Makes this a step whose response is on record, and the ends of its calls if it is `replayed`."""
    calls = runner.attempt.calls
    runner.start = replace(runner.start, asks_model=False, continued=not replayed, replayed=replayed)
    if record is not None:
        runner.start = replace(runner.start, resumes=record.traceparent, proposed_by=record.proposed_by)
        runner.attempt.pump.is_broken, calls.attempt = record.is_broken, record.attempt
    calls.looks_up = not replayed


def _then(ends: Sequence[Observation]) -> Callable[[AsyncIterator[Event]], AsyncIterator[Event]]:
    async def add(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            yield event
            if isinstance(event, StreamEnd):
                for seen in ends:
                    yield seen

    return add


class ModelSteps:
    """The last source of a run's steps: asks the model, as long as it may be asked."""

    def __init__(
        self, run: Trajectory, limits: Limits, pool: CallPool | None, max_steps: int, carrying: Carrying
    ) -> None:
        self._run = run
        self._carrying = carrying
        self._limits = limits
        self._pool = pool
        self._left = max_steps
        # What the model has read of the latest turn's calls:
        self._is_over_budget = False  # it is to call nothing more
        self._is_exhausted = False  # none of them is wanted again

    async def begin(self, run: RunView) -> None:
        """Does nothing: its limits are the run's."""

    def peek(self) -> bool:
        return False

    async def next(self, request: StepRequest) -> StepPlan | RunOutcome | None:
        from ..seams import StepPlan  # loaded when a run begins

        budgets = Budgets(self._limits, self._run.spent, None if self._pool is None else self._pool.budget)
        return StepPlan() if budgets.tokens_exceeded() is None else "budget"

    async def ended(self, turn: Turn) -> RunOutcome | None:
        """Ends the run if the model goes on calling what it has read is not wanted, or was asked often enough."""
        self._carrying.take(turn)
        was_over, was_exhausted = self._is_over_budget, self._is_exhausted
        ended = [is_exhausted(seen, self._run.counts, self._limits) for seen in turn.observations]
        self._is_over_budget = any(seen.outcome == "over_budget" for seen in turn.observations)
        self._is_exhausted = bool(ended) and all(ended)
        self._left -= 1
        if was_over and self._is_over_budget:
            return "budget"
        if was_exhausted and self._is_exhausted:
            return "retries_exhausted"
        return None if self._left > 0 else "max_steps"

    async def leave(self, outcome: RunOutcome) -> None:
        """Does nothing: there is nothing to give back."""
