"""Stores a tool's value as a result, reads stored and native results, and writes the content that each wire gets.

A result is an ordinary message of the stored history. Translations look at its ``toolResult``:

    {"type": "tool_result", "text": "...", "is_error": true, "blocks": [...]}        the last two only where needed
    {"type": "provider_native_tool_result", "format": "<wire>", "content": ...}      for that wire only
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from pydantic_core import to_json

from ..content import Block, ToolResult
from ..errors import ExportError
from ..parts import Part, ToolCall
from ..wires import Answer, Wire, find
from ..wires.call_format import ResultFormat
from ..wires.media import text_of
from ..wires.transcript import CallResult, Returned
from .attachments import AttachmentStore, StandIns, compact_attachments, read_blocks, write_blocks
from .contributions import InspectedResult, ToolResultAccessor
from .formats import NATIVE_RESULT, TARGET_FORMATS, TOOL_RESULT

__all__ = [
    "accessors_of",
    "format_tool_result",
    "mapping_of",
    "render_results",
    "result_for",
    "stored_result",
    "with_metadata",
    "without_metadata",
]

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
    """Returns a tool's value as the message of a stored history.

    Args:
        value: a string is the text as it is; a dict with the type ``provider_native_tool_result`` stays a structure,
            and so do the contents of a `ToolResult`; anything else becomes JSON.
        tool_name: the tool's name.
        tool_call_id: the id of the call.
        is_error: the call failed, and `value` says why.
        display: a value to show to people; it never leaves the stored history.
        attachments: the store for bytes, so that the message holds references only. Without it, an image that has
            only bytes becomes a text that says so, and a provider's own structure stays as the tool wrote it.

    Raises:
        PydanticSerializationError: the value cannot be written as JSON.
    """
    payload = _payload(value, attachments)
    text = _placeholder(payload) if payload["type"] == NATIVE_RESULT else str(payload["text"])
    if is_error or (isinstance(value, ToolResult) and value.is_error):
        payload["is_error"] = True
    if display is None and isinstance(value, ToolResult):
        display = value.display
    metadata = {"tool_name": tool_name, "tool_call_id": tool_call_id}
    return {
        "role": "tool",
        "content": text,
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
    payload = stored_result(result.blocks, attachments)
    if result.native:
        native = dict(result.native)
        payload["native"] = native if attachments is None else compact_attachments(native, attachments)
    return payload


def stored_result(blocks: Sequence[Block], attachments: AttachmentStore | None) -> dict[str, Any]:
    """Returns blocks as a canonical result: their text, and themselves where they are more than that."""
    written = write_blocks(blocks, attachments)
    payload: dict[str, Any] = {"type": TOOL_RESULT, "text": text_of(read_blocks(written))}
    return payload if all(block["type"] == "text" for block in written) else {**payload, "blocks": written}


def _placeholder(payload: JSON) -> str:
    """Returns a provider-native result for all other providers: its texts, and placeholders for anything else."""
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


# -- the meaning of results -------------------------------------------------------------------------------------------


def accessors_of(wires: Iterable[Wire]) -> tuple[ToolResultAccessor, ...]:
    """Returns readers of the results of wires, and of those that belong to none. A shared format is the first one's."""
    owners: dict[ResultFormat, Wire] = {}
    for wire in wires:
        owners.setdefault(wire.results, wire)
    return (
        ToolResultAccessor(TOOL_RESULT, _stored),
        *(ToolResultAccessor(wire.name, partial(_native, wire)) for wire in owners.values()),
        ToolResultAccessor("mcp", _of_mcp),
    )


def _stored(result: JSON) -> InspectedResult | None:
    """Reads a message of the stored history, or its ``toolResult`` alone."""
    payload = result.get("toolResult") if result.get("role") == "tool" else result
    if not isinstance(payload, Mapping) or "tool_use_id" in payload:
        return None
    if payload.get("type") == TOOL_RESULT:
        text = payload.get("text")
        blocks = read_blocks(payload.get("blocks"))
        native = payload.get("native")
    elif payload.get("type") == NATIVE_RESULT:
        text, blocks = _placeholder(payload), ()
        native = {str(payload.get("format")): payload.get("content")}
    else:
        return None
    told = mapping_of(result.get("metadata"))
    return InspectedResult(
        format=payload["type"],
        call_id=_text(told.get("tool_call_id")),
        tool_name=_text(told.get("tool_name")),
        is_error=payload.get("is_error") is True,
        text=text if isinstance(text, str) else "",
        blocks=blocks,
        native=mapping_of(native),
        source=result,
    )


def _native(wire: Wire, result: JSON) -> InspectedResult | None:
    """Reads a result by its own wire."""
    if not wire.results.recognises(result):
        return None
    (message,) = wire.results.as_messages([dict(without_metadata(result))])
    stand_ins = StandIns(message)
    entries = wire.read([stand_ins.covered(message)])
    found = next((entry for entry in entries if isinstance(entry, Returned) and entry.results), None)
    if found is None:
        raise ExportError(f"{wire.name} recognises this result, and its `read` finds none in {sorted(message)}")
    own = found.results[0]
    told = mapping_of(result.get("_metadata"))
    raw_type = wire.results.raw_type
    return InspectedResult(
        format=wire.name,
        text=own.content,
        call_id=own.call_id or None,
        tool_name=own.name or _text(told.get("tool_name")),
        is_error=own.is_error or told.get("is_error") is True,
        blocks=stand_ins.uncovered(own.blocks),
        kind="custom" if raw_type is not None and result.get("type") == raw_type else "function",
        source=result,
    )


