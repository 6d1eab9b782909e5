"""Draws the calls of a step: their approvals, their waits, their tools, their ends."""

from __future__ import annotations

import logging
from collections.abc import Callable

from opentelemetry.trace import Span, Status, StatusCode

from ..events import (
    ApprovalRequested,
    ApprovalResolved,
    CausedEvent,
    Observation,
    StepEnd,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from ..parts import WAITS
from .failures import call_words, error_of, is_pending
from .log import log_call
from .open_spans import OpenStep, OpenToolSpan
from .pen import Pen

__all__ = ["SHORTEST_WAIT_S", "CallSpans"]

SHORTEST_WAIT_S = 0.001
"""Waits below this are in no span: most are the way of an event."""


class CallSpans:
    """Draws calls; `chat` returns the span of the response that they came with."""

    def __init__(self, pen: Pen, chat: Callable[[OpenStep], Span | None], logger: logging.Logger | None) -> None:
        self._pen = pen
        self._names, self._writer, self._wanted = pen.names, pen.writer, pen.wanted
        self._chat = chat
        self._logger = logger

    def call_start(self, step: OpenStep, event: ToolCallStart) -> None:
        """Takes the announcement of a call."""
        if event.kind == "server":
            step.server_calls += 1
        else:
            step.calls[event.call_id] = OpenToolSpan(event)

    def call_known(self, step: OpenStep, event: ToolCallEnd | ToolCallValidated) -> None:
        """Takes a call whose text is whole, or valid."""
        known = step.calls.get(event.call_id)
        if known is not None:
            known.call, known.ready_at = event.call, event.time

    def approval_requested(self, step: OpenStep, event: ApprovalRequested) -> None:
        """Begins the wait for an approval."""
        known = step.calls.get(event.call_id)
        if known is None or not self._wanted["approval"]:
            return
        name = self._pen.named(self._names.approval_span, event.tool_name)
        known.approval = self._pen.start(step, name, self._writer.approval(step.start, known.start, event), event.time)

    def approval_resolved(self, step: OpenStep, event: ApprovalResolved) -> None:
        """Ends the wait for an approval."""
        known = step.calls.get(event.call_id)
        self._end_approval(step, known, "approved" if event.approved else "denied", event)

    def _end_approval(self, step: OpenStep, known: OpenToolSpan | None, verdict: str, last: CausedEvent) -> None:
        if known is not None and known.approval is not None:
            span, known.approval = known.approval, None
            span.set_attributes({self._names.approval_verdict: verdict, self._names.seq_last: last.seq})
            span.end(step.ns(last.time))

    def tool_started(self, step: OpenStep, event: ToolStarted) -> None:
        """Begins the span of a tool that runs now."""
        known = step.calls.get(event.call_id)
        if known is None or known.started_at is not None:  # another attempt of the same call
            return
        known.started_at = event.time
        self._open_tool(step, known, event.time)

    def observation(self, step: OpenStep, event: Observation) -> None:
        """Ends a call's span; one that never ran is drawn from its end."""
        known = step.calls.get(event.call_id)
        self._end_approval(step, known, "none", event)
        self._draw_waits(step, known, event)
        span = self._ending(step, known)
        if known is None or span is None:
            return
        step.observed[event.seq] = span.get_span_context()
        if self._logger is not None:
            log_call(self._logger, event, step.start.run_id, span)
        if span.is_recording():
            started, ready = known.started_at, known.ready_at
            found = self._writer.tool_end(known.call, event, started=started is not None)
            if started is not None and ready is not None:
                found[self._names.tool_queue_time] = started - ready
            for failed in event.failed_attempts:
                span.add_event(self._names.attempt_event, self._writer.attempt(failed), step.ns(failed.ended))
            if event.outcome != "ok" and not is_pending(event):
                said, error = call_words(event, step.end), error_of(event)
                self._pen.describe_failure(span, said, event.error, error, step.ns(event.time))
            if self._writer.capture_content:
                found |= self._writer.tool_content(known.call, event)
            span.set_attributes(found)
        span.end(step.ns(event.time))

    def _draw_waits(self, step: OpenStep, known: OpenToolSpan | None, event: Observation) -> None:
        """Draws the times in which a call could not start; approvals have been drawn."""
        if known is None or known.ended or not self._wanted["wait"]:
            return
        for wait in event.waits:
            if not WAITS[wait.reason].has_own_span and wait.seconds >= SHORTEST_WAIT_S:
                name = self._pen.named(self._names.wait_span, known.start.name)
                span = self._pen.start(step, name, self._writer.wait(step.start, known.start, wait.reason), wait.began)
                span.end(step.ns(wait.ended))

    def _ending(self, step: OpenStep, known: OpenToolSpan | None) -> Span | None:
        """Returns the call's span, to be ended now and never again; opened here if its tool never ran."""
        if known is None or known.ended:
            return None
        known.ended = True
        return known.span or self._open_tool(step, known, known.ready_at or known.start.time)

    def _open_tool(self, step: OpenStep, known: OpenToolSpan, at: float) -> Span | None:
        if not self._wanted["execute_tool"]:
            return None
        chat = self._chat(step)
        links = [] if chat is None else [self._pen.link("proposed_by", chat.get_span_context())]
        name = self._pen.named(self._names.tool_span, known.start.name)
        known.span = self._pen.start(step, name, self._writer.tool_start(step.start, known.start), at, links)
        return known.span

    def end_lost(self, step: OpenStep, known: OpenToolSpan, event: StepEnd) -> None:
        """Ends what is left of a call when its step ends."""
        self._end_approval(step, known, "none", event)
        # Every call has its observation by now. Should one have none, its span ends all the same.
        span = self._ending(step, known)
        if span is not None:
            span.set_status(Status(StatusCode.ERROR))
            span.set_attributes(self._writer.tool_lost(event))
            span.end(step.ns(event.time))
