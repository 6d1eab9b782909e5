"""Brings the spans of a tool in another process to the program that has called the tool.

Input: in the worker, the spans of the calls that run there; in the program, those spans as JSON. Guarantee: the
processors of the span around the call are given them as ended spans, with the program's resource and the worker's pid.
At most `MAX_SPANS` and `MAX_BYTES` for each call; what is beyond that is named in a warning.

Theory of operation. A worker whose tools set a provider keeps that one, and its spans go where that sends them. In any
other, `SpanKeeper` stands in for the global provider, and gives way to one that is set later. It loads the SDK with the
first tracer that is asked for, since that takes a tenth of a second, which most tools would spend for nothing. Where
several calls run at once, a span is of the call whose context it begins in. Nothing is added to the spans: attributes
are those that the tool's own code has set.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from pydantic_core import from_json, to_json

MAX_SPANS = 1000  # of one call; a tool that draws more draws a loop
MAX_BYTES = 1 << 20  # of one call's spans, as JSON
_FRAME_BYTES = 100  # of JSON around the spans
_KEPT = "streamtools-kept-spans"  # the key of the call's spans in OpenTelemetry's context

TakeSpans: TypeAlias = Callable[[bytes], None]
"""Takes the spans that `KeptSpans.take` has returned in a worker. It does not raise."""

logger = logging.getLogger(__name__)


# -- in the worker -----------------------------------------------------------------------------------------------------


class SpanKeeper(trace.TracerProvider):
    """Keeps the spans that the calls of a worker draw, each call's by itself."""

    def __init__(self) -> None:
        self._provider: Any = None
        self._running: list[KeptSpans] = []
        self._open: WeakValueDictionary[int, KeptSpans] = WeakValueDictionary()  # by the id of a span that has begun

    @contextmanager
    def kept(self, max_bytes: int) -> Iterator[KeptSpans]:
        """Keeps the spans that begin in the block, in threads and tasks of its context, too: up to so many bytes as
        JSON, or none. Stands in for the global provider from the first that are wanted on, if none is set. Hold it in
        one task, within `carried`."""
        # Set by the API's own function, it would be there for good, and a tool's provider would be refused.
        if max_bytes and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace._TRACER_PROVIDER = self
        kept = KeptSpans(min(MAX_BYTES, max_bytes) - _FRAME_BYTES)
        self._running.append(kept)
        token = context.attach(context.set_value(_KEPT, kept))
        try:
            yield kept
        finally:
            context.detach(token)
            self._running.remove(kept)

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        """Returns a tracer of the SDK's."""
        if self._provider is None:
            self._provider = _sdk_provider(self._begun, self._ended)
        tracer: trace.Tracer = self._provider.get_tracer(*args, **kwargs)
        return tracer

    def _begun(self, span: Any, parent: Context | None) -> None:
        kept: Any = context.get_value(_KEPT, parent)
        if kept is None and len(self._running) == 1:  # a thread without a context, of the one call that there is
            kept = self._running[0]
        if kept is not None:
            self._open[span.context.span_id] = kept

    def _ended(self, span: Any) -> None:
        kept = self._open.pop(span.context.span_id, None)
        if kept is not None and span.context.trace_flags.sampled:
            kept.add(span)


@dataclass(slots=True, eq=False, weakref_slot=True)
class KeptSpans:
    """The spans of one call, until they are taken."""

    room: int
    """The bytes of JSON that they may take up; with none, no span is kept, nor missed."""
    spans: list[bytes] = field(default_factory=list)
    used: int = 0
    dropped: int = 0

    def add(self, span: Any) -> None:
        """Adds a span that has ended."""
        if self.room <= 0:
            return
        written = _written(span)
        if len(self.spans) >= MAX_SPANS or not written or self.used + len(written) > self.room:
            self.dropped += 1
        else:
            self.spans.append(written)
            self.used += len(written) + 1

    def take(self) -> bytes:
        """Returns the spans as JSON, for a `TakeSpans`, and keeps no more; nothing if there are none."""
        self.room = 0
        if not self.spans and not self.dropped:
            return b""
        return b'{"pid":%d,"dropped":%d,"spans":[%s]}' % (os.getpid(), self.dropped, b",".join(self.spans))


def _sdk_provider(begun: Callable[[Any, Context | None], None], ended: Callable[[Any], None]) -> Any:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

    class Keeper(SpanProcessor):
        def on_start(self, span: Any, parent_context: Context | None = None) -> None:
            begun(span, parent_context)

        def on_end(self, span: ReadableSpan) -> None:
            ended(span)

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

    def take(data: bytes) -> None:
        try:
            found = from_json(data)
            for one in _read(found["spans"], resource, int(found["pid"])):
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
