"""The built-in accessors and adapters of calls, and what a call looks like whose arguments were beyond saving."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from ..errors import ExportError
from ..limits import Limits
from ..stages.finalize import arguments_of
from ..text import deeper_than
from .contributions import ToolCallAccessor, ToolCallAdapter
from .formats import (
    ANTHROPIC_TOOL,
    BEDROCK_TOOL,
    CHAT_CUSTOM,
    CHAT_FUNCTION,
    GEMINI_FUNCTION,
    MCP_TOOL,
    RESPONSES_CUSTOM,
    RESPONSES_FUNCTION,
)
from .meanings import InspectedCall

__all__ = ["CALL_ACCESSORS", "CALL_ADAPTERS", "SanitizedCall", "arguments_text"]

JSON: TypeAlias = Mapping[str, Any]

_LIMITS = Limits()


class SanitizedCall(dict[str, Any]):
    """A call whose arguments were corrupt and are now empty: fit for a history, never to be dispatched.

    It equals, and is written as, the plain dict that the provider takes. What it knows beyond that stays in the
    program: `raw` is not part of what is stored or sent.
    """

    __slots__ = ("problem", "raw")

    def __init__(self, call: JSON, *, raw: Any, problem: str) -> None:
        super().__init__(call)
        self.raw = raw
        """The arguments as they came. They may hold anything: log them with care."""
        self.problem = problem
        """Code of what was wrong with them (``incomplete_json``)."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (dict(self), self.raw, self.problem))

    def __repr__(self) -> str:
        return f"SanitizedCall({dict(self)!r}, problem={self.problem!r})"


def _restored(call: JSON, raw: Any, problem: str) -> SanitizedCall:
    return SanitizedCall(call, raw=raw, problem=problem)


# -- readers -----------------------------------------------------------------------------------------------------------


def _chat_function(call: JSON) -> InspectedCall | None:
    body = call.get("function")
    if call.get("type", "function") != "function" or not isinstance(body, Mapping):
        return None
    return _read(CHAT_FUNCTION, {**body, "id": call.get("id")}, "id", "arguments", _left(call, "function", "id"))


def _chat_custom(call: JSON) -> InspectedCall | None:
    body = call.get("custom")
    if call.get("type") != "custom" or not isinstance(body, Mapping):
        return None
    return _raw(CHAT_CUSTOM, {**body, "id": call.get("id")}, "id", _left(call, "custom", "id"))


def _responses_function(call: JSON) -> InspectedCall | None:
    if call.get("type") != "function_call":
        return None
    return _read(RESPONSES_FUNCTION, call, "call_id", "arguments", _left(call, "call_id", "name", "arguments"))


def _responses_custom(call: JSON) -> InspectedCall | None:
    if call.get("type") != "custom_tool_call":
        return None
    return _raw(RESPONSES_CUSTOM, call, "call_id", _left(call, "call_id", "name", "input"))


def _anthropic(call: JSON) -> InspectedCall | None:
    if call.get("type") != "tool_use":
        return None
    return _read(ANTHROPIC_TOOL, call, "id", "input", _left(call, "id", "name", "input"))


def _gemini(call: JSON) -> InspectedCall | None:
    body = call.get("functionCall")
    if not isinstance(body, Mapping):
        return None
    return _read(GEMINI_FUNCTION, body, "id", "args", _left(call, "functionCall"))


def _bedrock(call: JSON) -> InspectedCall | None:
    body = call.get("toolUse")
    if not isinstance(body, Mapping):
        return None
    return _read(BEDROCK_TOOL, body, "toolUseId", "input", _left(call, "toolUse"))


def _mcp(call: JSON) -> InspectedCall | None:
    if "name" not in call or call.keys() - {"name", "arguments", "_meta", "task"}:
        return None
    return _read(MCP_TOOL, call, "", "arguments", _left(call, "name", "arguments"))


def _read(format: str, body: JSON, id_key: str, key: str, extra: dict[str, Any]) -> InspectedCall | None:
    name, call_id = body.get("name"), body.get(id_key)
    if not isinstance(name, str):
        return None
    payload, metadata, problem = _arguments(body.get(key))
    return InspectedCall(
        tool_name=name,
        call_id=call_id if isinstance(call_id, str) and call_id else None,
        payload=payload,
        payload_kind="object",
        payload_format=format,
        payload_metadata=metadata | ({"extra": extra} if extra else {}),
        problem=problem,
    )


def _arguments(given: object) -> tuple[dict[str, Any] | None, dict[str, Any], str | None]:
    """Payload, metadata and problem of a function call's arguments, be they text or a value."""
    if isinstance(given, Mapping):
        problem = _misfit(given)
        return (dict(given), {}, None) if problem is None else (None, {}, problem)
    if given is None:  # no arguments at all: how some servers write none
        return {}, {"normalizations": ("empty_arguments",)}, None
    if not isinstance(given, str):
        return None, {}, "non_object_arguments"
    metadata: dict[str, Any] = {"arguments_text": given}
    if len(given) > _LIMITS.max_argument_bytes:
        return None, metadata, "argument_too_large"
    found = arguments_of(given, _LIMITS)
    if isinstance(found, str):
        return None, metadata, found
    value, steps = found
    return value, metadata | ({"normalizations": steps} if steps else {}), None


