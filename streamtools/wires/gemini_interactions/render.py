"""A turn in, steps for the next request's input out; and prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...content import Block, Media
from ...parts import Part, ToolCall
from ..media import written
from ..reading import json_text
from ..transcript import Answer, CallResult, Prompt
from .facts import MEDIA, NAMES_IN_HISTORY

__all__ = ["render", "render_prompt"]


def render(answer: Answer) -> list[dict[str, Any]]:
    """Renders the turn's steps, and a step for the result of each call. Empty if the model said nothing."""
    steps = _own_steps(answer) if answer.own_wire else _projected(answer)
    return steps + [_render_result(result, answer) for result in answer.results if _stands(result, answer)]


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Renders the step of a prompt; none if it says nothing, or is a system prompt, which stands beside the input."""
    content = _native_blocks(prompt.blocks) if prompt.role == "user" else []
    return [{**(prompt.state or {}), "type": "user_input", "content": content}] if content else []


def _own_steps(answer: Answer) -> list[dict[str, Any]]:
    """Returns the steps as they came, in their places."""
    placed: list[tuple[int, dict[str, Any]]] = []
    for part in answer.parts:
        call = answer.calls[part.call_id] if part.call_id is not None else None
        state = (call.provider_state if call is not None else part.provider_state) or {}
        step = _step_of_call(call, answer) if call is not None else state.get("step")
        if step and (step.get("type") != "model_output" or step.get("content") or step.get("error")):
            placed.append((state.get("index", len(placed)), step))
    return [step for _, step in sorted(placed, key=lambda pair: pair[0])]


def _step_of_call(call: ToolCall, answer: Answer) -> dict[str, Any] | None:
    """Returns the step of a call; None for one that the provider runs itself, if it was cut or is another provider's,
    and for one that was unsaid."""
    state = answer.state_of(call)
    kept: Mapping[str, Any] = state.get("step") or {}
    if call.kind == "server":
        return dict(kept) or None
    if state.get("unsaid"):
        return None
    named = {} if kept.get("type") == "tool_search_call" else {"name": NAMES_IN_HISTORY.cleaned(call.name)}
    head = {"type": "function_call", **kept, "id": call.call_id}
    return head | named | {"arguments": answer.arguments[call.call_id][1]}


def _projected(answer: Answer) -> list[dict[str, Any]]:
    """Renders what another wire's model said: its texts as one output, and the calls that were ours to run."""
    steps: list[dict[str, Any]] = []
    for part in answer.parts:
        if part.kind == "call" and part.call_id is not None:
            call = _step_of_call(answer.calls[part.call_id], answer)
            steps += [call] if call is not None else []
        elif (content := _content(part)) is not None:
            if not steps or steps[-1]["type"] != "model_output":
                steps.append({"type": "model_output", "content": []})
            steps[-1]["content"].append(content)
    return steps


def _content(part: Part) -> dict[str, Any] | None:
    is_said = part.kind in ("text", "refusal") and part.text.strip()
    return {"type": "text", "text": part.text} if is_said else None


def _stands(result: CallResult, answer: Answer) -> bool:
    return not answer.state_of(answer.calls[result.call_id]).get("unsaid")


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    """Renders a result. Of one that was read here only the id and the name may have changed."""
    call = answer.calls[result.call_id]
    kept: Mapping[str, Any] = answer.state_of(call).get("step") or {}
    if kept.get("type") == "tool_search_call":
        found = result.native if isinstance(result.native, list) and not result.is_error else []
        own = result.state if answer.own_wire and result.state is not None else {"result": found}
        return {"type": "tool_search_result", **own, "call_id": result.call_id}
    named = {"call_id": result.call_id, "name": NAMES_IN_HISTORY.cleaned(call.name)}
    if answer.own_wire and result.state is not None:
        return {**result.state, **named}
    error = {"is_error": True} if result.is_error else {}
    return {"type": "function_result", **named, "result": _told(result, own_wire=answer.own_wire), **error}


def _told(result: CallResult, *, own_wire: bool) -> Any:
    """Returns a text, or a list of contents; an object is refused by the API, so that it goes as JSON text
    (zenml-io/kitaru#377)."""
    if result.native is not None:
        return result.native if isinstance(result.native, (str, list)) else json_text(result.native) or ""
    if not any(isinstance(block, Media) for block in result.blocks):
        return result.content
    return _native_blocks(result.blocks, own_wire=own_wire)


def _native_blocks(blocks: Iterable[Block], *, own_wire: bool = True) -> list[dict[str, Any]]:
    """Renders blocks as contents; see `written`."""
    return written(blocks, own_wire=own_wire, text=lambda text: {"type": "text", "text": text}, media=_media)


def _media(media: Media) -> dict[str, Any] | None:
    """Renders an image, a sound, a film or a document; None if its type is not known, or it is another provider's."""
    type_ = "document" if media.kind == "file" else media.kind
    if media.mime_type is None or type_ not in MEDIA:
        return None
    if media.data is not None:
        return {"type": type_, "mime_type": media.mime_type, "data": media.data}
    return {"type": type_, "mime_type": media.mime_type, "uri": media.url} if media.url is not None else None
