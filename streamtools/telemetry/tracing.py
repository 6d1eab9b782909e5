"""Draws OpenTelemetry spans from the events of a run.

    (the caller's current span)
    └ invoke_agent {name}          INTERNAL   a run of `agent_loop`, or of a `Trajectory` that was entered
      └ streamtools.step           INTERNAL   the request to StepEnd; link: follows -> the step before, without a run
        ├ chat {model}             CLIENT     the request to StreamEnd; links: observed -> tools of the step before
        ├ streamtools.approval {name}         ApprovalRequested to ApprovalResolved, of a call that needs one
        ├ streamtools.wait {name}             a time in which a call could not start, and for what
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
* execute_tool: ERROR for every outcome but ``ok``; ``streamtools.failure_stage`` says how far the call came. A call
  that only waits for an approval has no status.
* invoke_agent: ERROR if the run's outcome is ``error``, or an exception left its block.
* step: ERROR if `StepEnd.outcome` is ``error`` or ``truncated``. A failed tool does not fail its step.

Its text is in words of ours, and an ``exception`` event has the type of the exception, if there is one; their own words
are content.

No span is ever current in the consumer's context; a tool's span is, around the tool's body alone.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind

from ..display import class_name
from ..errors import LocalProtocolError, StreamToolsError
from ..events import (
    ApprovalRequested,
    ApprovalResolved,
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
from ..observers import RunFacts
from ..parts import RUN_OUTCOMES, STEP_OUTCOMES, Part, StepOutcome
from .attributes import AttributeWriter, stream_outcome
from .call_spans import CallSpans
from .carrier import carrier_of, span_context_of
from .failures import stream_words
from .names import PROFILES, Names
from .open_spans import OpenRun, OpenStep
from .pen import Pen
from .prices import Prices, checked_prices
from .requests import request_model
from .tracers import tracer_of

__all__ = ["CAPTURE_CONTENT", "MAX_ATTRIBUTE_CHARS", "Tracing"]

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that switches content on: ``true``, ``SPAN_ONLY`` or ``SPAN_AND_EVENT``."""

MAX_ATTRIBUTE_CHARS = 16_384  # characters of one attribute; content is for reading, not for archiving

_CAPTURING = frozenset({"true", "span_only", "span_and_event"})
_FAILED_RUNS = frozenset(outcome for outcome, facts in RUN_OUTCOMES.items() if facts.is_error)
_SPANS = ("run", "step", "chat", "approval", "wait", "execute_tool")


