"""Draws OpenTelemetry spans from the events of a run.

    (the caller's current span)
    └ invoke_agent {name}          INTERNAL   a run of `agent_loop`, or of a `Trajectory` that was entered
      ├ streamtools.begin.run {name}          of no length: the run has begun
      └ streamtools.step           INTERNAL   the request to StepEnd; link: follows -> the step before, without a run
        ├ chat {model}             CLIENT     the request to StreamEnd; links: observed -> tools of the step before
        ├ streamtools.approval {name}         ApprovalRequested to ApprovalResolved, of a call that needs one
        ├ streamtools.wait {name}             a time in which a call could not start, and for what
        ├ streamtools.pause                   the time from an attempt that broke off to the next request
        ├ streamtools.early {name}            a call under a tap: from its early run's begin until it is claimed
        ├ streamtools.begin.call {name}       of no length: a call begins that must not run twice, or was approved
        ├ execute_tool {name}      INTERNAL   ToolStarted, for the call's `duration`; link: proposed_by -> chat
        └ streamtools.call {name}  INTERNAL   of no length, at the Observation of a call that did not run; the same link

Values of arguments, results and texts are in a span only if content is captured; all else is names, codes, counts and
times, bounded and valid as UTF-8. No span is ever current in the consumer's context. A span is exported when it ends;
those of a begin end at once, before the tool's code runs, so that a process that is killed leaves the run's name and
the calls whose end is not known.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import Token
from dataclasses import dataclass, field
from traceback import TracebackException
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer

from .. import events as of
from ..errors import LocalProtocolError, ProviderError, RequestError, StreamError, StreamToolsError, ToolFailed
from ..events import Event
from ..ground import class_name, type_name
from ..observers import EarlyEnd, PrivacyFacts, RunFacts
from ..parts import OUTCOMES, RUN_OUTCOMES, STEP_OUTCOMES, WAITS, FailedAttempt, Part, StepOutcome, ToolCall, Usage
from .carrier import carrier_of, span_context_of, tracer_of
from .names import (
    SCHEMA_URL,
    Names,
    Prices,
    call_words,
    checked_prices,
    cost_of,
    error_of,
    fitted,
    fitted_json,
    input_messages,
    instructions,
    is_pending,
    not_run_words,
    parameters,
    provider_of,
    request_model,
    stream_words,
)

if TYPE_CHECKING:
    from .lean_spans import LeanTracer

# -- the observer --

SHORTEST_WAIT_S = 0.001  # waits below this are in no span: most are the way of an event

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that switches content on: ``true``, ``SPAN_ONLY`` or ``SPAN_AND_EVENT``."""

MAX_ATTRIBUTE_CHARS = 16_384  # characters of one attribute; content is for reading, not for archiving

_CAPTURING = frozenset({"true", "span_only", "span_and_event"})
_FAILED_RUNS = frozenset(outcome for outcome, facts in RUN_OUTCOMES.items() if facts.is_error)
_SPANS = ("run", "step", "chat", "approval", "wait", "execute_tool", "call", "early", "begin")


