"""Anthropic Messages."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .spelling import PROMPT_TOKENS, SEED, Call, pieces, token, written

__all__ = ["anthropic"]


def anthropic(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    out: list[bytes] = []

    def event(kind: str, **fields: Any) -> None:
        padding = " " * rng.randrange(15)  # the API pads its events so that their length tells nothing
        out.append(f"event: {kind}\ndata: {written({'type': kind, **fields})[:-1]}{padding}}}\n\n".encode())

    def block(index: int, content_block: Mapping[str, Any], deltas: Iterable[Mapping[str, str]]) -> None:
        event("content_block_start", index=index, content_block=content_block)
        for delta in deltas:
            event("content_block_delta", index=index, delta=delta)
        event("content_block_stop", index=index)

    def text_block(index: int, text: Sequence[str]) -> None:
        block(index, {"type": "text", "text": ""}, ({"type": "text_delta", "text": delta} for delta in text))

    message = {"id": "msg_01" + token(rng, 22), "type": "message", "role": "assistant", "model": "claude-sonnet-4-6"}
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": 2}
    event(
        "message_start", message={**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    )
    event("ping")
    if text:
        text_block(0, text)
    first = 1 if text else 0
    for index, (name, arguments) in enumerate(calls, first):
        call = {"type": "tool_use", "id": "toolu_01" + token(rng, 22), "name": name, "input": {}}
        block(index, call, ({"type": "input_json_delta", "partial_json": delta} for delta in pieces(arguments)))
    if after:
        text_block(first + len(calls), after)
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    event("message_delta", delta=stop, usage={"output_tokens": len(out)})
    event("message_stop")
    return out
