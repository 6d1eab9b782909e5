"""Writes one log record for each call, joined to its span and its event by their ids.

    Tracing(logger=logging.getLogger("myapp.tools"))

A record's message is a line for people; programs join by its attributes (``extra``): `FIELDS`. Arguments and results
are not in it.
"""

from __future__ import annotations

import logging

from opentelemetry import trace
from opentelemetry.trace import Span

from ..events import Observation
from ..text import one_line

FIELDS = ("trace_id", "span_id", "run_id", "step", "seq", "call_id", "tool_name", "outcome")
"""The attributes of each record; ids as OpenTelemetry writes them, 32 and 16 hexadecimal digits."""

_MAX_CHARS = 256  # of an id or a name; a run's id has no limit of its own


def log_call(logger: logging.Logger, observation: Observation, run_id: str, span: Span) -> None:
    """Writes the record of one call: INFO if it is ``ok``, WARNING otherwise.

    The span is current meanwhile, so that OpenTelemetry's own log handlers find it, too.
    """
    level = logging.INFO if observation.outcome == "ok" else logging.WARNING
    if not logger.isEnabledFor(level):
        return
    # A call id, a tool's name and a run's id are somebody else's words. Line breaks, control and invisible characters
    # are escaped in all of them, since a formatter may show any attribute: a log must have no forged lines.
    context = span.get_span_context()
    values = (
        trace.format_trace_id(context.trace_id),
        trace.format_span_id(context.span_id),
        one_line(run_id, _MAX_CHARS),
        observation.step,
        observation.seq,
        one_line(observation.call_id, _MAX_CHARS),
        one_line(observation.tool_name, _MAX_CHARS),
        observation.outcome,
    )
    with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        # `ascii` also quotes them, so that a name cannot pass for a part of the sentence.
        logger.log(
            level,
            "tool call %s of %s: %s",
            ascii(observation.call_id[:_MAX_CHARS]),
            ascii(observation.tool_name[:_MAX_CHARS]),
            observation.outcome,
            extra=dict(zip(FIELDS, values, strict=True)),
        )
