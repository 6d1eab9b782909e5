"""Holds the knowledge of `Tracing` about the step that goes on, and about each of its calls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, Tracer

from ..errors import StreamError
from ..events import StepStart, StreamEnd, StreamStart, ToolCallStart
from ..parts import ToolCall, Usage

__all__ = ["OpenRun", "OpenStep", "OpenToolSpan"]


def _epoch_offset_ns() -> int:
    return time.time_ns() - time.monotonic_ns()  # events have monotonic time, spans have the epoch's


@dataclass(slots=True)
class OpenRun:
    """A run while it goes on."""

    conversation_id: str | None = None
    span: Span | None = None
    steps: int = 0
    """How many responses have ended."""
    usage: Usage | None = None
    """The sum of their counts."""
    cost: float | None = None
    """The sum of their costs, as far as they are known."""
    offset_ns: int = field(default_factory=_epoch_offset_ns)

    def start(self, tracer: Tracer, name: str, attributes: Mapping[str, Any], at: float) -> None:
        """Starts its span, below the caller's."""
        self.span = tracer.start_span(name, attributes=attributes, start_time=self.ns(at))

    def ns(self, at: float) -> int:
        """Returns a monotonic time as nanoseconds of the epoch."""
        return self.offset_ns + int(at * 1e9)

    def add(self, usage: Usage | None, cost: float | None) -> None:
        """Adds the counts and the cost of a response that has ended."""
        if cost is not None:
            self.cost = cost + (self.cost or 0.0)
        self.steps += 1
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage


@dataclass(slots=True)
class OpenStep:
    """A step while it goes on, with its spans."""

    start: StepStart
    context: Context = field(default_factory=otel_context.get_current)
    """The parent of the next span: the caller's, then the step's own."""
    span: Span | None = None
    chat: Span | None = None
    open_chat: Span | None = None
    """`chat`, until it has ended."""
    stream: StreamStart | None = None
    end: StreamEnd | None = None
    calls: dict[str, OpenToolSpan] = field(default_factory=dict)
    server_calls: int = 0
    cost: float | None = None
    """Of the response, as far as it is known."""
    observed: dict[int, SpanContext] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    text_size: int = 0
    offset_ns: int = field(default_factory=_epoch_offset_ns)
    run: OpenRun | None = None
    """The run that it is a part of, if that was entered."""

    @property
    def began(self) -> float:
        """When the model was asked, as far as that is known."""
        return self.start.time if self.start.requested_at is None else min(self.start.requested_at, self.start.time)

    def forget(self) -> None:
        """Lets go of all that the next step does not ask for."""
        self.calls, self.text, self.end, self.run = {}, [], None, None

    def ns(self, at: float) -> int:
        """Returns an event's time as nanoseconds of the epoch."""
        return self.offset_ns + int(at * 1e9)

    @property
    def error(self) -> StreamError | None:
        """The error that ended the stream, if it was not its own end."""
        return self.end.error if self.end else None


@dataclass(slots=True)
class OpenToolSpan:
    """A call of the step, with its spans."""

    start: ToolCallStart
    call: ToolCall | None = None
    ready_at: float | None = None
    started_at: float | None = None
    span: Span | None = None
    approval: Span | None = None
    """The span of the approval, while somebody is asked."""
    ended: bool = False