class Tracing:
    """An observer that draws a run as OpenTelemetry spans. Make one for each run, which is cheap.

    ``pipeline(..., observers=[Tracing()])``. A run may have many steps, one after the other (`Trajectory`); two
    pipelines that run at the same time need two, because only the first event of a step names its run.

    The spans contain arguments, results, texts and exception messages if the run's policy has ``content_in_spans``, or
    leaves that open and the environment variable `CAPTURE_CONTENT` switches it on. They are redacted as in all copies.

    Args:
        tracer_provider: the provider for the spans; by default the global provider, even if it is set later.
        spans: the spans to draw, for example ``{"chat": False}`` where the client's own instrumentation draws them.
        max_attribute_chars: longer text is cut, and ends in ``…``; JSON is cut inside, and stays JSON.
        prices: the prices of models (see `streamtools.telemetry.names`): each chat then has its cost, and a run the
            sum. By default only tokens are counted.

    Raises:
        ValueError: a span is unknown, or a price is for no token count.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        spans: Mapping[str, bool] | None = None,
        max_attribute_chars: int = MAX_ATTRIBUTE_CHARS,
        prices: Prices | None = None,
    ) -> None:
        capture_content = os.environ.get(CAPTURE_CONTENT, "").strip().lower() in _CAPTURING
        unknown = set(spans or ()) - set(_SPANS)
        if unknown:
            raise ValueError(f"spans: unknown {sorted(unknown)}; known: {', '.join(_SPANS)}")
        self._wanted = dict.fromkeys(_SPANS, True) | dict(spans or {})
        self._writer = AttributeWriter(capture_content, max_attribute_chars, None, checked_prices(prices))
        tracer = tracer_of(tracer_provider, SCHEMA_URL)
        self._builder = SpanBuilder(tracer=tracer, writer=self._writer, wanted=self._wanted)
        self._calls = CallSpans(self._builder, self._chat)
        self._run: OpenRun | None = None
        self._step: OpenStep | None = None
        self._before: OpenStep | None = None  # the step before
        self._parts: Callable[[], tuple[Part, ...]] | None = None
        self._made_with = tracer_provider, spans, max_attribute_chars, prices

    def beside(self) -> Tracing:
        """Returns one like it, for a job that goes on beside the run."""
        provider, spans, most, prices = self._made_with
        return Tracing(provider, spans=spans, max_attribute_chars=most, prices=prices)

    @property
    def event_types(self) -> Collection[type[Event]]:
        """The events that begin or end a span; text deltas only if content is captured and cannot be read otherwise.
        For a step that is sampled out, only its end."""
        if self._step is not None and self._step.sampled_out:
            return _UNSAMPLED
        # Telemetry must not cost anything per token: a pipeline hands the whole response over at its end (`see_parts`).
        return _WITH_TEXT if self._writer.capture_content and self._parts is None else _COLD

    def obey(self, privacy: PrivacyFacts, /) -> None:
        """Takes the run's policy: whether content is captured, and which source lines of a stack may be shown."""
        # A guard of the user's may have neither, and sees no source lines.
        self._writer.redact = getattr(privacy, "redact", lambda _: "")
        content = getattr(privacy, "content_in_spans", None)
        if content is not None:
            self._writer.capture_content = content

    def give_up(self) -> None:
        """Ends all open spans: the policy's function has failed."""
        if self._step is not None:
            self._give_up(self._step)

    def see_parts(self, parts: Callable[[], tuple[Part, ...]]) -> None:
        """Keeps a function that returns the whole response."""
        self._parts = parts

    def on_event(self, event: Event) -> None:
        """Draws the event.

        Raises:
            LocalProtocolError: a second step begins before the first has ended.
        """
        found = _HANDLERS.get(type(event))
        if found is None:
            return
        step = self._step
        if step is None:
            if not isinstance(event, of.StepStart):
                return  # between steps there is nothing to draw
            step = self._step = OpenStep(event, run=self._run)
        elif type(event) is of.StepStart:
            raise LocalProtocolError("this Tracing is in the middle of a step; make one for each concurrent run")
        # An observer that raises is dropped by its pipeline, and sees no further event: what is open ends here.
        handler, is_of_call = found
        try:
            if step.sampled_out:
                self._pass_over(step, event)
            elif is_of_call:
                handler(self._calls, step, event)
            else:
                handler(self, step, event)
        except BaseException:
            self._give_up(step)
            raise

    def begin_run(self, run: RunFacts) -> None:
        """Draws the span of a run, the parent of its steps."""
        self._run = OpenRun(conversation_id=run.conversation_id)
        if self._wanted["run"]:
            name, now = self._builder.named(Names.run_span, run.name), time.monotonic()
            self._run.start(self._builder.tracer, name, self._writer.run_start(run), now)
        if self._wanted["begin"] and (self._run.span is None or self._run.span.is_recording()):
            self._builder.write_ahead(self._run, run)

    def end_run(self, outcome: str | None, error: BaseException | None) -> None:
        """Ends the span of the run, with the totals of its steps."""
        run, self._run = self._run, None
        if run is None or run.span is None:
            return
        # A cancellation that left the block is not a failure of the run, nor is an interrupt.
        failed = isinstance(error, Exception) or outcome in _FAILED_RUNS
        if failed:
            described = "the run failed" if error is None else f"the run failed: {class_name(error)}"
            known = error if isinstance(error, StreamToolsError) else None
            self._builder.describe_failure(run.span, described, known, error, run.ns(time.monotonic()))
        run.span.set_attributes(self._writer.run_end(run, outcome, error if failed else None))
        run.span.end(run.ns(time.monotonic()))

    def traceparent(self) -> str | None:
        """Returns the span of the current or last step, as a ``traceparent`` (W3C Trace Context)."""
        step = self._step or self._before
        span = None if step is None else step.span
        return None if span is None else carrier_of(span).get("traceparent")

    def proposed_by(self) -> str | None:
        """Returns the span of the response that made the step's calls."""
        step = self._step or self._before
        if step is None:
            return None
        return step.start.proposed_by if step.chat is None else carrier_of(step.chat).get("traceparent")

    def see_server(self, host: str, port: int | None) -> None:
        """Keeps the address of the server."""
        if self._step is not None:
            self._step.server = (host, port)

    def see_early(self, end: EarlyEnd) -> None:
        """Draws a call under a tap, from the beginning of its early run until the framework gets the result."""
        step = self._step or self._before
        if step is not None and self._wanted["early"] and not step.sampled_out:
            name = self._builder.named(Names.early_span, end.tool_name)
            self._builder.start(step, name, self._writer.early(step.start, end), end.began).end(step.ns(end.ended))

    def around_tool(self, call_id: str) -> AbstractContextManager[object]:
        """Makes the call's span current, so that spans of the tool's body become its children.

        Enter and leave it in the tool's own task or thread, after `ToolStarted`.
        """
        if (step := self._step) is None:
            return nullcontext()
        known = step.calls.get(call_id)
        if known is not None and known.started_at is None and not known.ended:
            self._calls.call_tried(step, known)
        span = step.span if known is None else known.span or known.tried or step.span
        return nullcontext() if span is None else _Current(span)

    # -- the beginning --

    def _step_start(self, step: OpenStep, event: of.StepStart) -> None:
        root = None if step.run is None else step.run.span
        if root is not None:
            step.begin_below(root, self._builder.tracer)
        asked = span_context_of(event.resumes)
        if self._wanted["step"] and not step.sampled_out:
            found, links = self._writer.step_start(event), self._links_of(step, asked)
            step.span = self._builder.start(step, Names.step_span, found, step.began, links)
            if root is None:
                step.begin_below(step.span, self._builder.tracer)
            else:
                step.context = trace.set_span_in_context(step.span, step.context)
        if asked is not None and root is not None and not step.sampled_out:
            root.add_link(asked, {Names.link_type: "resumes"})
            root.set_attributes(self._writer.resumed(asked))

    def _pass_over(self, step: OpenStep, event: Event) -> None:
        if isinstance(event, of.StepEnd):
            self._before, self._step = step, None
            step.forget()

    def _links_of(self, step: OpenStep, asked: SpanContext | None) -> list[Link]:
        """Returns a step's links: to the one that suspended its calls, and, without a run span, to the one before."""
        # The step that suspended calls is in another trace, of another day perhaps; its span is known by its
        # traceparent.
        links: list[Link] = []
        if asked is not None:
            links.append(self._builder.link("resumes", asked))
        before = None if self._before is None else self._before.span
        if before is not None and step.run is None:
            links.append(self._builder.link("follows", before.get_span_context()))
        return links

    def _stream_start(self, step: OpenStep, event: of.StreamStart) -> None:
        step.stream = event
        self._chat(step)
        if (run := step.run) is not None and run.span is not None and run.provider is None:
            run.provider = provider_of(event.wire)
            run.span.set_attribute(Names.provider, run.provider)

    def _chat(self, step: OpenStep) -> Span | None:
        """Returns the chat span, which is made now if it does not exist; without the model's name if it is unknown."""
        # Samplers see a span's name and first attributes alone. So a chat span is made with the first chunk, which has
        # the model, and is given the time of the request.
        if step.chat is None and self._wanted["chat"] and step.start.asks_model:
            start, stream = step.start, step.stream
            asked = None if start.request is None else request_model(start.request)
            name = self._builder.named(Names.chat_span, asked or (stream.model if stream else None))
            observed = {} if self._before is None else self._before.observed
            links = [self._builder.link("observed", observed[seq]) for seq in start.causes if seq in observed]
            found = self._writer.chat_start(start, stream, None if step.run is None else step.run.conversation_id)
            found |= self._writer.server(*step.server)
            if step.attempt > 1:
                found[Names.attempt_number] = step.attempt
            began = step.began if step.asked_at is None else step.asked_at
            step.chat = step.open_chat = self._builder.start(step, name, found, began, links, SpanKind.CLIENT)
        return step.chat

    def _attempt_began(self, step: OpenStep, event: of.AttemptBegan) -> None:
        if step.broke_off is not None and self._wanted["wait"]:
            found = self._writer.pause(step.start, event)
            self._builder.start(step, Names.pause_span, found, step.broke_off).end(step.ns(event.time))
        step.attempt, step.asked_at = event.attempt, None if event.attempt == 1 else event.time

    def _attempt_discarded(self, step: OpenStep, event: of.AttemptDiscarded) -> None:
        span = self._chat(step)
        cost = self._writer.cost(step, event.usage)
        if step.run is not None:
            step.run.add(event.usage, cost)
        if span is not None:
            what = "the request failed" if event.cause == "request_failed" else "the answer broke off"
            self._builder.describe_failure(span, f"{what}, and the model was asked again", None, None, 0)
            span.add_event("exception", {"exception.type": self._writer.text(_class_of(event))}, step.ns(event.time))
            _record(span, self._writer.attempt_end(event, cost))
            span.end(step.ns(event.time))
        step.broke_off = event.time
        step.chat = step.open_chat = step.stream = None
        step.proposed_by = ()
        step.server = (None, None)
        step.calls, step.text, step.text_size = {}, [], 0

    def _text(self, step: OpenStep, event: of.TextDelta) -> None:
        # What goes beyond an attribute would be cut; it need not be kept.
        if step.text_size < self._writer.max_chars:
            step.text.append(event.text)
            step.text_size += len(event.text)

    def _describe_stream(self, span: Span, step: OpenStep, at: float) -> None:
        error = step.error
        raised = error if error is None or error.__cause__ is None else error.__cause__
        self._builder.describe_failure(span, stream_words(error), error, raised, step.ns(at))

    # -- the end --

    def _stream_end(self, step: OpenStep, event: of.StreamEnd) -> None:
        step.end = event
        step.cost = self._writer.cost(step, event.usage)
        if step.run is not None:
            step.run.steps += 1
            step.run.add(event.usage, step.cost)
        self._chat(step)
        outcome = stream_outcome(event)
        # A stream that its consumer left is truncated, too, and not an error. Only the step's end shows which it was.
        if outcome != "truncated":
            self._end_chat(step, outcome, event)

    def _end_chat(self, step: OpenStep, outcome: StepOutcome, last: of.StreamEnd | of.StepEnd) -> None:
        span, step.open_chat = step.open_chat, None
        if span is None:
            return
        if span.is_recording():
            found = self._writer.chat_end(outcome, last, step.cost)
            if step.server_calls:
                found[Names.stream_server_calls] = step.server_calls
            if self._writer.capture_content:
                calls = [known.call for known in step.calls.values() if known.call is not None]
                found |= self._writer.chat_content(self._response_parts(step), calls, step.end)
                if step.start.request is not None:
                    found |= self._writer.request_content(step.start.request)
            # ERROR for a stream that was truncated or failed. One that its consumer left, or somebody cancelled, keeps
            # its status unset, with the usage so far.
            if STEP_OUTCOMES[outcome].is_error:
                self._describe_stream(span, step, last.time)
            _record(span, found)
        span.end(step.ns(last.time))

    def _response_parts(self, step: OpenStep) -> Iterable[Part]:
        if self._parts is not None:
            return self._parts()
        # Without a pipeline that hands them over, as in a test of observers, order and reasoning are unknown.
        calls = (Part(kind="call", call_id=call_id) for call_id in step.calls)
        return [Part(kind="text", text="".join(step.text)), *calls]

    def _step_end(self, step: OpenStep, event: of.StepEnd) -> None:
        # Children first, so that every span ends inside its parent.
        for known in step.calls.values():
            if not known.ended:
                self._calls.end_lost(step, known, event)
        self._chat(step)
        if step.end is None:
            self._end_chat(step, event.outcome, event)
        else:
            left = event.outcome in ("abandoned", "cancelled")
            self._end_chat(step, event.outcome if left else stream_outcome(step.end), step.end)
        if (span := step.span) is not None:
            if span.is_recording():
                # A failed tool does not fail its step: the model learns of it, and may go on.
                if STEP_OUTCOMES[event.outcome].is_error:
                    self._describe_stream(span, step, event.time)
                _record(span, self._writer.step_end(event, step.error))
                if step.suspended:
                    span.set_attribute(Names.calls_suspended, step.suspended)
            span.end(step.ns(event.time))
        if step.run is not None:
            step.run.suspended = step.suspended
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


