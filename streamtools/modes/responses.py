"""Reads the content of a response in any form: an SDK's object, its dict, one message of it, a text, or a `Turn`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from ..wires import known

__all__ = ["ResponseCall", "ResponseContent", "said_in"]

_THINK, _THINK_END = "<think>", "</think>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCall:
    """A native call of a response."""

    call_id: str
    name: str
    text: str
    """The call's arguments as JSON; a custom call's input."""
    is_custom: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseContent:
    """The content of one response."""

    text: str
    """All of its text, without a block of ``<think>`` that opens it, which the stream also splits off."""
    verbatim: str
    """All of its text."""
    calls: tuple[ResponseCall, ...] = ()


def said_in(response: Any) -> ResponseContent:
    """Reads a whole response: a chat completion, an Anthropic message, a message of either, or a text.

    Raises:
        TypeError: `response` is none of these.
    """
    if isinstance(response, str):
        return ResponseContent(text=_thought_out(response), verbatim=response)
    message = _message(response)
    content = _get(message, "content")
    blocks: list[Any] = content if isinstance(content, list) else []
    text = content if isinstance(content, str) else "".join(_text(block) for block in blocks)
    calls = [_chat_call(call) for call in _get(message, "tool_calls") or ()]
    calls += [_block_call(block) for block in blocks if _get(block, "type") == "tool_use"]
    return ResponseContent(text=_thought_out(text), verbatim=text, calls=tuple(calls))


def _message(response: Any) -> Any:
    places = {wire.message_in: None for wire in known() if wire.message_in}
    found = (_at(response, place) for place in places)
    message = next((message for message in found if message is not None), None)
    if message is not None:
        return message
    if any(_has(response, key) for key in ("content", "tool_calls")):
        return response
    raise TypeError(
        f"cannot read a response of type {type(response).__name__}; pass a whole chat completion or Anthropic message "
        "(an object of the SDK or its dict), its text, or a Turn; a stream goes through pipeline() or parse()"
    )


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        if isinstance(key, str):
            value = _get(value, key)
        else:
            value = value[key] if isinstance(value, list) and len(value) > key else None
    return value


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)


def _has(value: Any, key: str) -> bool:
    return key in value if isinstance(value, Mapping) else hasattr(value, key)


def _text(block: Any) -> str:
    text = _get(block, "text") if _get(block, "type") == "text" else None
    return text if isinstance(text, str) else ""


def _thought_out(text: str) -> str:
    """Returns a text without the reasoning that opens it; reasoning that is never closed goes to the end."""
    bare = text.lstrip()
    return bare.partition(_THINK_END)[2] if bare.startswith(_THINK) else text


def _chat_call(call: Any) -> ResponseCall:
    custom = _get(call, "custom")
    inner = custom if custom is not None else _get(call, "function")
    given = _get(inner, "input" if custom is not None else "arguments")
    return ResponseCall(
        call_id=_get(call, "id") or "",
        name=_get(inner, "name") or "",
        text=_as_text(given),
        is_custom=custom is not None,
    )


def _block_call(block: Any) -> ResponseCall:
    return ResponseCall(
        call_id=_get(block, "id") or "", name=_get(block, "name") or "", text=_as_text(_get(block, "input"))
    )


def _as_text(given: Any) -> str:
    """Returns arguments as the text that they are; Ollama and Anthropic have them parsed."""
    if given is None:
        return ""
    return given if isinstance(given, str) else to_json(given, inf_nan_mode="null").decode()
