"""Ends a step: its deadlines, its outcome, its error and its last events, even if one Ctrl-C after the other comes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import anyio

from ..dispatch import Calls
from ..dispatch.timers import Timer, Timers
from ..errors import DeadlineExceeded, TruncatedStream
from ..event_loop import refuse_deferred
from ..events import Event, StreamEnd, StreamWarning
from ..limits import Limits
from ..parts import StepOutcome
from .pump import ItemDecoder, Pump
from .step import Step

__all__ = ["Deadlines", "Settling"]

_LOOKS = 8  # how often a source is looked at within its idle timeout
_TRIES = 16  # to settle: each try gets further, and nobody presses Ctrl-C more often than that


class Settling:
    """The end of one step.

    Args:
        step: takes the events.
        decoder: has the stream's last events.
        pump: knows the error that the source or a stage raised.
        calls: each of them is observed.
    """

    def __init__(self, step: Step, decoder: ItemDecoder, pump: Pump, calls: Calls) -> None:
        self.end: StreamEnd | None = None
        """The `StreamEnd` that was emitted."""
        self.expired: DeadlineExceeded | None = None
        """The error of the deadline that has passed."""
        self._step = step
        self._decoder = decoder
        self._pump = pump
        self._calls = calls

    def stream_ended(self, event: Event) -> None:
        """Takes the stream's end, when it has been emitted."""
        assert isinstance(event, StreamEnd), "that is what it listens to"
        self.end = event

    def expire(self, error: DeadlineExceeded) -> None:
        """Stops reading, and stops the calls, since a deadline has passed."""
        if self.expired is None and not self._step.ended:
            self.expired = error
            self._calls.stop(f"{error.limit} was over")
            self._pump.fail(error)

    @property
    def failed(self) -> bool:
        """True if the stream failed, or a deadline has passed."""
        return self.failure is not None

    @property
    def failure(self) -> Exception | None:
        """The error to raise at ``async for``."""
        return self.expired or self._pump.raised or (self.end.error if self.end is not None else None)

    @property
    def outcome(self) -> StepOutcome:
        """The outcome of the step if nobody has left it."""
        end = self.end
        if end is not None and isinstance(end.error, TruncatedStream):
            return "truncated"
        if self.failed:
            return "error"
        return "complete" if end is not None and end.complete else "abandoned"

    def settle_surely(self, outcome: StepOutcome) -> None:
        """Calls `settle`, and again from where it was interrupted: one Ctrl-C after the other may come."""
        interrupted: BaseException | None = None
        for _ in range(_TRIES):
            try:
                self.settle(outcome)
                break
            except BaseException as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted

    def settle(self, outcome: StepOutcome) -> None:
        """Emits the events that are left, when no task runs any more. Idempotent."""
        self._step.resume()
        if self._step.ended:
            return
        try:
            self._calls.stop()
            self._finish()
        finally:
            try:
                self._calls.settle()
            finally:
                self._step.end(outcome)

    def _finish(self) -> None:
        """Emits the decoder's last events."""
        error = self._pump.stream_error()
        if self.end is None:
            try:
                self._step.emit_all(self._decoder.finish(error, abandoned=error is None))
                self._step.emit_all(refuse_deferred(self._decoder))
            except Exception as raised:  # a stage of the user's
                self._step.emit(StreamWarning("stage_failed", type(raised).__name__))
        if self.end is None:
            self._step.emit(StreamEnd(error=error))


class Deadlines:
    """The deadlines of one pipeline, which is ended when one of them passes.

    Args:
        limits: the times.
        pump: reads the source, and is asked to look whether that has been silent for too long.
        expired: is called when a time of the step or run is over.
        requested_at: when the request was made, on ``time.monotonic``; None: when `set` is called.
    """

    def __init__(
        self, limits: Limits, pump: Pump, expired: Callable[[DeadlineExceeded], None], requested_at: float | None
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
        for name, began, missed, kept in (
            ("first_chunk_timeout", self._requested_at or now, "the source brought nothing", self._source),
            ("step_timeout", now, "the step was not over", self._step),
            ("run_timeout", run_began_at, "the run was not over", self._step),
        ):
            if (seconds := getattr(limits, name)) is not None:
                passed = partial(self._passed, DeadlineExceeded(name, seconds, missed))
                kept.append(timers.at(anyio.current_time() + seconds - (now - began), passed))

    def source_is_over(self) -> None:
        """Stops the deadlines of the source, of which nothing more is expected."""
        while self._source:
            self._source.pop().stop()

    def stop(self) -> None:
        """Stops all deadlines."""
        self.source_is_over()
        while self._step:
            self._step.pop().stop()

    def _passed(self, error: DeadlineExceeded) -> None:
        if error.limit != "first_chunk_timeout" or not self._pump.came:
            self._expired(error)

    def _look(self) -> None:
        """Looks at the source, now and from time to time."""
        assert self._timers is not None, "set"
        now = anyio.current_time()
        self._pump.look(now)
        again = self._timers.at(now + self._pump.idle_timeout_s / _LOOKS, self._look)
        self._source = [timer for timer in self._source if timer.callback is not None]
        self._source.append(again)
