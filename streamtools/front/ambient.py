"""Brings OpenTelemetry to every run where the program has loaded it; otherwise nothing of it is loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

from ..observers.contracts import Observer, ambient

# A provider is set by a function of one of these, which stays loaded; or the first is told which one to load.
_APIS = ("opentelemetry.trace", "opentelemetry.metrics")
_TOLD_BY = "OTEL_PYTHON_TRACER_PROVIDER"


class OpenTelemetry:
    _defaults: Callable[[], Iterable[Observer]] | None = None  # once it was loaded

    def observers(self) -> Iterable[Observer]:
        if not _is_loaded() and _TOLD_BY not in os.environ:
            return ()
        if self._defaults is None:
            from ..telemetry import default_observers  # most programs have none

            self._defaults = default_observers
        return self._defaults()

    def carrier(self) -> Mapping[str, str]:
        if not _is_loaded():
            return {}
        from ..telemetry.carrier import current_carrier

        return current_carrier()

    def carried(self, carrier: Mapping[str, str], /) -> AbstractContextManager[object]:
        if not _is_loaded():
            return nullcontext()
        from ..telemetry.carrier import carried

        return carried(carrier)


def _is_loaded() -> bool:
    return not sys.modules.keys().isdisjoint(_APIS)


ambient.append(OpenTelemetry())
