"""Decodes AWS event streams: the bytes of an ``application/vnd.amazon.eventstream`` body into payloads as JSON.

Follows https://smithy.io/2.0/aws/amazon-eventstream.html (read 2026-11-21). A message consists of

    total length (4) │ headers' length (4) │ checksum of these (4) │ headers │ payload │ checksum of all before (4)

and its headers give its kind. Each message comes out in the shape that AWS's own SDKs give to decoded events:

    :message-type event,     :event-type contentBlockDelta         {"contentBlockDelta": payload} :message-type
    exception, :exception-type throttlingException   {"throttlingException": payload} :message-type error,
    :error-code, :error-message           {"error": {"code": …, "message": …}} :event-type chunk
    (InvokeModelWithResponseStream)              the model's own JSON, as base64

Both checksums are always verified, and a wrong message ends the stream. The payloads are the same however the body is
cut into chunks; the cost is linear in its bytes.
"""

from __future__ import annotations

import binascii
import struct
from functools import lru_cache
from typing import NoReturn
from zlib import crc32

import orjson

from ..errors import LimitExceeded, LocalProtocolError, RemoteProtocolError, StreamError, TruncatedStream
from ..limits import Limits
from .pieces import MANY, fold
from .sse import Frame

_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_LENGTHS = 8  # bytes that the prelude's own checksum covers
_MAX_HEADERS_BYTES = 128 << 10  # of one message: the specification's own bound
_MEMORABLE_BYTES = 1 << 10  # of headers; Bedrock's have a hundred
_MEMORY = 1024  # beginnings of messages, for all streams together: a megabyte at most
_DEFAULT_MAX_EVENT_BYTES = Limits().max_event_bytes

_FIXED_VALUES = {
    2: struct.Struct(">b"),
    3: struct.Struct(">h"),
    4: struct.Struct(">i"),
    5: struct.Struct(">q"),
    8: struct.Struct(">q"),  # a timestamp: milliseconds since 1970
    9: struct.Struct("16s"),  # a UUID
}
_TRUE, _FALSE, _BYTES, _STRING = 0, 1, 6, 7


