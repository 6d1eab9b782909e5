"""A turn in, Ollama's messages out."""

from __future__ import annotations

from typing import Any

from ...turn import ToolCall
from ..answer import Answer
from ..reading import valid_name

__all__ = ["render"]


def render(answer: Answer) -> list[dict[str, Any]]:
    """The assistant's message, and one ``tool`` message for each call. Empty if the model said nothing."""
    text = answer.text("text", "refusal")
    thinking = answer.text("reasoning") if answer.own_wire else ""
    calls = [_render_call(call, answer) for call in answer.our_calls]
    if not (text or thinking or calls):
        return []
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = calls
    return [message, *(_render_result(result.call_id, result.content, answer) for result in answer.results)]


def _render_call(call: ToolCall, answer: Answer) -> dict[str, Any]:
    state = dict(call.provider_state or {}) if answer.own_wire else {}
    arguments = answer.arguments[call.call_id][1]
    return {"id": call.call_id, "function": {**state, "name": valid_name(call.name), "arguments": arguments}}


def _render_result(call_id: str, content: str, answer: Answer) -> dict[str, Any]:
    """A result by name, which all versions look at, and by id, which alone tells two calls of one tool apart."""
    name = valid_name(answer.calls[call_id].name)
    return {"role": "tool", "tool_name": name, "tool_call_id": call_id, "content": content}
