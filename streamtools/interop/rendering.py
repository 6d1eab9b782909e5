"""Results in, what stands for them in a native history out: written by each wire's own `render`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import ExportError
from ..parts import Part, ToolCall
from ..wires import WIRES, Answer, render
from ..wires.answer import CallResult
from .meanings import InspectedResult
from .stand_ins import StandIns

__all__ = ["as_messages", "render_results", "result_for", "with_metadata"]

_INSIDE: Mapping[str, str] = {
    "anthropic.messages": "content",
    "gemini.generate_content": "parts",
    "bedrock.converse_stream": "content",
}
"""Where results are blocks of one message: the key of its blocks."""

_FLAT = frozenset({"openai.chat_completions", "mistral.chat", "cohere.chat", "ollama.chat"})
"""Where a result is a message of its own, with the role ``tool``."""


def render_results(
    results: Sequence[InspectedResult], wire: str, contents: Iterable[Any], name_of: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Each result as a message, an item or a block of the wire, in the order given.

    Args:
        contents: for each result its content in the wire's own shape; None where the wire shall write it.
        name_of: the name of a tool on the wire.
    """
    if wire == "mcp":
        return [_mcp(result, content) for result, content in zip(results, contents, strict=True)]
    if wire not in WIRES:
        raise ExportError(f"cannot write results for {wire!r}; known: {', '.join(WIRES)}, mcp")
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
    answered = Answer(parts=asked.parts, calls=calls, arguments=asked.arguments, results=ready, own_wire=False)
    messages = stand_ins.shown(render(wire, answered)[len(render(wire, asked)) :])
    names = dict(zip(calls, results, strict=True))
    key = _INSIDE.get(wire)
    if key is None:
        return with_metadata(messages, wire, names)
    return [block for message in messages for block in message[key]]


def as_messages(written: list[dict[str, Any]], wire: str) -> list[dict[str, Any]]:
    """What `render_results` wrote, as messages: blocks stand in one of the user's."""
    key = _INSIDE.get(wire)
    return written if key is None else [{"role": "user", key: written}]


def result_for(
    result: InspectedResult, call_id: str, native: Any, stand_ins: StandIns, name_of: Callable[[str], str]
) -> CallResult:
    """A result as a wire's `render` takes it, with stand-ins for its attachments."""
    return CallResult(
        call_id=call_id,
        content=result.text,
        is_error=result.is_error,
        name=name_of(result.tool_name) if result.tool_name else None,
        blocks=stand_ins.hidden(result.blocks),
        native=native,
    )


def with_metadata(
    messages: list[dict[str, Any]], wire: str, results: Mapping[str, InspectedResult]
) -> list[dict[str, Any]]:
    """Messages with what the wire has no field for beside each result, under ``_metadata``: the tool's name (where a
    result is a message), and that it failed. It stays in the native history; `ready_messages` takes it off."""
    if wire == "openai.responses":
        return [_tagged(item, results, named=False) for item in messages]
    return [_tagged(message, results, named=True) for message in messages] if wire in _FLAT else messages


def _tagged(message: dict[str, Any], results: Mapping[str, InspectedResult], *, named: bool) -> dict[str, Any]:
    call_id = message.get("tool_call_id") if named else message.get("call_id")
    is_result = message.get("role") == "tool" or str(message.get("type")).endswith("_output")
    found = results.get(str(call_id)) if is_result else None
    if found is None:
        return message
    told: dict[str, Any] = {"tool_name": found.tool_name} if named and found.tool_name else {}
    if found.is_error:
        told["is_error"] = True
    return {**message, "_metadata": told} if told else message


def _call(result: InspectedResult, wire: str, place: int, name_of: Callable[[str], str]) -> ToolCall:
    return ToolCall(
        call_id=_id(result, wire, place),
        name=name_of(result.tool_name or ""),
        kind=result.kind,
        status="ready",
        index=place,
        call_id_synthesized=result.call_id is None,
    )


def _id(result: InspectedResult, wire: str, place: int) -> str:
    if result.call_id is not None:
        return result.call_id
    if wire in ("gemini.generate_content", "ollama.chat"):  # paired by name and order
        return f"call_{place}"
    raise ExportError(f"a result of {result.tool_name or 'a tool'} has no call id, which {wire} needs")


def _mcp(result: InspectedResult, content: Any) -> dict[str, Any]:
    if content is not None:
        return dict(content) if isinstance(content, Mapping) else {"content": content, "isError": result.is_error}
    return {"content": [{"type": "text", "text": result.text}], "isError": result.is_error}
