"""Draws what a dead process could not: a span for its run, and one for each call that it had begun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanKind, Status, StatusCode, TracerProvider

from .carrier import span_context_of, tracer_of
from .names import SEMCONV, Names

if TYPE_CHECKING:
    from ..durable.journal import StoredRun
    from ..durable.record_store import StoredCall


def draw(
    runs: Iterable[tuple[StoredRun, Sequence[StoredCall]]], provider: TracerProvider, names: Names = SEMCONV
) -> None:
    """Draws each run, dead or ``suspended``, in its own trace, below the latest span that its process has noted: from
    its begin to the latest thing that is known of it. The spans are new at each time: send a run once."""
    tracer = tracer_of(provider, names.schema_url)
    for run, calls in runs:
        state = "dead" if run.ended_at is None else run.outcome or "left"
        known = span_context_of(run.traceparent)
        parent = Context() if known is None else trace.set_span_in_context(NonRecordingSpan(known), Context())
        span = tracer.start_span(
            f"invoke_agent {run.name}" if run.name else "invoke_agent",
            parent,
            SpanKind.INTERNAL,
            {"gen_ai.operation.name": "invoke_agent", names.run_id: run.run_id, names.run_outcome: state},
            start_time=_ns(run.began_at),
        )
        if run.name is not None:
            span.set_attribute("gen_ai.agent.name", run.name)
        text = "its process died" if state == "dead" else "waits for a person"
        span.set_status(Status(StatusCode.ERROR if state == "dead" else StatusCode.UNSET, text))
        inside = trace.set_span_in_context(span, Context())
        for call in calls:
            attributes: dict[str, Any] = {names.run_id: run.run_id, names.call_outcome: call.state}
            attributes |= _place(call.key, names)
            at = _ns(call.claimed_at)
            begun = tracer.start_span(names.call_begin_span, inside, attributes=attributes, start_time=at)
            begun.set_status(Status(StatusCode.ERROR, "begun, and its end is not known"))
            begun.end(at)
        span.end(_ns(max((call.claimed_at for call in calls), default=run.began_at)))


def _place(key: str, names: Names) -> dict[str, Any]:
    parts = key.split(":", 3)  # of `tools.context.call_key`
    step = parts[1].partition(".")[0] if len(parts) == 4 else ""
    found: dict[str, Any] = {names.call_store_key: key}
    if step.isdecimal():
        found |= {names.step: int(step)} | ({} if names.tool_call_id is None else {names.tool_call_id: parts[3]})
    return found


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
