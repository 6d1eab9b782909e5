"""Gemini generateContent, as an event stream. Calls come whole."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from .spelling import PROMPT_TOKENS, SEED, Call, token

__all__ = ["gemini"]


def gemini(text: Sequence[str], calls: Sequence[Call], after: Sequence[str]) -> list[bytes]:
    """Lines end in CRLF, and a space follows each colon but no comma, as the API writes them."""
    rng = random.Random(SEED)
    response_id = token(rng, 22)
    out: list[bytes] = []

    def chunk(part: Mapping[str, Any], finish: str | None = None) -> None:
        candidate = {"content": {"parts": [part], "role": "model"}, **({"finishReason": finish} if finish else {})}
        usage = {
            "promptTokenCount": PROMPT_TOKENS,
            "candidatesTokenCount": len(out),
            "totalTokenCount": PROMPT_TOKENS + len(out),
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": PROMPT_TOKENS}],
        }
        payload = {"candidates": [{**candidate, "index": 0}], "usageMetadata": usage}
        payload |= {"modelVersion": "gemini-2.5-flash", "responseId": response_id}
        written = json.dumps(payload, separators=(",", ": "), ensure_ascii=False)
        out.append(f"data: {written}\r\n\r\n".encode())

    for delta in text:
        chunk({"text": delta})
    for name, arguments in calls:
        chunk({"functionCall": {"name": name, "args": orjson.loads(arguments)}})
    for delta in after:
        chunk({"text": delta})
    chunk({"text": ""}, "STOP")
    return out
