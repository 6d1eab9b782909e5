"""The current span, in the form in which it travels to another process."""

from __future__ import annotations

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["current_carrier"]

_PROPAGATOR = TraceContextTextMapPropagator()


def current_carrier() -> dict[str, str]:
    """``traceparent`` and ``tracestate`` of the current span, by W3C Trace Context; empty if there is none.

    Baggage is not in it: whoever receives the carrier may be a stranger, and baggage is the application's own.
    """
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier
