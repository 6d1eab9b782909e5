"""The last source of a run's steps: asks the model, as long as it may be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch.endings import is_exhausted
from ..dispatch.pool import Budgets, CallPool
from ..limits import Limits
from ..parts import RunOutcome
from ..turn import Turn
from .trajectory import Trajectory

if TYPE_CHECKING:
    from ..seams import RunView, StepPlan, StepRequest


class ModelSteps:
    def __init__(self, run: Trajectory, limits: Limits, pool: CallPool | None, max_steps: int) -> None:
        self._run = run
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
