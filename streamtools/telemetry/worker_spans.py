"""Brings the spans of a tool in another process to the program that has called the tool.

Input: in the worker, the spans that end there while a call runs; in the program, those spans as JSON. Guarantee: the
processors of the span around the call are given them as ended spans, with the program's resource and the worker's pid.
At most `MAX_SPANS` and `MAX_BYTES` for each call; what is beyond that is named in a warning.

Theory of operation. A worker whose tools set a provider keeps that one, and its spans go where that sends them. In any
other, `SpanKeeper` stands in for the global provider, and gives way to one that is set later. It loads the SDK with the
first tracer that is asked for, since that takes a tenth of a second, which most tools would spend for nothing. Nothing
is added to the spans: attributes are those that the tool's own code has set.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from opentelemetry import trace
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from pydantic_core import from_json, to_json

__all__ = ["MAX_BYTES", "MAX_SPANS", "SpanKeeper", "TakeSpans", "span_sink"]

MAX_SPANS = 1000  # of one call; a tool that draws more draws a loop
MAX_BYTES = 1 << 20  # of one call's spans, as JSON
_FRAME_BYTES = 100  # of JSON around the spans

TakeSpans: TypeAlias = Callable[[bytes, int], None]
"""Takes the spans that `SpanKeeper.take` has returned in a worker, and the worker's pid. It does not raise."""

logger = logging.getLogger(__name__)


# -- in the worker -----------------------------------------------------------------------------------------------------


class SpanKeeper(trace.TracerProvider):
    """Keeps the spans that end in a worker while they are wanted, until they are taken."""

    def __init__(self) -> None:
        self._provider: Any = None
        self._room = 0
        self._spans: list[bytes] = []
        self._bytes = self._dropped = 0

    def want(self, wanted: bool, max_bytes: int = MAX_BYTES) -> None:
        """Begins to keep spans, up to so many bytes as JSON, or ends it. Stands in for the global provider from the
        first wish on, if none is set."""
        self._room = min(MAX_BYTES, max_bytes) - _FRAME_BYTES if wanted else 0
        self._spans, self._bytes, self._dropped = [], 0, 0
        # Set by the API's own function, it would be there for good, and a tool's provider would be refused.
        if wanted and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace._TRACER_PROVIDER = self

    def take(self) -> bytes:
        """Returns the spans since `want` as JSON, for a `TakeSpans`; nothing if there are none."""
        spans, self._spans = self._spans, []
        if not spans and not self._dropped:
            return b""
        return b'{"dropped":%d,"spans":[%s]}' % (self._dropped, b",".join(spans))

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        """Returns a tracer of the SDK's."""
        if self._provider is None:
            self._provider = _sdk_provider(self._keep)
        tracer: trace.Tracer = self._provider.get_tracer(*args, **kwargs)
        return tracer

    def _keep(self, span: Any) -> None:
        if not self._room or not span.context.trace_flags.sampled:
            return
        written = _written(span)
        if len(self._spans) >= MAX_SPANS or not written or self._bytes + len(written) > self._room:
            self._dropped += 1
        else:
            self._spans.append(written)
            self._bytes += len(written) + 1


def _sdk_provider(keep: Callable[[Any], None]) -> Any:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

    class Keeper(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            keep(span)

    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    provider.add_span_processor(Keeper())
    return provider


def _written(span: Any) -> bytes:
    """Returns a span as JSON; nothing if one of its texts cannot be written."""
    scope = span.instrumentation_scope
    try:
        return to_json(
            {
                "name": span.name,
                "context": _ids(span.context),
                "parent": None if span.parent is None else _ids(span.parent),
                "kind": span.kind.name,
                "times": [span.start_time, span.end_time],
                "status": [span.status.status_code.name, span.status.description],
                "attributes": dict(span.attributes or {}),
                "events": [[event.name, event.timestamp, dict(event.attributes or {})] for event in span.events],
                "links": [[_ids(link.context), dict(link.attributes or {})] for link in span.links],
                "scope": None if scope is None else [scope.name, scope.version, scope.schema_url],
            },
            bytes_mode="base64",
            inf_nan_mode="constants",
        )
    except ValueError:  # half a surrogate pair; pydantic-core's error is one
        return b""


def _ids(context: SpanContext) -> list[Any]:
    """Returns a span's ids as texts, since JSON's numbers are not that long everywhere."""
    ids = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    return [*ids, int(context.trace_flags), list(context.trace_state.items()), context.is_remote]


# -- in the program ----------------------------------------------------------------------------------------------------


def span_sink(lose: Callable[[str], object]) -> TakeSpans | None:
    """Returns what hands a worker's spans to the processors of the current span; None if that span is not recorded by
    the SDK. `lose` is called with the reason why some are missing."""
    if "opentelemetry.sdk.trace" not in sys.modules:  # else the application uses it
        return None
    span = trace.get_current_span()
    owner = _owner(span)
    if owner is None or not span.is_recording() or not span.get_span_context().trace_flags.sampled:
        return None
    processor, resource = owner

    def take(data: bytes, pid: int) -> None:
        try:
            found = from_json(data)
            for one in _read(found["spans"], resource, pid):
                processor.on_end(one)
            if found["dropped"]:
                lose(f"{found['dropped']} spans are missing (at most {MAX_SPANS}, and {MAX_BYTES} bytes)")
        except Exception as error:  # a processor's of the application, or bytes that are no spans
            logger.debug("a worker's spans were not taken", exc_info=error)
            lose(f"its spans could not be handed on ({type(error).__name__})")

    return take


def _owner(span: Any) -> tuple[Any, Any] | None:
    """Returns the processor that is given a span at its end, and its resource."""
    # The API has no way to hand in a span that has ended, and the SDK's is not public. A span of the SDK's has both; a
    # lean one has the tracer that has; that of a wrapper, as Logfire's, has the SDK's inside.
    tracer = getattr(getattr(span, "_of", None), "tracer", None)
    inner = getattr(span, "span", None)
    for one, name in ((span, "_span_processor"), (tracer, "span_processor"), (inner, "_span_processor")):
        processor, resource = getattr(one, name, None), getattr(one, "resource", None)
        if processor is not None and resource is not None:
            return processor, resource
    return None


def _read(spans: list[Any], resource: Any, pid: int) -> Iterator[Any]:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    merged = resource.merge(Resource({"process.pid": pid}))
    for one in spans:
        begun, ended = one["times"]
        status, description = one["status"]
        yield ReadableSpan(
            name=one["name"],
            context=_context(one["context"]),
            parent=None if one["parent"] is None else _context(one["parent"]),
            resource=merged,
            attributes=_attributes(one["attributes"]),
            events=[Event(name, _attributes(found), at) for name, at, found in one["events"]],
            links=[Link(_context(ids), _attributes(found)) for ids, found in one["links"]],
            kind=SpanKind[one["kind"]],
            status=Status(StatusCode[status], description),
            start_time=begun,
            end_time=ended,
            instrumentation_scope=None if one["scope"] is None else InstrumentationScope(*one["scope"]),
        )


def _context(ids: list[Any]) -> SpanContext:
    trace_id, span_id, flags, state, is_remote = ids
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote, TraceFlags(flags), TraceState([(key, to) for key, to in state])
    )


def _attributes(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
