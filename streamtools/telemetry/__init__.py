"""Draws OpenTelemetry spans from the events of pipelines, and sets OpenTelemetry up in one line.

A pipeline that is given no observers draws spans if the application has set a TracerProvider, as `configure` does:

    from streamtools.telemetry import configure

    with configure("jaeger-file", path="trace.json"):
        ...

Importing this package imports the OpenTelemetry API alone: `Tracing` is loaded where spans are drawn, the SDK with the
first use of `configure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace

if TYPE_CHECKING:
    from ..observers import Observer
    from .setup import configure
    from .tracing import Tracing

__all__ = ["Tracing", "configure", "default_observers"]


def default_observers() -> list[Observer]:
    """Returns the observers of a pipeline that was given none: spans, if the application has set a TracerProvider."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return []
    from .tracing import Tracing

    return [Tracing(provider)]


def __getattr__(name: str) -> Any:
    if name == "Tracing":
        from .tracing import Tracing

        return Tracing
    if name == "configure":
        from .setup import configure

        return configure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
