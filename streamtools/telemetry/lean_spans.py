"""Records spans in plain objects, and makes the SDK's of them at their end, all by its public names.

A span of the SDK checks, copies and locks at every attribute. These take what streamtools itself records as it is, and
what others add after the SDK's own checks. Where its limits are narrow, or it counts its spans, `lean_tracer` returns
None, and the SDK's own spans are used. Import it only where the application has loaded the SDK.
"""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, SpanProcessor, Tracer
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

_sdk_logger = logging.getLogger("opentelemetry.sdk.trace")  # what it warns of is the same, so the place is, too

_COUNTS_SPANS = "OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED"
_MANY = 64  # attributes, events and links of a span; those of ours have half as many attributes
_LONG = 1 << 20  # characters of an attribute; captured content is cut before
_limits: WeakKeyDictionary[Tracer, SpanLimits | None] = WeakKeyDictionary()  # None: the SDK's own spans are needed


def lean_tracer(tracer: trace.Tracer, root: Span) -> LeanTracer | None:
    """Returns what records the spans below a root leanly; None where the SDK's own spans are needed."""
    # A wrapper, as Logfire's, has spans of its own.
    if type(tracer) is not Tracer or not isinstance(root, ReadableSpan):
        return None
    if tracer not in _limits:
        counts = os.environ.get(_COUNTS_SPANS, "").lower() == "true"
        _limits[tracer] = SpanLimits() if not counts and _has_room(tracer) else None
    limits = _limits[tracer]
    return None if limits is None else LeanTracer(tracer, root, limits)


def _has_room(tracer: Tracer) -> bool:
    # The limits have no public name. A span that goes nowhere, and of which nobody learns, shows whether they cut.
    alone: Any = copy.copy(tracer)
    alone.sampler, alone.span_processor, alone.id_generator = ALWAYS_ON, SpanProcessor(), RandomIdGenerator()
    given: dict[str, Any] = {"text": "x" * _LONG, **{f"n{number}": number for number in range(_MANY)}}
    span = alone.start_span("limits", attributes=given, links=[Link(SpanContext(1, 1, False), given)] * _MANY)
    for _ in range(_MANY):
        span.add_event("limits", given)
    held = (span, *span.links, *span.events)
    return len(held) == 1 + 2 * _MANY and all(dict(one.attributes or {}) == given for one in held)


class LeanTracer:
    __slots__ = ("_below", "limits", "root", "tracer")

    def __init__(self, tracer: Tracer, root: ReadableSpan, limits: SpanLimits) -> None:
        self.tracer = tracer
        self.root = root
        self.limits = limits  # for what others add: the environment's, or the SDK's defaults
        self._below: tuple[Context | None, SpanContext] = (None, trace.INVALID_SPAN_CONTEXT)

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[Link] = (),
        start_time: int | None = None,
    ) -> Span:
        tracer = self.tracer
        if len(links) > _MANY:  # results of a step of many calls: the limit on links may cut them
            return tracer.start_span(name, context, kind, attributes, links, start_time)
        known, parent = self._below
        if context is None or context is not known:  # a step's calls have the same
            parent = trace.get_current_span(context).get_span_context()
            self._below = (context, parent)
        sampled = tracer.sampler.should_sample(context, parent.trace_id, name, kind, attributes, links)
        # The parent is of this SDK: whatever other flags it has, it has for its children.
        flags, decision = parent.trace_flags, sampled.decision
        if bool(flags & TraceFlags.SAMPLED) != (decision is Decision.RECORD_AND_SAMPLE):
            flags = TraceFlags(flags ^ TraceFlags.SAMPLED)
        own = SpanContext(parent.trace_id, tracer.id_generator.generate_span_id(), False, flags, sampled.trace_state)
        if decision is Decision.DROP:
            return NonRecordingSpan(own)
        found: Any = sampled.attributes
        span = LeanSpan(
            self,
            name=name,
            context=own,
            parent=parent,
            resource=tracer.resource,
            attributes=dict(found or {}) if found == attributes else dict(BoundedAttributes(attributes=found)),
            events=(),
            links=links,
            kind=kind,
            start_time=time.time_ns() if start_time is None else start_time,
            instrumentation_scope=self.root.instrumentation_scope,
        )
        on_start: Any = tracer.span_processor.on_start
        on_start(span, parent_context=context)
        return span


class LeanSpan(ReadableSpan, Span):  # type: ignore[misc]  # as the SDK's own
    """A span that is recorded, with the SDK's rules. It may be current, and anybody may add to it."""

    def __init__(self, of: LeanTracer, **facts: Any) -> None:
        self._of = of
        self._facts: dict[str, Any] = {}
        self._guard = threading.RLock()  # a log handler may come back in the same thread
        self._know(**facts)

    def _know(self, **facts: Any) -> None:
        # Nothing else changes what is read of one by its public names.
        self._facts |= facts
        ReadableSpan.__init__(self, **self._facts)

    def is_recording(self) -> bool:
        return self.end_time is None

    def record_unchecked(self, attributes: Mapping[str, Any]) -> None:
        """Sets attributes of our own, which need no check; known ones are replaced."""
        with self._guard:
            if self.end_time is None:
                known = self._facts["attributes"]
                if not known.keys().isdisjoint(attributes):
                    for name in attributes:  # as the SDK's, they go to the end
                        known.pop(name, None)
                known.update(attributes)

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        with self._guard:
            if not self._refuses("Setting attribute on ended span."):
                known = self._facts["attributes"]
                if isinstance(known, dict):
                    known = BoundedAttributes(self._of.limits.max_span_attributes, known, immutable=False)
                    self._know(attributes=known)
                known.update(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        self.set_attributes({key: value})

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        limits = self._of.limits
        found = BoundedAttributes(limits.max_event_attributes, attributes)
        with self._guard:
            if not self._refuses("Tried calling _add_event on an ended span."):
                if not self._facts["events"]:
                    self._know(events=BoundedList(limits.max_events))
                self._facts["events"].append(Event(name=name, attributes=found, timestamp=timestamp))

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        if not (context and (context.is_valid or attributes or context.trace_state)):
            return
        link = Link(context, BoundedAttributes(self._of.limits.max_link_attributes, attributes))
        with self._guard:
            if not self._refuses("Tried calling _add_link on an ended span."):
                if not isinstance(self._facts["links"], BoundedList):
                    self._know(links=BoundedList.from_seq(self._of.limits.max_links, self._facts["links"]))
                self._facts["links"].append(link)

    def update_name(self, name: str) -> None:
        with self._guard:
            if not self._refuses("Tried calling update_name on an ended span."):
                self._know(name=name)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        with self._guard:
            known = status if isinstance(status, Status) else Status(status, description)
            if self._refuses("Tried calling set_status on an ended span."):
                return
            if known.status_code is not StatusCode.UNSET and self.status.status_code is not StatusCode.OK:
                self._know(status=known)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
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
        with self._guard:
            if self._refuses("Calling end() on an ended span."):
                return
            self._know(end_time=time.time_ns() if end_time is None else end_time)
        self._of.tracer.span_processor.on_end(ReadableSpan(**self._facts))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        if error is not None and self.is_recording():
            self.record_exception(error, escaped=True)
            self.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        super().__exit__(kind, error, stack)

    def _refuses(self, warning: str) -> bool:
        if self.end_time is not None:
            _sdk_logger.warning(warning)
        return self.end_time is not None
