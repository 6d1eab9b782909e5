"""Ollama chat: JSON lines. Calls come whole."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from .spelling import PROMPT_TOKENS, SEED, Call, written

__all__ = ["ollama"]


def ollama(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    rng = random.Random(SEED)
    out: list[bytes] = []

    def line(message: Mapping[str, Any], **more: Any) -> None:
        made = f"2025-11-20T08:{len(out) // 3000 % 60:02}:{len(out) // 50 % 60:02}.{rng.randrange(10**6):06}Z"
        head = {"model": "qwen3:8b", "created_at": made, "message": {"role": "assistant", "content": "", **message}}
        out.append(written({**head, **(more or {"done": False})}).encode() + b"\n")

    for delta in text:
        line({"content": delta})
    for name, arguments in calls:
        line({"tool_calls": [{"function": {"name": name, "arguments": orjson.loads(arguments)}}]})
    for delta in after:
        line({"content": delta})
    durations = {"total_duration": 2203237375, "load_duration": 336223209}
    counts = {"prompt_eval_count": PROMPT_TOKENS, "prompt_eval_duration": 355000000}
    line({}, done_reason="stop", done=True, **durations, **counts, eval_count=len(out), eval_duration=1511000000)
    return out
