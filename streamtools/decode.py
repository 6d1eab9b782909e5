"""A response body in, events and a turn out: framing, wire and stages in one sans-IO object.

`StreamDecoder` takes whatever a source yields and returns events; `parse` is the same in one call. Neither needs an
event loop, and neither raises on what came over the wire: an error ends the stream, and its `StreamEnd` carries it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from .errors import (
    LimitExceeded,
    LocalProtocolError,
    ProviderError,
    RemoteProtocolError,
    StreamError,
    TruncatedStream,
)
from .events import Event, StreamEnd, Warning
from .framing import Frame, SSEDecoder
from .limits import Limits
from .stages import DEFAULT, StageList
from .tools import Tool, Toolset
from .turn import Turn, TurnBuilder
from .wires import WireDecoder, decoder, detect
from .wires.base import excerpt, malformed, provider_error

__all__ = ["SLICE_BYTES", "StreamDecoder", "parse"]

_MAX_UNTOLD = 32  # payloads that may pass before one tells the wire (keep-alives, prompt filters)
_HEAD_BYTES = 64 << 10  # of a body without a single frame, kept to tell what it is instead
SLICE_BYTES = 64 << 10  # a chunk is worked on in slices of this size, so that a huge one yields events steadily


def parse(
    body: bytes | Iterable[bytes | str | Mapping[str, Any]],
    *,
    wire: str | None = None,
    tools: Iterable[Tool | Callable[..., Any] | str] | Toolset = (),
    stages: StageList = DEFAULT,
    limits: Limits = Limits(),
) -> Turn:
    """Read a whole response: what did the model say, and which calls did it make?

    Nothing is dispatched, no event loop is needed, and nothing that came over the wire raises: see ``turn.error``.

    Args:
        body: the bytes of the response, or its chunks in order, however they were cut; or its parsed payloads.
        wire: the wire it speaks; found from the first payload by default.
        tools: tools, functions or bare names: names are normalised to them, arguments validated by them.
        stages: the steps between wire and turn.
        limits: bounds on what is kept.

    Raises:
        ValueError: `wire` is not known.

    >>> turn = parse(b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\\n\\ndata: [DONE]\\n\\n')
    >>> turn.text, turn.finish, turn.complete
    ('Hi', 'stop', True)
    """
    stream = StreamDecoder(wire=wire, tools=tools, stages=stages, limits=limits)
    turn = TurnBuilder()
    for item in (body,) if isinstance(body, (bytes, bytearray, memoryview)) else body:
        if type(item) is bytes and len(item) <= SLICE_BYTES:
            turn.add_all(stream.feed(item))
        else:
            for events in stream.feed_slices(bytes(item) if isinstance(item, (bytearray, memoryview)) else item):
                turn.add_all(events)
    turn.add_all(stream.finish())
    turn.wire = stream.wire
    return turn.build()


class StreamDecoder:
    """Decodes one stream. Feed it items until `done` or the source ends, then call `finish` once.

    Args:
        wire: the wire that the stream speaks; found from the first payload that tells by default.
        tools: tools, functions or bare names.
        stages: the steps between wire and consumer.
        limits: bounds on what is kept.

    Raises:
        ValueError: `wire` is not known.
    """

    def __init__(
        self,
        *,
        wire: str | None = None,
        tools: Iterable[Tool | Callable[..., Any] | str] | Toolset = (),
        stages: StageList = DEFAULT,
        limits: Limits = Limits(),
    ) -> None:
        self._limits = limits
        self._sse = SSEDecoder(max_event_bytes=limits.max_event_bytes, lenient=True)
        self._wire: WireDecoder | None = None if wire is None else decoder(wire, limits)
        self._chain = stages.build(tools if isinstance(tools, Toolset) else Toolset(tools), limits)
        self._size = 0
        self._max_size = limits.max_stream_bytes
        self._framed = False  # bytes were fed, not payloads
        self._head: bytes | None = b""  # the body so far, until a payload has come out of it
        self._untold: list[tuple[dict[str, Any], bytes | None]] = []  # payloads from before the wire was known
        self._error: StreamError | None = None
        self._deaf = False  # an error ended the stream; what is fed after it is not looked at
        self._warned: set[str] = set()
        self._finished = False

    @property
    def wire(self) -> str | None:
        """The wire that was given or found; None so far."""
        return self._wire.name if self._wire else None

    @property
    def done(self) -> bool:
        """The terminal marker or an error was seen: nothing that follows changes the turn."""
        return self._error is not None or (self._wire is not None and self._wire.done)

    def feed_slices(self, item: bytes | str | Mapping[str, Any]) -> Iterable[list[Event]]:
        """`feed`, a slice at a time: however large the item, only so many events are held at once."""
        if isinstance(item, str):
            item = item.encode("utf-8", "surrogatepass")
        if not isinstance(item, bytes) or len(item) <= SLICE_BYTES:
            yield self.feed(item)
            return
        for at in range(0, len(item), SLICE_BYTES):
            yield self.feed(item[at : at + SLICE_BYTES])

    def feed(self, item: bytes | str | Mapping[str, Any]) -> list[Event]:
        """Take the next item: bytes or text of the body, cut anywhere, or one parsed payload. Returns events.

        Raises:
            LocalProtocolError: after `finish`.
            TypeError: the item is none of these.
        """
        if self._finished:
            raise LocalProtocolError("StreamDecoder.feed() after finish()")
        out: list[Event] = []
        if self._deaf:
            return out
        try:
            if type(item) is bytes:
                self._size += len(item)
                if self._size > self._max_size and not self.done:
                    raise LimitExceeded("max_stream_bytes", limit=self._max_size, value=self._size)
                if self._head is not None:
                    self._framed = True
                    self._head += item[: _HEAD_BYTES - len(self._head)]
                if payloads := self._sse.feed_payloads(item):
                    self._take(payloads, out)
            elif isinstance(item, Mapping):
                self._head = None
                self._payload(item if type(item) is dict else dict(item), None, out)
            elif isinstance(item, str):
                return self.feed(item.encode("utf-8", "surrogatepass"))
            elif isinstance(item, bytes):
                return self.feed(bytes(item))
            else:
                raise TypeError(f"a stream yields bytes, str or mappings, not {type(item).__name__}")
        except StreamError as error:
            self._deaf = True
            self._fail(error)
        return out

    def finish(self, error: StreamError | None = None, *, abandoned: bool = False) -> list[Event]:
        """The stream is over. Returns the last events, `StreamEnd` among them.

        Args:
            error: what ended it, if that was not its own end.
            abandoned: nobody wants the rest, so that its absence is no error.
        """
        if self._finished:
            return []
        out: list[Event] = []
        if error is not None:
            self._fail(error)
        elif not self.done and not abandoned:
            self._flush(out)
        self._finished = True
        if self._error is None and not abandoned:
            if self._head is not None:
                self._error = self._what_the_body_is(self._head)
            elif self._wire is None:
                self._error = self._unknown_wire()
        if self._wire is not None and self._head is None:
            last = self._wire.finish(framed=self._framed, error=self._error, abandoned=abandoned)
        else:
            in_band = self._head is None and self._error is not None and not isinstance(self._error, TruncatedStream)
            last = [StreamEnd(finish="error" if in_band else None, error=self._error)]
        for event in last:
            try:
                out.extend(self._chain.feed(event))
            except StreamError as found:  # a call whose arguments came last was one too many
                self._error = self._error or found
                out.extend(self._chain.feed(StreamEnd(finish="error", error=self._error)))
                break
        out.extend(self._chain.finish())
        return out

    # -- bytes to payloads --

    def _take(self, payloads: Sequence[bytes | Frame], out: list[Event]) -> None:
        """Data of events, or whole frames where their name matters. The hot loop."""
        self._head = None
        wire, chain = self._wire, self._chain
        passing = chain.passing
        for data in payloads:
            try:
                payload = orjson.loads(data)  # type: ignore[arg-type]  # a frame is refused like bad JSON
            except orjson.JSONDecodeError:
                self._odd_payload(data, out)
                wire = self._wire
                continue
            if wire is None or wire.done or type(payload) is not dict:
                self._rare_payload(payload, data, out)
                wire = self._wire
                continue
            wire.raw = data  # type: ignore[assignment]  # what was parsed is bytes
            for event in wire.feed(payload):
                if type(event) in passing:
                    out.append(event)
                else:
                    out.extend(chain.feed(event))

    def _pass_on(self, events: list[Event], out: list[Event]) -> None:
        for event in events:
            out.extend(self._chain.feed(event))

    def _odd_payload(self, item: bytes | Frame, out: list[Event]) -> None:
        """Data that orjson does not take: an end marker, a keep-alive, broken characters, no JSON at all; or an event
        that is called "error"."""
        named_error = isinstance(item, Frame)
        data = (item.data if isinstance(item, Frame) else item).strip()
        if data == b"[DONE]":
            if self._wire is not None and not self._wire.done:
                self._pass_on(self._wire.terminate(), out)
        elif not data or data.startswith(b":"):
            self._warn("keepalive_data", out)
        elif self.done:
            self._after_done(out)
        elif (payload := _tolerant(data)) is None:
            text = excerpt(data, self._limits.max_error_excerpt)
            raise ProviderError(text) if named_error else malformed(f"the data of an event is no JSON: {text}")
        elif named_error and isinstance(payload, dict) and (error := provider_error(payload, named_error=True)):
            raise error
        else:
            if self._wire is not None:
                self._wire.loose = True
            self._rare_payload(payload, data, out)

    def _rare_payload(self, payload: object, data: bytes | Frame, out: list[Event]) -> None:
        """A payload that is not the next one of a wire that is known and under way."""
        if self.done:
            self._after_done(out)
        elif not isinstance(payload, dict):
            raise malformed(f"the data of an event is a JSON {type(payload).__name__}, not an object")
        else:
            self._payload(payload, data if isinstance(data, bytes) else None, out)

    def _payload(self, payload: dict[str, Any], raw: bytes | None, out: list[Event]) -> None:
        if self.done:
            self._after_done(out)
            return
        if self._wire is None:
            name = detect(payload)
            if name is None:
                if error := provider_error(payload):
                    raise error
                self._untold.append((payload, raw))
                if len(self._untold) > _MAX_UNTOLD:
                    raise self._unknown_wire()
                return
            self._wire = decoder(name, self._limits)
            for early, early_raw in self._untold:
                self._wire.raw = early_raw
                self._pass_on(self._wire.feed(early), out)
        self._wire.raw = raw
        if raw is None:  # a payload that somebody else parsed may hold halves of surrogate pairs
            self._wire.loose = True
        self._pass_on(self._wire.feed(payload), out)

    def _flush(self, out: list[Event]) -> None:
        """At a clean end of the body a last block counts although its blank line is missing, if it is whole."""
        try:
            for frame in self._sse.finish():
                if frame.event == "error" or frame.data.strip() == b"[DONE]" or _tolerant(frame.data) is not None:
                    self._take([frame if frame.event == "error" else frame.data], out)
        except StreamError as error:
            self._fail(error)

    # -- what went wrong --

    def _fail(self, error: StreamError) -> None:
        if self.done:
            return
        if self._wire is not None and self._head is None:
            self._wire.fail(error)
            self._error = self._wire.error
        elif self._error is None:
            self._error = error

    def _after_done(self, out: list[Event]) -> None:
        if self._error is None and (self._wire is None or self._wire.error is None):
            self._warn("data_after_done", out)

    def _warn(self, code: str, out: list[Event]) -> None:
        if code not in self._warned:
            self._warned.add(code)
            out.append(Warning(code))

    def _unknown_wire(self) -> StreamError:
        if not self._untold:
            return TruncatedStream("the stream ended before its first payload")
        keys = ", ".join(sorted(map(str, self._untold[0][0]))[:12])
        shown = excerpt(keys, self._limits.max_error_excerpt)
        return RemoteProtocolError(f"no known wire: the first payload has the keys {shown}", kind="unknown_wire")

    def _what_the_body_is(self, head: bytes) -> StreamError:
        """A body without a single event: an error page, a bare JSON answer, nothing."""
        text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if not text or all(not line or line[:1] == b":" for line in text.splitlines()):
            return RemoteProtocolError("the body holds no event", kind="empty_stream")
        payload = _tolerant(text)
        if isinstance(payload, dict):
            if error := provider_error(payload):
                return error
            hint = "a whole JSON answer and no event stream; was the request sent without stream=True?"
            return RemoteProtocolError(f"the body is {hint}", kind="not_event_stream")
        what = "an HTML page" if text[:1] == b"<" else "no event stream"
        shown = excerpt(text, self._limits.max_error_excerpt)
        return RemoteProtocolError(f"the body is {what}: {shown}", kind="not_event_stream")


def _tolerant(data: bytes) -> object | None:
    """JSON with characters that are no UTF-8, or halves of surrogate pairs. None if it is no JSON all the same."""
    try:
        value: object = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value
