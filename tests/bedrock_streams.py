"""Bodies of AWS event streams for tests, composed message by message."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

import orjson

Header = bool | int | bytes | str | tuple[int, Any]
Call = tuple[str, str, str]  # id, name, arguments as JSON text

_FIXED = {2: ">b", 3: ">h", 4: ">i", 5: ">q", 8: ">q", 9: "16s"}


def header(name: str, value: Header) -> bytes:
    """One header. Its type follows from the value; a tuple names another: ``(8, 0)`` is a timestamp."""
    if isinstance(value, tuple):
        kind, value = value
    elif isinstance(value, bool):
        kind = 0 if value else 1
    else:
        kind = {int: 4, bytes: 6, str: 7}[type(value)]
    if kind in _FIXED:
        data = struct.pack(_FIXED[kind], value)
    elif kind in (6, 7):
        text = value.encode() if isinstance(value, str) else value
        data = len(text).to_bytes(2, "big") + text
    else:
        data = b""
    return bytes([len(name.encode())]) + name.encode() + bytes([kind]) + data


def message(headers: Mapping[str, Header] | bytes, payload: bytes = b"") -> bytes:
    """One whole message."""
    packed = headers if isinstance(headers, bytes) else b"".join(header(*item) for item in headers.items())
    lengths = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    checked = lengths + struct.pack(">I", crc32(lengths)) + packed + payload
    return checked + struct.pack(">I", crc32(checked))


def event(name: str, payload: object, *, kind: str = "event") -> bytes:
    """A modelled event, or with ``kind="exception"`` an exception."""
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    return message(headers, payload if isinstance(payload, bytes) else orjson.dumps(payload))


def events(payloads: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Decoded events, each as the message that it came in."""
    return [
        event(name, body, kind="exception" if name.endswith("Exception") else "event")
        for payload in payloads
        for name, body in payload.items()
    ]


def chunk(inner: Mapping[str, Any] | bytes) -> bytes:
    """What a model's own stream is wrapped in by InvokeModelWithResponseStream."""
    text = inner if isinstance(inner, bytes) else orjson.dumps(inner)
    return event("chunk", {"bytes": base64.b64encode(text).decode(), "p": "abcdefgh"})


def text_deltas(pieces: Iterable[str], index: int = 0) -> list[dict[str, Any]]:
    """A text block, as Bedrock tells it: without a start."""
    deltas = [{"contentBlockDelta": {"contentBlockIndex": index, "delta": {"text": piece}}} for piece in pieces]
    return [*deltas, {"contentBlockStop": {"contentBlockIndex": index}}]


def tool_use(index: int, call: Call, *, pieces: int = 1) -> list[dict[str, Any]]:
    """A call's block, its arguments in so many pieces."""
    call_id, name, arguments = call
    size = max(-(-len(arguments) // pieces), 1)
    cut = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    start = {"toolUse": {"toolUseId": call_id, "name": name}}
    deltas = [{"contentBlockIndex": index, "delta": {"toolUse": {"input": piece}}} for piece in cut]
    return [
        {"contentBlockStart": {"contentBlockIndex": index, "start": start}},
        *({"contentBlockDelta": delta} for delta in deltas),
        {"contentBlockStop": {"contentBlockIndex": index}},
    ]


START: dict[str, Any] = {"messageStart": {"role": "assistant"}}
USAGE: dict[str, Any] = {
    "metadata": {"usage": {"inputTokens": 9, "outputTokens": 5, "totalTokens": 14}, "metrics": {"latencyMs": 20}}
}


def end(reason: Any) -> dict[str, Any]:
    return {"messageStop": {"stopReason": reason}}


def converse_events(
    text: Sequence[str] = (), calls: Sequence[Call] = (), stop: str | None = "tool_use"
) -> list[dict[str, Any]]:
    """A response as decoded events: one text block, then a block for each call, then the end."""
    payloads = [START, *(text_deltas(text) if text else ())]
    for index, call in enumerate(calls, 1 if text else 0):
        payloads += tool_use(index, call)
    return [*payloads, end(stop), USAGE] if stop is not None else payloads


def converse(text: Sequence[str] = (), calls: Sequence[Call] = (), stop: str | None = "tool_use") -> list[bytes]:
    """`converse_events` as a body, a message an item."""
    return events(converse_events(text, calls, stop))