# -- the attributes of spans --


Attributes = dict[str, str | bool | int | float | Sequence[str] | Sequence[int]]

MAX_NAME_CHARS = 1024  # of a text that a peer chooses, and that is no content
OTHER = "_OTHER"  # the conventions' fallback for `error.type`
STACK_FRAMES = 20  # frames of a captured exception, innermost; a recursion error has a thousand

_KINDS_OF_TEXT = {"text": "text", "refusal": "text", "reasoning": "reasoning"}

_CODE = re.compile(r"[\w.:-]{1,64}", re.ASCII)  # what may be an `error.type`: of low cardinality, no prose


@dataclass(slots=True)
class AttributeWriter:
    capture_content: bool
    max_chars: int
    redact: Callable[[str], str] | None = None
    prices: Prices | None = None
    name_chars: int = field(init=False)

    def __post_init__(self) -> None:
        self.name_chars = min(self.max_chars, MAX_NAME_CHARS)

    def text(self, value: str) -> str:
        """Returns a name, an id or a code: cut, and valid as UTF-8."""
        # A peer chooses these, so that they are bounded even where no content is captured.
        if value.isascii() and len(value) <= self.name_chars:  # nearly always
            return value
        return self._cut(value, self.name_chars)

    def _cut(self, value: str, most: int) -> str:
        # JSON allows half a surrogate pair in any string, UTF-8 does not: one such text would make an OTLP exporter
        # refuse its whole batch.
        value = fitted(value, most)
        return value if value.isascii() else value.encode("utf-8", "replace").decode()

    def content(self, value: str) -> str:
        """Returns captured content, cut; JSON stays JSON."""
        if len(value) > self.max_chars and value[:1] in ("{", "["):
            try:
                value = fitted_json(json.loads(value), self.max_chars)
            except (ValueError, RecursionError):
                return self._cut(value, self.max_chars)
        return self._cut(value, self.max_chars)

    # -- a run --

    def run_start(self, run: RunFacts) -> Attributes:
        found: Attributes = {Names.run_id: self.text(run.run_id), **Names.run_constants}
        self._put(found, Names.agent_name, run.name)
        self._put(found, Names.conversation_id, run.conversation_id)
        return found

    def run_begin(self, run: RunFacts) -> Attributes:
        # None of `gen_ai`, by which Jaeger's UI would count it as an operation.
        found: Attributes = {Names.run_id: self.text(run.run_id)}
        self._put(found, Names.run_name, run.name)
        return found

    def run_end(self, run: OpenRun, outcome: str | None, error: BaseException | None) -> Attributes:
        found: Attributes = {Names.run_steps: run.steps}
        self._put(found, Names.run_outcome, outcome)
        if run.suspended:
            found[Names.calls_suspended] = run.suspended
        if error is not None or outcome == "error":
            found[Names.error_type] = OTHER if error is None else self.text(class_name(error))
        self._put_usage(found, run.usage)
        self._put(found, Names.cost, run.cost)
        return found

    def _put_usage(self, found: Attributes, usage: Usage | None) -> None:
        if usage is not None:
            for count, name in Names.usage.items():
                self._put(found, name, getattr(usage, count, None))

    # -- a step --

    def step_start(self, start: of.StepStart) -> Attributes:
        found: Attributes = {**self._identity(start), Names.seq_first: start.seq}
        asked = span_context_of(start.resumes)
        return found if asked is None else found | self.resumed(asked)

    def resumed(self, asked: SpanContext) -> Attributes:
        return {
            Names.resumes_trace: trace.format_trace_id(asked.trace_id),
            Names.resumes_span: trace.format_span_id(asked.span_id),
        }

    def step_end(self, end: of.StepEnd, error: StreamError | None) -> Attributes:
        found: Attributes = {Names.step_outcome: end.outcome, Names.seq_last: end.seq}
        if STEP_OUTCOMES[end.outcome].is_error:
            found[Names.error_type] = stream_error_type(error)
        return found

    # -- a chat --

    def chat_start(self, step: of.StepStart, stream: of.StreamStart | None, conversation_id: str | None) -> Attributes:
        """Returns the attributes of a response at its beginning; `stream` is None if it never began."""
        found: Attributes = {**self._identity(step), **Names.chat_constants}
        found[Names.seq_first] = step.seq if stream is None else stream.seq
        self._put(found, Names.request_stream, True)
        self._put(found, Names.conversation_id, conversation_id)
        if step.request is not None:
            self._put(found, Names.request_model, request_model(step.request))
            for parameter, value in parameters(step.request):
                self._put(found, Names.request_parameters[parameter], value)
        if stream is not None:
            found[Names.stream_wire] = stream.wire
            self._put(found, Names.provider, provider_of(stream.wire))
            self._put(found, Names.response_model, stream.model)
            self._put(found, Names.response_id, stream.response_id)
            asked = step.time if step.requested_at is None else step.requested_at
            self._put(found, Names.time_to_first_chunk, max(0.0, stream.time - asked))
        return found

    def server(self, host: str | None, port: int | None) -> Attributes:
        found: Attributes = {}
        self._put(found, Names.server_address, host)
        self._put(found, Names.server_port, port)
        return found

    def chat_end(self, outcome: StepOutcome, last: of.StreamEnd | of.StepEnd, cost: float | None) -> Attributes:
        found: Attributes = {Names.stream_outcome: outcome, Names.seq_last: last.seq}
        end = last if isinstance(last, of.StreamEnd) else None
        if STEP_OUTCOMES[outcome].is_error:
            found[Names.error_type] = stream_error_type(end.error if end else None)
        if end is None:
            return found
        finish = end.finish_raw or end.finish
        if finish is not None:
            self._put(found, Names.finish_reasons, (self.text(finish),))
        self._put(found, Names.stream_finish, end.finish)
        self._put(found, Names.response_model, end.model)
        self._put_usage(found, end.usage)
        self._put(found, Names.cost, cost)
        return found

    def attempt_end(self, event: of.AttemptDiscarded, cost: float | None) -> Attributes:
        outcome: StepOutcome = "truncated" if event.cause == "stream_truncated" else "error"
        found: Attributes = {Names.stream_outcome: outcome, Names.seq_last: event.seq}
        found |= {Names.attempt_number: event.attempt, Names.attempt_delay: event.delay_s}
        self._put(found, Names.error_type, event.error_type)
        self._put_usage(found, event.usage)
        self._put(found, Names.cost, cost)
        return found

    def pause(self, step: of.StepStart, event: of.AttemptBegan) -> Attributes:
        """Returns the attributes of the time between two requests of a step; the attempt is the second one."""
        return {**self._identity(step), Names.attempt_number: event.attempt}

    def cost(self, step: OpenStep, usage: Usage | None) -> float | None:
        named = step.stream.model if step.stream else None
        named = (step.end.model if step.end else None) or named
        asked = None if step.start.request is None else request_model(step.start.request)
        return cost_of(self.prices, (named, asked), usage)

    def request_content(self, request: Mapping[str, Any]) -> Attributes:
        found: Attributes = {}
        for name, value in (
            (Names.input_messages, input_messages(request)),
            (Names.system_instructions, instructions(request)),
        ):
            if value:
                found[name] = self.content(json.dumps(value, ensure_ascii=False, default=str))
        return found

    def chat_content(self, answered: Iterable[Part], calls: Sequence[ToolCall], end: of.StreamEnd | None) -> Attributes:
        known = {call.call_id: call for call in calls}
        parts: list[dict[str, Any]] = []
        for part in answered:
            if part.kind == "call" and (call := known.get(part.call_id or "")) is not None:
                arguments = call.arguments_text if call.arguments is None else call.arguments
                parts.append({"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": arguments})
            elif part.kind in _KINDS_OF_TEXT and part.text:
                parts.append({"type": _KINDS_OF_TEXT[part.kind], "content": part.text[: self.max_chars]})
        message: dict[str, Any] = {"role": "assistant", "parts": parts}
        if end is not None and end.finish is not None:
            message["finish_reason"] = end.finish
        found: Attributes = {}
        found[Names.output_messages] = self.content(_json([message]))
        return found

    # -- a tool call --

    def tool_start(self, step: of.StepStart, start: of.ToolCallStart) -> Attributes:
        return {**self._named_call(step, start, Names.tool_name), **Names.tool_constants}

    def call_start(self, step: of.StepStart, start: of.ToolCallStart) -> Attributes:
        # No operation and no `gen_ai.tool.name`, by either of which it would count as a run of the tool.
        return self._named_call(step, start, Names.waiting_tool)

    def _named_call(self, step: of.StepStart, start: of.ToolCallStart, tool_name: str) -> Attributes:
        found = self._of_call(step, start)
        self._put(found, tool_name, start.name or None)
        self._put(found, Names.tool_call_id, start.call_id)
        if start.call_id_synthesized:
            found[Names.call_id_synthesized] = True
        return found

    def approval(self, step: of.StepStart, start: of.ToolCallStart, asked: of.ApprovalRequested) -> Attributes:
        # None of `gen_ai`, by which the wait would count as a second tool.
        found = {**self._of_call(step, start), Names.cause_seq: asked.causes, Names.seq_first: asked.seq}
        self._put(found, Names.waiting_tool, asked.tool_name or None)
        self._put(found, Names.waiting_call, start.call_id)
        if asked.findings:
            found[Names.call_findings] = self._origins(asked.findings)
        return found

    def _origins(self, findings: Iterable[object]) -> str:
        return self._cut("; ".join(map(str, findings)), self.max_chars)

    def people(self, names: Sequence[str]) -> list[str]:
        return [self.text(name) for name in names]

    def wait(self, step: of.StepStart, start: of.ToolCallStart, reason: str) -> Attributes:
        found = {**self._of_call(step, start), Names.wait_reason: reason}
        self._put(found, Names.waiting_tool, start.name or None)
        self._put(found, Names.waiting_call, start.call_id)
        return found

    def early(self, step: of.StepStart, end: EarlyEnd) -> Attributes:
        found: Attributes = {Names.run_id: self.text(step.run_id), Names.early_fate: end.fate}
        self._put(found, Names.waiting_tool, end.tool_name)
        self._put(found, Names.waiting_call, end.call_id)
        self._put(found, Names.early_reason, end.reason)
        if end.fate == "claimed":
            found[Names.early_won] = end.seconds_won
        return found

    def attempt(self, failed: FailedAttempt) -> Attributes:
        return {
            Names.attempt_number: failed.number,
            Names.error_type: self.text(failed.error_type),
            Names.attempt_duration: failed.ended - failed.began,
            Names.attempt_delay: failed.delay_s,
        }

    def _of_call(self, step: of.StepStart, start: of.ToolCallStart) -> Attributes:
        return {
            Names.run_id: self.text(step.run_id),
            Names.step: start.step,
            Names.cause_seq: start.causes,
            Names.call_key: call_key(start),
            Names.call_kind: start.kind,
            Names.seq_first: start.seq,
        }

    def tool_end(self, call: ToolCall | None, observation: of.Observation, *, started: bool) -> Attributes:
        """Returns the attributes of a call at its end, without a value of its arguments or result."""
        found: Attributes = {
            Names.call_outcome: observation.outcome,
            Names.call_validated: observation.validated,
            Names.schema_present: observation.schema_present,
            Names.observation_type: self.text(observation.observation_type),
            Names.tool_attempts: observation.attempts,
            Names.seq_last: observation.seq,
        }
        if observation.schema_source is not None:
            found[Names.schema_source] = observation.schema_source
        if observation.owner is not None:
            found[Names.tool_owner] = self.text(observation.owner)
        if observation.findings:
            found[Names.call_findings] = self._origins(observation.findings)
        if observation.recorded:
            found[Names.call_recorded] = True
        if observation.still_running:
            found[Names.tool_still_running] = True
        if call is not None:
            self._put(found, Names.call_problem, call.problem)
            if call.caller != "direct":
                found[Names.call_caller] = call.caller
            if call.normalizations:
                found[Names.call_normalizations] = call.normalizations
        # The stage of a call that timed out or was cancelled depends on how far it had come.
        stage = OUTCOMES[observation.outcome].stage
        if stage is not None:
            found[Names.failure_stage] = "execution" if started and stage == "dispatch" else stage
            found[Names.error_type] = self.text(call_error_type(observation))
        return found

    def tool_lost(self) -> Attributes:
        return {Names.call_outcome: "unknown", Names.error_type: OTHER}

    def tool_content(self, call: ToolCall | None, observation: of.Observation) -> Attributes:
        found: Attributes = {}
        if call is not None:
            # Normalised, the text is not what ran (a JSON string with the object inside, say).
            is_changed = bool(call.normalizations) and call.arguments is not None
            arguments = _json(call.arguments) if is_changed else call.arguments_text
            found[Names.tool_arguments] = self.content(arguments)
        found[Names.tool_result] = self.content(observation.model_content)
        return found

    def exception(self, error: BaseException) -> Attributes:
        """Returns an exception for an ``exception`` event: its type, and its text if content is captured."""
        if not self.capture_content:
            return {"exception.type": self.text(class_name(error))}
        # The innermost frames, and the end of their text: a stack is read from its last line.
        traced = TracebackException.from_exception(error, limit=-STACK_FRAMES)
        stack = "".join(traced.format())
        # The frames have lines of the program's source, which no event has. Redacted before they are cut, or a secret
        # that a cut divides would not be recognised.
        if self.redact is not None:
            stack = self.redact(stack)
        return {
            "exception.type": self.text(class_name(error)),
            "exception.message": self.content(str(traced)),
            "exception.stacktrace": self.content(stack[-self.max_chars :]),
        }

    def words(self, error: BaseException) -> str:
        """Returns an exception's text, as content. A class of the user's may fail to give one: then its name."""
        try:
            text = str(error)
        except (Exception, SystemExit):
            text = type_name(error)
        return self.content(text)

    # -- helpers --

    def _identity(self, step: of.StepStart) -> Attributes:
        return {Names.run_id: self.text(step.run_id), Names.step: step.step, Names.cause_seq: step.causes}

    def _put(self, found: Attributes, name: str, value: Any) -> None:
        if value is not None:
            found[name] = self.text(value) if isinstance(value, str) else value


