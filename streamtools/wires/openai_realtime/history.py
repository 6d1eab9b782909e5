"""A turn in, conversation items out; prompts; and the events that bring items into a session."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...content import Block, Media
from ...parts import ToolCall
from .. import Answer, CallResult, Prompt, json_text, rest_of
from ..openai_responses import WIRE as RESPONSES

_ANSWERS = frozenset({"function_call_output", "mcp_approval_response"})
_ASKING = ("user", "system")


def client_events(
    items: Iterable[Mapping[str, Any]], *, respond: bool = True, with_model: bool = False
) -> list[dict[str, Any]]:
    """Returns the client events that bring items into the conversation, one ``conversation.item.create`` each, and, if
    `respond`, ``response.create``; send them in this order. The session that made items of the model's has them
    already: `with_model` sends them to begin another one with a history.
    """
    events: list[dict[str, Any]] = [
        {"type": "conversation.item.create", "item": dict(item)}
        for item in items
        if with_model or item.get("type") in _ANSWERS or item.get("role") in _ASKING
    ]
    return [*events, {"type": "response.create"}] if respond else events


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    return [_as_taken(item) for item in RESPONSES.render_reply(_plain(answer))]


def render_results(answer: Answer) -> list[dict[str, Any]]:
    return [_as_taken(item) for item in RESPONSES.render_results(_plain(answer))]


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    blocks = tuple(_block(block) for block in prompt.blocks)
    return [_as_prompt(message) for message in RESPONSES.render_prompt(replace(prompt, blocks=blocks))]


def _plain(answer: Answer) -> Answer:
    """Returns the answer without what a session has no item for: freeform calls, refusals, pictures in results."""
    return replace(
        answer,
        parts=tuple((replace(part, kind="text") if part.kind == "refusal" else part) for part in answer.parts),
        calls={call_id: _as_function(call, answer.own_wire) for call_id, call in answer.calls.items()},
        results=tuple(_as_output(result) for result in answer.results),
    )


def _as_function(call: ToolCall, own_wire: bool) -> ToolCall:
    kind = "function" if call.kind == "custom" else call.kind
    return replace(call, kind=kind, namespace=call.namespace if own_wire else None)


def _as_output(result: CallResult) -> CallResult:
    native = result.native
    text = native if native is None or isinstance(native, str) else json_text(native) or ""
    return replace(result, blocks=(), native=text)


def _as_taken(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type") == "mcp_approval_response" and not item.get("id"):
        # The type wants an id of the client's; always the same for one request.
        digest = hashlib.blake2b(str(item.get("approval_request_id")).encode("utf-8", "replace"), digest_size=10)
        return {"id": f"mcprs_{digest.hexdigest()}", **item}
    content = item.get("content")
    if item.get("type") != "message" or not isinstance(content, list):
        return item
    content = [rest_of(part, "annotations") if isinstance(part, dict) else part for part in content]
    return {**item, "content": content}


def _block(block: Block) -> Block:
    if isinstance(block, Media) and block.state is None and (block.kind != "image" or block.file_id is not None):
        return replace(block, kind="file", data=None, url=None, file_id=None)
    return block


def _as_prompt(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    blocks = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return {"type": "message", **message, "content": blocks}
