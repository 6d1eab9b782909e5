"""Sends a pipeline as an ASGI response: writes server-sent events, and notices while tools run that the client has
gone.

Theory of operation. The response enters the pipeline in its own ``__call__``, so that its scopes live in the frame of
the task that serves the request; a generator in a framework's streaming response would be left open in the middle of
them. Inside the block one task waits for ``http.disconnect`` while the other writes. The block is left when the writing
ends for any reason; leaving it cancels and awaits the calls and closes the source.

Specifications: https://asgi.readthedocs.io/en/latest/specs/www.html
https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

import anyio
import orjson
from anyio import CancelScope, create_task_group

from ..dispatch import Suspended
from ..errors import LocalProtocolError, StreamError
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
from ..pipelines.entry import Pipeline
from ..turn import Turn

__all__ = ["Encode", "EventStreamResponse", "encode_event", "frame"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

Encode: TypeAlias = Callable[[Event], "tuple[str, Any] | None"]
"""Returns the data to send for an event: its name and data (text as it is, anything else as JSON), or None to send
nothing."""

_HEARTBEAT = b": \n\n"
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

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",  # compression that a proxy adds would hold events back
    "x-accel-buffering": "no",  # https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_buffering
}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # https://www.rfc-editor.org/rfc/rfc9110#name-tokens
_AFTER_S = 30.0  # seconds allowed for `after`, which is shielded and so needs a bound


def encode_event(event: Event) -> tuple[str, dict[str, Any]] | None:
    """Returns the data sent by default: the answer's text, which tools are called, which calls wait for an approval or
    were decided, and how each call ended.

    It sends no arguments, results, reasoning, error texts or provider state. To add some, call it from a function of
    yours.

    >>> encode_event(TextDelta("Hello"))
    ('text_delta', {'text': 'Hello'})
    """
    if isinstance(event, TextEnd) and event.whole is not None:
        return "text_replaced", {"text": event.whole}
    told = _TOLD.get(type(event))
    if told is None:
        return None
    name, fields = told
    return name, {field: getattr(event, field) for field in fields}


class EventStreamResponse:
    """An ASGI application that answers one request with the events of one pipeline.

        async def chat(request):  # an endpoint of Starlette's
            return EventStreamResponse(pipeline(await ask(request), tools=[get_weather]))

    Each event is a server-sent event with its ``seq`` as ``id``. When the client goes, the calls are cancelled and the
    source is closed. A stream that fails ends with an event ``error`` that contains its ``kind``; an error that is no
    `StreamError` (of your source, stage or `encode`) is then raised to the server as well, which logs it. If calls wait
    for approvals when everything else is done, the last event is ``suspended`` with their ``call_ids``, and the
    response ends: keep the pipeline's `suspended` in `after`, and answer the next request with `resume`.

    Args:
        pipeline: a pipeline made for this request, not entered.
        encode: gives the data to send for each event; by default `encode_event`, which sends no arguments and no
            results.
        after: is awaited with the turn when nothing runs any more, also when the client has gone: store the history
            here. It is cancelled after 30 seconds.
        status: the status of the response.
        headers: more headers, or others in place of the three that keep proxies from holding events back.
        heartbeat: seconds of silence after which a comment is sent. None: never.
        send_timeout: seconds that a client may take to make room; after that it counts as gone. None: no limit.

    Raises:
        TypeError: `pipeline` is something else; the message says what to pass.
        ValueError: a header or a time cannot be used.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        encode: Encode = encode_event,
        after: Callable[[Turn], Awaitable[object]] | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        heartbeat: float | None = 15.0,
        send_timeout: float | None = 60.0,
    ) -> None:
        if not isinstance(pipeline, Pipeline):
            raise TypeError(
                f"EventStreamResponse takes a pipeline that is not entered, not {type(pipeline).__name__}; "
                "write EventStreamResponse(pipeline(stream, tools=[...]))"
            )
        self._pipeline = pipeline
        self._encode = encode
        self._after = after
        self._status = status
        self._headers = _checked(headers or {})
        self._heartbeat_s = _seconds("heartbeat", heartbeat)
        self._send_timeout_s = _seconds("send_timeout", send_timeout)
        self._called = False

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answers the request."""
        if scope["type"] != "http":
            raise LocalProtocolError(f"EventStreamResponse answers requests of type http, not {scope['type']}")
        if self._called:
            raise LocalProtocolError("an EventStreamResponse answers one request; make a new one for the next")
        self._called = True
        entered, failure = False, None
        try:
            async with self._pipeline as events, create_task_group() as tasks:
                entered = True
                tasks.start_soon(_until_disconnect, receive, tasks.cancel_scope)
                failure = await self._answer(events, send)  # not raised here: the group would wrap it
                tasks.cancel_scope.cancel()
            if failure is not None and not isinstance(failure, StreamError):
                raise failure
        finally:
            if entered and self._after is not None:
                with anyio.fail_after(_AFTER_S, shield=True):
                    await self._after(self._pipeline.turn)

    async def _answer(self, events: Pipeline, send: Send) -> Exception | None:
        """Sends the whole response; returns the error, if any. A client that has gone is no error."""
        failure: Exception | None = None
        try:
            await self._send(send, {"type": "http.response.start", "status": self._status, "headers": self._headers})
            try:
                await self._write(events, send)
            except _NotSentError:
                raise
            except Exception as error:
                failure = error
                await self._send_body(send, _error_frame(events.turn.error or error))
            await self._send_body(send, b"", more=False)
        except _NotSentError as unsent:
            return failure or unsent.fault
        return failure

    async def _write(self, events: Pipeline, send: Send) -> None:
        due = anyio.current_time() + self._heartbeat_s
        while True:
            event: Event | None = None
            with anyio.move_on_after(due - anyio.current_time()) as silence:
                event = await anext(events, None)
            if event is None and not silence.cancelled_caught:
                if events.suspended is not None:
                    await self._send_body(send, _suspended_frame(events.suspended))
                return
            piece = None if event is None else self._piece(event)
            if piece is None:
                if anyio.current_time() < due:  # also between events that are not sent
                    continue
                piece = _HEARTBEAT
            await self._send_body(send, piece)
            due = anyio.current_time() + self._heartbeat_s

    def _piece(self, event: Event) -> bytes | None:
        told = self._encode(event)
        return None if told is None else frame(told, id=event.seq)

    async def _send_body(self, send: Send, body: bytes, *, more: bool = True) -> None:
        await self._send(send, {"type": "http.response.body", "body": body, "more_body": more})

    async def _send(self, send: Send, message: Message) -> None:
        """Sends a message, and waits until the client has made room.

        Raises:
            _NotSentError: the client has gone, or the server fails.
        """
        try:
            with anyio.fail_after(self._send_timeout_s):
                await send(message)
        except Exception as error:
            raise _NotSentError(error) from error


class _NotSentError(Exception):
    """Raised when nothing more can be sent."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        # By the specification an OSError means that the client has gone; our TimeoutError is one, too.
        self.fault = None if isinstance(error, OSError) else error


async def _until_disconnect(receive: Receive, writing: CancelScope) -> None:
    """Waits until the client has gone, then stops the writing. The rest of the client's request is dropped."""
    while (await receive())["type"] != "http.disconnect":
        continue
    writing.cancel()


def _checked(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Returns the headers with names in lower case, as ASGI requires; yours replace ours."""
    merged = dict(_HEADERS)
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a header")
        if any(char in value for char in "\r\n\0"):
            raise ValueError(f"the header {name} has a line end or a null, which would begin another header")
        merged[name.lower()] = value
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in merged.items()]


def _seconds(name: str, value: float | None) -> float:
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{name}={value!r}: must be a number of seconds greater than 0, or None")
    return float(value)


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


def _error_frame(error: Exception) -> bytes:
    """Returns the last event of a stream that failed: the kind of failure, not its text, which may name hosts or
    accounts."""
    return frame(("error", {"kind": error.kind if isinstance(error, StreamError) else "internal_error"}))


def _suspended_frame(suspended: Suspended) -> bytes:
    """Returns the last event of a response that ends because calls wait for approvals, with the ids of these calls."""
    return frame(("suspended", {"call_ids": [call.call_id for call in suspended.calls]}))
