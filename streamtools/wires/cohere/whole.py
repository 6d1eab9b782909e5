"""Rewrites a whole answer of Cohere's as the events that say the same: each part in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..marks import is_cohere_answer

__all__ = ["whole"]

_PARTS = ("content", "tool_plan", "tool_calls", "citations")


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns the events of an answer of the API's second version; None if this is none."""
    if not is_cohere_answer(answer):
        return None
    message = answer["message"]
    rest = {key: value for key, value in answer.items() if key not in ("id", "message", "finish_reason", "usage")}
    end = {"finish_reason": answer["finish_reason"], "usage": answer.get("usage"), **rest}
    begun = {key: value for key, value in message.items() if key not in _PARTS}
    return [
        {"type": "message-start", "id": answer.get("id"), "delta": {"message": {**begun, "content": []}}},
        *_said(message),
        {"type": "message-end", "delta": end},
    ]


def _said(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if plan := message.get("tool_plan"):
        yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": plan}}}
    for at, part in enumerate(_listed(message, "content")):
        empty = {key: "" if key in ("text", "thinking") else value for key, value in part.items()}
        text = {key: value for key, value in part.items() if key in ("text", "thinking")}
        yield {"type": "content-start", "index": at, "delta": {"message": {"content": empty}}}
        yield {"type": "content-delta", "index": at, "delta": {"message": {"content": text}}}
        yield {"type": "content-end", "index": at}
    for at, call in enumerate(_listed(message, "tool_calls")):
        yield {"type": "tool-call-start", "index": at, "delta": {"message": {"tool_calls": call}}}
        yield {"type": "tool-call-end", "index": at}
    for at, citation in enumerate(_listed(message, "citations")):
        yield {"type": "citation-start", "index": at, "delta": {"message": {"citations": citation}}}
        yield {"type": "citation-end", "index": at}


def _listed(message: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = message.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
