"""A turn in, Converse messages out; and prompts."""

from __future__ import annotations

from typing import Any

from ...content import Text
from ...parts import Part
from ...schema.names import PLAIN_NAMES
from ..transcript import Answer, CallResult, Prompt
from .content import kind_of, native_blocks

__all__ = ["render", "render_prompt"]

_RESULT_BLOCKS = frozenset({"json", "text", "image", "document", "video", "searchResult"})


def render(answer: Answer) -> list[dict[str, Any]]:
    """Renders the assistant's message, and one user message with a ``toolResult`` for each call. Empty if the model
    said nothing."""
    blocks = [block for part in answer.parts if (block := _render_part(part, answer)) is not None]
    blocks = _without_orphans(blocks, answer)
    if not blocks:
        return []
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": blocks}]
    if answer.results:
        messages.append({"role": "user", "content": [_render_result(result, answer) for result in answer.results]})
    return messages


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Renders the message of a prompt; none if it says nothing."""
    blocks = native_blocks(prompt.blocks)
    kinds = {kind_of(block) for block in blocks}
    if "document" in kinds and "text" not in kinds:
        blocks.append(
            {"text": "."}
        )  # "A text block must be included when using documents." (archestra-ai/archestra#4220)
    return [{"role": prompt.role, "content": blocks}] if blocks else []


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    """Renders a result. Of one that was read here only the id may have changed.

    It says by its text alone that the call failed: "This model doesn't support the status field"
    (strands-agents/harness-sdk#554), which is there for Nova and Claude only, who can do without
    (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolResultBlock.html). Nor does every model
    take an empty one (strands-agents/harness-sdk#2122), or a blank one (NousResearch/hermes-agent#61318).
    """
    kept = result.state.get("toolResult") if answer.own_wire and result.state is not None else None
    if isinstance(kept, dict):
        return {"toolResult": {**kept, "toolUseId": result.call_id}}
    content = _native_content(result.native)
    if not content:
        text = [Text(result.content if result.content.strip() else "(empty)")]
        content = native_blocks(result.blocks, own_wire=answer.own_wire) or native_blocks(text)
    return {"toolResult": {"toolUseId": result.call_id, "content": content}}


def _native_content(native: Any) -> list[Any]:
    """Returns the blocks of what a tool gave in the shape of this wire: a list of blocks, one block, or an object that
    becomes one."""
    if isinstance(native, str):
        return [{"text": native}] if native.strip() else []
    if isinstance(native, dict):
        return [native if len(native) == 1 and kind_of(native) in _RESULT_BLOCKS else {"json": native}]
    return list(native) if isinstance(native, list) else []


def _without_orphans(blocks: list[dict[str, Any]], answer: Answer) -> list[dict[str, Any]]:
    """Returns the blocks that the API takes back: of the service's own calls those with a result, and no reasoning at
    the very end. A response that was cut has others."""
    asked = {block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block}
    answered = {block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block}
    kept = [
        block
        for block in blocks
        if ("toolUse" not in block or _is_ours(block, answer) or block["toolUse"]["toolUseId"] in answered)
        and ("toolResult" not in block or block["toolResult"]["toolUseId"] in asked)
    ]
    while kept and "reasoningContent" in kept[-1]:
        kept.pop()
    return kept


def _is_ours(block: dict[str, Any], answer: Answer) -> bool:
    return answer.calls[block["toolUse"]["toolUseId"]].kind != "server"


def _render_part(part: Part, answer: Answer) -> dict[str, Any] | None:
    state = answer.state_of(part)
    if part.kind == "call" and part.call_id is not None:
        call = answer.calls[part.call_id]
        if call.kind == "server" and not answer.own_wire:
            return None
        body = {"name": PLAIN_NAMES.cleaned(call.name), "input": answer.arguments[call.call_id][1]}
        return {"toolUse": {"toolUseId": call.call_id, **body, **answer.state_of(call)}}
    if part.kind == "reasoning":
        # Unsigned, no model takes it back: "User messages cannot contain reasoning content" (can1357/oh-my-pi#9086).
        signed = {"text": part.text, "signature": state.get("signature")}
        return {"reasoningContent": {"reasoningText": signed}} if state.get("signature") else None
    if part.kind == "provider":
        return dict(state) if state else None
    if not part.text.strip():
        return None  # "The text field in the ContentBlock object is blank"
    if citations := state.get("citations"):
        return {"citationsContent": {"content": [{"text": part.text}], "citations": citations}}
    return {"text": part.text}
