"""Draws OpenTelemetry spans from the events of pipelines, and sets OpenTelemetry up in one line.

A pipeline that is given no observers draws spans if the application has set a TracerProvider, as `configure` does:

    from streamtools.telemetry import configure

    with configure("jaeger-file", path="trace.json"):
        ...

Importing this package imports the OpenTelemetry API alone; the SDK comes with the first use of `configure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .tracing import Tracing, default_observers

if TYPE_CHECKING:
    from .setup import configure

__all__ = ["Tracing", "configure", "default_observers"]


def __getattr__(name: str) -> Any:
    if name == "configure":
        from .setup import configure

        return configure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
