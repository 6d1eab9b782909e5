"""Keeps the deadlines of one pipeline: for a silent source, the first chunk, the whole step and the whole run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import anyio

from ..dispatch.timers import Timer, Timers
from ..errors import DeadlineExceeded
from ..limits import Limits
from .pump import Pump

__all__ = ["Deadlines"]

_LOOKS = 8  # how often a source is looked at within its idle timeout


class Deadlines:
    """The deadlines of one pipeline, which is ended when one of them passes.

    Args:
        limits: the times.
        pump: reads the source, and is asked to look whether that has been silent for too long.
        expired: is called when a time of the step or run is over.
        requested_at: when the request was made, on ``time.monotonic``; None: when `set` is called.
    """

    def __init__(
        self,
        limits: Limits,
        pump: Pump,
        expired: Callable[[DeadlineExceeded], None],
        requested_at: float | None,
    ) -> None:
        self._limits = limits
        self._pump = pump
        self._expired = expired
        self._requested_at = requested_at
        self._timers: Timers | None = None
        self._step: list[Timer] = []
        self._source: list[Timer] = []

    def set(self, timers: Timers, run_began_at: float) -> None:
        """Starts the deadlines now, that of the run from its beginning, on ``time.monotonic``."""
        limits, now = self._limits, time.monotonic()
        self._timers = timers
        if self._pump.idle_timeout_s < math.inf:
            self._look()
        if limits.first_chunk_timeout is not None:
            left = limits.first_chunk_timeout - (now - (self._requested_at or now))
            self._source.append(timers.at(anyio.current_time() + left, self._no_chunk))
        for name, seconds, began in (
            ("step_timeout", limits.step_timeout, now),
            ("run_timeout", limits.run_timeout, run_began_at),
        ):
            if seconds is not None:
                error = DeadlineExceeded(name, seconds, f"the {name[: name.index('_')]} was not over")
                self._step.append(
                    timers.at(anyio.current_time() + seconds - (now - began), partial(self._expired, error))
                )

    def source_is_over(self) -> None:
        """Stops the deadlines of the source, of which nothing more is expected."""
        while self._source:
            self._source.pop().stop()

    def stop(self) -> None:
        """Stops all deadlines."""
        self.source_is_over()
        while self._step:
            self._step.pop().stop()

    def _no_chunk(self) -> None:
        if not self._pump.came:
            seconds = self._limits.first_chunk_timeout
            assert seconds is not None, "it was set"
            self._expired(DeadlineExceeded("first_chunk_timeout", seconds, "the source brought nothing"))

    def _look(self) -> None:
        """Looks at the source, now and from time to time."""
        assert self._timers is not None, "set"
        now = anyio.current_time()
        self._pump.look(now)
        again = self._timers.at(now + self._pump.idle_timeout_s / _LOOKS, self._look)
        self._source = [timer for timer in self._source if timer.callback is not None]
        self._source.append(again)
