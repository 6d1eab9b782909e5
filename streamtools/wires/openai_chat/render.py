"""A turn in, chat messages out."""

from __future__ import annotations

from typing import Any

from ...turn import ToolCall
from ..answer import Answer
from ..reading import valid_name

__all__ = ["render"]


def render(answer: Answer) -> list[dict[str, Any]]:
    """The assistant's message, and one ``tool`` message for each call. Empty if the model said nothing, or only
    thought: a message needs content or calls."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if text := answer.text("text"):
        message["content"] = text
    if answer.own_wire:
        _render_reasoning(message, answer)
    if refusal := answer.text("refusal"):
        message["refusal"] = refusal
    calls = [_render_call(call, answer) for call in answer.our_calls]
    if calls:
        message["tool_calls"] = calls
    if not (message["content"] or refusal or calls):
        return []
    results = [{"role": "tool", "tool_call_id": r.call_id, "content": r.content} for r in answer.results]
    return [message, *results]


def _render_call(call: ToolCall, answer: Answer) -> dict[str, Any]:
    state = call.provider_state if answer.own_wire and call.provider_state else {}
    if call.kind == "custom":
        custom = {"name": valid_name(call.name), "input": answer.arguments[call.call_id][1]["input"]}
        return {"id": call.call_id, "type": "custom", "custom": custom, **state}
    return {**answer.as_function(call), **state}


def _render_reasoning(message: dict[str, Any], answer: Answer) -> None:
    """Give reasoning back in the field it came in; its owner wants it there, or ignores it."""
    fields: dict[str, list[str]] = {}
    blocks: list[dict[str, Any]] = []
    inline = ""
    for part in answer.parts:
        state = part.provider_state or {}
        if part.kind == "provider" and "reasoning_details" in state:
            message["reasoning_details"] = state["reasoning_details"]
        elif part.kind != "reasoning":
            continue
        elif "inline" in state:
            inline = state["inline"]
        elif state.get("field") == "content":
            blocks.append({"type": "thinking", "thinking": [{"type": "text", "text": part.text}]})
        elif "field" in state:
            fields.setdefault(state["field"], []).append(part.text)
    message.update({name: "".join(texts) for name, texts in fields.items()})
    if message["content"] is None and "reasoning_content" in fields:
        message["content"] = ""  # DeepSeek refuses null beside it (can1357/oh-my-pi#788)
    text = inline + (message["content"] or "")
    if blocks:
        message["content"] = [*blocks, *([{"type": "text", "text": text}] if text else [])]
    elif text:
        message["content"] = text
