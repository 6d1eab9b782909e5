"""Chooses the data of each event for a browser, and writes server-sent events.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import orjson

from ..dispatch import Suspended
from ..errors import StreamError
from ..events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    EventsDropped,
    Observation,
    RefusalDelta,
    StepEnd,
    StreamEnd,
    TextDelta,
    ToolCallStart,
    ToolStarted,
)

__all__ = ["HEARTBEAT", "Encode", "encode_event", "error_frame", "frame", "suspended_frame"]

Encode: TypeAlias = Callable[[Event], "tuple[str, Any] | None"]
"""Returns the data to send for an event: its name and data (text as it is, anything else as JSON), or None to send
nothing."""

HEARTBEAT = b": \n\n"
"""A comment: no event for the client, but a sign of life for proxies in between."""

_LINE_END = re.compile(r"\r\n|\r|\n")

_TOLD: Mapping[type[Event], tuple[str, tuple[str, ...]]] = {
    TextDelta: ("text_delta", ("text",)),
    RefusalDelta: ("refusal_delta", ("text",)),
    ToolCallStart: ("tool_call_start", ("call_id", "name")),
    ApprovalRequested: ("approval_requested", ("call_id", "tool_name")),
    ApprovalResolved: ("approval_resolved", ("call_id", "tool_name", "approved")),
    ToolStarted: ("tool_started", ("call_id", "tool_name")),
    Observation: ("observation", ("call_id", "tool_name", "outcome")),
    EventsDropped: ("gap", ("from_seq", "to_seq")),
    StreamEnd: ("stream_end", ("finish", "complete")),
    StepEnd: ("step_end", ("outcome",)),
}
"""Name and fields of the events that are sent by default: no arguments, results, reasoning or error texts."""


def encode_event(event: Event) -> tuple[str, dict[str, Any]] | None:
    """Returns the data sent by default: the answer's text, which tools are called, which calls wait for an approval or
    were decided, and how each call ended.

    It sends no arguments, results, reasoning, error texts or provider state. To add some, call it from a function of
    yours.

    >>> encode_event(TextDelta("Hello"))
    ('text_delta', {'text': 'Hello'})
    """
    told = _TOLD.get(type(event))
    if told is None:
        return None
    name, fields = told
    return name, {field: getattr(event, field) for field in fields}


def frame(told: tuple[str, Any], *, id: int | None = None) -> bytes:
    """Returns one server-sent event with a name and its data.

    Raises:
        TypeError: `told` is no such pair, or the data cannot be written as JSON.
        ValueError: the name is empty or has a line end, which would begin another field.
    """
    if not isinstance(told, tuple) or len(told) != 2:
        raise TypeError(f"encode returns (name, data), or None to send nothing, not {type(told).__name__}")
    name, data = told
    if not isinstance(name, str) or not name or _LINE_END.search(name):
        raise ValueError("encode returned a name that is no single line of text")
    text = data if isinstance(data, str) else orjson.dumps(data).decode()
    head = f"event: {name}\n" if id is None else f"event: {name}\nid: {id}\n"
    lines = "".join(f"data: {line}\n" for line in _LINE_END.split(text))
    return f"{head}{lines}\n".encode("utf-8", "replace")


def error_frame(error: Exception) -> bytes:
    """Returns the last event of a stream that failed: the kind of failure, not its text, which may name hosts or
    accounts."""
    return frame(("error", {"kind": error.kind if isinstance(error, StreamError) else "internal_error"}))


def suspended_frame(suspended: Suspended) -> bytes:
    """Returns the last event of a response that ends because calls wait for approvals, with the ids of these calls."""
    return frame(("suspended", {"call_ids": [call.call_id for call in suspended.calls]}))
