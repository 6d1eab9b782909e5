"""Sets OpenTelemetry up in one line, for applications that have no set-up of their own.

    with configure("jaeger-file", path="trace.json"):
        ...                                     # every pipeline draws its spans from here on

Beside this module `lean_spans` imports the OpenTelemetry SDK, once the application has, and `worker_spans`, in a worker
whose tool draws spans. A Jaeger, Tempo, Phoenix, Langfuse or any other collector takes
``configure("otlp", endpoint="http://localhost:4318")``.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

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
from opentelemetry.trace import SpanContext, StatusCode, format_span_id, format_trace_id

from ..errors import LocalProtocolError
from ..extras import missing
from ..files import write_private

ExporterName = Literal["otlp", "jaeger-file", "console", "memory"]

MAX_SPANS = 10_000  # spans that the memory and the file exporter keep; a span is about 1 to 2 kB of JSON

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
    """Sets up where spans go; pipelines then draw them.

    If the application has set a TracerProvider already, that one stays: the exporter is added to it, and its own
    resource (with its service name) goes on to describe the spans.

    Args:
        exporter: ``"otlp"``: over HTTP to a collector, in batches. ``"jaeger-file"``: into a file that Jaeger's UI
            opens, valid after every write. ``"console"``: to standard output. ``"memory"``: kept for `Telemetry.spans`.
        service_name: the program's name; by default ``OTEL_SERVICE_NAME``, else ``"streamtools"``.
        path: the file of ``"jaeger-file"``; an old one is replaced.
        endpoint: the collector of ``"otlp"``, with or without ``/v1/traces``; by default
            ``OTEL_EXPORTER_OTLP_ENDPOINT``, else ``http://localhost:4318``.
        set_global: make the provider the program's own, so that pipelines without ``observers=`` use it. False: pass
            ``observers=[Tracing(telemetry.provider)]`` yourself.
        max_spans: the most spans that ``"memory"`` and ``"jaeger-file"`` keep; later ones are dropped, which is logged
            once.

    Returns:
        A handle; use it as a context manager, or call its `shutdown` at the end.

    Raises:
        ValueError: there is no such exporter.
        ImportError: the package that OTLP needs is not installed.
        LocalProtocolError: the program's TracerProvider takes no exporters.
        OSError: the file cannot be written.
    """
    wanted = _EXPORTERS.get(exporter)
    if wanted is None:
        raise ValueError(f"exporter={exporter!r}: must be one of {', '.join(_EXPORTERS)}")
    # OpenTelemetry's global provider can be set once, and not replaced: to one that is there, the exporter is added.
    make, make_processor = wanted
    present = trace.get_tracer_provider() if set_global else None
    add = _adder(present)
    sink = make(_Settings(Path(path), endpoint, max_spans))
    watched = _Watched(sink)
    processor = _Detachable(make_processor(watched))
    if add is not None and present is not None:
        add(processor)
        return Telemetry(present, processor, watched, own=None)
    name = service_name or os.environ.get("OTEL_SERVICE_NAME") or "streamtools"
    own = TracerProvider(resource=Resource.create({"service.name": name}))
    own.add_span_processor(processor)
    if set_global:
        trace.set_tracer_provider(own)
    # The global provider works on after `shutdown`, since the program cannot set another one: a later `configure` adds
    # to it. One that nobody else can reach ends with its handle.
    return Telemetry(own, processor, watched, own=None if set_global else own)


class Telemetry:
    """A set-up made by `configure`. Ends with its block, or with `shutdown`."""

    def __init__(
        self, provider: trace.TracerProvider, processor: _Detachable, exporter: _Watched, *, own: TracerProvider | None
    ) -> None:
        self.provider = provider
        """The provider for ``Tracing(telemetry.provider)``, and for spans of your own."""
        self._processor = processor
        self._exporter = exporter
        self._own = own

    @property
    def path(self) -> Path | None:
        """The file that ``"jaeger-file"`` writes, else None."""
        inner = self._exporter.inner
        return inner.path if isinstance(inner, JaegerFileExporter) else None

    def spans(self) -> tuple[ReadableSpan, ...]:
        """Returns the spans that have ended so far, in that order.

        Raises:
            LocalProtocolError: the exporter is not ``"memory"``.
        """
        inner = self._exporter.inner
        if not isinstance(inner, MemoryExporter):
            raise LocalProtocolError('only configure("memory") keeps spans')
        return inner.spans

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Exports the spans that have ended so far. Blocks; in async code call it in a thread.

        Returns:
            Whether every span since the last flush was exported, and in time.
        """
        # The SDK's batch processor ignores its timeout, and returns True for failed exports, so both are done here.
        worker = threading.Thread(target=self._processor.force_flush, name="streamtools-flush", daemon=True)
        worker.start()
        worker.join(timeout_s)
        return self._exporter.take_success() and not worker.is_alive()

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


