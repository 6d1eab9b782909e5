"""Writes events as server-sent events: those for a client by default, or as a function of yours has them.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
    TextEnd,
    ToolCallStart,
    ToolStarted,
)

__all__ = ["Encode", "RunEnd", "encode_event", "encoded", "frame"]

_Frame: TypeAlias = tuple[str, Any] | bytes
Encode: TypeAlias = "Callable[[Event | RunEnd], _Frame | Iterable[_Frame] | None]"
"""Returns the data to send for an event: a name and data (text as it is, anything else as JSON); or bytes, which are
sent as they are, for a protocol of your own; or several of these; or None to send nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of the run: the last that `Encode` is given, also if the run failed."""

    outcome: str
    """``error``; ``suspended``, if calls wait for approvals; else the outcome of the loop (`RunOutcome`) or of the
    pipeline's `StepEnd`."""
    error: Exception | None = None
    """The error that ended the run."""
    suspended: Suspended | None = None
    """The calls that wait for an approval."""

    @property
    def kind(self) -> str | None:
        """The kind of the error; its text may name hosts or accounts."""
        if self.error is None:
            return None
        return self.error.kind if isinstance(self.error, StreamError) else "internal_error"


_LINE_END = re.compile(r"\r\n|\r|\n")

_TOLD: Mapping[type[Event], tuple[str, tuple[str, ...]]] = {
    TextDelta: ("text_delta", ("text",)),
    RefusalDelta: ("refusal_delta", ("text",)),
    ToolCallStart: ("tool_call_start", ("call_id", "name")),
    ApprovalRequested: ("approval_requested", ("call_id", "tool_name", "arguments", "fingerprint")),
    ApprovalResolved: ("approval_resolved", ("call_id", "tool_name", "approved")),
    ToolStarted: ("tool_started", ("call_id", "tool_name")),
    Observation: ("observation", ("call_id", "tool_name", "outcome")),
    EventsDropped: ("gap", ("from_seq", "to_seq")),
    StreamEnd: ("stream_end", ("finish", "complete")),
    StepEnd: ("step_end", ("outcome",)),
}
"""Name and fields of the events that are sent by default: no results, reasoning or error texts, and no arguments but
those that somebody has to approve."""


def encode_event(event: Event | RunEnd) -> tuple[str, dict[str, Any]] | None:
    """Returns the data sent by default: the answer's text, which tools are called, which calls wait for an approval or
    were decided, how each call ended, and how the run did.

    It sends no results, reasoning, error texts or provider state, and arguments only with the request to approve them.
    To add some, call it from a function of yours.

    >>> encode_event(TextDelta("Hello"))
    ('text_delta', {'text': 'Hello'})
    """
    if isinstance(event, RunEnd):
        return "run_end", _end_data(event)
    if isinstance(event, TextEnd) and event.whole is not None:
        return "text_replaced", {"text": event.whole}
    told = _TOLD.get(type(event))
    if told is None:
        return None
    name, fields = told
    return name, {field: getattr(event, field) for field in fields}


def _end_data(end: RunEnd) -> dict[str, Any]:
    data: dict[str, Any] = {"outcome": end.outcome}
    if end.kind is not None:
        data["kind"] = end.kind
    if end.suspended is not None:
        data["call_ids"] = [call.call_id for call in end.suspended.calls]
    return data


def encoded(event: Event | RunEnd, encode: Encode) -> bytes:
    """Returns the bytes to send for an event; none if nothing is to be sent.

    Raises:
        TypeError: `encode` returned something else than `Encode` allows.
        ValueError: an event's name cannot be written.
    """
    told = encode(event)
    if told is None:
        return b""
    seq = None if isinstance(event, RunEnd) else event.seq
    return b"".join(one if isinstance(one, bytes) else frame(one, id=seq) for one in _frames(told))


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


def _frames(told: Any) -> Iterable[Any]:
    if isinstance(told, (tuple, bytes)):
        return (told,)
    if isinstance(told, Iterable) and not isinstance(told, (str, Mapping)):
        return told
    raise TypeError(
        f"encode returns (name, data), bytes, a list of these, or None to send nothing, not {type(told).__name__}"
    )
