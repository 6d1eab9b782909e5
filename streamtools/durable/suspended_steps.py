"""The calls that a step leaves waiting, and the first step of the run that continues with them, once decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..parts import RunOutcome
from ..seams import RunView, StepPlan, StepRequest
from ..turn import Turn
from .suspended import Suspended

if TYPE_CHECKING:
    from ..dispatch import CallAnswer, Decision
    from ..dispatch.states import Call
    from ..pipelines import Trajectory
    from ..pipelines.runner import Runner
    from .store import IdempotencyStore


def take_up(run: Trajectory, suspended: Suspended) -> None:
    """Makes a run the one that calls were suspended in, at the same step, with its numbering. A run that has begun, or
    has an id of its own, is left unchanged."""
    if run.steps or run.next_seq:
        return
    if not run.is_entered and not run.is_named:
        run.run_id, run.is_named = suspended.run_id, True
    if run.run_id == suspended.run_id:  # else two calls would have one name
        run.steps, run.next_seq = suspended.step, suspended.seq
        run.salts = suspended.seq  # there were more events than pipelines


def left_by(runner: Runner) -> Suspended | None:
    """Returns the waiting calls of a step, even if the step was left."""
    calls, ended, resumed = runner.attempt.calls, runner.step.ended, runner.resumed
    if isinstance(resumed, Suspended) and not calls.undecided and not calls.announced:  # it was left at once
        return replace(resumed, seq=runner.trajectory.next_seq) if ended else resumed
    return suspended_in(runner, calls.undecided)


def suspended_in(runner: Runner, held: list[Call]) -> Suspended | None:
    if not held:
        return None
    run, resumed = runner.trajectory, runner.resumed
    closing = 0 if runner.step.ended else runner.attempt.calls.unobserved + 1  # events, if the block is left now
    return Suspended.of(
        held,
        run.spent,
        run_id=run.run_id,
        step=runner.step.number,
        seq=run.next_seq + closing,
        wire=runner.attempt.decoder.wire,
        traceparent=run.traceparent() or (resumed and resumed.traceparent),
        proposed_by=run.proposed_by() or (resumed and resumed.proposed_by),
        carry=resumed.carry if resumed else runner.turn.carry or None,
    )


class SuspendedSteps:
    """The step of waiting calls: the model is not asked."""

    def __init__(
        self,
        suspended: Suspended,
        decisions: Sequence[Decision],
        answers: Sequence[CallAnswer],
        store: IdempotencyStore,
    ) -> None:
        self._suspended = suspended
        self._given = (decisions, answers, store)
        self._is_next = True
        self._run: RunView | None = None

    async def begin(self, run: RunView) -> None:
        self._run = run
        decisions, answers, store = self._given
        await self._suspended.decide(decisions, store)
        await self._suspended.answer(answers, store)

    def peek(self) -> bool:
        return self._is_next

    async def next(self, request: StepRequest) -> StepPlan | RunOutcome | None:
        if not self._is_next:
            return None
        if self._run is not None and self._run.is_stopped:
            return "cancelled"
        self._is_next = False
        return StepPlan(stream=self._suspended, waited=self._suspended.placeholders())

    async def ended(self, turn: Turn) -> RunOutcome | None:
        return None

    async def leave(self, outcome: RunOutcome) -> None:
        """Does nothing: all is stored."""