# -- exporters and processors ------------------------------------------------------------------------------------------


class MemoryExporter(SpanExporter):
    """Keeps the first `max_spans` spans."""

    def __init__(self, max_spans: int = MAX_SPANS) -> None:
        self._max_spans = max_spans
        self._spans: list[ReadableSpan] = []
        self.dropped = 0
        """Number of spans that there was no room for."""

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The kept spans, in the order in which they ended."""
        return tuple(self._spans)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keeps these spans, as many as there is room for."""
        kept = spans[: self._max_spans - len(self._spans)]
        self._spans.extend(kept)
        return _count_dropped(self, len(spans) - len(kept), "memory", self._max_spans)


class JaegerFileExporter(SpanExporter):
    """Writes spans into a file that Jaeger's UI opens. To be used behind a `BatchSpanProcessor`.

    The file is a whole, valid document at any time: every export writes it anew beside the old one and puts it in its
    place. Its owner alone may read it. A write costs time linear in the spans kept (10,000 take about 0.1 s, in the
    processor's own thread).
    """

    def __init__(self, path: str | os.PathLike[str], *, max_spans: int = MAX_SPANS) -> None:
        self.path = Path(path)
        self.dropped = 0
        """Number of spans that there was no room for."""
        self._max_spans = max_spans
        self._kept = 0
        self._document = JaegerDocument()
        self._lock = threading.Lock()
        # At once, so that an unwritable path is an error of the call that gave it: the processor's thread would log it.
        self._write()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Adds these spans, as many as there is room for, and writes the file."""
        with self._lock:
            kept = spans[: self._max_spans - self._kept]
            for span in kept:
                self._document.add(span)
            self._kept += len(kept)
            if kept:
                self._write()
            return _count_dropped(self, len(spans) - len(kept), str(self.path), self._max_spans)

    def _write(self) -> None:
        write_private(self.path, orjson.dumps(self._document.data))


class _Droppable(Protocol):
    dropped: int


def _count_dropped(exporter: _Droppable, count: int, where: str, limit: int) -> SpanExportResult:
    if not count:
        return SpanExportResult.SUCCESS
    if not exporter.dropped:
        logger.warning("%s holds max_spans=%d spans; further spans are dropped", where, limit)
    exporter.dropped += count
    return SpanExportResult.FAILURE


class _Watched(SpanExporter):
    """Remembers whether the exporter inside succeeded."""

    def __init__(self, inner: SpanExporter) -> None:
        self.inner = inner
        self._failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self.inner.export(spans)
        except Exception:
            self._failed = True
            raise  # to the SDK's processor, which logs it
        self._failed |= result is not SpanExportResult.SUCCESS
        return result

    def take_success(self) -> bool:
        """Returns whether every export since the last call succeeded."""
        failed, self._failed = self._failed, False
        return not failed

    def shutdown(self) -> None:
        self.inner.shutdown()


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


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of `configure` that exporters use."""

    path: Path
    endpoint: str | None
    max_spans: int


def _otlp(settings: _Settings) -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ImportError(missing("the OTLP exporter", "otlp")) from error
    # An address that is passed is used as it is, while the SDK appends the path to that of the environment variable.
    url = settings.endpoint
    if url is not None and not url.rstrip("/").endswith(OTLP_TRACES_PATH):
        url = url.rstrip("/") + OTLP_TRACES_PATH
    return OTLPSpanExporter(endpoint=url)


_EXPORTERS: dict[str, tuple[Callable[[_Settings], SpanExporter], Callable[[SpanExporter], SpanProcessor]]] = {
    "otlp": (_otlp, BatchSpanProcessor),
    "jaeger-file": (
        lambda settings: JaegerFileExporter(settings.path, max_spans=settings.max_spans),
        BatchSpanProcessor,
    ),
    "console": (lambda _: ConsoleSpanExporter(out=sys.stdout), SimpleSpanProcessor),
    "memory": (lambda settings: MemoryExporter(settings.max_spans), SimpleSpanProcessor),
}


def _adder(provider: trace.TracerProvider | None) -> Callable[[SpanProcessor], None] | None:
    """Returns the method by which the application's provider takes a processor; None if no provider is set."""
    if provider is None or isinstance(provider, trace.ProxyTracerProvider):
        return None
    add: Callable[[SpanProcessor], None] | None = getattr(provider, "add_span_processor", None)
    if add is None:
        raise LocalProtocolError(
            f"the program's TracerProvider ({type(provider).__name__}) takes no exporters; "
            "use configure(..., set_global=False) and Tracing(telemetry.provider)"
        )
    return add


