"""Sets OpenTelemetry up in one line, for applications without a set-up of their own.

Only this module and, once the application has loaded it, `lean_spans` import the OpenTelemetry SDK.
"""

from __future__ import annotations

import base64
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

from ..durable.files import write_private
from ..errors import LocalProtocolError
from ..ground import missing

ExporterName = Literal["otlp", "otlp-file", "console"]

MAX_SPANS = 10_000  # spans that the file exporter keeps; a span is about 1 to 2 kB of JSON

OTLP_TRACES_PATH = "/v1/traces"

logger = logging.getLogger(__name__)


def configure(
    exporter: ExporterName = "otlp",
    *,
    service_name: str | None = None,
    path: str | os.PathLike[str] = "streamtools-trace.json",
    endpoint: str | None = None,
    set_global: bool = True,
    max_spans: int = MAX_SPANS,
) -> Telemetry:
    """Sets up the destination of spans, which pipelines then draw.

    A TracerProvider that the application has set stays: the exporter is added to it, and its resource (with its service
    name) describes the spans.

    Args:
        exporter: ``"otlp"``: over HTTP to a collector, in batches. ``"otlp-file"``: to a file of OTLP as JSON, which
            Jaeger's UI opens; valid after every write. ``"console"``: to standard output.
        service_name: the program's name; by default ``OTEL_SERVICE_NAME``, else ``"streamtools"``.
        path: the file of ``"otlp-file"``; an old one is replaced.
        endpoint: the collector of ``"otlp"``, with or without ``/v1/traces``; by default
            ``OTEL_EXPORTER_OTLP_ENDPOINT``, else ``http://localhost:4318``.
        set_global: make the provider global, so that pipelines without ``observers=`` use it. False: pass
            ``observers=[Tracing(telemetry.provider)]`` yourself.
        max_spans: the most spans that ``"otlp-file"`` keeps; later ones are dropped, with one log line.

    Returns:
        A handle: use it as a context manager, or call its `shutdown` at the end.

    Raises:
        ValueError: the exporter is unknown.
        ImportError: the package for OTLP is not installed.
        LocalProtocolError: the program's TracerProvider accepts no exporters.
        OSError: the file cannot be written.
    """
    wanted = _EXPORTERS.get(exporter)
    if wanted is None:
        raise ValueError(f"exporter={exporter!r}: must be one of {', '.join(_EXPORTERS)}")
    # OpenTelemetry's global provider can be set once, and not replaced: to one that is there, the exporter is added.
    make, make_processor = wanted
    present = trace.get_tracer_provider() if set_global else None
    add = _adder(present)
    sink = make(Path(path), endpoint, max_spans)
    file, processor = getattr(sink, "path", None), _Detachable(make_processor(sink))
    if add is not None and present is not None:
        add(processor)
        return Telemetry(present, processor, file, own=None)
    name = service_name or os.environ.get("OTEL_SERVICE_NAME") or "streamtools"
    own = TracerProvider(resource=Resource.create({"service.name": name}))
    own.add_span_processor(processor)
    if set_global:
        trace.set_tracer_provider(own)
    # The global provider works on after `shutdown`, since the program cannot set another one: a later `configure` adds
    # to it. One that nobody else can reach ends with its handle.
    return Telemetry(own, processor, file, own=None if set_global else own)


class Telemetry:
    """A set-up made by `configure`. Ends with its block, or with `shutdown`."""

    def __init__(
        self, provider: trace.TracerProvider, processor: _Detachable, path: Path | None, *, own: TracerProvider | None
    ) -> None:
        self.provider = provider  # the provider for `Tracing(telemetry.provider)`, and for spans of your own
        self.path = path
        """The file that ``"otlp-file"`` writes, else None."""
        self._processor = processor
        self._own = own

    def shutdown(self) -> None:
        """Exports the remaining spans, and stops. Spans that end later go nowhere. Calling it again does nothing.

        The program's TracerProvider stays, and works: a later `configure` adds to it.
        """
        self._processor.shutdown()
        if self._own is not None:
            self._own.shutdown()

    def __enter__(self) -> Telemetry:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


# -- exporters and processors --


