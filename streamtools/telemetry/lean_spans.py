"""Records spans in plain objects, and makes the SDK's of them at their end.

A span of the SDK checks, copies and locks at every attribute. These check what streamtools itself sets once, and become
a `ReadableSpan` when they end, which the provider's processors take as any other. Where a processor looks at spans
before their end, or where this SDK is not known well enough, `lean_tracer` returns None, and the SDK's own are used.

Import it only where the application has loaded the SDK.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import CodeType, MappingProxyType, TracebackType
from typing import Any

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.trace import (
    ConcurrentMultiSpanProcessor,
    Event,
    ReadableSpan,
    SynchronousMultiSpanProcessor,
    Tracer,
)
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, StaticSampler
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

_sdk_logger = logging.getLogger("opentelemetry.sdk.trace")  # what it warns of is the same, so the place is, too

_UNSET = Status(StatusCode.UNSET)
_UNBOUNDED = 1 << 30
_PLAIN = frozenset({str, int, bool, float})  # values that the SDK takes as they are
_PLAIN_OR_TUPLE = _PLAIN | {tuple}
_TEXT = frozenset({str})
_Lock = type(threading.RLock())  # `RLock` is a function around it; a log handler may come back in the same thread


# -- where lean spans will do ------------------------------------------------------------------------------------------

_TRACER = (
    "sampler", "resource", "span_processor", "id_generator", "instrumentation_info",
    "_span_limits", "_instrumentation_scope",
)  # fmt: skip
_LIMITS = (
    "max_span_attributes", "max_span_attribute_length", "max_links", "max_link_attributes", "max_events",
    "max_event_attributes", "max_attribute_length",
)  # fmt: skip
_SPAN = frozenset(
    {
        "name", "context", "parent", "resource", "attributes", "events", "links", "kind", "instrumentation_info",
        "status", "start_time", "end_time", "instrumentation_scope",
    }
)  # fmt: skip


def lean_tracer(tracer: trace.Tracer) -> LeanTracer | None:
    """Returns what records a tracer's spans leanly; None where the SDK's own spans are needed."""
    # A wrapper, as Logfire's, has spans of its own. Without one of the names, this is an SDK to come.
    if type(tracer) is not Tracer or not all(hasattr(tracer, name) for name in _TRACER):
        return None
    if not all(hasattr(tracer._span_limits, name) for name in _LIMITS) or not _parameters(ReadableSpan) >= _SPAN:
        return None
    # The SDK may count its spans as metrics, by a means of its own.
    counts = type(getattr(tracer, "_tracer_metrics", None)).__name__
    if counts not in ("NoneType", "NoOpTracerMetrics") or not _sees_ends_alone(tracer.span_processor):
        return None
    return LeanTracer(tracer)


@cache
def _parameters(made: Callable[..., object]) -> frozenset[str]:
    return frozenset(inspect.signature(made).parameters)


def _sees_ends_alone(processor: object) -> bool:
    """Returns whether nothing in a processor looks at a span before its end."""
    if type(processor) in (SynchronousMultiSpanProcessor, ConcurrentMultiSpanProcessor):
        inner = getattr(processor, "_span_processors", None)
        return isinstance(inner, tuple) and all(map(_sees_ends_alone, inner))
    return all(_does_nothing(getattr(processor, name, None)) for name in ("on_start", "_on_ending"))


def _does_nothing(method: object) -> bool:
    # By its code: the SDK's own processors override these methods with empty ones.
    code = getattr(method, "__code__", None)
    return method is None or (isinstance(code, CodeType) and code.co_code in _NOTHING)


def _empty() -> None: ...


def _documented() -> None:
    """Does nothing, either."""


_NOTHING = frozenset({_empty.__code__.co_code, _documented.__code__.co_code})


# -- recording ---------------------------------------------------------------------------------------------------------


class LeanTracer:
    """Starts spans below one of the SDK's that is recorded."""

    __slots__ = ("_below", "_keeps_all", "attribute_room", "limits", "link_room", "tracer")

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.limits = limits = tracer._span_limits
        # Within these no limit can be met; beyond them the SDK's own containers keep it.
        self.attribute_room = _room(limits.max_span_attributes, limits.max_span_attribute_length)
        of_link = _room(limits.max_link_attributes, limits.max_attribute_length)
        self.link_room = _room(limits.max_links, None) if of_link else 0
        self._below: tuple[Context | None, SpanContext] = (None, trace.INVALID_SPAN_CONTEXT)
        self._keeps_all = _keeps_all(tracer.sampler)

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[Link] = (),
        start_time: int | None = None,
    ) -> Span:
        """Starts a span, if the provider's sampler keeps it. Its links have one attribute each, a text."""
        tracer = self.tracer
        known, parent = self._below
        if context is None or context is not known:  # a step's calls have the same
            parent = trace.get_current_span(context).get_span_context()
            self._below = (context, parent)
        trace_id, flags = parent.trace_id, parent.trace_flags
        found, decision = attributes, Decision.RECORD_AND_SAMPLE
        state: TraceState | None = parent.trace_state
        if not (self._keeps_all and flags & TraceFlags.SAMPLED):
            sampled = tracer.sampler.should_sample(context, trace_id, name, kind, attributes, links)
            found, state, decision = sampled.attributes, sampled.trace_state, sampled.decision
            # The parent is of this SDK: whatever other flags it has, it has for its children.
            flag = TraceFlags.SAMPLED if decision is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT
            if flags & TraceFlags.SAMPLED != flag:
                flags = TraceFlags(flags & ~TraceFlags.SAMPLED | flag)
        own = SpanContext(trace_id, tracer.id_generator.generate_span_id(), False, flags, state)
        if decision is Decision.DROP:
            return NonRecordingSpan(own)
        first: Any = found.copy() if type(found) is MappingProxyType else dict(found or {})
        if len(first) > self.attribute_room or not _is_plain(first):
            first = self.bounded(first)
        if len(links) > self.link_room:
            links = self.bounded_links([Link(link.context, self.of_link(link.attributes)) for link in links])
        return LeanSpan(self, name, own, parent, kind, first, links, start_time)

    def bounded(self, attributes: Mapping[str, Any]) -> BoundedAttributes:
        """Returns a span's attributes in the SDK's container, which checks them and keeps the limits."""
        limits = self.limits
        return BoundedAttributes(
            limits.max_span_attributes, attributes, immutable=False, max_value_len=limits.max_span_attribute_length
        )

    def bounded_links(self, links: Sequence[Link]) -> BoundedList[Link]:
        """Returns links in the SDK's container."""
        return BoundedList.from_seq(self.limits.max_links, links)

    def of_link(self, attributes: Any) -> BoundedAttributes:
        """Returns the attributes of a link, checked."""
        return BoundedAttributes(
            self.limits.max_link_attributes, attributes, max_value_len=self.limits.max_attribute_length
        )

    def of_event(self, attributes: Any) -> BoundedAttributes:
        """Returns the attributes of an event, checked."""
        return BoundedAttributes(
            self.limits.max_event_attributes, attributes, max_value_len=self.limits.max_attribute_length
        )


