"""A turn in, Cohere's messages out: v2's, or v1's for a turn that came over v1; and prompts."""

from __future__ import annotations

from typing import Any

from ...parts import Part, ToolCall
from ...schema.names import PLAIN_NAMES
from ..media import text_of
from ..openai_chat.content import image_part, native_content
from ..openai_chat.render import render_result
from ..transcript import Answer, Prompt

__all__ = ["render", "render_prompt"]


def render(answer: Answer) -> list[dict[str, Any]]:
    """Renders the assistant's message, and the results of its calls. Empty if there is neither text nor a call: a plan
    or thoughts alone answer nothing."""
    text = answer.text("text") + answer.text("refusal")
    if not answer.our_calls and not text.strip():
        return []
    return _legacy(answer, text) if _is_legacy(answer) else _current(answer, text)


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Renders the message of a prompt; none if it says nothing."""
    state = prompt.state or {}
    if state.get("role") in ("USER", "SYSTEM"):  # v1's
        return [{"message": text_of(prompt.blocks), **state}] if prompt.blocks else []
    content = native_content(prompt.blocks, {"image": image_part})
    return [{"role": prompt.role, "content": content, **state}] if content else []


def _current(answer: Answer, text: str) -> list[dict[str, Any]]:
    calls = answer.our_calls
    message: dict[str, Any] = {"role": "assistant"}
    content = [block for part in answer.parts if (block := _block(part, answer)) is not None]
    if calls:
        content = [block for block in content if block["type"] != "text"]  # refused beside calls
        plan = [said for said in (_plan(answer), text) if said.strip()]
        if plan:
            message["tool_plan"] = "\n\n".join(plan)
        message["tool_calls"] = [{**answer.as_function(call), **answer.state_of(call)} for call in calls]
    if content:
        message["content"] = content
    states = [answer.state_of(part) for part in answer.parts if part.kind == "provider"]
    if citations := [state["citations"] for state in states if "citations" in state]:
        message["citations"] = citations
    return [message, *(render_result(result, answer) for result in answer.results)]


def _legacy(answer: Answer, text: str) -> list[dict[str, Any]]:
    """Renders entries of ``chat_history``. v1 knows no ids: a result repeats its call."""
    message: dict[str, Any] = {"role": "CHATBOT", "message": text or _plan(answer)}
    calls = {
        call.call_id: {"name": PLAIN_NAMES.cleaned(call.name), "parameters": answer.arguments[call.call_id][1]}
        for call in answer.our_calls
    }
    if calls:
        message["tool_calls"] = list(calls.values())
    if not answer.results:
        return [message]
    results = [
        {"outputs": [{"output": r.content}], **(r.state or {}), "call": calls[r.call_id]} for r in answer.results
    ]
    return [message, {"role": "TOOL", "tool_results": results}]


def _is_legacy(answer: Answer) -> bool:
    """Returns whether the turn came over v1, which its texts and calls know."""
    pieces: list[Part | ToolCall] = [*answer.parts, *answer.calls.values()]
    return any(answer.state_of(piece).get("api") == "v1" for piece in pieces)


def _block(part: Part, answer: Answer) -> dict[str, Any] | None:
    state = answer.state_of(part)
    if part.kind == "text" or part.kind == "refusal":
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if part.kind == "reasoning" and state.get("field") == "thinking":
        return {"type": "thinking", "thinking": part.text}
    return None


def _plan(answer: Answer) -> str:
    """Returns the plan; another wire's reasoning is none."""
    return "".join(
        part.text
        for part in answer.parts
        if part.kind == "reasoning" and answer.state_of(part).get("field") == "tool_plan"
    )
