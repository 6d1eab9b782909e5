"""Draws OpenTelemetry spans from the events of a run.

    (the caller's current span)
    └ streamtools.step           INTERNAL   StepStart to StepEnd
      ├ chat {model}             CLIENT     StepStart to StreamEnd; links: observed -> execute_tool of the step before
      ├ streamtools.approval {name}         ApprovalRequested to ApprovalResolved, of a call that needs one
      ├ execute_tool {name}      INTERNAL   ToolStarted to Observation; link: proposed_by -> chat
      └ execute_tool {name}      INTERNAL   a call that never ran: ToolCallEnd to Observation, an error

Theory of operation. A tool is a sibling of the chat that proposed it, because it may outlive it; links tell
causes, and so do attributes (`names.Names`), since some trace stores drop links. A span's name and first
attributes are known before it is made (samplers see nothing else), so a chat span is made at the first chunk and a tool
span when its tool starts; both are given the time of the event where they begin. Every announced call of kind
``function`` or ``custom`` gets one span. A ``server`` call gets none: the provider runs it, nothing tells when it
started or how it ended, so a span would have to invent that; the chat span counts them.

A span's status:

* chat: ERROR for a stream that was truncated or failed. A stream that its consumer left (``abandoned``) or that was
  cancelled from outside is no error: status unset, with the usage that was seen until then.
* execute_tool: ERROR for every outcome but ``ok``; ``streamtools.failure_stage`` says how far the call came.
* step: ERROR if `StepEnd.outcome` is ``error`` or ``truncated``. A failed tool does not fail its step.

No span is ever current in the consumer's context; a tool's span is, around the tool's body alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode

from .._version import __version__
from ..errors import LocalProtocolError, StreamToolsError
from ..events import (
    ApprovalRequested,
    ApprovalResolved,
    CausedEvent,
    Event,
    Observation,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from ..parts import StepOutcome
from .attributes import FAILED, Attributes, AttributeWriter, stream_outcome
from .log import log_call
from .names import PROFILES, Names
from .open_spans import OpenStep, OpenToolSpan

__all__ = ["CAPTURE_CONTENT", "MAX_ATTRIBUTE_CHARS", "Tracing"]

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that switches content on: ``true``, ``SPAN_ONLY`` or ``SPAN_AND_EVENT``."""

MAX_ATTRIBUTE_CHARS = 1024  # characters of one attribute; content is for reading, not for archiving

_CAPTURING = frozenset({"true", "span_only", "span_and_event"})
_SPANS = ("step", "chat", "approval", "execute_tool")