def _keeps_all(sampler: object) -> bool:
    """Returns whether a sampler is one of the SDK's that keeps all below a local parent that is kept, as it is."""
    below = getattr(sampler, "_local_parent_sampled", None) if type(sampler) is ParentBased else sampler
    return type(below) is StaticSampler and getattr(below, "_decision", None) is Decision.RECORD_AND_SAMPLE


def _room(count: int | None, length: int | None) -> int:
    if length is not None:
        return 0
    return _UNBOUNDED if count is None else count


def _is_plain(attributes: Mapping[str, Any]) -> bool:
    """Returns whether the SDK would take these attributes as they are, but for their number."""
    values = list(attributes.values())
    kinds = list(map(type, values))
    if not _PLAIN_OR_TUPLE.issuperset(kinds) or not _TEXT.issuperset(map(type, attributes)):
        return False
    while tuple in kinds:
        at = kinds.index(tuple)
        inner = set(map(type, values[at]))
        if len(inner) > 1 or not inner <= _PLAIN:
            return False
        kinds[at] = str
    return "" not in attributes


class LeanSpan(Span):
    """A span that is recorded, with the SDK's rules. It may be current, and anybody may add to it."""

    __slots__ = (
        "_attributes", "_events", "_lock", "_of", "context", "end_time", "kind", "links", "name", "parent",
        "start_time", "status",
    )  # fmt: skip

    def __init__(
        self,
        of: LeanTracer,
        name: str,
        context: SpanContext,
        parent: SpanContext,
        kind: SpanKind,
        attributes: dict[str, Any] | BoundedAttributes,
        links: Sequence[Link],
        start_time: int | None,
    ) -> None:
        self._of = of
        self.name = name
        self.context = context
        self.parent = parent
        self.kind = kind
        self.links = links
        self.start_time = time.time_ns() if start_time is None else start_time
        self.end_time: int | None = None
        self.status = _UNSET
        self._attributes = attributes
        self._events: BoundedList[Event] | None = None
        self._lock = _Lock()

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes so far."""
        return MappingProxyType(self._attributes)

    def get_span_context(self) -> SpanContext:
        """Returns its ids."""
        return self.context

    def is_recording(self) -> bool:
        """Returns whether it has not ended."""
        return self.end_time is None

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Sets attributes; known ones are replaced."""
        with self._lock:
            known = self._attributes
            if self.end_time is not None:
                _sdk_logger.warning("Setting attribute on ended span.")
            elif type(known) is not dict:
                known.update(attributes)
            elif len(known) + len(attributes) > self._of.attribute_room or not _is_plain(attributes):
                self._attributes = known = self._of.bounded(known)
                known.update(attributes)
            else:
                if not known.keys().isdisjoint(attributes):
                    for name in attributes:  # as the SDK's, they go to the end
                        known.pop(name, None)
                known.update(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        """Sets an attribute."""
        self.set_attributes({key: value})

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        """Adds an event."""
        event = Event(name=name, attributes=self._of.of_event(attributes), timestamp=timestamp)
        with self._lock:
            if not self._refuses("_add_event"):
                if self._events is None:
                    self._events = BoundedList(self._of.limits.max_events)
                self._events.append(event)

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        """Adds a link, unless there is nothing in it."""
        if not (context and (context.is_valid or attributes or context.trace_state)):
            return
        link = Link(context, self._of.of_link(attributes))
        with self._lock:
            if not self._refuses("_add_link"):
                if not isinstance(self.links, BoundedList):
                    self.links = self._of.bounded_links(self.links)
                self.links.append(link)

    def update_name(self, name: str) -> None:
        """Changes its name."""
        with self._lock:
            if not self._refuses("update_name"):
                self.name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Sets its status, for good if that is OK."""
        with self._lock:
            code = status.status_code if isinstance(status, Status) else status
            if self._refuses("set_status") or self.status.status_code is StatusCode.OK or code is StatusCode.UNSET:
                return
            if isinstance(status, StatusCode):
                status = Status(status, description)
            elif description is not None:
                _sdk_logger.warning(
                    "Description %s ignored. Use either `Status` or `(StatusCode, Description)`", description
                )
            self.status = status

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Adds an event of an exception, with its text and stack."""
        kind = type(exception)
        module = "" if kind.__module__ in (None, "builtins") else f"{kind.__module__}."
        found: dict[str, Any] = {
            "exception.type": f"{module}{kind.__qualname__}",
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", {**found, **(attributes or {})}, timestamp)

    def end(self, end_time: int | None = None) -> None:
        """Ends it, and hands it to the provider's processors."""
        with self._lock:
            if self.end_time is not None:
                _sdk_logger.warning("Calling end() on an ended span.")
                return
            self.end_time = time.time_ns() if end_time is None else end_time
        tracer = self._of.tracer
        tracer.span_processor.on_end(
            ReadableSpan(
                name=self.name,
                context=self.context,
                parent=self.parent,
                resource=tracer.resource,
                attributes=self._attributes,
                events=() if self._events is None else self._events,
                links=self.links,
                kind=self.kind,
                instrumentation_info=tracer.instrumentation_info,
                status=self.status,
                start_time=self.start_time,
                end_time=self.end_time,
                instrumentation_scope=tracer._instrumentation_scope,
            )
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        if error is not None and self.is_recording():
            self.record_exception(error, escaped=True)
            self.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        super().__exit__(kind, error, stack)

    def _refuses(self, method: str) -> bool:
        if self.end_time is None:
            return False
        _sdk_logger.warning("Tried calling %s on an ended span.", method)
        return True
