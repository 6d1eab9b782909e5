"""A run's events as a pipeline emits them, and a provider that remembers how each span began and ended."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from streamtools.errors import CallCancelled, StreamError, ToolError
from streamtools.events import (
    CausedEvent,
    Event,
    Observation,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolCallValidated,
    ToolStarted,
)
from streamtools.observers import Observer
from streamtools.parts import WAITS, CallKind, Outcome, ToolCall, Usage
from streamtools.privacy import Privacy, Redact
from streamtools.telemetry import Tracing


def capturing(
    provider: TracerProvider | None = None, *, capture: bool | None = True, redact: Redact | None = None, **options: Any
) -> Tracing:
    """Returns an observer that has been given a policy, as a run gives it."""
    tracing = Tracing(provider, **options)
    tracing.obey(Privacy(redact=redact, content_in_spans=capture))
    return tracing


class Script:
    """Emits the events of one run to an observer, with `seq`, `step`, `causes` and `time` as a pipeline stamps them.

    Time goes on by a tenth of a second with every event.
    """

    def __init__(self, observer: Observer, *, run_id: str = "run-1") -> None:
        self.observer = observer
        self.run_id = run_id
        self.events: list[Event] = []
        self.step = -1
        self.after_each: Callable[[], None] = lambda: None

    @classmethod
    def started(cls, observer: Observer, **options: Any) -> Script:
        """Returns a script whose first step has begun, with its stream."""
        script = cls(observer, **options)
        script.start()
        return script

    def emit(self, kind: type[Event], *args: Any, causes: tuple[int, ...] = (), **fields: Any) -> int:
        """Emit one event; returns its `seq`."""
        seq = len(self.events)
        if issubclass(kind, CausedEvent):
            fields |= {"causes": causes, "time": 100.0 + seq / 10}
        event = kind(*args, seq=seq, step=self.step, **fields)
        self.events.append(event)
        wanted = self.observer.event_types
        if wanted is None or kind in wanted:
            self.observer.on_event(event)
        self.after_each()
        return seq

    def start(
        self, model: str | None = "glm-mini", *, wire: str = "openai.chat_completions", causes: tuple[int, ...] = ()
    ) -> None:
        """The step begins, and its stream."""
        self.begin(causes=causes)
        self.emit(StreamStart, wire, model, "resp-1", causes=(len(self.events) - 1,))

    def begin(self, *, causes: tuple[int, ...] = ()) -> int:
        """The step begins; nothing has come yet."""
        self.step += 1
        return self.emit(StepStart, self.run_id, causes=causes)

    def text(self, *deltas: str) -> None:
        for delta in deltas:
            self.emit(TextDelta, delta)

    def call(
        self,
        call_id: str,
        name: str = "lookup",
        text: str = "{}",
        *,
        index: int = 0,
        kind: CallKind = "function",
        ready: bool = True,
        **fields: Any,
    ) -> int:
        """The model announces a call and finishes it; returns the `seq` of its start."""
        start = self.emit(ToolCallStart, call_id, name, kind, index, causes=(1,))
        self.emit(ToolCallDelta, call_id, text)
        call = ToolCall(
            call_id=call_id,
            name=name,
            kind=kind,
            index=index,
            arguments_text=text,
            status="ready" if ready else "invalid",
            **fields,
        )
        end = self.emit(ToolCallEnd, call, causes=(start,))
        if ready:
            self.emit(ToolCallValidated, call, causes=(end,))
        return start

    def run(self, call_id: str, name: str = "lookup") -> None:
        """The call's tool starts."""
        self.emit(ToolStarted, call_id, name)

    def observe(
        self,
        call_id: str,
        outcome: Outcome = "ok",
        *,
        name: str = "lookup",
        index: int = 0,
        error: ToolError | None = None,
        **fields: Any,
    ) -> int:
        """The call's last word; returns its `seq`."""
        fields = dict[str, Any](schema_source="typed_signature", schema_present=True) | fields
        return self.emit(
            Observation, call_id=call_id, tool_name=name, outcome=outcome, index=index, error=error, **fields
        )

    def end_stream(
        self,
        finish: str | None = "tool_calls",
        *,
        complete: bool = True,
        error: StreamError | None = None,
        usage: Usage | None = None,
        finish_raw: str | None = None,
    ) -> int:
        return self.emit(StreamEnd, finish, finish_raw, complete, error, usage)

    def end(self, outcome: str = "complete") -> int:
        return self.emit(StepEnd, outcome)

    def end_step(self, *finish: Any, **fields: Any) -> None:
        """The stream ends, and its step."""
        self.end_stream(*finish, **fields)
        self.end()

    def whole_step(self, *, causes: tuple[int, ...] = ()) -> tuple[int, ...]:
        """A step with two tools that succeed; returns the `seq` of their observations."""
        self.start(causes=causes)
        self.call("call_a", "alpha", index=0)
        self.call("call_b", "beta", index=1)
        self.end_stream(finish_raw="tool_calls", usage=Usage(input_tokens=10, output_tokens=5))
        self.run("call_a", "alpha")
        self.run("call_b", "beta")
        seqs = (
            self.observe("call_b", name="beta", index=1, value=2, model_content="2", validated=True, attempts=1),
            self.observe("call_a", name="alpha", index=0, value=1, model_content="1", validated=True, attempts=1),
        )
        self.end()
        return seqs

    def cut_call(self, call_id: str, outcome: Outcome = "cancelled") -> int:
        """A call that was announced, and never got its end."""
        self.emit(ToolCallStart, call_id, "lookup", "function", 0, causes=(1,))
        return self.observe(call_id, outcome, error=CallCancelled("the consumer left"))


class Spans:
    """A private provider whose finished spans can be looked at."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.ledger = Ledger()
        self.provider = TracerProvider(
            resource=Resource({"service.name": "tests"}), id_generator=CountingIds(), shutdown_on_exit=False
        )
        self.provider.add_span_processor(self.ledger)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def names(self) -> list[str]:
        return names_of(self.all)

    def named(self, name: str) -> ReadableSpan:
        """The last finished span of that name."""
        return [span for span in self.all if span.name == name][-1]

    def tools(self) -> list[ReadableSpan]:
        """The spans of calls, whether they ran or not."""
        return [span for span in self.all if span.name.split(" ")[0] in ("execute_tool", "streamtools.call")]


class Ledger(SpanProcessor):
    """Counts how often each span began and ended."""

    def __init__(self) -> None:
        self.started: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started[span.get_span_context().span_id] += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.ended[span_id(span)] += 1

    @property
    def balanced(self) -> bool:
        """Every span that began has ended, and each exactly once."""
        return self.started == self.ended and set(self.ended.values()) <= {1}


class CountingIds(IdGenerator):
    """Ids 1, 2, 3, so that documents can be compared."""

    def __init__(self) -> None:
        self._traces = itertools.count(0xA1)
        self._spans = itertools.count(1)

    def generate_trace_id(self) -> int:
        return next(self._traces)

    def generate_span_id(self) -> int:
        return next(self._spans)


def span_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    return context.span_id


def names_of(spans: Iterable[ReadableSpan]) -> list[str]:
    """The names of spans, in order, without the waits that a busy machine makes long enough for a span."""
    passing = {reason for reason, facts in WAITS.items() if facts.is_passing}
    return sorted(span.name for span in spans if (span.attributes or {}).get("streamtools.wait.reason") not in passing)
