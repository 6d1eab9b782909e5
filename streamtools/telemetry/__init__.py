"""Draws OpenTelemetry spans and metrics from the events of pipelines, and sets OpenTelemetry up in one line.

A pipeline draws spans if the application has set a TracerProvider, as `configure` does, and
records metrics if it has set a MeterProvider:

    from streamtools.telemetry import configure

    with configure("otlp-file", path="trace.json"):
        ...

Importing this package imports the OpenTelemetry API alone: `Tracing` is loaded where spans are drawn, the SDK with the
first use of `configure`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from opentelemetry import trace

from ..ground import names

if TYPE_CHECKING:
    from ..observers import Observer
    from .metrics import Metrics
    from .setup import configure
    from .tracing import Tracing
else:
    __getattr__ = names(__name__, {"metrics": "Metrics", "setup": "configure", "tracing": "Tracing"})

__all__ = ["Metrics", "Tracing", "configure", "default_observers"]


def default_observers() -> list[Observer]:
    """Returns the default observers of every run: spans and metrics, each if the application has set its provider."""
    # OpenTelemetry hands out a proxy until a provider is set. Drawn through it, each span would cost and go nowhere.
    made: list[Observer] = []
    provider = trace.get_tracer_provider()
    if not isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        from .tracing import Tracing

        made.append(Tracing(provider))
    if (meters := _meter_provider()) is not None:
        from .metrics import Metrics

        made.append(Metrics(meters))
    return made


def _meter_provider() -> Any | None:
    # Setting a provider imports the module: where it is not there, none is set. Imported here, it would cost every
    # program that has no metrics. The proxy's class is private, hence its name.
    api = sys.modules.get("opentelemetry.metrics")
    if api is None:
        return None
    provider = api.get_meter_provider()
    is_set = type(provider).__name__ != "_ProxyMeterProvider" and not isinstance(provider, api.NoOpMeterProvider)
    return provider if is_set else None
