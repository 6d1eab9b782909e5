"""A turn in, Anthropic messages out; and prompts."""

from __future__ import annotations

from typing import Any

from ...content import Text
from ...parts import Part
from ...schema.names import PLAIN_NAMES
from ..transcript import Answer, CallResult, Prompt
from .content import native_blocks
from .facts import SERVER_CALLS, THOUGHTS

__all__ = ["render", "render_prompt"]


def render(answer: Answer) -> list[dict[str, Any]]:
    """Renders the assistant's message, and one user message with a ``tool_result`` for each call. Empty if the model
    said nothing."""
    blocks = [block for part in answer.parts if (block := _render_part(part, answer)) is not None]
    if answer.finish != "pause":  # a paused turn goes back as it is, to be continued
        blocks = _without_orphans(blocks)
    if not blocks:
        return []
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": blocks}]
    results = [_render_result(result, answer) for result in answer.results]
    if results:
        messages.append({"role": "user", "content": results})
    return messages


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Renders the message of a prompt; none if it says nothing. A lone text is written as text."""
    beside = dict(prompt.state or {})
    match prompt.blocks:
        case (Text(text, state=None),):
            return [{"role": prompt.role, "content": text, **beside}] if text.strip() else []
        case _:
            blocks = native_blocks(prompt.blocks)
            return [{"role": prompt.role, "content": blocks, **beside}] if blocks else []


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    """Renders a result. Of one that was read here only the id may have changed."""
    if answer.own_wire and result.state is not None:
        return {**result.state, "tool_use_id": result.call_id}
    content: Any = result.native
    if content is None:
        content = native_blocks(result.blocks, own_wire=answer.own_wire) or result.content
    if result.is_error and not (content.strip() if isinstance(content, str) else content):
        content = "(empty)"  # refused if the call failed
    block = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    call = answer.calls.get(result.call_id)
    toolset = None if call is None else answer.state_of(call).get("toolset_name")
    return block | ({"is_error": True} if result.is_error else {}) | ({"toolset_name": toolset} if toolset else {})


def _without_orphans(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the blocks that the API takes back: no server call without its result, no thinking at the very end.

    A server call whose code calls our tools has none yet: it waits for ours
    (https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling, read 2026-11-21).
    Otherwise both happen when a response was cut: "without a corresponding web_search_tool_result block"
    (open-gsd/gsd-pi#1330), "The final block in an assistant message cannot be `thinking`" (tailcallhq/forgecode#2107).
    """
    calls = [block["id"] for block in blocks if block["type"] in SERVER_CALLS]
    answered = [block["tool_use_id"] for block in blocks if isinstance(block.get("tool_use_id"), str)]
    # Results that name no call of this message belong to the calls without one, in order.
    strays = sum(call_id not in calls for call_id in answered)
    open_calls = [call_id for call_id in calls if call_id not in answered][strays:]
    callers = [block.get("caller") for block in blocks if block["type"] == "tool_use"]
    waiting = [caller.get("tool_id") for caller in callers if isinstance(caller, dict)]
    orphans = {call_id for call_id in open_calls if call_id not in waiting}
    kept = [b for b in blocks if b["type"] not in SERVER_CALLS or b["id"] not in orphans]
    while kept and kept[-1]["type"] in THOUGHTS:
        kept.pop()
    return kept


def _render_part(part: Part, answer: Answer) -> dict[str, Any] | None:
    state = answer.state_of(part)
    if part.kind == "call" and part.call_id is not None:
        call = answer.calls[part.call_id]
        if call.kind == "server" and not answer.own_wire:
            return None
        state = answer.state_of(call)
        name = PLAIN_NAMES.cleaned(call.local_name if "toolset_name" in state else call.name)
        return {
            "type": "tool_use",
            **state,
            "id": call.call_id,
            "name": name,
            "input": answer.arguments[call.call_id][1],
        }
    if part.kind == "reasoning":  # without its signature the API refuses it, so an interrupted one is left out
        return {"type": "thinking", "thinking": part.text, **state} if state.get("signature") else None
    if part.kind == "provider":
        return dict(state) if state else None
    return {"type": "text", "text": part.text, **state} if part.text.strip() else None  # blank text is refused
