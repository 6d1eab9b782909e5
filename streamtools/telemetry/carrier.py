"""Carries the current span to another process, and makes it current there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["carried", "current_carrier"]

_PROPAGATOR = TraceContextTextMapPropagator()


def current_carrier() -> dict[str, str]:
    """Returns ``traceparent`` and ``tracestate`` of the current span, by W3C Trace Context; empty if there is none.

    Baggage is not in it: the carrier may reach a stranger, and baggage is the application's own.
    """
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier


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
