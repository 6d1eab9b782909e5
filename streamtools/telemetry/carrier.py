"""Carries the current span to another process, and makes it current there."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .._version import __version__

_PROPAGATOR = TraceContextTextMapPropagator()


def current_carrier() -> dict[str, str]:
    """Returns ``traceparent`` and ``tracestate`` of the current span, by W3C Trace Context; empty if there is none.

    Baggage is not in it: the carrier may reach a stranger, and baggage is the application's own.
    """
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier


def carrier_of(span: Span) -> dict[str, str]:
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span, context.Context()))
    return carrier


def span_context_of(traceparent: str | None) -> SpanContext | None:
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
    # In the same process the current span is the one that the carrier names. Attached again, it would be a remote span
    # without the context's other values.
    if not carrier or current_carrier().get("traceparent") == carrier.get("traceparent"):
        yield
        return
    token = context.attach(_PROPAGATOR.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)


# -- tracers --

# The tracer of each provider is kept, since making one costs a fifth of a step's spans. By the provider's identity:
# Logfire's is a dataclass, with an equality of its own and without a hash.
_tracers: dict[int, trace.Tracer] = {}


def tracer_of(provider: trace.TracerProvider | None, schema_url: str) -> trace.Tracer:
    # The global provider may still be set: the tracer of its proxy must not be kept.
    tracer = None if provider is None else _tracers.get(id(provider))
    if tracer is None:
        tracer = trace.get_tracer("streamtools", __version__, provider, schema_url)
        if provider is not None and _watched(provider):
            _tracers[id(provider)] = tracer
    return tracer


def _watched(provider: trace.TracerProvider) -> bool:
    # An identity is used again once its object is gone. Where no weak reference is possible, nothing is kept.
    try:
        weakref.finalize(provider, partial(_tracers.pop, id(provider), None)).atexit = False
    except TypeError:
        return False
    return True
