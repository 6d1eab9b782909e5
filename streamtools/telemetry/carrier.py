"""Carries the current span to another process, and makes it current there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["carried", "carrier_of", "current_carrier", "span_context_of"]

_PROPAGATOR = TraceContextTextMapPropagator()


def current_carrier() -> dict[str, str]:
    """Returns ``traceparent`` and ``tracestate`` of the current span, by W3C Trace Context; empty if there is none.

    Baggage is not in it: the carrier may reach a stranger, and baggage is the application's own.
    """
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier


def carrier_of(span: Span) -> dict[str, str]:
    """Returns ``traceparent`` and ``tracestate`` of a span."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span, context.Context()))
    return carrier


def span_context_of(traceparent: str | None) -> SpanContext | None:
    """Returns the span that a ``traceparent`` names; None if it names none."""
    if not isinstance(traceparent, str):
        return None
    found = trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent}, context.Context()))
    return found.get_span_context() if found.get_span_context().is_valid else None


@contextmanager
def carried(carrier: Mapping[str, str]) -> Iterator[None]:
    """Makes spans that are started while it is held children of the span in `carrier`.

    Nothing changes where that span is the current one already, or where the carrier is empty. Hold it in one task, and
    around no ``yield``.
    """
    if not carrier or current_carrier().get("traceparent") == carrier.get("traceparent"):
        yield
        return
    token = context.attach(_PROPAGATOR.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)