def _of_mcp(result: JSON) -> InspectedResult | None:
    content = result.get("content")
    if "role" in result or "type" in result or not isinstance(content, Sequence) or isinstance(content, str):
        return None
    blocks = read_blocks([_mcp_block(block) for block in content])
    structured = "" if result.get("structuredContent") is None else to_json(result["structuredContent"]).decode()
    return InspectedResult(
        format="mcp", text=text_of(blocks) or structured, is_error=result.get("isError") is True, source=result
    )


def _mcp_block(block: object) -> dict[str, Any]:
    """Returns a block of MCP as text: its own, or a placeholder."""
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    return {"type": "text", "text": _shown(block)}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def mapping_of(value: object) -> JSON:
    """Returns the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


# -- results in a native history, written by each wire's own `render` -------------------------------------------------


def render_results(
    results: Sequence[InspectedResult], target: str, contents: Iterable[Any], name_of: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Renders each result as a message, an item or a block of the wire, in the order given.

    Args:
        contents: for each result its content in the wire's own shape; None where the wire shall write it.
        name_of: the name of a tool on the wire.
    """
    if target == "mcp":
        return [_for_mcp(result, content) for result, content in zip(results, contents, strict=True)]
    if target not in TARGET_FORMATS:
        raise ExportError(f"cannot write results for {target!r}; known: {', '.join(TARGET_FORMATS)}")
    wire = find(target)
    made = [_call(result, wire, place, name_of) for place, result in enumerate(results)]
    calls = {call.call_id: call for call in made}
    if len(calls) < len(results):
        raise ExportError("two results are for one call; a history has one for each")
    stand_ins = StandIns([result.source for result in results])
    ready = tuple(
        result_for(result, call_id, content, stand_ins, name_of)
        for result, call_id, content in zip(results, calls, contents, strict=True)
    )
    asked = Answer(
        parts=tuple(Part(kind="call", call_id=call_id) for call_id in calls),
        calls=calls,
        arguments={call_id: ('{"input":""}', {"input": ""}) for call_id in calls},
        results=(),
        own_wire=False,
    )
    written = wire.render(replace(asked, results=ready))[len(wire.render(asked)) :]
    names = dict(zip(calls, results, strict=True))
    return wire.results.of_messages(with_metadata(stand_ins.shown(written), wire.results, names))


def result_for(
    result: InspectedResult, call_id: str, native: Any, stand_ins: StandIns, name_of: Callable[[str], str]
) -> CallResult:
    """Returns a result as a wire's `render` takes it, with stand-ins for its attachments."""
    return CallResult(
        call_id=call_id,
        content=result.text,
        is_error=result.is_error,
        name=name_of(result.tool_name) if result.tool_name else None,
        blocks=stand_ins.hidden(result.blocks),
        native=native,
    )


def with_metadata(
    messages: list[dict[str, Any]], format: ResultFormat, results: Mapping[str, InspectedResult]
) -> list[dict[str, Any]]:
    """Returns the messages with facts that the wire has no field for beside each result, under ``_metadata``: the
    tool's name (where a result is a message), and that it failed. It stays in the native history; `ready_messages`
    takes it off."""
    return messages if format.call_id_key is None else [_tagged(message, format, results) for message in messages]


def without_metadata(message: JSON) -> JSON:
    """Returns a native message as its provider takes it: the same object where it has no metadata."""
    if "_metadata" not in message:
        return message
    return {key: value for key, value in message.items() if key != "_metadata"}


def _tagged(message: dict[str, Any], format: ResultFormat, results: Mapping[str, InspectedResult]) -> dict[str, Any]:
    found = results.get(str(message.get(str(format.call_id_key)))) if format.recognises(message) else None
    if found is None:
        return message
    told: dict[str, Any] = {"tool_name": found.tool_name} if format.is_message and found.tool_name else {}
    if found.is_error:
        told["is_error"] = True
    return {**message, "_metadata": told} if told else message


def _call(result: InspectedResult, wire: Wire, place: int, name_of: Callable[[str], str]) -> ToolCall:
    return ToolCall(
        call_id=_id(result, wire, place),
        name=name_of(result.tool_name or ""),
        kind=result.kind,
        status="ready",
        index=place,
        call_id_synthesized=result.call_id is None,
    )


def _id(result: InspectedResult, wire: Wire, place: int) -> str:
    if result.call_id is not None:
        return result.call_id
    if wire.results.id_optional:
        return f"call_{place}"
    raise ExportError(f"a result of {result.tool_name or 'a tool'} has no call id, which {wire.name} needs")


def _for_mcp(result: InspectedResult, content: Any) -> dict[str, Any]:
    if content is not None:
        return dict(content) if isinstance(content, Mapping) else {"content": content, "isError": result.is_error}
    return {"content": [{"type": "text", "text": result.text}], "isError": result.is_error}