class FileExporter(SpanExporter):
    """Writes spans into a file of OTLP as JSON, which Jaeger's UI opens. To be used behind a `BatchSpanProcessor`.

    The file is a whole, valid document at any time: every export writes it anew beside the old one and puts it in its
    place. Its owner alone may read it. A write costs time linear in the spans kept.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_spans: int = MAX_SPANS) -> None:
        self.path = Path(path)
        self.dropped = 0  # number of spans that there was no room for
        self._max_spans = max_spans
        self._kept = 0
        self._resources: list[bytes] = []
        self._lock = threading.Lock()
        # At once, so that a missing package and an unwritable path are errors of the call that gave it: the processor's
        # thread would log them.
        self._write(())

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._lock:
            kept = spans[: self._max_spans - self._kept]
            self._kept += len(kept)
            if kept:
                self._write(kept)
            if len(kept) == len(spans):
                return SpanExportResult.SUCCESS
            if not self.dropped:
                logger.warning("%s contains max_spans=%d spans; further spans are dropped", self.path, self._max_spans)
            self.dropped += len(spans) - len(kept)
            return SpanExportResult.FAILURE

    def _write(self, spans: Sequence[ReadableSpan]) -> None:
        self._resources += map(orjson.dumps, to_otlp(spans)["resourceSpans"])
        write_private(self.path, b'{"resourceSpans":[%s]}' % b",".join(self._resources))


class _Detachable(SpanProcessor):
    """A processor that ignores every span after its `shutdown`, as if it were taken out of its provider."""

    # The SDK has no way to remove a processor from a provider, and a program's own provider outlives the handle.

    def __init__(self, inner: SpanProcessor) -> None:
        self._inner: SpanProcessor | None = inner

    def on_end(self, span: ReadableSpan) -> None:
        inner = self._inner
        if inner is not None:
            inner.on_end(span)

    def shutdown(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        inner = self._inner
        return inner is None or inner.force_flush(timeout_millis)


def _otlp(path: Path, url: str | None, max_spans: int) -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ImportError(missing("the OTLP exporter", "otlp")) from error
    # An address that is passed is used as it is, while the SDK appends the path to that of the environment variable.
    if url is not None and not url.rstrip("/").endswith(OTLP_TRACES_PATH):
        url = url.rstrip("/") + OTLP_TRACES_PATH
    return OTLPSpanExporter(endpoint=url)


_Make = Callable[[Path, str | None, int], SpanExporter]  # of the path, the endpoint and the most spans
_EXPORTERS: dict[str, tuple[_Make, Callable[[SpanExporter], SpanProcessor]]] = {
    "otlp": (_otlp, BatchSpanProcessor),
    "otlp-file": (lambda path, _, most: FileExporter(path, max_spans=most), BatchSpanProcessor),
    "console": (lambda *_: ConsoleSpanExporter(out=sys.stdout), SimpleSpanProcessor),
}


def _adder(provider: trace.TracerProvider | None) -> Callable[[SpanProcessor], None] | None:
    if provider is None or isinstance(provider, trace.ProxyTracerProvider):
        return None
    add: Callable[[SpanProcessor], None] | None = getattr(provider, "add_span_processor", None)
    if add is None:
        raise LocalProtocolError(
            f"the program's TracerProvider ({type(provider).__name__}) accepts no exporters; use configure(..., "
            "set_global=False) and Tracing(telemetry.provider)"
        )
    return add


# -- OTLP as JSON --
#
# By the exporter's own encoder. Protobuf's mapping to JSON has base64 for bytes, OTLP's has hexadecimal ids:
# https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding (read 2026-11-28)
#
# Jaeger's UI takes such a file by *Search, Upload*, and has its server convert it, by the collector's own reader of
# OTLP's JSON: packages/jaeger-ui/src/utils/readJsonFile.tsx in https://github.com/jaegertracing/jaeger-ui, and
# cmd/jaeger/internal/extension/jaegerquery/internal/otlp_translator.go in https://github.com/jaegertracing/jaeger
# (read 2026-11-29)

_IDS = ("traceId", "spanId", "parentSpanId")


def to_otlp(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    try:
        from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # it has none
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    except ImportError as error:
        raise ImportError(missing("the OTLP exporter", "otlp")) from error
    document: dict[str, Any] = {"resourceSpans": []}
    document |= MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    scopes = (scope for resource in document["resourceSpans"] for scope in resource["scopeSpans"])
    for span in (span for scope in scopes for span in scope["spans"]):
        for held in (span, *span.get("links", ())):
            held |= {name: base64.b64decode(held[name]).hex() for name in _IDS if name in held}
    return document
