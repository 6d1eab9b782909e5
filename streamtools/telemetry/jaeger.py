"""Writes finished spans as Jaeger UI JSON, which its *Upload* takes, with no server and no collector.

In go finished spans, out comes ``{"data": [trace, ...]}``. Times are microseconds. A parent is a ``CHILD_OF``
reference and comes first, because the UI takes the first reference for the parent; links follow as ``FOLLOWS_FROM``
(the format has no place for a link's attributes). The UI shows an error by the tag ``error`` alone.

Source: https://github.com/jaegertracing/jaeger/blob/v2.20.0/internal/uimodel/model.go (read 2026-11-20)
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Link, SpanContext, StatusCode, format_span_id, format_trace_id

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan

__all__ = ["JaegerDocument", "to_jaeger"]

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
                "logs": [_log(event) for event in span.events],
                "processID": _process_id(trace["processes"], span.resource),
            }
        )


def _references(span: ReadableSpan) -> list[dict[str, Any]]:
    found = [_reference("CHILD_OF", span.parent)] if span.parent is not None else []
    # The viewer shows a reference's tags; Jaeger's own storage has none.
    return [*found, *(_reference("FOLLOWS_FROM", link.context) | _tags_of(link) for link in span.links)]


def _reference(kind: str, context: SpanContext) -> dict[str, Any]:
    return {"refType": kind, "traceID": format_trace_id(context.trace_id), "spanID": format_span_id(context.span_id)}


def _tags_of(link: Link) -> dict[str, Any]:
    return {"tags": _many(link.attributes)} if link.attributes else {}


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
    if status.status_code is StatusCode.ERROR:
        tags.append(_tag("error", True))
    if status.description:
        tags.append(_tag("otel.status_description", status.description))
    return tags


def _log(event: Event) -> dict[str, Any]:
    return {"timestamp": event.timestamp // 1000, "fields": [_tag("event", event.name), *_many(event.attributes)]}


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