# -- the file for Jaeger's UI ----------------------------------------------------------------------------------------
#
# Finished spans become Jaeger UI JSON, `{"data": [trace, ...]}`, which its *Upload* takes, without a server or a
# collector. Times are microseconds.
#
# Source: https://github.com/jaegertracing/jaeger/blob/v2.20.0/internal/uimodel/model.go (read 2026-11-20)

MAX_EXACT_INT = 1 << 53  # JavaScript's; a greater int64 is written as a string


def to_jaeger(spans: Iterable[ReadableSpan]) -> dict[str, Any]:
    """Returns these spans as one Jaeger UI document, ready for `json.dump`."""
    document = JaegerDocument()
    for span in spans:
        document.add(span)
    return document.data


class JaegerDocument:
    """A Jaeger UI document that grows span by span. Each `add` costs the same, whatever is in it already."""

    def __init__(self) -> None:
        self._traces: dict[str, dict[str, Any]] = {}
        self.data: dict[str, Any] = {"data": []}
        """The document so far; it grows with the next `add`."""

    def add(self, span: ReadableSpan) -> None:
        """Puts a finished span into its trace."""
        context = span.context
        if context is None:
            raise AssertionError("a span that was started has a context")
        trace_id = format_trace_id(context.trace_id)
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = {"traceID": trace_id, "spans": [], "processes": {}, "warnings": None}
            self._traces[trace_id] = trace
            self.data["data"].append(trace)
        start = span.start_time or 0
        trace["spans"].append(
            {
                "traceID": trace_id,
                "spanID": format_span_id(context.span_id),
                "operationName": _utf8(span.name),
                "references": _references(span),
                "startTime": start // 1000,
                "duration": max(0, (span.end_time or start) - start) // 1000,
                "tags": _tags(span),
                "logs": [
                    {"timestamp": one.timestamp // 1000, "fields": [_tag("event", one.name), *_many(one.attributes)]}
                    for one in span.events
                ],
                "processID": _process_id(trace["processes"], span.resource),
            }
        )


def _references(span: ReadableSpan) -> list[dict[str, Any]]:
    # The UI takes the first reference for the parent, so links follow. Jaeger's own storage has no place for a link's
    # attributes; the viewer shows a reference's tags, so they are written there.
    found = [_reference("CHILD_OF", span.parent)] if span.parent is not None else []
    for link in span.links:
        tags = {"tags": _many(link.attributes)} if link.attributes else {}
        found.append(_reference("FOLLOWS_FROM", link.context) | tags)
    return found


def _reference(kind: str, context: SpanContext) -> dict[str, Any]:
    return {"refType": kind, "traceID": format_trace_id(context.trace_id), "spanID": format_span_id(context.span_id)}


def _process_id(processes: dict[str, Any], resource: Resource) -> str:
    attributes = dict(resource.attributes or {})
    process = {"serviceName": _utf8(str(attributes.pop("service.name", "unknown_service"))), "tags": _many(attributes)}
    for process_id, known in processes.items():  # few: one for each program that takes part in the trace
        if known == process:
            return str(process_id)
    process_id = f"p{len(processes) + 1}"
    processes[process_id] = process
    return process_id


def _tags(span: ReadableSpan) -> list[dict[str, Any]]:
    tags = _many(span.attributes)
    tags.append(_tag("span.kind", span.kind.name.lower()))
    scope = span.instrumentation_scope
    if scope is not None:
        tags.append(_tag("otel.scope.name", scope.name))
        if scope.version:
            tags.append(_tag("otel.scope.version", scope.version))
    status = span.status
    if status.status_code is not StatusCode.UNSET:
        tags.append(_tag("otel.status_code", status.status_code.name))
    # The UI shows an error by this tag alone.
    if status.status_code is StatusCode.ERROR:
        tags.append(_tag("error", True))
    if status.description:
        tags.append(_tag("otel.status_description", status.description))
    return tags


def _many(attributes: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return [_tag(key, value) for key, value in (attributes or {}).items()]


def _tag(key: str, value: Any) -> dict[str, Any]:
    kind, written = _typed(value)
    return {"key": _utf8(key), "type": kind, "value": written}


def _typed(value: Any) -> tuple[str, Any]:
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int):
        return "int64", value if abs(value) <= MAX_EXACT_INT else str(value)
    if isinstance(value, float) and math.isfinite(value):
        return "float64", value
    if isinstance(value, bytes):
        return "binary", base64.b64encode(value).decode()
    if isinstance(value, (Sequence, Mapping)) and not isinstance(value, str):
        return "string", _utf8(json.dumps(value, ensure_ascii=False, default=str))  # as Jaeger writes them
    return "string", _utf8(str(value))


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
