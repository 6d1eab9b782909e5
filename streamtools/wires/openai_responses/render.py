"""A turn in, input items for the next request out; and prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import from_json

from ...content import Block, Media, Opaque, Text
from ...parts import Part, ToolCall
from ...schema.names import PLAIN_NAMES
from ..media import data_url
from ..reading import json_text
from ..transcript import Answer, CallResult, Prompt
from .items import ANSWERS

__all__ = ["render", "render_prompt"]


def render(answer: Answer) -> list[dict[str, Any]]:
    """Renders the turn's items, and an output item for each call. Empty if the model said nothing."""
    items = _own_items(answer) if answer.own_wire else _projected(answer)
    for result in answer.results:
        item = _item_of_call(answer.calls[result.call_id], answer)
        assert item is not None, "only the provider's own calls have no item, and they have no result"
        kept = result.state if answer.own_wire and result.state is not None else {}
        if kept.get("type") == ANSWERS.get(item["type"], f"{item['type']}_output"):
            items.append({**kept, **({"call_id": result.call_id} if "call_id" in kept else {})})
        elif (output := _OUTPUTS[item["type"]](_own(result, answer), item)) is not None:
            items.append(output | ({"caller": item["caller"]} if isinstance(item.get("caller"), dict) else {}))
    return items


def _own_items(answer: Answer) -> list[dict[str, Any]]:
    """Returns the items as they came, in their places."""
    placed: list[tuple[int, dict[str, Any]]] = []
    for part in answer.parts:
        call = answer.calls[part.call_id] if part.call_id is not None else None
        state = (call.provider_state if call is not None else part.provider_state) or {}
        item = _item_of_call(call, answer) if call is not None else state.get("item")
        if item is not None:
            placed.append((state.get("output_index", len(placed)), _returnable(item)))
    items = [item for _, item in sorted(placed, key=lambda pair: pair[0])]
    # "Item 'rs_...' of type 'reasoning' was provided without its required following item" (vercel/ai#7099)
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _item_of_call(call: ToolCall, answer: Answer) -> dict[str, Any] | None:
    """Returns the item of a call; None for one that the provider runs itself, if it was cut or is another
    provider's."""
    kept: Mapping[str, Any] = answer.state_of(call).get("item") or {}
    if call.kind == "server":
        return dict(kept) or None
    if call.kind == "approval" and kept:
        return {**kept, "id": call.call_id}
    if kept.get("type") in _BUILT_IN:
        return {**kept, "call_id": call.call_id}
    text, value = answer.arguments[call.call_id]
    own = {key: value for key, value in kept.items() if call.status != "truncated" or key not in ("id", "status")}
    if call.kind == "custom":
        what = {"type": "custom_tool_call", "input": value["input"]}
    else:
        what = {"type": "function_call", "arguments": text}
    group = {} if call.namespace is None else {"namespace": call.namespace}
    return own | what | {"call_id": call.call_id, "name": PLAIN_NAMES.cleaned(call.local_name), **group}


