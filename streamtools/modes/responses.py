"""Reads whole responses in any form: an SDK's object, its dict, one message of it, a text, or a `Turn`.

The payload in a text is found by the same grammar as in a stream (`reading`), so that both always agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic_core import to_json

from ..limits import Limits
from ..parts import ToolCall
from ..stages.arguments import DECODER, arguments_of, value_of
from ..turn import Turn
from ..wires import known
from .reading import PayloadReader

__all__ = [
    "NO_PAYLOAD",
    "Payload",
    "ResponseCall",
    "ResponseContent",
    "arguments_of_call",
    "find_payload",
    "only_thinks",
    "parse_json_response",
    "payload_json",
    "payload_of_call",
    "payload_of_turn",
    "said_in",
    "scratchpad_of",
]


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
    calls = [*(_get(message, "tool_calls") or ()), *(block for block in blocks if _get(block, "type") == "tool_use")]
    return ResponseContent(text=_thought_out(text), verbatim=text, calls=tuple(map(_call, calls)))


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


def _call(call: Any) -> ResponseCall:
    """Reads a call of Chat Completions or a block of Anthropic's."""
    custom, function = _get(call, "custom"), _get(call, "function")
    inner = next((each for each in (custom, function) if each is not None), call)
    given = _get(inner, "arguments" if inner is function else "input")
    name, call_id = _get(inner, "name") or "", _get(call, "id") or ""
    return ResponseCall(call_id=call_id, name=name, text=_as_text(given), is_custom=custom is not None)


def _as_text(given: Any) -> str:
    """Returns arguments as the text that they are; Ollama and Anthropic have them parsed."""
    if given is None:
        return ""
    return given if isinstance(given, str) else to_json(given, inf_nan_mode="null").decode()


Payload: TypeAlias = dict[str, Any]
"""A model's decision: ``{"tool", "arguments"}`` or ``{"answer"}``, maybe with a ``"scratchpad"``; or a scratchpad
alone."""

NO_PAYLOAD = "no_payload"
"""Code of the warning that a text has no whole payload."""

_MAX_TRIES = 64  # braces that begin no object; for each, the rest of the text may be read once


def find_payload(text: str) -> Payload | None:
    """Returns the payload in a text: alone, in a code fence, or with prose around it; None if there is none, or no
    whole one.

    >>> find_payload('Let me see. {"tool": "add", "arguments": {"a": 1}} Wait for it.')
    {'tool': 'add', 'arguments': {'a': 1}}
    """
    collected = _Collected()
    reader = PayloadReader(Limits(), collected)
    reader.feed(text)
    reader.over()
    return collected.payload if reader.whole and not collected.broken else None


class _Collected:
    """A sink that keeps the payload."""

    def __init__(self) -> None:
        self.payload: Payload = {}
        self.broken = False
        self._pieces: list[str] = []
        self._arguments: list[str] = []
        self._key = ""
        self._is_string = True

    def text(self, text: str) -> None:
        """Ignores text outside the payload."""

    def call(self, name: str) -> None:
        self.payload |= {"tool": name, "arguments": {}}

    def arguments(self, text: str) -> None:
        self._arguments.append(text)

    def call_over(self, *, whole: bool) -> None:
        if "tool" not in self.payload:
            return
        self.payload.pop("answer", None)  # text beside a call is no answer
        found = arguments_of("".join(self._arguments))
        if isinstance(found, str):
            self.broken = True
        else:
            self.payload["arguments"] = found[0]

    def begin(self, key: str, *, is_string: bool) -> None:
        self._key, self._is_string, self._pieces = key, is_string, []

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def end(self) -> None:
        text = "".join(self._pieces)
        self.payload[self._key] = text if self._is_string else value_of(text)
        self.broken = self.broken or self.payload[self._key] is None


def payload_of_turn(turn: Turn) -> Payload | None:
    """Returns the payload of a turn that was read with the stages of an adapter; None if it has no whole one.

    The turn's text is an answer by now, and is never searched for calls again.
    """
    if any(warning.code == NO_PAYLOAD for warning in turn.warnings) or not turn.parts:
        return None
    payload: Payload = {}
    kinds = [part.kind for part in turn.parts]
    scratchpad = scratchpad_of(turn)
    if scratchpad and kinds[0] == "reasoning":
        payload["scratchpad"] = scratchpad
    call = next((call for call in turn.calls if call.kind != "server"), None)
    if call is not None:
        arguments = arguments_of_call(call)
        if arguments is None:
            return None
        payload |= {"tool": call.name, "arguments": arguments}
    elif "text" in kinds:
        payload["answer"] = turn.text
    if scratchpad:
        payload["scratchpad"] = scratchpad
    return payload or None


def only_thinks(turn: Turn) -> bool:
    """Returns whether a turn decides nothing: it is a scratchpad alone, whole or cut by its length."""
    kinds = {part.kind for part in turn.parts}
    return turn.finish in ("stop", "length") and kinds <= {"reasoning", "provider"} and bool(scratchpad_of(turn))


def scratchpad_of(turn: Turn) -> str:
    """Returns the text of a turn's scratchpad; reasoning that a provider has signed does not count."""
    return "".join(part.text for part in turn.parts if part.kind == "reasoning" and not part.provider_state)


def arguments_of_call(call: ToolCall) -> dict[str, Any] | None:
    """Returns a call's arguments, refused ones too; None if they are no whole object."""
    if call.arguments is not None:
        return call.arguments
    if call.problem != "invalid_arguments":
        return None
    found = arguments_of(call.arguments_text)
    return None if isinstance(found, str) else found[0]


def payload_of_call(call: ResponseCall) -> Payload:
    """Returns a native call as a payload. Arguments that are no JSON object stay text: validation reports them."""
    if call.is_custom:
        return {"tool": call.name, "arguments": {"input": call.text}}
    found = arguments_of(call.text)
    return {"tool": call.name, "arguments": call.text if isinstance(found, str) else found[0]}


def payload_json(payload: Mapping[str, Any]) -> str:
    """Returns a payload as the model would have written it."""
    return to_json(payload, inf_nan_mode="null").decode()


def parse_json_response(text: str) -> dict[str, Any] | None:
    """Returns the first whole JSON object in a text, whatever it contains: alone, in a code fence, or with prose around
    it.

    >>> parse_json_response('Sure! ```json {"city": "Paris"} ``` Anything else?')
    {'city': 'Paris'}
    """
    at = -1
    for _ in range(_MAX_TRIES):
        at = text.find("{", at + 1)
        if at < 0:
            return None
        try:
            value = DECODER.raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            continue
        return cast("dict[str, Any]", value)
    return None
