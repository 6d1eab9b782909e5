"""Writes the events of a run as server-sent events, in a form of ours or in that of your own function.

In: events as copies have them, and the run's end. Out: the bytes of frames.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import orjson

from ..dispatch import Suspended
from ..errors import StreamError
from ..events import (
    AnswerRequested,
    ApprovalRequested,
    ApprovalResolved,
    AttemptDiscarded,
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

Frame: TypeAlias = tuple[str, Any] | bytes
"""A name, ``""`` for none, and data (text as it is, anything else as JSON); or bytes, which are sent as they are."""
Encode: TypeAlias = "Callable[[Event | RunEnd], Frame | Iterable[Frame] | None]"
"""Returns the data to send for an event: a `Frame`, or several; or None to send nothing."""


@runtime_checkable
class Encoder(Protocol):
    """The words of one protocol for one response: an `Encode` with a state of its own, made anew for each response.

    It is pure: the same events give the same frames, so that a reader that comes back is served from where it was. What
    comes before a response is given to it as well, and its frames are thrown away.
    """

    can_retract: bool
    """Whether its readers forget what an `AttemptDiscarded` takes back."""
    headers: Mapping[str, str]
    """Headers of the response, over those of an event stream."""

    def begin(self) -> Iterable[Frame]:
        """Returns the frames that a response begins with, wherever in its run it begins."""
        ...

    def __call__(self, event: Event | RunEnd, /) -> Iterable[Frame]:
        """Returns the frames of an event. After a `RunEnd` with the outcome ``suspended`` the run may go on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of the run: the last that `Encode` is given, also if the run failed."""

    outcome: str
    """``error``; ``suspended``, if calls wait for approvals; else the outcome of the loop (`RunOutcome`) or of the
    pipeline's `StepEnd`."""
    error: Exception | None = None
    """The error that ended the run."""
    suspended: Suspended | None = None
    """The calls that wait for people, where they are known whole."""
    call_ids: tuple[str, ...] = ()
    """The ids of the calls that wait for people."""
    error_kind: str | None = None
    """The kind of an error of another process."""

    @property
    def kind(self) -> str | None:
        """The kind of the error; its text may name hosts or accounts."""
        if self.error is None:
            return self.error_kind
        return self.error.kind if isinstance(self.error, StreamError) else "internal_error"


_LINE_END = re.compile(r"\r\n|\r|\n")

_SENT: Mapping[type[Event], tuple[str, tuple[str, ...]]] = {
    TextDelta: ("text_delta", ("text",)),
    RefusalDelta: ("refusal_delta", ("text",)),
    ToolCallStart: ("tool_call_start", ("call_id", "name")),
    ApprovalRequested: ("approval_requested", ("call_id", "tool_name", "arguments", "fingerprint", "caller")),
    ApprovalResolved: ("approval_resolved", ("call_id", "tool_name", "approved", "by", "at")),
    AnswerRequested: ("answer_requested", ("call_id", "tool_name", "arguments", "fingerprint", "caller")),
    ToolStarted: ("tool_started", ("call_id", "tool_name")),
    Observation: ("observation", ("call_id", "tool_name", "outcome")),
    AttemptDiscarded: ("attempt_discarded", ("attempt", "from_seq", "cause", "delay_s")),
    EventsDropped: ("gap", ("from_seq", "to_seq")),
    StreamEnd: ("stream_end", ("finish", "complete")),
    StepEnd: ("step_end", ("outcome",)),
}
"""Name and fields of the events that are sent by default: no results, reasoning or error texts, and no arguments but
those that somebody has to approve, or to answer."""


def encode_event(event: Event | RunEnd) -> tuple[str, dict[str, Any]] | None:
    """Returns the data sent by default: the answer's text, the names of called tools, requests for approvals and
    decisions about them, calls that are done outside, the outcome of each call, and that of the run.

    It sends no results, reasoning, error texts or provider state, and arguments only with the request to approve or to
    answer them.
    To add some, call it from a function of yours.

    >>> encode_event(TextDelta("Hello"))
    ('text_delta', {'text': 'Hello'})
    """
    if isinstance(event, RunEnd):
        return "run_end", _end_data(event)
    # The end of the text contradicts the deltas that the client has shown: it has to replace them.
    if isinstance(event, TextEnd) and event.whole is not None:
        return "text_replaced", {"text": event.whole}
    row = _SENT.get(type(event))
    if row is None:
        return None
    name, fields = row
    data = {field: getattr(event, field) for field in fields}
    if isinstance(event, ApprovalRequested) and event.findings:
        data["findings"] = [str(finding) for finding in event.findings]
    if isinstance(event, ApprovalRequested) and event.requires > 1:
        data["requires"] = event.requires
    if isinstance(event, AnswerRequested) and event.question is not None:
        data["question"] = event.question
    return name, data


def _end_data(end: RunEnd) -> dict[str, Any]:
    data: dict[str, Any] = {"outcome": end.outcome}
    if end.kind is not None:
        data["kind"] = end.kind
    if end.outcome == "suspended":
        data["call_ids"] = list(end.call_ids)
    return data


def encoded(event: Event | RunEnd, encode: Encode) -> bytes:
    """Returns the bytes to send for an event, if any; raises a TypeError if `encode` returned something else."""
    given = encode(event)
    if given is None:
        return b""
    seq = None if isinstance(event, RunEnd) else event.seq
    return b"".join(one if isinstance(one, bytes) else frame(one, id=seq) for one in frames(given))


def frame(pair: tuple[str, Any], *, id: int | str | None = None) -> bytes:
    """Returns one server-sent event with a name, which may have no line end, or without one, and its data."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(f"encode: expected (name, data), or None to send nothing, got {type(pair).__name__}")
    name, data = pair
    if not isinstance(name, str) or _LINE_END.search(name):
        raise ValueError("encode: expected one line of text as the event's name")
    text = data if isinstance(data, str) else orjson.dumps(data).decode()
    head = (f"event: {name}\n" if name else "") + ("" if id is None else f"id: {id}\n")
    # Each line in a field of its own: a line end inside the data would end the field, and the rest would be another
    # one.
    lines = "".join(f"data: {line}\n" for line in _LINE_END.split(text))
    return f"{head}{lines}\n".encode("utf-8", "replace")


def frames(given: Any) -> Iterable[Any]:
    """Returns what `Encode` gave for an event as frames, which are not checked yet; raises a TypeError for others."""
    if isinstance(given, (tuple, bytes)):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)):
        return given
    raise TypeError(
        f"encode: expected (name, data), bytes, a list of these, or None to send nothing, got {type(given).__name__}"
    )
