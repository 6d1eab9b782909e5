"""Reads spans from the documents of trace stores: Jaeger's UI JSON, and OTLP's JSON.

In goes parsed JSON of a stranger's: every field is checked where it is read, and one that has another type counts as
missing. Out come spans with the same facts whatever the document: lists and objects among the attributes as JSON text,
as Jaeger writes them, and a failure's text as ``otel.status_description``.

| document | written by |
|---|---|
| `{"data": [{"spans": …}]}` | Jaeger's download and ``/api/traces/ID``, `configure("jaeger-file")` |
| `{"resourceSpans": …}` | OTLP: the collector's file exporter, a document for each line |
| `{"result": {"resourceSpans": …}}` | Jaeger's ``/api/v3/traces/ID`` |

Sources: https://github.com/jaegertracing/jaeger/blob/v2.20.0/internal/uimodel/model.go (read 2026-11-20),
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding (read 2026-11-28). OTLP's JSON has ids in hexadecimal,
64-bit integers as text and enums as integers; a generic writer of protobuf's JSON has base64 and names. Both are read.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypeAlias

from ..fields import Range, fits
from ..telemetry.names import SEMCONV

__all__ = [
    "SECONDS",
    "SpanKey",
    "SpansFile",
    "StoredSpan",
    "is_trace",
    "items",
    "load_documents",
    "read_spans",
    "whole_number",
]

COUNT = Annotated[int, Range(0, (1 << 53) - 1)]  # a count, or microseconds: JavaScript's greatest exact integer
SECONDS = Annotated[float, Range(0, 1e9)]  # 30 years: a longer wait is ignored
_DEEPEST = 32  # of lists and objects in an attribute: a deeper value counts as missing
_MOST_TORN = 100  # lines: nothing after them is read
_SPACE = re.compile(r"[ \t\r\n]*")
_DIGITS = 20  # of a 64-bit integer
_ERROR = (2, "2", "STATUS_CODE_ERROR")

Json: TypeAlias = Mapping[str, Any]
SpanKey: TypeAlias = tuple[str, str]
"""The ids of a trace and of a span in it."""


@dataclass(slots=True)
class StoredSpan:
    """A span as a trace store has it; times in seconds of the epoch."""

    key: SpanKey
    name: str
    start: float
    end: float
    parent: SpanKey | None
    links: list[SpanKey]
    tags: dict[str, Any]
    logs: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def text(self, name: str | None) -> str | None:
        """Returns an attribute that is text."""
        value = self.tags.get(name or "")
        return value if isinstance(value, str) else None

    def count(self, name: str | None) -> int | None:
        """Returns an attribute that is a count."""
        return whole_number(self.tags.get(name or ""))

    def cost(self, name: str | None) -> float | None:
        """Returns an attribute that is a sum of money."""
        value = self.tags.get(name or "")
        return float(value) if value is not None and fits(value, SECONDS) else None

    def seconds(self, name: str | None) -> float:
        """Returns an attribute that is a length of time; 0 if there is none."""
        value = self.tags.get(name or "")
        return float(value) if value is not None and fits(value, SECONDS) else 0.0

    def move(self, by: float) -> None:
        """Moves all its times by so many seconds."""
        self.start, self.end = self.start + by, self.end + by
        self.logs = [(time + by, tags) for time, tags in self.logs]

    @property
    def index(self) -> int:
        """The call's position among those of its step; -1 for a span without a call."""
        # `int` would take digits of any script, and any number of them.
        last = (self.text(SEMCONV.call_key) or "").rpartition(".")[2]
        return int(last) if last.isascii() and last.isdigit() and len(last) < 10 else -1

    @property
    def tool_name(self) -> str:
        """The tool's name; that of a call that waits, or did not run, has a name of ours."""
        return self.text(SEMCONV.tool_name) or self.text(SEMCONV.waiting_tool) or ""


class SpansFile(NamedTuple):
    """What a file of JSON has in it."""

    documents: list[object]
    torn: int
    """Lines that could not be read."""


def load_documents(content: bytes) -> SpansFile:
    """Returns the JSON documents of a file: one, or one after the other.

    A file to which a collector was writing when it died has a torn line; those after it are read nevertheless.

    Raises:
        ValueError, RecursionError: its beginning is not JSON.
    """
    text, decoder = content.decode("utf-8-sig"), json.JSONDecoder()
    documents: list[object] = []
    torn, at = 0, _next(text, 0)
    while at < len(text) and torn < _MOST_TORN:
        try:
            document, at = decoder.raw_decode(text, at)
            documents.append(document)
        except (ValueError, RecursionError):
            if not documents:
                raise
            torn += 1
            at = text.find("\n", at) + 1 or len(text)
        at = _next(text, at)
    return SpansFile(documents, torn)