class AWSEventStreamDecoder:
    """Decodes an AWS event stream fed in chunks of any size.

    `LimitExceeded` (a message larger than `max_event_bytes`) and `RemoteProtocolError` (a wrong checksum, length or
    header) are raised by the next call, so that the whole messages before the bad one come out first; `finish` raises
    `TruncatedStream` inside a message. The decoder cannot be used after that.
    """

    name = "aws_eventstream"

    def __init__(self, *, max_event_bytes: int = _DEFAULT_MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._pending: list[bytes] = []  # pieces of the message that is not whole yet
        self._pending_size = 0
        self._needed = _PRELUDE.size  # how large they must be before more can be read
        self._offset = 0  # in the body, of the first byte that is pending or being read
        self._error: StreamError | None = None
        self._finished = False

    def feed_payloads(self, chunk: bytes) -> list[bytes | Frame]:
        if self._finished:
            raise LocalProtocolError("AWSEventStreamDecoder.feed_payloads() after finish()")
        if self._error is not None:
            raise self._error
        # An empty chunk must not make what is pending be joined once more: a long message in small pieces would cost
        # quadratic time.
        if not chunk:
            return []
        # The beginning of a message waits in a list. It is joined once the length is known, to check that before any
        # more is kept, and once more when the message is whole.
        if self._pending:
            self._pending.append(chunk)
            self._pending_size += len(chunk)
            if len(self._pending) > MANY:
                fold(self._pending)
            if self._pending_size < self._needed:
                return []
            chunk = b"".join(self._pending)
            self._pending.clear()
        payloads: list[bytes | Frame] = []
        try:
            read = self._messages(chunk, payloads)
        except StreamError as error:
            # Raised by the next call, so that the messages before it come out. It ends the stream: after a message with
            # a wrong length or checksum, the beginning of the next one is unknown.
            self._error = error
            return payloads
        self._offset += read
        if read < len(chunk):
            self._pending.append(chunk[read:])
            self._pending_size = len(chunk) - read
        return payloads

    def finish(self) -> list[Frame]:
        """Ends the body; returns nothing, since no message can be pending."""
        if self._finished:
            return []
        self._finished = True
        if self._error is not None:
            raise self._error
        if self._pending:
            size = f"{self._pending_size} of {self._needed}" if self._needed > _PRELUDE.size else self._pending_size
            raise TruncatedStream(f"the body ended inside {self._where(0)}: {size} bytes of it came")
        return []

    def _messages(self, chunk: bytes, out: list[bytes | Frame]) -> int:
        at, end, limit = 0, len(chunk), self._max
        self._needed = _PRELUDE.size
        while end - at >= _PRELUDE.size:
            total, headers_size, _ = _PRELUDE.unpack_from(chunk, at)
            begin, after = at + _PRELUDE.size + headers_size, at + total
            # The checks of the lengths are for what cannot be read here and now: a message that goes on in a later
            # chunk, one above the limit, one with headers too long for the cache.
            if not begin + _CHECKSUM.size <= after <= end or total > limit or headers_size > _MEMORABLE_BYTES:
                self._check_lengths(chunk, at)
                if after > end:
                    self._needed = total
                    break
                known = _beginning.__wrapped__(chunk[at:begin])
            else:
                # Messages of a stream begin with the same few byte strings over and over: caching their meaning and
                # their part of the checksum halves the cost of a message.
                known = _beginning(chunk[at:begin])
            payload = chunk[begin : after - _CHECKSUM.size]
            (checksum,) = _CHECKSUM.unpack_from(chunk, after - _CHECKSUM.size)
            if known is None or crc32(payload, known[2]) != checksum:
                self._refuse(chunk, at)
            # The payload is passed on byte for byte: parsing and writing it would change its numbers beyond 64 bits. An
            # event without a payload is an empty object, as AWS's SDKs decode it.
            before, whole, _ = known
            if before and payload:
                out.append(before + payload + b"}")
            else:
                out.append(self._unwrapped(at, payload) if whole is None else whole)
            at = after
        return at

    def _check_lengths(self, chunk: bytes, at: int) -> None:
        """Raises if the message that begins here may be neither read nor waited for."""
        # The prelude has a checksum of its own so that no length is believed before it is verified: a flipped bit could
        # make the reader wait for bytes that never come.
        total, headers_size, checksum = _PRELUDE.unpack_from(chunk, at)
        self._check(at, "the checksum of its lengths", checksum, crc32(chunk[at : at + _LENGTHS]))
        if total > self._max:
            raise LimitExceeded("max_event_bytes", limit=self._max, value=total, where="a message of the event stream")
        room = total - _PRELUDE.size - _CHECKSUM.size
        if headers_size > min(room, _MAX_HEADERS_BYTES):
            raise self._malformed(at, f"{total} bytes with headers of {headers_size} are impossible")

    def _refuse(self, chunk: bytes, at: int) -> NoReturn:
        # Each check is made once more, in the order of the message, to name the one that failed.
        self._check_lengths(chunk, at)
        total, headers_size, _ = _PRELUDE.unpack_from(chunk, at)
        end = at + total - _CHECKSUM.size
        self._check(at, "its checksum", _CHECKSUM.unpack_from(chunk, end)[0], crc32(chunk[at:end]))
        try:
            _meaning(read_headers(chunk[at + _PRELUDE.size : at + _PRELUDE.size + headers_size]))
        except ValueError as error:
            raise self._malformed(at, str(error)) from None
        raise AssertionError("the message is damaged")

    def _unwrapped(self, at: int, payload: bytes) -> bytes:
        try:
            return _inner(payload)
        except ValueError as error:
            raise self._malformed(at, f"its payload is not a chunk: {error}") from None

    def _check(self, at: int, what: str, sent: int, found: int) -> None:
        if sent != found:
            raise self._malformed(at, f"{what} is 0x{sent:08x}, but its bytes give 0x{found:08x}")

    def _malformed(self, at: int, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self._where(at)}: {what}", kind="malformed_chunk")

    def _where(self, at: int) -> str:
        return f"the message at byte {self._offset + at} of the event stream"


# -- headers --


@lru_cache(_MEMORY)
def _beginning(data: bytes) -> tuple[bytes, bytes | None, int] | None:
    """Returns the meaning of a message's prelude and headers: the JSON before its payload if it is an event, its whole
    JSON if it has no payload, None if it is a chunk, whose payload is to be unwrapped; and the checksum so far. None if
    something is wrong with them."""
    if crc32(data[:_LENGTHS]) != _PRELUDE.unpack_from(data)[2]:
        return None
    try:
        before, whole = _meaning(read_headers(data[_PRELUDE.size :]))
    except ValueError:
        return None
    return before, whole, crc32(data)


def _meaning(headers: dict[str, bool | int | bytes | str]) -> tuple[bytes, bytes | None]:
    # An error that the service did not model stands in the headers; its payload, if any, means nothing. An exception is
    # a modelled error, whose payload has its fields: it comes out like an event of its name.
    if headers.get(":message-type") == "error":
        error = {"code": headers.get(":error-code"), "message": headers.get(":error-message")}
        return b"", orjson.dumps({"error": error}, default=str)
    name = headers.get(":event-type") or headers.get(":exception-type")
    if not isinstance(name, str):
        raise ValueError("expected an :event-type or :exception-type, got neither")
    if name == "chunk":
        return b"", None
    before = b"{" + orjson.dumps(name) + b":"
    return before, before + b"{}}"


def read_headers(data: bytes) -> dict[str, bool | int | bytes | str]:
    headers: dict[str, bool | int | bytes | str] = {}
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        name = data[at + 1 : name_end].decode()
        if not name or name_end >= len(data) or name in headers:
            raise ValueError("a header has no name, no value, or the name of another one")
        kind = data[name_end]
        at = name_end + 1
        if kind in (_TRUE, _FALSE):
            headers[name] = kind == _TRUE
            continue
        if fixed := _FIXED_VALUES.get(kind):
            size = fixed.size
        elif kind in (_BYTES, _STRING):
            size = int.from_bytes(data[at : at + 2], "big")
            at += 2
        else:
            raise ValueError(f"expected a header's value of type 0 to 9, got type {kind}")
        value = data[at : at + size]
        at += size
        if at > len(data):
            raise ValueError("the headers end inside a header's value")
        headers[name] = fixed.unpack(value)[0] if fixed else value if kind == _BYTES else value.decode()
    return headers


def _inner(payload: bytes) -> bytes:
    # InvokeModelWithResponseStream sends `{"bytes": "<base64 of the model's JSON>"}`, perhaps with a `p` of padding.
    # The answers of Bedrock's agents are called "chunk", too: their bytes are plain text, or stand beside an
    # `attribution`, and are left as they are.
    event = orjson.loads(payload or b"{}")
    if isinstance(event, dict) and isinstance(text := event.get("bytes"), str) and len(event) == 1 + ("p" in event):
        inner = binascii.a2b_base64(text, strict_mode=True)
        if inner.lstrip()[:1] == b"{":
            return inner
    return b'{"chunk":' + (payload or b"{}") + b"}"