class Tracing:
    """An observer that draws a run as OpenTelemetry spans. Give each run its own: it is cheap to make.

    ``pipeline(..., observers=[Tracing()])``. A run may have many steps, one after the other (`Trajectory`); two
    pipelines that run at the same time need two, because only the first event of a step names its run.

    Args:
        tracer_provider: the provider that takes the spans; by default the global provider, also if it is set later.
        capture_content: put arguments, results, the response's text and exceptions' messages into the spans. None asks
            the environment variable `CAPTURE_CONTENT`; without it no content is captured.
        names: a profile of `streamtools.telemetry.names` (``"semconv-1.41"``, ``"openinference"``), or your own.
        spans: the spans to draw, for example ``{"chat": False}`` where the client's own instrumentation draws them.
        max_attribute_chars: longer text is cut, and ends in ``…``.
        redact: sees every captured text first (JSON of arguments, results and messages; texts of exceptions) and
            returns the text to show. If it raises, this observer is dropped, and the text is not in the span.
        logger: gets one record for each observation, with the ids of its span (see `streamtools.telemetry.log`).

    Raises:
        ValueError: an unknown profile or span.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        capture_content: bool | None = None,
        names: Names | str = "semconv-1.41",
        spans: Mapping[str, bool] | None = None,
        max_attribute_chars: int = MAX_ATTRIBUTE_CHARS,
        redact: Callable[[str], str] | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        if capture_content is None:
            capture_content = os.environ.get(CAPTURE_CONTENT, "").strip().lower() in _CAPTURING
        if isinstance(names, str):
            if names not in PROFILES:
                raise ValueError(f"names={names!r}: must be a Names or one of {', '.join(PROFILES)}")
            names = PROFILES[names]
        unknown = set(spans or ()) - set(_SPANS)
        if unknown:
            raise ValueError(f"spans: unknown {sorted(unknown)}; there are {', '.join(_SPANS)}")
        self._wanted = dict.fromkeys(_SPANS, True) | dict(spans or {})
        self._names = names
        self._writer = AttributeWriter(names, capture_content, max_attribute_chars, redact)
        self._logger = logger
        self._tracer = _tracer_of(tracer_provider, names.schema_url)
        self._step: OpenStep | None = None
        self._observed: dict[int, SpanContext] = {}  # of the step before: seq of the observation -> its tool span

    @property
    def event_types(self) -> Collection[type[Event]]:
        """The events that begin or end something; text deltas only if content is captured."""
        return _WITH_TEXT if self._writer.capture_content else _COLD

    def on_event(self, event: Event) -> None:
        """Draws the event.

        Raises:
            LocalProtocolError: a second step begins before the first has ended.
        """
        handler = _HANDLERS.get(type(event))
        if handler is None:
            return
        step = self._step
        if type(event) is StepStart:
            if step is not None:
                raise LocalProtocolError("this Tracing is in the middle of a step; give every concurrent run its own")
            step = self._step = OpenStep(event)
        if step is None:
            return  # between steps there is nothing to draw
        try:
            handler(self, step, event)
        except BaseException:
            self._give_up(step)
            raise

    @contextmanager
    def around_tool(self, call_id: str) -> Iterator[None]:
        """Makes the call's span current, so that spans which the tool's body makes become its children.

        Enter and leave it in the tool's own task or thread, after `ToolStarted`.
        """
        span = self._span_of(call_id)
        token = None if span is None else otel_context.attach(trace.set_span_in_context(span))
        try:
            yield
        finally:
            if token is not None:
                otel_context.detach(token)

    def _span_of(self, call_id: str) -> Span | None:
        if self._step is None:
            return None
        known = self._step.calls.get(call_id)
        return known.span if known is not None and known.span is not None else self._step.span

    # -- the beginning --

    def _step_start(self, step: OpenStep, event: StepStart) -> None:
        if self._wanted["step"]:
            step.span = self._start(step, self._names.step_span, self._writer.step_start(event), event.time)
            step.context = trace.set_span_in_context(step.span, step.context)

    def _stream_start(self, step: OpenStep, event: StreamStart) -> None:
        step.stream = event
        self._chat(step)

    def _chat(self, step: OpenStep) -> Span | None:
        """Returns the chat span; made now if it is not there yet, without the model's name if nothing came."""
        if step.chat is None and self._wanted["chat"] and not step.start.resumed:
            start, stream = step.start, step.stream
            name = self._named(self._names.chat_span, stream.model if stream else None)
            links = [self._link("observed", self._observed[seq]) for seq in start.causes if seq in self._observed]
            found = self._writer.chat_start(start, stream)
            step.chat = step.open_chat = self._start(step, name, found, start.time, links, SpanKind.CLIENT)
        return step.chat

    def _text(self, step: OpenStep, event: TextDelta) -> None:
        if step.text_size < self._writer.max_chars:
            step.text.append(event.text)
            step.text_size += len(event.text)

    # -- calls --

    def _call_start(self, step: OpenStep, event: ToolCallStart) -> None:
        if event.kind == "server":
            step.server_calls += 1
        else:
            step.calls[event.call_id] = OpenToolSpan(event)

    def _call_known(self, step: OpenStep, event: ToolCallEnd | ToolCallValidated) -> None:
        known = step.calls.get(event.call_id)
        if known is not None:
            known.call, known.ready_at = event.call, event.time

    def _approval_requested(self, step: OpenStep, event: ApprovalRequested) -> None:
        known = step.calls.get(event.call_id)
        if known is None or not self._wanted["approval"]:
            return
        name = self._named(self._names.approval_span, event.tool_name)
        known.approval = self._start(step, name, self._writer.approval(step.start, known.start, event), event.time)

    def _approval_resolved(self, step: OpenStep, event: ApprovalResolved) -> None:
        known = step.calls.get(event.call_id)
        self._end_approval(step, known, "approved" if event.approved else "denied", event)

    def _end_approval(self, step: OpenStep, known: OpenToolSpan | None, verdict: str, last: CausedEvent) -> None:
        if known is not None and known.approval is not None:
            span, known.approval = known.approval, None
            span.set_attributes({self._names.approval_verdict: verdict, self._names.seq_last: last.seq})
            span.end(step.ns(last.time))

    def _tool_started(self, step: OpenStep, event: ToolStarted) -> None:
        known = step.calls.get(event.call_id)
        if known is None or known.started_at is not None:  # another attempt of the same call
            return
        known.started_at = event.time
        self._open_tool(step, known, event.time)

    def _observation(self, step: OpenStep, event: Observation) -> None:
        known = step.calls.get(event.call_id)
        self._end_approval(step, known, "none", event)
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
            if event.outcome != "ok":
                self._describe_failure(span, event.error, step.ns(event.time))
            if self._writer.capture_content:
                found |= self._writer.tool_content(known.call, event)
            span.set_attributes(found)
        span.end(step.ns(event.time))

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
        links = [] if chat is None else [self._link("proposed_by", chat.get_span_context())]
        name = self._named(self._names.tool_span, known.start.name)
        known.span = self._start(step, name, self._writer.tool_start(step.start, known.start), at, links)
        return known.span

    def _start(
        self,
        step: OpenStep,
        name: str,
        attributes: Attributes,
        at: float,
        links: Sequence[Link] = (),
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        return self._tracer.start_span(name, step.context, kind, attributes, links, start_time=step.ns(at))

    def _link(self, kind: str, context: SpanContext) -> Link:
        return Link(context, {self._names.link_type: kind})

    def _named(self, prefix: str, subject: str | None) -> str:
        return f"{prefix} {self._writer.text(subject)}" if subject else prefix

    def _describe_failure(self, span: Span, error: StreamToolsError | None, at_ns: int) -> None:
        # What an error says may quote the peer, the arguments or the tool, so it is content.
        if error is None or not self._writer.capture_content:
            span.set_status(Status(StatusCode.ERROR))
            return
        span.set_status(Status(StatusCode.ERROR, self._writer.words(error)))
        if error.__cause__ is not None:
            span.add_event("exception", self._writer.exception(error.__cause__), at_ns)

    # -- the end --

    def _stream_end(self, step: OpenStep, event: StreamEnd) -> None:
        step.end = event
        self._chat(step)
        outcome = stream_outcome(event)
        if outcome != "truncated":  # else the step's end tells whether it was the consumer who left
            self._end_chat(step, outcome, event)

    def _end_chat(self, step: OpenStep, outcome: StepOutcome, last: StreamEnd | StepEnd) -> None:
        span, step.open_chat = step.open_chat, None
        if span is None:
            return
        if span.is_recording():
            found = self._writer.chat_end(outcome, last)
            if step.server_calls:
                found[self._names.stream_server_calls] = step.server_calls
            if self._writer.capture_content:
                calls = [known.call for known in step.calls.values() if known.call is not None]
                found |= self._writer.chat_content("".join(step.text), calls, step.end)
            if outcome in FAILED:
                self._describe_failure(span, step.error, step.ns(last.time))
            span.set_attributes(found)
        span.end(step.ns(last.time))

    def _step_end(self, step: OpenStep, event: StepEnd) -> None:
        for known in step.calls.values():
            self._end_lost(step, known, event)
        self._chat(step)
        if step.end is None:
            self._end_chat(step, event.outcome, event)
        else:
            left = event.outcome in ("abandoned", "cancelled")
            self._end_chat(step, event.outcome if left else stream_outcome(step.end), step.end)
        if (span := step.span) is not None:
            if span.is_recording():
                if event.outcome in FAILED:
                    self._describe_failure(span, step.error, step.ns(event.time))
                span.set_attributes(self._writer.step_end(event, step.error))
            span.end(step.ns(event.time))
        self._observed, self._step = step.observed, None

    def _end_lost(self, step: OpenStep, known: OpenToolSpan, event: StepEnd) -> None:
        self._end_approval(step, known, "none", event)
        # Every call has its observation by now. Should one have none, its span ends all the same.
        span = self._ending(step, known)
        if span is not None:
            span.set_status(Status(StatusCode.ERROR))
            span.set_attributes(self._writer.tool_lost(event))
            span.end(step.ns(event.time))

    def _give_up(self, step: OpenStep) -> None:
        """Ends all open spans, since this observer is broken and will be dropped."""
        self._step = None
        open_tools = [known.span for known in step.calls.values() if not known.ended]
        open_approvals = [known.approval for known in step.calls.values()]
        for span in (*open_tools, *open_approvals, step.open_chat, step.span):
            if span is not None:
                span.end()


_HANDLERS: dict[type[Event], Callable[[Tracing, OpenStep, Any], None]] = {
    StepStart: Tracing._step_start,
    StreamStart: Tracing._stream_start,
    ApprovalRequested: Tracing._approval_requested,
    ApprovalResolved: Tracing._approval_resolved,
    TextDelta: Tracing._text,
    ToolCallStart: Tracing._call_start,
    ToolCallEnd: Tracing._call_known,
    ToolCallValidated: Tracing._call_known,
    ToolStarted: Tracing._tool_started,
    Observation: Tracing._observation,
    StreamEnd: Tracing._stream_end,
    StepEnd: Tracing._step_end,
}

_WITH_TEXT = frozenset(_HANDLERS)
_COLD = _WITH_TEXT - {TextDelta}

_tracers: WeakKeyDictionary[trace.TracerProvider, dict[str | None, trace.Tracer]] = WeakKeyDictionary()


def _tracer_of(provider: trace.TracerProvider | None, schema_url: str | None) -> trace.Tracer:
    """Returns the tracer of a provider, or of the global one, kept since making one costs a fifth of a step's spans."""
    if provider is None:  # the global one, which may still be set: its stand-in must not be kept
        return trace.get_tracer("streamtools", __version__, None, schema_url)
    known = _tracers.setdefault(provider, {})
    if schema_url not in known:
        known[schema_url] = trace.get_tracer("streamtools", __version__, provider, schema_url)
    return known[schema_url]