def _record(span: Span, found: Attributes) -> None:
    """Sets attributes that need no check, since `AttributeWriter` has made them."""
    getattr(span, "record_unchecked", span.set_attributes)(found)


def call_key(start: of.ToolCallStart) -> str:
    return f"{start.step}.{start.index}"


def stream_outcome(end: of.StreamEnd) -> StepOutcome:
    if end.error is not None:
        return "truncated" if end.error.kind == "stream_truncated" else "error"
    return "complete" if end.complete else "truncated"


def stream_error_type(error: StreamError | None) -> str:
    """Returns the `error.type` of a stream that did not end well: the provider's own code where it looks like one."""
    # The conventions ask for low cardinality: prose in the place of a code would make each error a type of its own.
    if isinstance(error, RequestError):
        cause = error.__cause__
        return str(error.status) if error.status is not None else OTHER if cause is None else class_name(cause)
    if isinstance(error, ProviderError):
        for code in (error.type, error.code):
            if code is not None and _CODE.fullmatch(str(code)):
                return str(code)
    return OTHER if error is None else error.kind


def _class_of(event: of.AttemptDiscarded) -> str:
    """Returns the class of the error that ended an attempt: ours where a status or a provider's word stands for it."""
    ours = {"request_failed": RequestError, "stream_truncated": StreamError}.get(event.cause, ProviderError)
    if ours is not ProviderError and event.error_type.rpartition(".")[2][:1].isupper():
        return event.error_type
    return f"{ours.__module__}.{ours.__qualname__}"


