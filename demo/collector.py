"""Sends the demo's spans to the collector that the environment names, once the run has ended.

``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`` or ``OTEL_EXPORTER_OTLP_ENDPOINT`` names it, for OTLP over HTTP, as for any other
program; headers, certificates and the rest are read from the environment, too.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.sdk.trace import TracerProvider as OwnProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import TracerProvider, format_trace_id

from streamtools.ground.extras import missing

from .errors import DemoError

__all__ = ["Collector"]

VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TIMEOUT_S = 3.0  # a collector on this machine answers within milliseconds


class Collector:
    """The collector, and the spans that it is sent."""

    def __init__(self, endpoint: str, exporter: Any) -> None:
        self._exporter = exporter
        # Sent as one batch, so that it is known at the end whether they have arrived.
        self._spans = InMemorySpanExporter()
        parts = urlsplit(endpoint)
        self.place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        """Its endpoint; without a name and a password, which may stand in it."""

    @classmethod
    def of_environment(cls) -> Collector | None:
        """The collector that the environment names; None if it names none.

        Raises:
            DemoError: the exporter is not installed.
        """
        endpoint = next((named for name in VARIABLES if (named := os.environ.get(name))), None)
        if endpoint is None:
            return None
        try:
            found = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        except ImportError as error:
            raise DemoError(missing("the environment names a collector: the OTLP exporter", "otlp")) from error
        return cls(endpoint, found.OTLPSpanExporter(timeout=TIMEOUT_S))

    def listen(self, provider: TracerProvider) -> None:
        """Keep the spans of a provider from now on."""
        assert isinstance(provider, OwnProvider)  # `configure` has made it
        provider.add_span_processor(SimpleSpanProcessor(self._spans))

    def send(self) -> str:
        """Send the spans, and return what became of them, in words."""
        spans = self._spans.get_finished_spans()
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL + 1)  # it is said here, in one line
        try:
            taken = self._exporter.export(spans).name == "SUCCESS"
        except OSError:
            taken = False
        if not taken or spans[0].context is None:
            return f"{self.place} did not take the spans (OTLP over HTTP)"
        return f"{format_trace_id(spans[0].context.trace_id)}, sent to {self.place}"
