"""Makes the steps of a run, as its sources plan them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..dispatch import DispatchOptions
from ..events import Event, Observation, StreamEnd
from ..ground.own import MESSAGES, own
from ..pipelines.agent_loop import CallModel
from ..pipelines.runner import Runner, runner_of
from ..pipelines.trajectory import Trajectory
from ..seams import Seams
from ..sources import ModelRequest
from .checked import CheckedOptions
from .face import Pipeline
from .streams import step_of

if TYPE_CHECKING:
    from ..seams import OnRecord, StepPlan


class MadeSteps:
    def __init__(
        self, call_model: CallModel, checked: CheckedOptions, trajectory: Trajectory, *, fallback: Sequence[CallModel]
    ) -> None:
        self._asks = (call_model, *fallback)
        self._checked = checked
        self._once = replace(checked, attempts=None)  # for a response that is there, or another's request
        self.asks_again = checked.attempts is not None or bool(fallback)
        self._run = trajectory

    def block_in_threads(self) -> None:
        from .blocking import AttemptsInThreads, in_threads  # most programs have an event loop

        self._asks = tuple(map(in_threads, self._asks))
        if self._checked.attempts is not None:
            self._checked = replace(self._checked, attempts=AttemptsInThreads(self._checked.attempts))

    def make(self, plan: StepPlan, asked: tuple[list[Any], Any] | None) -> Pipeline:
        if plan.stream is not None and (resumed := self._resumed(plan.stream)) is not None:
            return resumed
        assert asked is not None, "it reads a response"
        if plan.record is not None:
            self._run.steps, self._run.salts = plan.record.step, plan.record.salt - 1
        if plan.ends is not None:
            block = step_of(self._replaying(plan.ends), self._run, plan.stream)
        else:
            request = {"messages": own(asked[0], MESSAGES)}
            if plan.stream is None or plan.asks_model:
                return self._asking(plan.stream, asked, request)
            block = step_of(self._once, self._run, plan.stream, request=request)
        _put_on_record(runner_of(block), plan.record, replayed=plan.ends is not None)
        return block

    def _resumed(self, stream: Any) -> Pipeline | None:
        from ..durable.suspended import Suspended  # most runs ask the model alone
        from .at_hand import check_suspended, resumed_step

        if not isinstance(stream, Suspended):
            return None
        check_suspended(stream, self._once.store)
        return resumed_step(replace(self._once, quoted_calls="refuse"), self._run, stream)

    def _asking(self, stream: Any, asked: tuple[list[Any], Any], request: Mapping[str, Any]) -> Pipeline:
        requested_at = time.monotonic()
        self._run.began_at = self._run.began_at or requested_at
        ask, *others = (partial(_ask, call_model, asked) for call_model in self._asks)
        checked = self._checked if stream is None and self.asks_again else self._once
        if stream is None:
            stream = ask if self.asks_again else ModelRequest(ask, checked.wire)
        fallback = others if checked is self._checked else ()
        return step_of(checked, self._run, stream, fallback=fallback, requested_at=requested_at, request=request)

    def _replaying(self, ends: Sequence[Observation]) -> CheckedOptions:
        """Returns the options of a step whose calls do not run: their ends follow the response."""
        checked, seams = self._once, self._once.dispatch.seams
        kept = Seams(rules=seams.rules, filters=seams.filters)  # rules keep the texts of the run, filters long results
        shared = replace(checked.shared, transforms=(*checked.shared.transforms, _then(ends)))
        return replace(checked, dispatch=DispatchOptions(policy="off", seams=kept), shared=shared)


def _put_on_record(runner: Runner, record: OnRecord | None, *, replayed: bool) -> None:
    """Makes this a step whose response is on record, and the ends of its calls if it is `replayed`."""
    calls = runner.attempt.calls
    runner.start = replace(runner.start, asks_model=False, continued=not replayed, replayed=replayed)
    if record is not None:
        runner.start = replace(runner.start, resumes=record.traceparent, proposed_by=record.proposed_by)
        runner.attempt.pump.is_broken, calls.attempt = record.is_broken, record.attempt
    calls.looks_up = not replayed


def _ask(call_model: CallModel, asked: tuple[list[Any], Any]) -> Any:
    """Makes a request with lists of its own: what it does to them reaches no other attempt, and no history."""
    return call_model(*(own(one, MESSAGES) for one in asked))


def _then(ends: Sequence[Observation]) -> Callable[[AsyncIterator[Event]], AsyncIterator[Event]]:
    async def add(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            yield event
            if isinstance(event, StreamEnd):
                for seen in ends:
                    yield seen

    return add