def _misfit(arguments: JSON) -> str | None:
    """What keeps a value from being the arguments of a call: code of the problem."""
    if deeper_than(_LIMITS.max_json_depth, arguments):
        return "too_deep"
    try:
        text = to_json(arguments, inf_nan_mode="constants")
    except ValueError:  # half a surrogate pair, or no JSON at all
        return "malformed_json"
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError:  # NaN and Infinity, which JSON has no words for
        return "number_out_of_range"
    return None


def _raw(format: str, body: JSON, id_key: str, extra: dict[str, Any]) -> InspectedCall | None:
    name, call_id, text = body.get("name"), body.get(id_key), body.get("input")
    if not isinstance(name, str):
        return None
    whole = isinstance(text, str)
    return InspectedCall(
        tool_name=name,
        call_id=call_id if isinstance(call_id, str) and call_id else None,
        payload=text if whole else None,
        payload_kind="raw",
        payload_format=format,
        payload_metadata={"extra": extra} if extra else {},
        problem=None if whole else "missing_input",
    )


def _left(call: JSON, *known: str) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key not in known and key != "type"}


# -- the same call with other arguments --------------------------------------------------------------------------------


def _replacer(
    key: str, inside: str | None = None, *, as_text: bool = False
) -> Callable[[JSON, str | dict[str, Any]], dict[str, Any]]:
    def replaced(call: JSON, arguments: str | dict[str, Any]) -> dict[str, Any]:
        value = to_json(arguments).decode() if as_text and isinstance(arguments, dict) else arguments
        if inside is None:
            return {**call, key: value}
        return {**call, inside: {**call[inside], key: value}}

    return replaced


# -- writers -----------------------------------------------------------------------------------------------------------


def _write_chat_function(call: InspectedCall) -> dict[str, Any]:
    function = {"name": call.tool_name, "arguments": arguments_text(call)}
    return {"id": _id(call), "type": "function", "function": function}


def _write_chat_custom(call: InspectedCall) -> dict[str, Any]:
    return {"id": _id(call), "type": "custom", "custom": {"name": call.tool_name, "input": _text(call)}}


def _write_responses_function(call: InspectedCall) -> dict[str, Any]:
    said = {"call_id": _id(call), "name": call.tool_name, "arguments": arguments_text(call)}
    return {"type": "function_call", **said}


def _write_responses_custom(call: InspectedCall) -> dict[str, Any]:
    return {"type": "custom_tool_call", "call_id": _id(call), "name": call.tool_name, "input": _text(call)}


def _write_anthropic(call: InspectedCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": _id(call), "name": call.tool_name, "input": _object(call)}


def _write_gemini(call: InspectedCall) -> dict[str, Any]:
    id_ = {} if call.call_id is None else {"id": call.call_id}
    return {"functionCall": {**id_, "name": call.tool_name, "args": _object(call)}}


def _write_bedrock(call: InspectedCall) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": _id(call), "name": call.tool_name, "input": _object(call)}}


def _write_mcp(call: InspectedCall) -> dict[str, Any]:
    return {"name": call.tool_name, "arguments": _object(call)}


def _id(call: InspectedCall) -> str:
    if call.call_id is None:
        raise ExportError(f"the call of {call.tool_name!r} has no id, which this format needs; give it one first")
    return call.call_id


def _object(call: InspectedCall) -> dict[str, Any]:
    return call.arguments or {}


def arguments_text(call: InspectedCall) -> str:
    """The arguments as the text of a JSON object: verbatim if they came as one, ``{}`` if they may not run."""
    text = call.payload_metadata.get("arguments_text")
    if isinstance(text, str) and call.dispatchable and not call.payload_metadata.get("normalizations"):
        return text
    return to_json(_object(call)).decode()


def _text(call: InspectedCall) -> str:
    """The raw text of a call."""
    arguments = _object(call)
    text = arguments.get("input", "")
    if arguments.keys() - {"input"} or not isinstance(text, str):
        raise ExportError(f"the call of {call.tool_name!r} carries an object, which a custom call cannot")
    return text


# -- tables ------------------------------------------------------------------------------------------------------------

CALL_ACCESSORS = (
    ToolCallAccessor(CHAT_FUNCTION, _chat_function, _replacer("arguments", "function", as_text=True)),
    ToolCallAccessor(CHAT_CUSTOM, _chat_custom, _replacer("input", "custom")),
    ToolCallAccessor(RESPONSES_FUNCTION, _responses_function, _replacer("arguments", as_text=True)),
    ToolCallAccessor(RESPONSES_CUSTOM, _responses_custom, _replacer("input")),
    ToolCallAccessor(ANTHROPIC_TOOL, _anthropic, _replacer("input")),
    ToolCallAccessor(GEMINI_FUNCTION, _gemini, _replacer("args", "functionCall")),
    ToolCallAccessor(BEDROCK_TOOL, _bedrock, _replacer("input", "toolUse")),
    ToolCallAccessor(MCP_TOOL, _mcp, _replacer("arguments")),
)

CALL_ADAPTERS = (
    ToolCallAdapter(CHAT_FUNCTION, _write_chat_function),
    ToolCallAdapter(CHAT_CUSTOM, _write_chat_custom),
    ToolCallAdapter(RESPONSES_FUNCTION, _write_responses_function),
    ToolCallAdapter(RESPONSES_CUSTOM, _write_responses_custom),
    ToolCallAdapter(ANTHROPIC_TOOL, _write_anthropic),
    ToolCallAdapter(GEMINI_FUNCTION, _write_gemini),
    ToolCallAdapter(BEDROCK_TOOL, _write_bedrock),
    ToolCallAdapter(MCP_TOOL, _write_mcp),
)
