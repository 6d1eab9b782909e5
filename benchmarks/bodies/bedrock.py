"""Amazon Bedrock ConverseStream: an AWS event stream."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .spelling import PROMPT_TOKENS, SEED, Call, padding, pieces, token, written

__all__ = ["bedrock"]


def bedrock(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    out: list[bytes] = []
    index = 0

    def event(kind: str, **fields: Any) -> None:
        out.append(_message(kind, written({**fields, "p": padding(rng)}).encode()))

    def block(deltas: Iterable[Mapping[str, Any]]) -> None:
        nonlocal index
        for delta in deltas:
            event("contentBlockDelta", contentBlockIndex=index, delta=delta)
        event("contentBlockStop", contentBlockIndex=index)
        index += 1

    event("messageStart", role="assistant")
    if text:
        block({"text": delta} for delta in text)
    for name, arguments in calls:
        call = {"name": name, "toolUseId": "tooluse_" + token(rng, 22)}
        event("contentBlockStart", contentBlockIndex=index, start={"toolUse": call})
        block({"toolUse": {"input": delta}} for delta in pieces(arguments))
    if after:
        block({"text": delta} for delta in after)
    event("messageStop", stopReason="tool_use" if calls else "end_turn")
    usage = {"inputTokens": PROMPT_TOKENS, "outputTokens": len(out), "totalTokens": PROMPT_TOKENS + len(out)}
    event("metadata", metrics={"latencyMs": 1859}, usage=usage)
    return out


def _message(kind: str, payload: bytes) -> bytes:
    """One message of an AWS event stream: prelude with its checksum, headers, payload, checksum."""
    given = ((":event-type", kind), (":content-type", "application/json"), (":message-type", "event"))
    headers = b"".join(
        bytes((len(name),)) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in given
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))