def _next(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def is_trace(document: object) -> bool:
    """Returns whether a parsed JSON document is one with spans, as far as its outermost members show."""
    if not isinstance(document, dict):
        return False
    return isinstance(_otlp(document), list) or any(isinstance(one.get("spans"), list) for one in _traces(document))


def read_spans(document: Json) -> Iterator[StoredSpan]:
    """Yields the spans of a document, in its order; what is not one is left out."""
    resources = _otlp(document)
    if isinstance(resources, list):
        for resource in items(resources):
            for scope in items(resource.get("scopeSpans")):
                yield from _readable(map(_of_otlp, items(scope.get("spans"))))
        return
    for trace in _traces(document):
        yield from _readable(map(_of_jaeger, items(trace.get("spans"))))


def whole_number(value: object) -> int | None:
    """Returns a count or a time that every reader of JSON can hold."""
    return value if isinstance(value, int) and fits(value, COUNT) else None


def _readable(spans: Iterable[StoredSpan | None]) -> Iterator[StoredSpan]:
    return (span for span in spans if span is not None)


def items(value: object) -> Iterable[Json]:
    """Returns the objects of a list; nothing of what is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# -- Jaeger ------------------------------------------------------------------------------------------------------------


def _traces(document: Json) -> Iterator[Json]:
    data = document.get("data")
    for trace in data if isinstance(data, list) else [data]:
        if isinstance(trace, dict):
            yield trace


def _of_jaeger(span: Json) -> StoredSpan | None:
    name = span.get("operationName")
    start, duration = whole_number(span.get("startTime")), whole_number(span.get("duration"))
    if start is None or duration is None or not isinstance(name, str):
        return None
    references, trace_id = items(span.get("references")), _text(span.get("traceID"))
    return StoredSpan(
        key=(trace_id, _text(span.get("spanID"))),
        name=name,
        start=start / 1e6,
        end=(start + duration) / 1e6,
        parent=next(_referred(references, "CHILD_OF", trace_id), None),
        links=list(_referred(references, "FOLLOWS_FROM", trace_id)),
        tags=_tags(span.get("tags")),
        logs=[
            (time / 1e6, _tags(log.get("fields")))
            for log in items(span.get("logs"))
            if (time := whole_number(log.get("timestamp"))) is not None
        ],
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _referred(references: Iterable[Json], kind: str, trace_id: str) -> Iterator[SpanKey]:
    """Yields the ids of the spans that are referred to in this way."""
    for one in references:
        if one.get("refType") == kind and isinstance(one.get("spanID"), str):
            yield _text(one.get("traceID", trace_id)), one["spanID"]


def _tags(tags: object) -> dict[str, Any]:
    return {tag["key"]: tag.get("value") for tag in items(tags) if isinstance(tag.get("key"), str)}


# -- OTLP --------------------------------------------------------------------------------------------------------------


def _otlp(document: Json) -> object:
    """Returns the list of a document of OTLP."""
    result = document.get("result")
    return (result if isinstance(result, dict) else document).get("resourceSpans")


def _of_otlp(span: Json) -> StoredSpan | None:
    begun, ended, name = (
        _integer(span.get("startTimeUnixNano")),
        _integer(span.get("endTimeUnixNano")),
        span.get("name"),
    )
    if begun is None or ended is None or not isinstance(name, str):
        return None
    # Rounded as Jaeger rounds, so that a span is the same in both documents.
    start, duration = whole_number(begun // 1000), whole_number(max(0, ended - begun) // 1000)
    if start is None or duration is None:
        return None
    trace_id, parent = _id(span.get("traceId"), 16), _id(span.get("parentSpanId"), 8)
    tags, status = _attributes(span.get("attributes")), span.get("status")
    if isinstance(status, dict) and status.get("code") in _ERROR and isinstance(status.get("message"), str):
        tags["otel.status_description"] = status["message"]
    return StoredSpan(
        key=(trace_id, _id(span.get("spanId"), 8)),
        name=name,
        start=start / 1e6,
        end=(start + duration) / 1e6,
        parent=(trace_id, parent) if parent else None,
        links=[(_id(link.get("traceId"), 16), _id(link.get("spanId"), 8)) for link in items(span.get("links"))],
        tags=tags,
        logs=[
            (time / 1e6, {"event": event.get("name"), **_attributes(event.get("attributes"))})
            for event in items(span.get("events"))
            if (time := whole_number((_integer(event.get("timeUnixNano")) or 0) // 1000)) is not None
        ],
    )


def _integer(value: object) -> int | None:
    """Returns a 64-bit integer, which is text or a number."""
    if isinstance(value, str) and len(value) <= _DIGITS and value.isascii() and value.removeprefix("-").isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _id(value: object, size: int) -> str:
    """Returns an id of so many bytes as lower-case hexadecimal digits; ``""`` if it is none."""
    if not isinstance(value, str) or not value.isascii():
        return ""
    try:
        # By the length alone: any text of hexadecimal digits is base64, too.
        found = bytes.fromhex(value) if len(value) == 2 * size else base64.b64decode(value, validate=True)
    except ValueError:
        return ""
    return found.hex() if len(found) == size and any(found) else ""


def _attributes(attributes: object) -> dict[str, Any]:
    found = {one["key"]: _value(one.get("value"), 0) for one in items(attributes) if isinstance(one.get("key"), str)}
    return {
        key: json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
        for key, value in found.items()
    }


def _value(value: object, depth: int) -> Any:
    """Returns the value of an `AnyValue`; None if it has none that is known."""
    if not isinstance(value, dict) or depth > _DEEPEST:
        return None
    for kind, held in value.items():
        if kind == "intValue":
            return _integer(held)
        if kind in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
            return held if isinstance(held, (str, bool, float, int)) else None
        many = items(held.get("values")) if isinstance(held, dict) else ()
        if kind == "arrayValue":
            return [_value(one, depth + 1) for one in many]
        if kind == "kvlistValue":
            return {_text(one.get("key")): _value(one.get("value"), depth + 1) for one in many}
    return None
