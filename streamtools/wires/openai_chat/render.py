"""A turn in, chat messages out; and prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...content import Media
from ...parts import ToolCall
from ...schema.names import PLAIN_NAMES
from ..transcript import Answer, CallResult, Prompt
from .content import audio_part, file_part, image_part, native_content, text_part

__all__ = ["media_of", "render", "render_prompt", "render_result"]

_PARTS: Mapping[str, Callable[[Media], dict[str, Any] | None]] = {
    "image": image_part,
    "audio": audio_part,
    "file": file_part,
}


def render(answer: Answer) -> list[dict[str, Any]]:
    """Renders the assistant's message, and one ``tool`` message for each call. Empty if the model said nothing, or only
    thought: a message needs content or calls.

    What a result holds beside text follows in one user's message behind all results, since a ``tool`` message takes
    text only.
    """
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
    kept = _kept_fields(answer)
    message |= kept
    if not (message["content"] or refusal or calls or "audio" in kept):
        return []
    results = [render_result(result, answer) for result in answer.results]
    return [message, *results, *media_of(answer.results, answer, _PARTS)]


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Renders the message of a prompt; none if it says nothing."""
    content = native_content(prompt.blocks, _PARTS)
    return [{"role": prompt.role, "content": content, **(prompt.state or {})}] if content else []


def media_of(
    results: Sequence[CallResult], answer: Answer, parts: Mapping[str, Callable[[Media], dict[str, Any] | None]]
) -> Iterator[dict[str, Any]]:
    """Yields one user's message with all that results hold beside text, each with the id of its call; none if that is
    nothing that `parts` can write."""
    content: list[dict[str, Any]] = []
    for result in results:
        if result.native is not None or (answer.own_wire and result.state is not None):
            continue
        media = [block for block in result.blocks if isinstance(block, Media) and block.kind in parts]
        if written := [part for block in media if (part := parts[block.kind](block)) is not None]:
            content += [text_part(f"From the result of call {result.call_id}:"), *written]
    if content:
        yield {"role": "user", "content": content}


def render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    """Renders the message of a result. Of one that was read here only the id may have changed."""
    if answer.own_wire and result.state is not None:
        return {**result.state, "tool_call_id": result.call_id}
    content = result.content if result.native is None else result.native
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}


def _render_call(call: ToolCall, answer: Answer) -> dict[str, Any]:
    state = answer.state_of(call)
    if call.kind == "custom":
        custom = {"name": PLAIN_NAMES.cleaned(call.name), "input": answer.arguments[call.call_id][1]["input"]}
        return {"id": call.call_id, "type": "custom", "custom": custom, **state}
    return {**answer.as_function(call), **state}


def _kept_fields(answer: Answer) -> dict[str, Any]:
    """Returns what a message that was read has beside what anybody here has a name for, and its text if it stood in
    parts."""
    kept: dict[str, Any] = {}
    for part in answer.parts if answer.own_wire else ():
        state = part.provider_state or {}
        if part.kind == "provider":
            kept |= state.get("fields", {})
        elif part.kind == "text" and "content" in state:
            kept["content"] = state["content"]
    return kept


def _render_reasoning(message: dict[str, Any], answer: Answer) -> None:
    """Gives reasoning back in the field it came in; its owner wants it there, or ignores it."""
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