def call_error_type(observation: of.Observation) -> str:
    # The tool's own exception, with its module; an error of ours is known by its class alone.
    error, facts = observation.error, OUTCOMES[observation.outcome]
    if facts.error_type is not None:
        return facts.error_type
    if error is None:
        return observation.outcome
    if isinstance(error, ToolFailed) and error.__cause__ is not None:
        return class_name(error.__cause__)
    return type_name(error)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # not orjson, which refuses integers from 2**64


# -- spans: started, named, linked --


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBuilder:
    tracer: Tracer
    writer: AttributeWriter
    wanted: Mapping[str, bool]  # the spans to draw

    def start(
        self,
        step: OpenStep,
        name: str,
        attributes: Attributes,
        at: float,
        links: Sequence[Link] = (),
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        start_span = self.tracer.start_span if step.lean is None else step.lean.start_span
        return start_span(name, step.context, kind, attributes, links, start_time=step.ns(at))

    def write_ahead(self, run: OpenRun, facts: RunFacts) -> None:
        context = None if run.span is None else trace.set_span_in_context(run.span)
        at, name = run.ns(time.monotonic()), self.named(Names.run_begin_span, facts.name)
        self.tracer.start_span(name, context, attributes=self.writer.run_begin(facts), start_time=at).end(at)

    def link(self, kind: str, context: SpanContext) -> Link:
        return Link(context, {Names.link_type: kind})

    def named(self, prefix: str, subject: str | None) -> str:
        return f"{prefix} {self.writer.text(subject)}" if subject else prefix

    def describe_failure(
        self, span: Span, described: str, error: StreamToolsError | None, raised: BaseException | None, at_ns: int
    ) -> None:
        # An error's own words may quote the peer, the arguments or the tool, so they are content.
        if error is not None and self.writer.capture_content:
            described = self.writer.words(error)
        span.set_status(Status(StatusCode.ERROR, described))
        if raised is not None:
            span.add_event("exception", self.writer.exception(raised), at_ns)


# -- the run, the step and the calls that go on --


def _epoch_offset_ns() -> int:
    # Events have monotonic time, spans have the epoch's. One offset for a whole step keeps its spans in order, whatever
    # happens to the clock meanwhile.
    return time.time_ns() - time.monotonic_ns()


@dataclass(slots=True)
class OpenRun:
    conversation_id: str | None = None
    provider: str | None = None  # that of its first response
    span: Span | None = None
    steps: int = 0  # how many responses have ended
    usage: Usage | None = None  # the sum of their counts
    cost: float | None = None  # the sum of their costs, as far as they are known
    suspended: list[str] = field(default_factory=list)
    offset_ns: int = field(default_factory=_epoch_offset_ns)

    def start(self, tracer: Tracer, name: str, attributes: Mapping[str, Any], at: float) -> None:
        self.span = tracer.start_span(name, attributes=attributes, start_time=self.ns(at))

    def ns(self, at: float) -> int:
        return self.offset_ns + int(at * 1e9)

    def add(self, usage: Usage | None, cost: float | None) -> None:
        if cost is not None:
            self.cost = cost + (self.cost or 0.0)
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage


@dataclass(slots=True)
class OpenStep:
    start: of.StepStart
    context: Context = field(default_factory=otel_context.get_current)  # of the next span's parent
    span: Span | None = None
    chat: Span | None = None
    open_chat: Span | None = None  # `chat`, until it has ended
    asked_at: float | None = None  # when the model was asked again, in a second or later attempt
    broke_off: float | None = None  # when the latest attempt was discarded
    attempt: int = 1
    stream: of.StreamStart | None = None
    server: tuple[str | None, int | None] = (None, None)
    end: of.StreamEnd | None = None
    calls: dict[str, OpenToolSpan] = field(default_factory=dict)
    server_calls: int = 0
    cost: float | None = None  # of the response, as far as it is known
    observed: dict[int, SpanContext] = field(default_factory=dict)
    proposed_by: tuple[Link, ...] = ()  # the link of each call to its response, once there is one
    text: list[str] = field(default_factory=list)
    text_size: int = 0
    offset_ns: int = field(default_factory=_epoch_offset_ns)
    run: OpenRun | None = None  # the run of the step, if it was entered
    suspended: list[str] = field(default_factory=list)  # the keys of its calls that wait when it ends
    lean: LeanTracer | None = None  # starts the spans below the root; None where the tracer itself has to
    sampled_out: bool = False  # True if the root is not recorded: then nothing is drawn below it

    @property
    def began(self) -> float:
        return self.start.time if self.start.requested_at is None else min(self.start.requested_at, self.start.time)

    def begin_below(self, root: Span, tracer: Tracer) -> None:
        """Puts the step below the span at which its sampling was decided: the run's, or its own."""
        self.context = trace.set_span_in_context(root, self.context)
        if not root.is_recording():
            self.sampled_out, self.span = True, root
        elif "opentelemetry.sdk.trace" in sys.modules:  # the application's: nothing here loads it
            from .lean_spans import lean_tracer

            self.lean = lean_tracer(tracer, root)

    def forget(self) -> None:
        # A run of many steps would hold every text and every call until its end.
        self.calls, self.text, self.end, self.run = {}, [], None, None

    def ns(self, at: float) -> int:
        return self.offset_ns + int(at * 1e9)

    @property
    def error(self) -> StreamError | None:
        return self.end.error if self.end else None


@dataclass(slots=True)
class OpenToolSpan:
    start: of.ToolCallStart
    call: ToolCall | None = None
    ready_at: float | None = None
    started_at: float | None = None
    span: Span | None = None
    tried: Span | None = None  # of its body, begun before it has ended
    approval: Span | None = None  # the span of the approval, while somebody is asked
    approved: bool = False
    ended: bool = False

    def ends_at(self, step: OpenStep, event: of.Observation) -> int:
        """Returns the end of its span, in nanoseconds of the epoch: the tool's duration, if it ran, as metrics have
        it."""
        if self.started_at is None or event.duration is None:
            return step.ns(event.time)
        return step.ns(self.started_at) + int(event.duration * 1e9)


class _Current:
    # Not `start_as_current_span`, which would record the text of the tool's exception: it may be secret.
    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        self._token = otel_context.attach(trace.set_span_in_context(self._span))

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            otel_context.detach(self._token)


# -- the spans of a step's calls --


class CallSpans:
    """Draws calls; `chat` returns the span of their response."""

    def __init__(self, builder: SpanBuilder, chat: Callable[[OpenStep], Span | None]) -> None:
        self._builder = builder
        self._writer, self._wanted = builder.writer, builder.wanted
        self._chat = chat

    def call_start(self, step: OpenStep, event: of.ToolCallStart) -> None:
        # The provider runs a server call itself. Nothing shows when it started or how it ended, so a span would have to
        # invent that; the chat span counts these calls.
        if event.kind == "server":
            step.server_calls += 1
        else:
            step.calls[event.call_id] = OpenToolSpan(event)

    def call_known(self, step: OpenStep, event: of.ToolCallEnd | of.ToolCallValidated) -> None:
        known = step.calls.get(event.call_id)
        if known is not None:
            known.call, known.ready_at = event.call, event.time

    def approval_requested(self, step: OpenStep, event: of.ApprovalRequested) -> None:
        known = step.calls.get(event.call_id)
        if known is None or not self._wanted["approval"]:
            return
        name = self._builder.named(Names.approval_span, event.tool_name)
        known.approval = self._builder.start(
            step, name, self._writer.approval(step.start, known.start, event), event.time
        )

    def approval_resolved(self, step: OpenStep, event: of.ApprovalResolved) -> None:
        known = step.calls.get(event.call_id)
        if known is not None:
            known.approved = event.approved
        if known is not None and known.approval is not None and event.by:
            known.approval.set_attribute(Names.approval_by, self._writer.people(event.by))
        if known is not None and known.approval is not None and event.arguments is not None:
            known.approval.set_attribute(Names.approval_edited, True)
        self._end_approval(step, known, "approved" if event.approved else "denied", event)

    def _end_approval(self, step: OpenStep, known: OpenToolSpan | None, verdict: str, last: of.CausedEvent) -> None:
        if known is not None and known.approval is not None:
            span, known.approval = known.approval, None
            _record(span, {Names.approval_verdict: verdict, Names.seq_last: last.seq})
            span.end(step.ns(last.time))

    def tool_started(self, step: OpenStep, event: of.ToolStarted) -> None:
        # A span of a call covers all its attempts; those that failed are its events.
        known = step.calls.get(event.call_id)
        if known is None or known.started_at is not None:
            return
        known.started_at = event.time
        if event.tried:
            known.span, known.tried = known.tried, None
            return
        if known.tried is not None:
            self._drop_trial(step, known, known.tried, event.time)
        if (event.effect == "once" or known.approved) and self._wanted["begin"]:
            self._write_ahead(step, known, event)
        self._open(step, known, event.time)

    def call_tried(self, step: OpenStep, known: OpenToolSpan) -> None:
        began = known.started_at = time.monotonic()  # there is no event yet
        known.tried = self._open(step, known, began)
        known.span = known.started_at = None

    def _drop_trial(self, step: OpenStep, known: OpenToolSpan, tried: Span, at: float) -> None:
        tried.set_attribute(Names.tool_trial, "dropped")
        tried.end(step.ns(at))
        known.tried = None

    def _write_ahead(self, step: OpenStep, known: OpenToolSpan, event: of.ToolStarted) -> None:
        name = self._builder.named(Names.call_begin_span, known.start.name)
        found = {**self._writer.call_start(step.start, known.start), Names.seq_last: event.seq}
        if event.effect is not None:
            found[Names.tool_effect] = event.effect
        if known.approved:
            found[Names.approval_verdict] = "approved"
        self._builder.start(step, name, found, event.time).end(step.ns(event.time))

    def observation(self, step: OpenStep, event: of.Observation) -> None:
        """Ends a call's span; of one that did not run it has no length."""
        known = step.calls.get(event.call_id)
        if known is None or known.ended:
            return
        if known.approval is not None:
            self._end_approval(step, known, "none", event)
        if event.waits:
            self._draw_waits(step, known, event)
        pending = event.error is not None and is_pending(event)
        if pending or event.outcome == "suspended":
            step.suspended.append(call_key(known.start))
        if (span := self._ending(step, known, event.time)) is None:
            return
        step.observed[event.seq] = span.get_span_context()
        if span.is_recording():
            started, ready = known.started_at, known.ready_at
            found = self._writer.tool_end(known.call, event, started=started is not None)
            if started is not None and ready is not None:
                found[Names.tool_queue_time] = max(0.0, started - ready)  # a trial did not wait
            for attempt in event.failed_attempts:
                span.add_event(Names.attempt_event, self._writer.attempt(attempt), step.ns(attempt.ended))
            failed = event.outcome != "ok" and not pending  # one that only waits for an approval has no status
            if failed or started is None:
                reason = (not_run_words if started is None else call_words)(event, step.end)
                if started is None:  # a status has no text unless it is an error
                    found[Names.call_reason] = reason
                if failed:
                    self._builder.describe_failure(span, reason, event.error, error_of(event), step.ns(event.time))
            if self._writer.capture_content:
                found |= self._writer.tool_content(known.call, event)
            _record(span, found)
        span.end(known.ends_at(step, event))

    def _draw_waits(self, step: OpenStep, known: OpenToolSpan, event: of.Observation) -> None:
        """Draws the times in which a call could not start; approvals have been drawn."""
        for wait in event.waits if self._wanted["wait"] else ():
            if not WAITS[wait.reason].has_own_span and wait.seconds >= SHORTEST_WAIT_S:
                name = self._builder.named(Names.wait_span, known.start.name)
                span = self._builder.start(
                    step, name, self._writer.wait(step.start, known.start, wait.reason), wait.began
                )
                span.end(step.ns(wait.ended))

    def _ending(self, step: OpenStep, known: OpenToolSpan, at: float) -> Span | None:
        """Returns the call's span, to be ended now and never again; opened here if its tool did not run."""
        known.ended = True
        if known.tried is not None:
            self._drop_trial(step, known, known.tried, at)
        return known.span if known.started_at is not None else self._open(step, known, at)

    def _open(self, step: OpenStep, known: OpenToolSpan, at: float) -> Span | None:
        runs = known.started_at is not None
        if not self._wanted["execute_tool" if runs else "call"]:
            return None
        # A sibling of the chat that proposed it, and not its child, because it may outlive it. A link names the cause,
        # and so do attributes, since some trace stores drop links.
        links: Sequence[Link] = step.proposed_by
        found = (self._writer.tool_start if runs else self._writer.call_start)(step.start, known.start)
        chat = None if links else self._chat(step)
        if chat is not None:
            links = (self._builder.link("proposed_by", chat.get_span_context()),)
            if step.lean is not None:  # the SDK writes into the links of its own spans
                step.proposed_by = links
        elif not links and (proposer := span_context_of(step.start.proposed_by)) is not None:
            links = (self._builder.link("proposed_by", proposer),)
            found[Names.proposer_span] = trace.format_span_id(proposer.span_id)
        name = self._builder.named(Names.tool_span if runs else Names.call_span, known.start.name)
        known.span = self._builder.start(step, name, found, at, links)
        return known.span

    def end_lost(self, step: OpenStep, known: OpenToolSpan, event: of.StepEnd) -> None:
        """Ends what is left of a call when its step ends."""
        self._end_approval(step, known, "none", event)
        span = self._ending(step, known, event.time)
        if span is None:
            return
        # Every call that is run here has its observation by now. Should one have none, its span ends all the same.
        found: Attributes = {Names.seq_last: event.seq}
        if known.started_at is None and not step.start.dispatches:
            found[Names.call_reason] = "not run here: the caller runs it"
        else:
            found |= self._writer.tool_lost()
            span.set_status(Status(StatusCode.ERROR, "unknown outcome: its step is over"))
        _record(span, found)
        span.end(step.ns(event.time))


# -- the observer's methods, by event --


_HANDLERS: dict[type[Event], tuple[Callable[[Any, OpenStep, Any], None], bool]] = {
    of.StepStart: (Tracing._step_start, False),
    of.AttemptBegan: (Tracing._attempt_began, False),
    of.AttemptDiscarded: (Tracing._attempt_discarded, False),
    of.StreamStart: (Tracing._stream_start, False),
    of.ApprovalRequested: (CallSpans.approval_requested, True),
    of.ApprovalResolved: (CallSpans.approval_resolved, True),
    of.TextDelta: (Tracing._text, False),
    of.ToolCallStart: (CallSpans.call_start, True),
    of.ToolCallEnd: (CallSpans.call_known, True),
    of.ToolCallValidated: (CallSpans.call_known, True),
    of.ToolStarted: (CallSpans.tool_started, True),
    of.Observation: (CallSpans.observation, True),
    of.StreamEnd: (Tracing._stream_end, False),
    of.StepEnd: (Tracing._step_end, False),
}

_WITH_TEXT = frozenset(_HANDLERS)
_COLD = _WITH_TEXT - {of.TextDelta}
_UNSAMPLED: frozenset[type[Event]] = frozenset({of.StepStart, of.StepEnd})
