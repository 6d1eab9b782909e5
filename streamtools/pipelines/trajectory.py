"""Many turns as one run: the state that the steps of an agent's loop share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

from ..dispatch.counts import RunCounts
from ..dispatch.suspended import Suspended
from ..observers import Observer
from ..telemetry import default_observers
from .causality import Causality

__all__ = ["Trajectory"]


class Trajectory:
    """A run of several steps, each a `pipeline`: one id, one numbering, and causes that reach from step to step.

    Pass the same one to the pipelines of a loop, one after the other:

        run = Trajectory()
        while True:
            async with pipeline(await ask(messages), tools=tools, trajectory=run) as events: ...

    Args:
        observers: see every event of every step. By default spans are drawn if the application has configured
            OpenTelemetry, and nothing watches if it has not.
        run_id: the run's name in events and spans, made up by default. A store knows calls by it, so no two runs may
            have the same.
    """

    def __init__(self, *, observers: Iterable[Observer] | None = None, run_id: str | None = None) -> None:
        if run_id is not None and not isinstance(run_id, str):
            raise TypeError(f"run_id is a text, not {type(run_id).__name__}")
        self.run_id = run_id or uuid.uuid4().hex
        """The run's id, on each `StepStart` and on spans."""
        self.observers: tuple[Observer, ...] = tuple(default_observers() if observers is None else observers)
        self.steps = 0
        """How many steps have begun."""
        self.began_at = 0.0
        """When the first step began, on ``time.monotonic``."""
        self.next_seq = 0
        """The number of the next event."""
        self.counts = RunCounts()
        """The run's counts of its calls, for `Limits(max_repeated_calls=..., max_model_retries=...)`."""
        self._latest = Causality()
        self._salts = 0

    @classmethod
    def of(cls, trajectory: Trajectory | None, observers: Iterable[Observer] | None) -> Trajectory:
        """Returns the run that was given, or a new one with these observers. `pipeline` calls this."""
        if trajectory is None:
            return cls(observers=observers)
        if observers is not None:
            raise ValueError("give the observers to the Trajectory, which all its steps share, not to one pipeline")
        return trajectory

    @classmethod
    def resumed(cls, suspended: Suspended, *, observers: Iterable[Observer] | None = None) -> Trajectory:
        """Returns the run that calls were suspended in, at the same step, with its numbering. `resume` calls this."""
        run = cls(observers=observers, run_id=suspended.run_id)
        run.steps, run.next_seq = suspended.step, suspended.seq
        run._salts = suspended.seq  # there were more events than pipelines
        return run

    def new_salt(self) -> str:
        """Returns a text that no other pipeline gets, for call ids that have to be made up. `pipeline` calls this."""
        self._salts += 1
        return f"{self.run_id}:{self._salts}"

    def begin_step(self) -> tuple[int, Causality]:
        """Begins the next step; returns its number, and its `Causality`. `pipeline` calls this."""
        step, self.steps = self.steps, self.steps + 1
        self.began_at = self.began_at or time.monotonic()
        self._latest = Causality(tuple(self._latest.observations))
        return step, self._latest
