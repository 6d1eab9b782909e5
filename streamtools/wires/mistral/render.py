"""A turn in, Mistral's messages out."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from ...turn import Part
from ..answer import Answer
from ..reading import valid_name

__all__ = ["render"]


def render(answer: Answer) -> list[dict[str, Any]]:
    """The assistant's message, and one ``tool`` message for each call. Empty if the model said nothing.

    The API wants content or calls: "Assistant message must have either content or tool_calls, but not none."
    (OpenHands/OpenHands#8685).
    """
    content = _content([chunk for part in answer.parts if (chunk := _chunk(part, answer)) is not None])
    calls = answer.our_calls
    if not content and not calls:
        return []
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [answer.as_function(call) for call in calls]
    results = [
        {
            "role": "tool",
            "tool_call_id": r.call_id,
            "name": valid_name(answer.calls[r.call_id].name),
            "content": r.content,
        }
        for r in answer.results
    ]
    return [message, *results]


def _chunk(part: Part, answer: Answer) -> dict[str, Any] | None:
    """A part as a chunk of content, if it is one."""
    state = part.provider_state if answer.own_wire and part.provider_state else {}
    if part.kind == "text" or part.kind == "refusal":
        return {"type": "text", "text": part.text}
    if not answer.own_wire:
        return None
    if part.kind == "provider":
        return dict(state) if "type" in state else None
    if part.kind != "reasoning":
        return None
    if "inline" in state:  # it came as text, and was a tag there
        return {"type": "text", "text": state["inline"]}
    texts = [{"type": "text", "text": part.text}] if part.text else []
    chunk: dict[str, Any] = state.get("chunk", {})
    return {"type": "thinking", "thinking": texts} | chunk


def _content(chunks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """The chunks with adjacent texts joined; one string if there is nothing else."""
    joined: list[dict[str, Any]] = []
    for is_text, run in groupby(chunks, key=lambda chunk: chunk["type"] == "text"):
        if not is_text:
            joined.extend(run)
        elif text := "".join(chunk["text"] for chunk in run):
            joined.append({"type": "text", "text": text})
    if all(chunk["type"] == "text" for chunk in joined):
        return joined[0]["text"] if joined else ""
    return joined
