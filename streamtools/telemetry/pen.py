"""Starts spans, names them, links them, and says why one failed: the hand that the drawing parts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer

from ..errors import StreamToolsError
from .attributes import Attributes, AttributeWriter
from .names import Names
from .open_spans import OpenStep

__all__ = ["Pen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """The tracer, and all that was chosen for its spans."""

    tracer: Tracer
    names: Names
    writer: AttributeWriter
    wanted: Mapping[str, bool]
    """The spans to draw."""

    def start(
        self,
        step: OpenStep,
        name: str,
        attributes: Attributes,
        at: float,
        links: Sequence[Link] = (),
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        """Starts a span of a step at the time of an event."""
        return self.tracer.start_span(name, step.context, kind, attributes, links, start_time=step.ns(at))

    def link(self, kind: str, context: SpanContext) -> Link:
        """Returns a link to another span, with its kind."""
        return Link(context, {self.names.link_type: kind})

    def named(self, prefix: str, subject: str | None) -> str:
        """Returns a span's name: its operation, and the subject if that is known."""
        return f"{prefix} {self.writer.text(subject)}" if subject else prefix

    def describe_failure(
        self, span: Span, said: str, error: StreamToolsError | None, raised: BaseException | None, at_ns: int
    ) -> None:
        """Marks a span as failed. An error's own words may quote the peer, the arguments or the tool, so they are
        content; `said` is in words of ours."""
        if error is not None and self.writer.capture_content:
            said = self.writer.words(error)
        span.set_status(Status(StatusCode.ERROR, said))
        if raised is not None:
            span.add_event("exception", self.writer.exception(raised), at_ns)
