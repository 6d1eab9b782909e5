"""Results: how a tool's value is stored, what a stored or native result means, and the content each wire gets of it.

A result is an ordinary message of the stored history. What a translation has to look at is its ``toolResult``:

    {"type": "tool_result", "text": "...", "is_error": true, "blocks": [...]}        the last two only where needed
    {"type": "provider_native_tool_result", "format": "<wire>", "content": ...}      for that wire only
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic_core import to_json

from ..content import Block, ToolResult
from ..wires import find
from ..wires.media import text_of
from ..wires.transcript import Returned
from .attachments import Attachment, AttachmentStore, compact_attachments
from .blocks import read_blocks, write_blocks
from .contributions import ToolResultAccessor
from .formats import NATIVE_RESULT, TOOL_RESULT
from .meanings import InspectedResult
from .stand_ins import StandIns

__all__ = ["RESULT_ACCESSORS", "format_tool_result", "native_placeholder", "stored_result"]

JSON: TypeAlias = Mapping[str, Any]


def format_tool_result(
    value: Any,
    *,
    tool_name: str,
    tool_call_id: str,
    is_error: bool = False,
    display: Any = None,
    attachments: AttachmentStore | None = None,
) -> dict[str, Any]:
    """A tool's value as the message of a stored history.

    Args:
        value: a string is the text as it is; a dict with the type ``provider_native_tool_result`` stays a structure,
            and so does what a `ToolResult` holds; anything else becomes JSON.
        tool_name: which tool it was.
        tool_call_id: the id of the call.
        is_error: the call failed, and `value` says why.
        display: what a person is shown; it never leaves the stored history.
        attachments: where bytes are kept, so that the message holds references only. Without it, an image that has
            only bytes becomes a text that says so, and a provider's own structure stays as the tool wrote it.

    Raises:
        PydanticSerializationError: the value cannot be written as JSON.
    """
    payload = _payload(value, attachments)
    if is_error or (isinstance(value, ToolResult) and value.is_error):
        payload["is_error"] = True
    if display is None and isinstance(value, ToolResult):
        display = value.display
    metadata = {"tool_name": tool_name, "tool_call_id": tool_call_id}
    return {
        "role": "tool",
        "content": _fallback(payload),
        "toolResult": payload,
        "metadata": metadata if display is None else {**metadata, "display": display},
    }


def _payload(value: Any, attachments: AttachmentStore | None) -> dict[str, Any]:
    if isinstance(value, ToolResult):
        return _of_blocks(value, attachments)
    if isinstance(value, Mapping) and value.get("type") == NATIVE_RESULT:
        return dict(compact_attachments(value, attachments) if attachments is not None else value)
    text = value if isinstance(value, str) else to_json(value, bytes_mode="base64", inf_nan_mode="null").decode()
    return {"type": TOOL_RESULT, "text": text}


def _of_blocks(result: ToolResult, attachments: AttachmentStore | None) -> dict[str, Any]:
    if not result.blocks and len(result.native) == 1:
        ((wire, content),) = result.native.items()
        return _payload({"type": NATIVE_RESULT, "format": wire, "content": content}, attachments)
    if not result.blocks:
        return _payload(result.value, attachments)
    payload = stored_result(result.blocks, None if attachments is None else attachments.put)
    if result.native:
        native = dict(result.native)
        payload["native"] = native if attachments is None else compact_attachments(native, attachments)
    return payload


def stored_result(blocks: Sequence[Block], keep: Callable[[Attachment], str | None] | None) -> dict[str, Any]:
    """Blocks as a canonical result: their text, and themselves where they are more than one."""
    written = write_blocks(blocks, keep)
    payload: dict[str, Any] = {"type": TOOL_RESULT, "text": text_of(read_blocks(written))}
    return payload if all(block["type"] == "text" for block in written) else {**payload, "blocks": written}


def _fallback(payload: JSON) -> str:
    if payload["type"] == NATIVE_RESULT:
        return native_placeholder(payload)
    return str(payload["text"])


def native_placeholder(payload: JSON) -> str:
    """What everybody but its own provider reads of a provider-native result: its texts, and what else there was."""
    content, wire = payload.get("content"), payload.get("format")
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, Sequence) else [content]
    texts = [_shown(piece) for piece in pieces]
    return "\n".join(texts) or f"[a result that only {wire} can read]"


def _shown(piece: object) -> str:
    if isinstance(piece, Mapping):
        if isinstance(text := piece.get("text"), str):
            return text
        kind = piece.get("type") or next(iter(piece), "block")
        return f"[{kind}]"
    return "[block]"


# -- what a result means -----------------------------------------------------------------------------------------------


def _stored(result: JSON) -> InspectedResult | None:
    """A message of the stored history, or its ``toolResult`` alone."""
    payload = result.get("toolResult") if result.get("role") == "tool" else result
    if not isinstance(payload, Mapping) or "tool_use_id" in payload:
        return None
    if payload.get("type") == TOOL_RESULT:
        text = payload.get("text")
        blocks = read_blocks(payload.get("blocks"))
        native = payload.get("native")
    elif payload.get("type") == NATIVE_RESULT:
        text, blocks = native_placeholder(payload), ()
        native = {str(payload.get("format")): payload.get("content")}
    else:
        return None
    metadata = result.get("metadata")
    told = metadata if isinstance(metadata, Mapping) else {}
    return InspectedResult(
        format=payload["type"],
        call_id=_text(told.get("tool_call_id")),
        tool_name=_text(told.get("tool_name")),
        is_error=payload.get("is_error") is True,
        text=text if isinstance(text, str) else "",
        blocks=blocks,
        native=native if isinstance(native, Mapping) else {},
        source=result,
    )


def _native(wire: str, message: JSON, result: JSON) -> InspectedResult:
    """A result as its own wire reads it."""
    read, stand_ins = find(wire).read, StandIns(message)
    assert read is not None, "every wire reads its own messages"
    entries = read([stand_ins.covered(message)])
    found = next((entry for entry in entries if isinstance(entry, Returned) and entry.results), None)
    assert found is not None, "a wire reads whatever has the shape of its results as one"
    own = found.results[0]
    told = result.get("_metadata")
    name = _text(told.get("tool_name")) if isinstance(told, Mapping) else None
    return InspectedResult(
        format=wire,
        text=own.content,
        call_id=own.call_id or None,
        tool_name=own.name or name,
        is_error=own.is_error or (isinstance(told, Mapping) and told.get("is_error") is True),
        blocks=stand_ins.uncovered(own.blocks),
        kind="custom" if result.get("type") == "custom_tool_call_output" else "function",
        source=result,
    )


def _chat(result: JSON) -> InspectedResult | None:
    if result.get("role") != "tool" or "tool_call_id" not in result:
        return None
    return _native("openai.chat_completions", _without_metadata(result), result)


def _ollama(result: JSON) -> InspectedResult | None:
    if result.get("role") != "tool" or "tool_name" not in result:
        return None
    return _native("ollama.chat", _without_metadata(result), result)


def _responses(result: JSON) -> InspectedResult | None:
    if result.get("type") not in ("function_call_output", "custom_tool_call_output"):
        return None
    return _native("openai.responses", _without_metadata(result), result)


def _anthropic(result: JSON) -> InspectedResult | None:
    if result.get("type") != "tool_result" or "tool_use_id" not in result:
        return None
    return _native("anthropic.messages", {"role": "user", "content": [dict(result)]}, result)


def _gemini(result: JSON) -> InspectedResult | None:
    if not isinstance(result.get("functionResponse"), Mapping):
        return None
    return _native("gemini.generate_content", {"role": "user", "parts": [dict(result)]}, result)


def _bedrock(result: JSON) -> InspectedResult | None:
    if not isinstance(result.get("toolResult"), Mapping) or "role" in result:
        return None
    return _native("bedrock.converse_stream", {"role": "user", "content": [dict(result)]}, result)


def _mcp(result: JSON) -> InspectedResult | None:
    content = result.get("content")
    if "role" in result or "type" in result or not isinstance(content, Sequence) or isinstance(content, str):
        return None
    blocks = read_blocks([_mcp_block(block) for block in content])
    structured = "" if result.get("structuredContent") is None else to_json(result["structuredContent"]).decode()
    return InspectedResult(
        format="mcp",
        text=text_of(blocks) or structured,
        is_error=result.get("isError") is True,
        source=result,
    )


def _mcp_block(block: object) -> dict[str, Any]:
    """What a block of MCP is at least: its text, or that there was something else."""
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    return {"type": "text", "text": _shown(block)}


def _without_metadata(result: JSON) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "_metadata"}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


RESULT_ACCESSORS = (
    ToolResultAccessor(TOOL_RESULT, _stored),
    ToolResultAccessor("openai.responses", _responses),
    ToolResultAccessor("anthropic.messages", _anthropic),
    ToolResultAccessor("gemini.generate_content", _gemini),
    ToolResultAccessor("bedrock.converse_stream", _bedrock),
    ToolResultAccessor("openai.chat_completions", _chat),
    ToolResultAccessor("ollama.chat", _ollama),
    ToolResultAccessor("mcp", _mcp),
)
