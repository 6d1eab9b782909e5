"""A span's context that has travelled, made the current one again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .carrier import current_carrier

__all__ = ["carried"]

_PROPAGATOR = TraceContextTextMapPropagator()


@contextmanager
def carried(carrier: Mapping[str, str]) -> Iterator[None]:
    """While this is held, spans that are started are children of the span that `carrier` tells of.

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
