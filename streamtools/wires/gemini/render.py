"""A turn in, Gemini's contents out."""

from __future__ import annotations

import re
from typing import Any

from ...turn import Part, ToolCall
from ..answer import Answer

__all__ = ["FOREIGN_SIGNATURE", "render"]

FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""What stands for the signature of a call that another model made: Gemini 3 refuses a step whose first call has none.
Documented for that at https://ai.google.dev/gemini-api/docs/thought-signatures, and at Vertex' page of that name."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.:-]")
_MAX_NAME = 128
# A call that the provider ran itself, and its result.
_PAIRS = (("executableCode", "codeExecutionResult"), ("toolCall", "toolResponse"))


def render(answer: Answer) -> list[dict[str, Any]]:
    """The model's content, and one user content with a ``functionResponse`` for each call. Empty if the model said
    nothing."""
    parts = [part for piece in answer.parts if (part := _render_part(piece, answer)) is not None]
    parts = _without_orphans(parts)
    if not answer.own_wire:
        _sign(parts)
    if all(part.keys() == {"text", "thought"} for part in parts):  # summaries alone are no content
        return []
    contents: list[dict[str, Any]] = [{"role": "model", "parts": parts}]
    if answer.results:
        responses = [
            {
                "functionResponse": _named(answer.calls[result.call_id])
                | {"response": {"error" if result.is_error else "output": result.content}}
            }
            for result in answer.results
        ]
        contents.append({"role": "user", "parts": responses})
    return contents


def _render_part(part: Part, answer: Answer) -> dict[str, Any] | None:
    own = answer.own_wire
    state = dict(part.provider_state or {}) if own else {}
    if part.kind == "call" and part.call_id is not None:
        call = answer.calls[part.call_id]
        state = dict(call.provider_state or {}) if own else {}
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
    """What a call and its response have in common: the name, and the id where the wire gave one."""
    name = _NOT_IN_NAMES.sub("_", call.name)[:_MAX_NAME] or "unknown_tool"
    if not (name[0].isalpha() or name[0] == "_"):
        name = f"_{name}"[:_MAX_NAME]
    return {"name": name} if call.call_id_synthesized else {"id": call.call_id, "name": name}


def _sign(parts: list[dict[str, Any]]) -> None:
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first["thoughtSignature"] = FOREIGN_SIGNATURE


def _without_orphans(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts without calls that the provider ran itself and whose result was cut off: the two belong together."""
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
    """Whether one of the results is the call's; it is then nobody else's. Either may come without its id."""
    own = _id_of(call)
    for id_ in (own, None) if own else results[-1:]:
        if id_ in results:
            results.remove(id_)
            return True
    return False


def _id_of(body: object) -> str | None:
    id_ = body.get("id") if isinstance(body, dict) else None
    return id_ if isinstance(id_, str) else None
