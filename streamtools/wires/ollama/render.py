"""A turn in, Ollama's messages out; and prompts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...content import Block, Media, Text
from ...parts import ToolCall
from ...schema.names import PLAIN_NAMES
from ..answer_builder import id_as_read
from ..transcript import Answer, CallResult, Prompt

__all__ = ["render", "render_prompt"]


def render(answer: Answer) -> list[dict[str, Any]]:
    """Renders the assistant's message, and one ``tool`` message for each call. Empty if the model said nothing."""
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
    return [message, *(_render_result(result, answer) for result in answer.results)]


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Renders the message of a prompt; none if it says nothing. Images stand beside the text; there is no place for
    else."""
    images = _images(prompt.blocks)
    text = "\n\n".join(_texts(prompt.blocks))
    if not (text or images):
        return []
    return [{"role": prompt.role, "content": text, **({"images": images} if images else {}), **(prompt.state or {})}]


def _render_call(call: ToolCall, answer: Answer) -> dict[str, Any]:
    own = {"name": PLAIN_NAMES.cleaned(call.name), "arguments": answer.arguments[call.call_id][1]}
    function = {**answer.state_of(call), **own}
    return {"id": call.call_id, "function": function} if _has_id(call.call_id) else {"function": function}


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    """Renders a result by name, which all versions look at, and by id, which alone tells two calls of one tool
    apart."""
    named = {"tool_name": PLAIN_NAMES.cleaned(answer.calls[result.call_id].name)}
    if _has_id(result.call_id):
        named["tool_call_id"] = result.call_id
    if answer.own_wire and result.state is not None:
        return {key: value for key, value in result.state.items() if key != "tool_call_id"} | named
    content = result.content if result.native is None else result.native
    images = _images(result.blocks) if result.native is None else []
    if images:  # they need no placeholder beside them, unless there is nothing else
        content = "\n".join(_texts(result.blocks)) or content
    return {"role": "tool", **named, "content": content, **({"images": images} if images else {})}


def _has_id(call_id: str) -> bool:
    """Returns whether this is an id, rather than what stands for none in a history that was read."""
    return id_as_read(call_id) == call_id


def _images(blocks: Iterable[Block]) -> list[str]:
    return [data for block in blocks if (data := _image(block)) is not None]


def _image(block: Block) -> str | None:
    return block.data if isinstance(block, Media) and block.kind == "image" else None


def _texts(blocks: Iterable[Block]) -> list[str]:
    return [
        block.text if isinstance(block, Text) else block.placeholder()
        for block in blocks
        if isinstance(block, Text) or (isinstance(block, Media) and _image(block) is None)
    ]
