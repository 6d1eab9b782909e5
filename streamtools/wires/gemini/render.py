"""A turn in, Gemini's contents out; and prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...content import Block, Media
from ...parts import Part, ToolCall
from ..media import text_of, written
from ..reading import json_text
from ..transcript import Answer, CallResult, Prompt
from .facts import NAMES_IN_HISTORY

__all__ = ["FOREIGN_SIGNATURE", "as_text", "refers", "render", "render_prompt", "without_orphans"]

FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""What stands for the signature of a call that another model made: Gemini 3 refuses a step whose first call has none.
Documented for that at https://ai.google.dev/gemini-api/docs/thought-signatures, and at Vertex' page of that name."""

# Of function responses: https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-21)
_IN_RESPONSES = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
# A call that the provider ran itself, and its result.
_PAIRS = (("executableCode", "codeExecutionResult"), ("toolCall", "toolResponse"))


def render(answer: Answer) -> list[dict[str, Any]]:
    """Renders the model's content, and one user content with a ``functionResponse`` for each call. Empty if the model
    said nothing."""
    parts = [part for piece in answer.parts if (part := _render_part(piece, answer)) is not None]
    parts = without_orphans(parts)
    if not answer.own_wire:
        _sign(parts)
    if all(part.keys() == {"text", "thought"} for part in parts):  # summaries alone are no content
        return []
    contents: list[dict[str, Any]] = [{"role": "model", "parts": parts}]
    if answer.results:
        responses = [_render_result(result, answer) for result in answer.results]
        contents.append({"role": "user", "parts": responses})
    return contents


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Renders the content of a prompt; none if it says nothing, or is a system prompt, which stands beside the
    contents."""
    parts = _native_parts(prompt.blocks) if prompt.role == "user" else []
    return [{"role": "user", "parts": parts}] if parts else []


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    """Renders a result. Of one that was read here only the id and the name may have changed."""
    named = _named(answer.calls[result.call_id])
    if answer.own_wire and result.state is not None:
        kept = {key: value for key, value in result.state["functionResponse"].items() if key not in ("id", "name")}
        return {**result.state, "functionResponse": named | kept}
    parts, left = _response_media(result.blocks)
    told: Any = result.native if result.native is not None else text_of(left) if parts else result.content
    is_response = isinstance(told, dict) and result.native is not None and not result.is_error
    response = told if is_response else {"error" if result.is_error else "output": told}
    if refers(response):
        response = as_text(response)
    return {"functionResponse": named | {"response": response} | ({"parts": parts} if parts else {})}


def _native_parts(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Renders blocks as parts; see `written`."""
    return written(blocks, text=lambda text: {"text": text}, media=_media_part)


def _media_part(media: Media) -> dict[str, Any] | None:
    """Renders an image, a sound, a film or a file; None if its type is not known, or it is another provider's."""
    if media.mime_type is None:
        return None
    if media.data is not None:
        return {"inlineData": {"mimeType": media.mime_type, "data": media.data}}
    return {"fileData": {"mimeType": media.mime_type, "fileUri": media.url}} if media.url is not None else None


def _response_media(blocks: Iterable[Block]) -> tuple[list[dict[str, Any]], list[Block]]:
    """Renders the media of a result that may be parts of its function response; returns them, and the other blocks."""
    parts: list[dict[str, Any]] = []
    left: list[Block] = []
    for block in blocks:
        takes = isinstance(block, Media) and block.data is not None and block.mime_type in _IN_RESPONSES
        part = _media_part(block) if takes and isinstance(block, Media) else None
        if part is not None:
            parts.append(part)
        else:
            left.append(block)
    return parts, left


def as_text(response: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a response whose content is JSON text, where ``$ref`` means nothing."""
    key = "error" if "error" in response else "output"
    content = response[key] if response.keys() == {key} else response
    return {key: json_text(content) or ""}


def refers(value: object) -> bool:
    """Returns whether some object in a JSON value has the key ``$ref``: the API reads it as the name of a part of the
    response (vercel/ai#14369). Without recursion."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if "$ref" in node:
                return True
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return False


def _render_part(part: Part, answer: Answer) -> dict[str, Any] | None:
    own, state = answer.own_wire, dict(answer.state_of(part))
    if part.kind == "call" and part.call_id is not None:
        call = answer.calls[part.call_id]
        state = dict(answer.state_of(call))
        if call.kind == "server":
            return state.get("part")
        return {"functionCall": _named(call) | {"args": answer.arguments[call.call_id][1]}, **state}
    if part.kind == "provider":  # a token to go on with is for the request, not for its contents
        return state if state and "continuationToken" not in state else None
    if part.kind == "reasoning":
        return {"text": part.text, "thought": True, **state} if own and (part.text or state) else None
    if not (part.text if own else part.text.strip()) and not state:
        return None  # "required oneof field 'data' must have one initialized field" (router-for-me/CLIProxyAPI#1292)
    return {"text": part.text, **state}


def _named(call: ToolCall) -> dict[str, Any]:
    """Returns what a call and its response have in common: the name, and the id where the wire gave one."""
    name = NAMES_IN_HISTORY.cleaned(call.name)
    return {"name": name} if call.call_id_synthesized else {"id": call.call_id, "name": name}


def _sign(parts: list[dict[str, Any]]) -> None:
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first["thoughtSignature"] = FOREIGN_SIGNATURE


def without_orphans(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the parts without calls that the provider ran itself and whose result was cut off: the two belong
    together."""
    kept: list[dict[str, Any]] = []
    results: dict[str, list[str | None]] = {call: [] for call, _ in _PAIRS}  # ids of those that are still to be claimed
    for part in reversed(parts):
        if all(_claims(part[call], results[call]) for call, _ in _PAIRS if call in part):
            kept.append(part)
        for call, result in _PAIRS:
            if result in part:
                results[call].append(_id_of(part[result]))
    return kept[::-1]


def _claims(call: object, results: list[str | None]) -> bool:
    """Returns whether one of the results is the call's; it is then nobody else's. Either may come without its id."""
    own = _id_of(call)
    for id_ in (own, None) if own else results[-1:]:
        if id_ in results:
            results.remove(id_)
            return True
    return False


def _id_of(body: object) -> str | None:
    id_ = body.get("id") if isinstance(body, dict) else None
    return id_ if isinstance(id_, str) else None