class Tracing:
    """An observer that draws a run as OpenTelemetry spans. Give each run its own: it is cheap to make.

    ``pipeline(..., observers=[Tracing()])``. A run may have many steps, one after the other (`Trajectory`); two
    pipelines that run at the same time need two, because only the first event of a step names its run.

    Args:
        tracer_provider: the provider that takes the spans; by default the global provider, also if it is set later.
        capture_content: put arguments, results, the response's text and exceptions' messages into the spans. None asks
            the environment variable `CAPTURE_CONTENT`; without it no content is captured.
        names: a profile of `streamtools.telemetry.names` (``"semconv-1.41"``, ``"genai-0.1"``), or your own.
        spans: the spans to draw, for example ``{"chat": False}`` where the client's own instrumentation draws them.
        max_attribute_chars: longer text is cut, and ends in ``…``; JSON is cut inside, and stays JSON.
        redact: sees every captured text first (JSON of arguments, results and messages; texts of exceptions) and
            returns the text to show. If it raises, this observer is dropped, and the text is not in the span.
        prices: the prices of models (see `streamtools.telemetry.prices`): each chat then has its cost, and a run the
            sum. Without them cost is told in tokens alone.
        logger: gets one record for each observation, with the ids of its span (see `streamtools.telemetry.log`).

    Raises:
        ValueError: an unknown profile or span, or a price for something that is not counted.
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
        prices: Prices | None = None,
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
        self._writer = AttributeWriter(names, capture_content, max_attribute_chars, redact, checked_prices(prices))
        self._pen = Pen(
            tracer=tracer_of(tracer_provider, names.schema_url), names=names, writer=self._writer, wanted=self._wanted
        )
        self._calls = CallSpans(self._pen, self._chat, logger)
        self._run: OpenRun | None = None
        self._step: OpenStep | None = None
        self._before: OpenStep | None = None  # the step before
        self._parts: Callable[[], tuple[Part, ...]] | None = None

    @property
    def event_types(self) -> Collection[type[Event]]:
        """The events that begin or end something; text deltas only if content is captured, and there is no other way to
        it."""
        return _WITH_TEXT if self._writer.capture_content and self._parts is None else _COLD

    def see_parts(self, parts: Callable[[], tuple[Part, ...]]) -> None:
        """Takes the way to the response as a whole."""
        self._parts = parts

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
            step.run = self._run
        if step is None:
            return  # between steps there is nothing to draw
        try:
            handler(self, step, event)
        except BaseException:
            self._give_up(step)
            raise

    def begin_run(self, run: RunFacts) -> None:
        """Draws the span of a run, which its steps are below."""
        self._run = OpenRun(conversation_id=run.conversation_id)
        if self._wanted["run"]:
            name, now = self._pen.named(self._names.run_span, run.name), time.monotonic()
            self._run.start(self._pen.tracer, name, self._writer.run_start(run), now)

    def end_run(self, outcome: str | None, error: BaseException | None) -> None:
        """Ends the span of the run, with the totals of its steps."""
        run, self._run = self._run, None
        if run is None or run.span is None:
            return
        failed = isinstance(error, Exception) or outcome in _FAILED_RUNS
        if failed:
            said = "the run failed" if error is None else f"the run failed: {class_name(error)}"
            known = error if isinstance(error, StreamToolsError) else None
            self._pen.describe_failure(run.span, said, known, error, run.ns(time.monotonic()))
        run.span.set_attributes(self._writer.run_end(run, outcome, error if failed else None))
        run.span.end(run.ns(time.monotonic()))

    def traceparent(self) -> str | None:
        """Returns the span of the step that goes on, or was the last, as W3C Trace Context has it."""
        step = self._step or self._before
        span = None if step is None else step.span
        return None if span is None else carrier_of(span).get("traceparent")

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
        if step.run is not None and step.run.span is not None:
            step.context = trace.set_span_in_context(step.run.span, step.context)
        if self._wanted["step"]:
            found, links = self._writer.step_start(event), self._links_of(step)
            step.span = self._pen.start(step, self._names.step_span, found, step.began, links)
            step.context = trace.set_span_in_context(step.span, step.context)

    def _links_of(self, step: OpenStep) -> list[Link]:
        """Returns a step's links: to the one that suspended its calls, and, without a run span, to the one before."""
        links: list[Link] = []
        if (asked := span_context_of(step.start.resumes)) is not None:
            links.append(self._pen.link("resumes", asked))
        before = None if self._before is None else self._before.span
        if before is not None and step.run is None:
            links.append(self._pen.link("follows", before.get_span_context()))
        return links

    def _stream_start(self, step: OpenStep, event: StreamStart) -> None:
        step.stream = event
        self._chat(step)

    def _chat(self, step: OpenStep) -> Span | None:
        """Returns the chat span; made now if it is not there yet, without the model's name if nothing came."""
        if step.chat is None and self._wanted["chat"] and step.start.asks_model:
            start, stream = step.start, step.stream
            asked = None if start.request is None else request_model(start.request)
            name = self._pen.named(self._names.chat_span, asked or (stream.model if stream else None))
            observed = {} if self._before is None else self._before.observed
            links = [self._pen.link("observed", observed[seq]) for seq in start.causes if seq in observed]
            found = self._writer.chat_start(start, stream, None if step.run is None else step.run.conversation_id)
            step.chat = step.open_chat = self._pen.start(step, name, found, step.began, links, SpanKind.CLIENT)
        return step.chat

    def _text(self, step: OpenStep, event: TextDelta) -> None:
        if step.text_size < self._writer.max_chars:
            step.text.append(event.text)
            step.text_size += len(event.text)

    def _describe_stream(self, span: Span, step: OpenStep, at: float) -> None:
        error = step.error
        raised = error if error is None or error.__cause__ is None else error.__cause__
        self._pen.describe_failure(span, stream_words(error), error, raised, step.ns(at))

    # -- the end --

    def _stream_end(self, step: OpenStep, event: StreamEnd) -> None:
        step.end = event
        step.cost = self._writer.cost(step, event.usage)
        if step.run is not None:
            step.run.add(event.usage, step.cost)
        self._chat(step)
        outcome = stream_outcome(event)
        if outcome != "truncated":  # else the step's end tells whether it was the consumer who left
            self._end_chat(step, outcome, event)

    def _end_chat(self, step: OpenStep, outcome: StepOutcome, last: StreamEnd | StepEnd) -> None:
        span, step.open_chat = step.open_chat, None
        if span is None:
            return
        if span.is_recording():
            found = self._writer.chat_end(outcome, last, step.cost)
            if step.server_calls:
                found[self._names.stream_server_calls] = step.server_calls
            if self._writer.capture_content:
                calls = [known.call for known in step.calls.values() if known.call is not None]
                found |= self._writer.chat_content(self._said(step), calls, step.end)
                if step.start.request is not None:
                    found |= self._writer.request_content(step.start.request)
            if STEP_OUTCOMES[outcome].is_error:
                self._describe_stream(span, step, last.time)
            span.set_attributes(found)
        span.end(step.ns(last.time))

    def _said(self, step: OpenStep) -> Iterable[Part]:
        if self._parts is not None:
            return self._parts()
        calls = (Part(kind="call", call_id=call_id) for call_id in step.calls)
        return [Part(kind="text", text="".join(step.text)), *calls]

    def _step_end(self, step: OpenStep, event: StepEnd) -> None:
        for known in step.calls.values():
            self._calls.end_lost(step, known, event)
        self._chat(step)
        if step.end is None:
            self._end_chat(step, event.outcome, event)
        else:
            left = event.outcome in ("abandoned", "cancelled")
            self._end_chat(step, event.outcome if left else stream_outcome(step.end), step.end)
        if (span := step.span) is not None:
            if span.is_recording():
                if STEP_OUTCOMES[event.outcome].is_error:
                    self._describe_stream(span, step, event.time)
                span.set_attributes(self._writer.step_end(event, step.error))
            span.end(step.ns(event.time))
        self._before, self._step = step, None
        step.forget()

    def _give_up(self, step: OpenStep) -> None:
        """Ends all open spans, since this observer is broken and will be dropped."""
        self._step = None
        open_tools = [known.span for known in step.calls.values() if not known.ended]
        open_approvals = [known.approval for known in step.calls.values()]
        for span in (*open_tools, *open_approvals, step.open_chat, step.span):
            if span is not None:
                span.end()


def _of_calls(draw: Callable[[CallSpans, OpenStep, Any], None]) -> Callable[[Tracing, OpenStep, Any], None]:
    return lambda tracing, step, event: draw(tracing._calls, step, event)


_HANDLERS: dict[type[Event], Callable[[Tracing, OpenStep, Any], None]] = {
    StepStart: Tracing._step_start,
    StreamStart: Tracing._stream_start,
    ApprovalRequested: _of_calls(CallSpans.approval_requested),
    ApprovalResolved: _of_calls(CallSpans.approval_resolved),
    TextDelta: Tracing._text,
    ToolCallStart: _of_calls(CallSpans.call_start),
    ToolCallEnd: _of_calls(CallSpans.call_known),
    ToolCallValidated: _of_calls(CallSpans.call_known),
    ToolStarted: _of_calls(CallSpans.tool_started),
    Observation: _of_calls(CallSpans.observation),
    StreamEnd: Tracing._stream_end,
    StepEnd: Tracing._step_end,
}

_WITH_TEXT = frozenset(_HANDLERS)
_COLD = _WITH_TEXT - {TextDelta}
