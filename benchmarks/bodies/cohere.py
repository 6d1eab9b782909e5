"""Cohere chat, version 2."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from .spelling import PROMPT_TOKENS, SEED, Call, hexadecimal, named_event, pieces, token

__all__ = ["cohere"]


def cohere(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    out: list[bytes] = []
    index = 0

    def event(kind: str, **fields: Any) -> None:
        out.append(named_event(kind, {"type": kind, **fields}))

    def content(deltas: Sequence[str]) -> None:
        nonlocal index
        event("content-start", index=index, delta={"message": {"content": {"type": "text", "text": ""}}})
        for delta in deltas:
            event("content-delta", index=index, delta={"message": {"content": {"text": delta}}})
        event("content-end", index=index)
        index += 1

    message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    message_id = "-".join(hexadecimal(rng, length) for length in (8, 4, 4, 4, 12))
    out.append(named_event("message-start", {"id": message_id, "type": "message-start", "delta": {"message": message}}))
    if text:
        content(text)
    for at, (name, arguments) in enumerate(calls):
        call = {"id": f"{name}_{token(rng, 12)}", "type": "function", "function": {"name": name, "arguments": ""}}
        event("tool-call-start", index=at, delta={"message": {"tool_calls": call}})
        for delta in pieces(arguments):
            event("tool-call-delta", index=at, delta={"message": {"tool_calls": {"function": {"arguments": delta}}}})
        event("tool-call-end", index=at)
    if after:
        content(after)
    tokens = {"input_tokens": PROMPT_TOKENS, "output_tokens": len(out)}
    end = {"finish_reason": "TOOL_CALL" if calls else "COMPLETE", "usage": {"billed_units": tokens, "tokens": tokens}}
    event("message-end", delta=end)
    return [*out, b"data: [DONE]\n\n"]
