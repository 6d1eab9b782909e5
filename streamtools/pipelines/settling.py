"""Ends a step: its deadlines, its outcome, its error and its last events, even if one Ctrl-C after the other comes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import anyio

from ..dispatch import Calls
from ..dispatch.timers import OwnTimers, Timer
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


@dataclass(slots=True, eq=False)
class Settling:
    """The end of one step."""

    step: Step
    decoder: ItemDecoder
    pump: Pump
    calls: Calls
    end: StreamEnd | None = None
    """The `StreamEnd` that was emitted."""
    expired: DeadlineExceeded | None = None
    """The error of the deadline that has passed."""

    def stream_ended(self, event: Event) -> None:
        """Takes the stream's end, when it has been emitted."""
        assert isinstance(event, StreamEnd), "that is what it listens to"
        self.end = event

    def expire(self, error: DeadlineExceeded) -> None:
        """Stops reading, and stops the calls, since a deadline has passed."""
        if self.expired is None and not self.step.ended:
            self.expired = error
            self.calls.stop(f"{error.limit} was over")
            self.pump.fail(error)

    @property
    def failed(self) -> bool:
        """True if the stream failed, or a deadline has passed."""
        return self.failure is not None

    @property
    def failure(self) -> Exception | None:
        """The error to raise at ``async for``."""
        return self.expired or self.pump.raised or (self.end.error if self.end is not None else None)

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
        self.step.resume()
        if self.step.ended:
            return
        try:
            self.calls.stop()
            self._finish()
        finally:
            try:
                self.calls.settle()
            finally:
                self.step.end(outcome)
                self._log_uncounted()

    def _log_uncounted(self) -> None:
        end, wire = self.end, self.decoder.record
        if end is not None and end.complete and end.usage is None and wire is not None and wire.usage.request:
            from ..dispatch.developer_log import log_uncounted

            log_uncounted(wire, self.step.turn(wire))

    def _finish(self) -> None:
        """Emits the decoder's last events."""
        error = self.pump.stream_error()
        if self.end is None:
            try:
                self.step.emit_all(self.decoder.finish(error, abandoned=error is None))
                self.step.emit_all(refuse_deferred(self.decoder))
            except Exception as raised:  # a stage of the user's
                self.step.emit(StreamWarning("stage_failed", type(raised).__name__))
        if self.end is None:
            self.step.emit(StreamEnd(error=error))


@dataclass(slots=True, eq=False)
class Deadlines:
    """The deadlines of one pipeline, which is ended when one of them passes."""

    limits: Limits
    pump: Pump
    """Is asked to look whether its source has been silent for too long."""
    expired: Callable[[DeadlineExceeded], None]
    """Is called when a time of the step or run is over."""
    requested_at: float | None
    """When the request was made, on ``time.monotonic``; None: when `set` is called."""
    timers: OwnTimers | None = None
    of_step: list[Timer] = field(default_factory=list)
    of_source: list[Timer] = field(default_factory=list)

    def set(self, timers: OwnTimers, run_began_at: float) -> None:
        """Starts the deadlines now, that of the run from its beginning, on ``time.monotonic``."""
        limits, now = self.limits, time.monotonic()
        self.timers = timers
        if self.pump.idle_timeout_s < math.inf:
            self._look()
        for name, began, missed, kept in (
            ("first_chunk_timeout", self.requested_at or now, "the source brought nothing", self.of_source),
            ("step_timeout", now, "the step was not over", self.of_step),
            ("run_timeout", run_began_at, "the run was not over", self.of_step),
        ):
            if (seconds := getattr(limits, name)) is not None:
                passed = partial(self._passed, DeadlineExceeded(name, seconds, missed))
                kept.append(timers.at(anyio.current_time() + seconds - (now - began), passed))

    def source_is_over(self) -> None:
        """Stops the deadlines of the source, of which nothing more is expected."""
        while self.of_source:
            self.of_source.pop().stop()

    def stop(self) -> None:
        """Stops all deadlines."""
        self.source_is_over()
        while self.of_step:
            self.of_step.pop().stop()

    def _passed(self, error: DeadlineExceeded) -> None:
        if error.limit != "first_chunk_timeout" or not self.pump.came:
            self.expired(error)

    def _look(self) -> None:
        """Looks at the source, now and from time to time."""
        assert self.timers is not None, "set"
        now = anyio.current_time()
        self.pump.look(now)
        again = self.timers.at(now + self.pump.idle_timeout_s / _LOOKS, self._look)
        self.of_source = [timer for timer in self.of_source if timer.callback is not None]
        self.of_source.append(again)
