"""Rewrites a whole message of Anthropic's as the events that say the same: each block in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..marks import is_message
from ..reading import json_text

__all__ = ["whole"]

_AT_THE_END = ("stop_reason", "stop_sequence", "stop_details", "container")


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns the events of a message; None if this is none."""
    if not is_message(answer):
        return None
    content = answer["content"]
    end = {key: answer[key] for key in _AT_THE_END if answer.get(key) is not None}
    begun = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    counted = {"usage": answer["usage"]} if isinstance(answer.get("usage"), dict) else {}
    return [
        {"type": "message_start", "message": begun},
        *(event for at, block in enumerate(content) if isinstance(block, dict) for event in _block(block, at)),
        {"type": "message_delta", "delta": end, **counted},
        {"type": "message_stop"},
    ]


def _block(block: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
    deltas = list(_deltas(block))
    begun = {**block, **{key: empty for key, empty in _EMPTY.items() if key in block}} if deltas else block
    yield {"type": "content_block_start", "index": at, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": at, "delta": delta}
    yield {"type": "content_block_stop", "index": at}


_EMPTY: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}, "citations": None}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the deltas of a block; none of one that comes whole in a stream, too."""
    type_ = block.get("type")
    if type_ == "text":
        yield {"type": "text_delta", "text": block.get("text", "")}
        citations = block.get("citations")
        for citation in citations if isinstance(citations, list) else ():
            yield {"type": "citations_delta", "citation": citation}
    elif type_ == "thinking":
        yield {"type": "thinking_delta", "thinking": block.get("thinking", "")}
        yield {"type": "signature_delta", "signature": block.get("signature", "")}
    elif "input" in block:
        yield {"type": "input_json_delta", "partial_json": json_text(block["input"]) or ""}
