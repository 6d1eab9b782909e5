"""Rewrites a whole answer of Chat Completions as the one chunk that says the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..marks import is_chat_answer

__all__ = ["whole"]


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns the chunk of an answer; None if this is none."""
    if not is_chat_answer(answer):
        return None
    said = [_chunk(one) if isinstance(one, dict) else one for one in answer["choices"]]
    return [{**answer, "object": "chat.completion.chunk", "choices": said}]


def _chunk(choice: dict[str, Any]) -> dict[str, Any]:
    message = choice.get("message")
    delta = dict(message) if isinstance(message, dict) else {}
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        delta["tool_calls"] = [
            {"index": at, **call} if isinstance(call, dict) else call for at, call in enumerate(calls)
        ]
    # Snowflake Cortex says nothing of the reason; the body shows by its end that the choice is whole.
    reason = {"finish_reason": "unknown"} if choice.get("finish_reason") == "" else {}
    return {**{key: value for key, value in choice.items() if key != "message"}, **reason, "delta": delta}
