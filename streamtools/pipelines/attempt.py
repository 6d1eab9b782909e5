"""One attempt at a step's answer: a source, its decoder, the pump between them, and the resulting calls.

Nearly every step has one attempt. Its end is settled here, even when it is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ..dispatch import CallPool, Calls, DispatchOptions
from ..dispatch.event_loop import refuse_deferred
from ..dispatch.log import log_uncounted
from ..dispatch.states import Call
from ..errors import DeadlineExceeded, TruncatedStream
from ..events import Event, StreamEnd, StreamWarning, ToolCallDelta
from ..ground.text import type_name
from ..limits import Limits
from ..observers import StreamFacts
from ..parts import StepOutcome
from ..sources import Source
from ..tools import Tool, Toolset
from .pump import ItemDecoder, Pump, Transform
from .step import Step

_MOST_INTERRUPTS = 16  # while it settles, which gets further each time; no user presses Ctrl-C more often


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    tools: Toolset
    limits: Limits
    transforms: tuple[Transform, ...] = ()
    pool: CallPool | None = None
    drains: bool = False  # lets calls that run finish when the stream fails


class Reading(NamedTuple):
    source: Source
    decoder: ItemDecoder
    options: DispatchOptions
    facts: StreamFacts | None = None  # for observers that see the body itself; None if no model is asked
    begin: Callable[[Callable[[Event], None]], list[Event]] | None = None
    """Returns the events that precede the stream's; takes a function that adds an event only to the turn."""


@dataclass(slots=True, eq=False)
class Attempt:
    step: Step
    decoder: ItemDecoder
    pump: Pump
    calls: Calls
    end: StreamEnd | None = None  # as it was emitted; `pump.end` is the decoder's
    growths: Any = None  # of calls that read what still comes
    expired: DeadlineExceeded | None = None  # a timeout of the step or run has passed

    def listen(self) -> None:
        """Subscribes to the step's events. Call it before the pump runs."""
        self.step.listen({StreamEnd: self._stream_ended})
        self.step.listen(self.calls.listeners())
        self.calls.foresee, self.calls.grow = self._foresee, self._grow

    def _foresee(self) -> None:
        wire = self.decoder.record
        if wire is not None and not wire.ends_calls and not self.pump.is_transformed:
            from ..dispatch.trials import Trials  # on most wires calls have ends of their own

            self.pump.trials = self.calls.tried(partial(Trials, self.decoder.chain, self.pump.pause))

    def _grow(self, call: Call, tool: Tool[..., Any]) -> None:
        if self.growths is None and not self.pump.is_transformed and self.decoder.chain.is_plain:
            self.growths = self.calls.tried(tool.growing.growths)
            if self.growths is not None:
                self.step.listen({ToolCallDelta: self.growths.take})
                self.step.reroute()
        if self.growths is not None:
            self.growths.add(call, tool)

    def _stream_ended(self, event: StreamEnd) -> None:
        self.end = event
        if self.decoder.record is not None:
            self.warn_of_counts(event)

    def warn_of_counts(self, end: StreamEnd) -> None:
        """Warns if there is a token budget but the response reports no token counts."""
        if self.calls.lacks_counts(end):
            text = "the response reports no token counts, so token_budget counts none for it"
            self.step.emit(StreamWarning("tokens_uncounted", text))

    def expire(self, error: DeadlineExceeded) -> None:
        if self.pump.tries is not None and error.limit == "first_chunk_timeout":
            self.pump.fail(error)  # the model may be asked again
        elif self.expired is None and not self.step.ended:
            self.expired = error
            # A call that waits for an approval stays suspended, as when the block is left.
            if self.calls.undecided:
                self.calls.stop()
            else:
                self.calls.stop(f"{error.limit} expired")
            self.pump.fail(error)

    @property
    def failure(self) -> Exception | None:
        return self.expired or self.pump.raised or (self.end.error if self.end is not None else None)

    @property
    def outcome(self) -> StepOutcome:
        end = self.end
        if end is not None and isinstance(end.error, TruncatedStream):
            return "truncated"
        if self.failure is not None:
            return "error"
        return "complete" if end is not None and end.complete else "abandoned"

    def settle_surely(self, outcome: StepOutcome) -> None:
        """Calls `settle`, and again after each interrupt, continuing where it was: Ctrl-C may come several times."""
        interrupted: BaseException | None = None
        for _ in range(_MOST_INTERRUPTS):
            try:
                self.settle(outcome)
                break
            except BaseException as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted

    def settle(self, outcome: StepOutcome) -> None:
        """Emits the remaining events when no task runs any longer. Idempotent. A step whose calls wait for people is
        ``suspended``, unless it was cancelled."""
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
                self.step.resume()  # what was interrupted here comes before the end, not after it
                waits = outcome in ("complete", "abandoned") and self.calls.undecided
                self.step.end("suspended" if waits else outcome)
                end, wire = self.end, self.decoder.record
                if end is not None and end.complete and end.usage is None and wire is not None:
                    log_uncounted(wire, self.step.model)

    def _finish(self) -> None:
        if self.end is not None:
            return
        error = self.pump.stream_error()
        try:
            self.step.emit_all(self.decoder.finish(error, abandoned=error is None))
            self.step.emit_all(refuse_deferred(self.decoder))
        except Exception as raised:  # a user's stage
            self.step.emit(StreamWarning("stage_failed", type_name(raised)))
        if self.end is None:
            self.step.emit(StreamEnd(error=error))
