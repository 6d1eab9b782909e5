"""Cuts the bytes of a response body into payloads, or explains a body that contains none.

The head of the body is kept until a payload has come out of it: only then is it certain that this is a stream, and not
an error page or a whole answer, which becomes the payloads of a stream by the wire's own `Wire.whole`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson

from ..errors import RemoteProtocolError, StreamError, TruncatedStream
from ..framing import Frame, Framing, choose
from ..ground.text import excerpt
from ..limits import Limits
from ..wires import Wire, answering, find
from ..wires.reading import malformed, provider_error

SLICE_BYTES = 64 << 10

_BOM = b"\xef\xbb\xbf"
_HEAD_BYTES = 64 << 10  # bytes kept of a body without a single payload, to find out what it is instead
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")  # of an event in an event stream
_TOLERANT_BYTES = 1 << 20  # of an object that the fast parser refuses: the other one takes some 10 ms


class Body:
    """One response body. Give its bytes to `feed_payloads`, then call `finish` once."""

    def __init__(self, limits: Limits) -> None:
        self.feed_payloads: Callable[[bytes], Sequence[bytes | Frame]] = self._with_head
        """Takes the next bytes; returns the data of the payloads that they complete."""
        self._limits = limits
        self._framing: Framing | None = None
        self._head = bytearray()
        self._kept = _HEAD_BYTES
        self.gave_up = False  # True if no further bytes are read as payloads
        self.is_lines = False  # True if the body is JSON lines, or a JSON object
        self.is_array = False

    @property
    def began(self) -> bool:
        return self._framing is not None or bool(self._head)

    def settle(self) -> None:
        if self._framing is not None:
            self.feed_payloads = self._framing.feed_payloads
        self._head.clear()

    def give_up(self) -> None:
        self.gave_up = True
        self.feed_payloads = self._only_head

    def finish(self) -> Sequence[Frame]:
        if self._framing is None or self.gave_up:
            return ()
        return self._framing.finish()

    def _with_head(self, chunk: bytes) -> Sequence[bytes | Frame]:
        if self._framing is not None:
            self._only_head(chunk)
            return self._framing.feed_payloads(chunk)
        self._head += chunk
        limits = self._limits
        framing = choose(bytes(self._head), limits.max_event_bytes)
        if framing is None:
            return ()
        self._framing = framing
        self.is_lines, self.is_array = framing.name == "ndjson", framing.name == "json_array"
        begin = bytes(self._head)
        if self.is_lines and begin.removeprefix(_BOM).lstrip()[:1] == b"{":  # it may be a whole answer
            self._kept = limits.max_event_bytes
        del self._head[self._kept :]
        return framing.feed_payloads(begin.removeprefix(_BOM) if self.is_lines or self.is_array else begin)

    def _only_head(self, chunk: bytes) -> Sequence[bytes | Frame]:
        self._head += chunk[: max(0, self._kept - len(self._head))]
        return ()

    @cached_property
    def as_json(self) -> object | None:
        """The whole body as one JSON object, for a body that has ended without a payload; None if it is none."""
        text = bytes(self._head).removeprefix(_BOM).strip()
        if text[:1] != b"{":
            return None
        try:
            value: object = orjson.loads(text)
        except orjson.JSONDecodeError:
            return tolerant_json(text) if len(text) <= _TOLERANT_BYTES else None
        return value

    def what_it_is(self) -> StreamError:
        whole = bytes(self._head).removeprefix(_BOM).lstrip(b" \t\r\n")
        text = whole[:_HEAD_BYTES]
        if not text or all(not line or line[:1] == b":" for line in text.splitlines()):
            return RemoteProtocolError("the body contains no event; was it read before?", kind="empty_stream")
        payload = self.as_json
        if isinstance(payload, dict):
            if error := provider_error(payload):
                return error
            hint = "a JSON object, not an event stream; was the request sent without stream=True?"
            return RemoteProtocolError(f"the body is {hint}", kind="not_event_stream")
        is_odd = self._framing is not None and self._framing.name in ("sse", "ndjson")
        if not is_odd or _is_begun(whole):
            return TruncatedStream("the body ended before its first payload was complete")
        what = "an HTML page" if text[:1] == b"<" else "not an event stream"
        if text[:5] in (b"data:", b"event") and b"\n" not in text:
            what = "lines without line ends (pass the bytes, or put the line ends back)"
        elif text[:1] == b"{" and b"}{" in text:
            what = "JSON objects with nothing between them (pass each as a dict, or put line ends between them)"
        elif b"\0" in text:
            return RemoteProtocolError(f"the body is binary data: {excerpt(text[:16], 16)}…", kind="not_event_stream")
        shown = excerpt(text, self._limits.max_error_excerpt)
        return RemoteProtocolError(f"the body is {what}: {shown}", kind="not_event_stream")


def _is_begun(text: bytes) -> bool:
    data = text
    if text[:1] != b"{":
        *whole, last = text.splitlines()
        fields = [*whole, *([] if any(name.startswith(last) for name in _FIELDS) else [last])]
        named = [(name, line[len(name) :]) for line in fields for name in _FIELDS if line.startswith(name)]
        if len(named) < len(fields) or any(name != b"data:" and b"data:" in value for name, value in named):
            return False
        data = b"\n".join(value for name, value in named if name == b"data:").strip()
    from pydantic_core import from_json  # bodies nearly always have a payload

    try:
        from_json(data or b"{")
    except ValueError as error:
        return str(error).startswith("EOF while parsing")
    return False


def slices(item: bytes | bytearray | memoryview | str | Mapping[str, Any]) -> Iterable[bytes | Mapping[str, Any]]:
    """Splits a chunk into parts of at most `SLICE_BYTES`, so that few events are held; a payload stays whole."""
    if isinstance(item, str):
        item = item.encode("utf-8", "surrogatepass")
    if isinstance(item, (bytes, bytearray, memoryview)):
        return (bytes(item[at : at + SLICE_BYTES]) for at in range(0, len(item), SLICE_BYTES))
    return (item,)


def read_json(data: bytes) -> object | None:
    """Parses the data of one event as the decoder does; returns None if it is no JSON."""
    try:
        value: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        return tolerant_json(data)
    return value


def tolerant_json(data: bytes) -> object | None:
    """Parses JSON even if it has invalid UTF-8 or halves of surrogate pairs; returns None if it is still no JSON."""
    try:
        value: object = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value


def wrapped(payload: Mapping[str, Any]) -> bytes | None:
    chunk = payload.get("chunk")
    data = chunk.get("bytes") if isinstance(chunk, dict) and len(payload) == 1 else None
    return data if isinstance(data, bytes) and data.lstrip()[:1] == b"{" else None  # agents' answers are plain text


def weighed(payload: Mapping[str, Any]) -> tuple[int, bool]:
    """Returns the size of a payload's JSON, in bytes, and whether the payload has what no JSON parser gives; raises a
    `RemoteProtocolError` if it is nested too deep."""
    try:
        return len(orjson.dumps(payload, default=str, option=orjson.OPT_NON_STR_KEYS)), False
    except TypeError:  # integers of any size, halves of surrogate pairs
        return _written_size(payload), True


def _written_size(payload: Mapping[str, Any]) -> int:
    try:
        return len(repr(payload))
    except RecursionError:
        raise malformed("a payload is nested too deeply") from None


def unknown_wire(untold: Sequence[tuple[Mapping[str, Any], object]], limits: Limits) -> StreamError:
    if not untold:
        return TruncatedStream("the stream ended before its first payload")
    shown = excerpt(", ".join(sorted(map(str, untold[0][0]))[:12]), limits.max_error_excerpt)
    return RemoteProtocolError(
        f"no known wire: the first payload has the keys {shown}; name it by wire=", kind="unknown_wire"
    )


# -- whole answers, as streams --


def rewritten(payload: Mapping[str, Any], wire: Wire | None) -> list[dict[str, Any]] | None:
    """Returns the payloads that say the same as a whole answer of the wire, or of any if it is None; None if this is
    none, or is a payload of a stream as it stands."""
    found = payloads_of(payload, wire)
    return None if found is None or found[0] is payload else found


def payloads_of(answer: Mapping[str, Any], wire: Wire | None) -> list[dict[str, Any]] | None:
    for asked in answering(answer) if wire is None else (wire,):
        if asked.is_answer is not None and asked.is_answer(answer):
            return asked.whole(answer) if asked.whole is not None else [answer] if isinstance(answer, dict) else None
    return None


def as_items(given: Any, wire: Wire | str | None) -> Any:
    """Returns a dict as a list of this one item, and anything else as it is; raises a `TypeError` for a dict that is no
    answer of the wire, or of any."""
    if type(given) is bytes or not isinstance(given, Mapping):
        return given
    record = None if wire is None else find(wire)
    if payloads_of(given, record) is None and provider_error(given) is None:
        if hasattr(given.get("stream"), "__iter__"):
            raise TypeError("this object contains the stream; pass response['stream']")
        whose = "any known wire" if record is None else record.name
        raise TypeError(
            f"expected a stream, or a whole answer of {whose}, got another dict or object; pass the SDK's stream or "
            "its whole response rather than a part of it, or a list of payloads"
        )
    return [given]
