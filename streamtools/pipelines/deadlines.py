"""Ends a step when a timeout of the step, its run or its source has passed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import anyio

from ..dispatch.event_loop import Timer
from ..dispatch.transitions import At
from ..errors import DeadlineExceeded
from ..limits import Limits
from .pump import LOOKS, Pump


@dataclass(slots=True, eq=False)
class Deadlines:
    limits: Limits
    pump: Pump  # checks whether its source has been silent for too long
    expire: Callable[[DeadlineExceeded], None]  # is called when a timeout of the step or run has passed
    requested_at: float | None  # when the request was made, on ``time.monotonic``; None: when `set` is called
    now: Callable[[], float] = anyio.current_time
    at: At | None = None  # calls back at a time of the event loop; None before `set`
    began_at: float = 0.0  # when the step began, on ``time.monotonic``
    look_every_s: float = math.inf
    look_until: float = math.inf  # when the next look would be too late to count
    of_step: dict[str, Timer] = field(default_factory=dict)
    of_source: dict[str, Timer] = field(default_factory=dict)

    def set(self, at: At, now_of_loop: Callable[[], float], run_began_at: float) -> None:
        self.began_at = now = time.monotonic()
        self.now = now_of_loop
        self.at, self.look_every_s = at, self.pump.idle_timeout_s / LOOKS
        self.begin_source(self.pump, self.requested_at or now)
        self._begin("step_timeout", now, "the step did not finish", self.of_step)
        self._begin("run_timeout", run_began_at, "the run did not finish", self.of_step)

    def begin_source(self, pump: Pump, requested_at: float) -> None:
        self.pump, self.look_until = pump, math.inf
        if self.look_every_s < math.inf:
            self._look()
        self._begin("first_chunk_timeout", requested_at, "the source sent nothing", self.of_source)

    def _begin(self, name: str, began: float, missed: str, kept: dict[str, Timer]) -> None:
        assert self.at is not None, "set"
        if (seconds := getattr(self.limits, name)) is not None:
            passed = partial(self._passed, DeadlineExceeded(name, seconds, missed))
            kept[name] = self.at(self.now() + seconds - (time.monotonic() - began), passed)

    def source_is_over(self) -> None:
        for timer in self.of_source.values():
            timer.stop()

    def stop(self) -> None:
        for timer in (*self.of_source.values(), *self.of_step.values()):
            timer.stop()

    def _passed(self, error: DeadlineExceeded) -> None:
        if error.limit != "first_chunk_timeout" or not self.pump.came:
            self.expire(error)

    def _look(self) -> None:
        assert self.at is not None, "set"
        now = self.now()
        # After a process was stopped, this may run before the task that reads what has come meanwhile. The look after
        # one that was late counts, however late: a loop that is always late must find out, too.
        if now > self.look_until:
            self.look_until = math.inf
        else:
            self.look_until = now + 2 * self.look_every_s
            self.pump.look()
        self.of_source["idle_timeout"] = self.at(now + self.look_every_s, self._look)
