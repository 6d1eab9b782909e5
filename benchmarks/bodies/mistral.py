"""Mistral chat. Calls come whole, in the last event."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from .spelling import CREATED, SEED, Call, data_line, hexadecimal, padding, token, usage

__all__ = ["mistral"]


def mistral(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    head = {
        "id": hexadecimal(rng, 32),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": "mistral-large-latest",
    }
    out: list[bytes] = []

    def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        out.append(data_line({**head, "choices": [choice], **more, "p": padding(rng)}))

    chunk({"role": "assistant", "content": ""})
    for delta in [*text, *after]:  # calls are the last that it sends
        chunk({"content": delta})
    functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
    called = [{"id": token(rng, 9), "function": function, "index": at} for at, function in enumerate(functions)]
    if called:
        chunk({"tool_calls": called}, "tool_calls", usage=usage(len(out)))
    else:
        chunk({"content": ""}, "stop", usage=usage(len(out)))
    return [*out, b"data: [DONE]\n\n"]
