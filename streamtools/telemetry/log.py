"""One log record for each call, joined to its span and its event by their ids.

    Tracing(logger=logging.getLogger("myapp.tools"))

A record's message is a line for people; what programs join by are its attributes (``extra``): `FIELDS`. Arguments and
results are not in it.
"""

from __future__ import annotations

import logging

from opentelemetry import trace
from opentelemetry.trace import Span

from ..events import Observation

__all__ = ["FIELDS", "log_call"]

FIELDS = ("trace_id", "span_id", "run_id", "step", "seq", "call_id", "tool_name", "outcome")
"""The attributes of each record; ids as OpenTelemetry writes them, 32 and 16 hexadecimal digits."""


def log_call(logger: logging.Logger, observation: Observation, run_id: str, span: Span) -> None:
    """Write the record of one call: INFO if it is ``ok``, WARNING otherwise.

    The span is current meanwhile, so that OpenTelemetry's own log handlers find it, too.
    """
    level = logging.INFO if observation.outcome == "ok" else logging.WARNING
    if not logger.isEnabledFor(level):
        return
    context = span.get_span_context()
    values = (
        trace.format_trace_id(context.trace_id),
        trace.format_span_id(context.span_id),
        run_id,
        observation.step,
        observation.seq,
        observation.call_id,
        observation.tool_name,
        observation.outcome,
    )
    with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        # ascii(): a call id and a name are the model's words, and may hold line breaks and terminal escapes
        logger.log(
            level,
            "tool call %s of %s: %s",
            ascii(observation.call_id),
            ascii(observation.tool_name),
            observation.outcome,
            extra=dict(zip(FIELDS, values, strict=True)),
        )