def _returnable(item: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the item without what the API does not take back: who made it, and an id or a status that is none (a null
    id: vllm-project/vllm#44608)."""
    texts = ("id", "status")
    kept = {k: v for k, v in item.items() if k != "created_by" and (k not in texts or (isinstance(v, str) and v))}
    if kept.get("type") == "shell_call_output" and isinstance(chunks := kept.get("output"), list):
        kept["output"] = [_returnable(chunk) if isinstance(chunk, dict) else chunk for chunk in chunks]
    return kept


def _projected(answer: Answer) -> list[dict[str, Any]]:
    """Renders what another wire's model said: text and refusals as messages, and the calls that were ours to run."""
    items: list[dict[str, Any]] = []
    for part in answer.parts:
        if part.kind == "call" and part.call_id is not None:
            call = _item_of_call(answer.calls[part.call_id], answer)
            items += [call] if call is not None else []
        elif (content := _content(part)) is not None:
            if not items or items[-1]["type"] != "message":
                items.append({"type": "message", "role": "assistant", "status": "completed", "content": []})
            items[-1]["content"].append(content)
    return items


def _content(part: Part) -> dict[str, Any] | None:
    if part.kind == "text" and part.text.strip():
        return {"type": "output_text", "text": part.text, "annotations": []}
    return {"type": "refusal", "refusal": part.text} if part.kind == "refusal" else None


def _shell_output(result: CallResult, item: Mapping[str, Any]) -> dict[str, Any]:
    """Renders all that a tool returned as one chunk: which of it was an error's text is not known."""
    chunk = {
        "stdout": "" if result.is_error else result.content,
        "stderr": result.content if result.is_error else "",
        "outcome": {"type": "exit", "exit_code": 1 if result.is_error else 0},
    }
    output = {"type": "shell_call_output", "call_id": result.call_id, "output": [chunk]}
    action = item.get("action")
    longest = action.get("max_output_length") if isinstance(action, dict) else None
    return output | ({"max_output_length": longest} if isinstance(longest, int) else {})


def _apply_patch_output(result: CallResult, _: Mapping[str, Any]) -> dict[str, Any]:
    status = "failed" if result.is_error else "completed"
    return {"type": "apply_patch_call_output", "call_id": result.call_id, "status": status, "output": result.content}


def _screenshot(result: CallResult, _: Mapping[str, Any]) -> dict[str, Any] | None:
    """Renders the picture that a tool returned; without one there is no answer. What `native` has beside it stands in
    the item: ``acknowledged_safety_checks``, which nobody acknowledges but the tool."""
    image = next((block for block in result.blocks if isinstance(block, Media) and block.kind == "image"), None)
    found = None if image is None else _image(image)
    if found is None:
        return None
    picture = {key: value for key, value in found.items() if key in ("image_url", "file_id")}
    more = result.native if isinstance(result.native, dict) else {}
    output = {"type": "computer_screenshot", **picture}
    return {"type": "computer_call_output", "call_id": result.call_id, "output": output, **more}


def _found_tools(result: CallResult, _: Mapping[str, Any]) -> dict[str, Any]:
    """Renders the entries of tools that a search found: the list that the tool returned, and none if it failed."""
    tools = _list_in(result.content) if result.native is None else result.native
    status = "completed" if isinstance(tools, list) and not result.is_error else "incomplete"
    found = {"execution": "client", "status": status, "tools": tools if isinstance(tools, list) else []}
    return {"type": "tool_search_output", "call_id": result.call_id, **found}


def _list_in(text: str) -> object:
    try:
        return from_json(text)
    except ValueError:
        return None


def _approval(result: CallResult, _: Mapping[str, Any]) -> dict[str, Any]:
    answer = {"type": "mcp_approval_response", "approval_request_id": result.call_id, "approve": not result.is_error}
    return answer | ({"reason": result.content} if result.is_error else {})


def _text_output(type_: str) -> Callable[[CallResult, Mapping[str, Any]], dict[str, Any]]:
    return lambda result, _: {"type": type_, "call_id": result.call_id, "output": result.content}


def _rich_output(type_: str) -> Callable[[CallResult, Mapping[str, Any]], dict[str, Any]]:
    """Returns a writer of text, or of what else a tool returned: images and files have a place in these outputs."""
    return lambda result, _: {"type": type_, "call_id": result.call_id, "output": _rich(result)}


def _rich(result: CallResult) -> Any:
    if result.native is not None:
        return result.native if isinstance(result.native, (str, list)) else json_text(result.native) or ""
    has_media = any(isinstance(block, Media) for block in result.blocks)
    return _native_blocks(result.blocks) if has_media else result.content


def _own(result: CallResult, answer: Answer) -> CallResult:
    """Returns the result, its blocks as this API has them if it was another's."""
    if answer.own_wire:
        return result
    return replace(result, blocks=tuple(replace(b, state=None) for b in result.blocks if not isinstance(b, Opaque)))


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Renders the message of a prompt; none if it says nothing. A lone text is written as text."""
    own = {"role": prompt.role, **(prompt.state or {})}
    match prompt.blocks:
        case (Text(text, state=None),):
            return [{**own, "content": text}] if text else []
        case _:
            blocks = _native_blocks(prompt.blocks)
            return [{**own, "content": blocks}] if blocks else []


def _native_blocks(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Renders blocks as the API takes them: one that was read from it as it was. What it does not take is a
    placeholder; empty text is left out."""
    found = (_native(block) for block in blocks)
    return [block for block in found if block is not None]


def _native(block: Block) -> dict[str, Any] | None:
    if isinstance(block, Opaque) or block.state is not None:
        return dict(block.state or {})
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text} if block.text else None
    found = _image(block) if block.kind == "image" else _file(block)
    return found or {"type": "input_text", "text": block.placeholder()}


def _image(media: Media) -> dict[str, Any] | None:
    if (url := data_url(media)) is not None:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_image", "file_id": media.file_id, "detail": "auto"} if media.file_id is not None else None


def _file(media: Media) -> dict[str, Any] | None:
    if media.kind != "file":
        return None
    name = media.filename or "file"
    if media.data is not None:
        return {"type": "input_file", "filename": name, "file_data": data_url(media)}
    if media.url is not None:
        return {"type": "input_file", "file_url": media.url}
    return {"type": "input_file", "file_id": media.file_id} if media.file_id is not None else None


_BUILT_IN: dict[str, Callable[[CallResult, Mapping[str, Any]], dict[str, Any] | None]] = {
    "local_shell_call": _text_output("local_shell_call_output"),
    "shell_call": _shell_output,
    "apply_patch_call": _apply_patch_output,
    "computer_call": _screenshot,
    "tool_search_call": _found_tools,
    "mcp_approval_request": _approval,
}
_OUTPUTS: dict[str, Callable[[CallResult, Mapping[str, Any]], dict[str, Any] | None]] = {
    "function_call": _rich_output("function_call_output"),
    "custom_tool_call": _rich_output("custom_tool_call_output"),
    **_BUILT_IN,
}
