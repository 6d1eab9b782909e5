"""Writes histories as text: for models that know neither calls nor their results, both are plain messages.

{"role": "assistant", "content": '{"tool": "add", "arguments": {"a": 1, "b": 2}}'}
{"role": "user", "content": "Observation: 3"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from ..events import Observation
from ..parts import ToolCall
from ..turn import Turn
from .responses import arguments_of_call, payload_json, payload_of_turn, said_in, scratchpad_of

__all__ = ["assistant_text", "result_text", "text_messages"]

_NOT_RUN = "Error: the call was not run."


def result_text(result: Any) -> str:
    """Returns a result as text for the model: an observation's content, a string as it is, anything else as JSON.

    Raises:
        TypeError: the value cannot be written as JSON.
    """
    if isinstance(result, Observation):
        return result.model_content
    if isinstance(result, str):
        return result
    try:
        return to_json(result, bytes_mode="base64", inf_nan_mode="null").decode()
    except ValueError as error:
        raise TypeError(f"a result of type {type(result).__name__} cannot be written as JSON") from error


def assistant_text(response: Any, wrapper: str | None = None) -> str:
    """Returns the model's text: verbatim for a response, written anew for a turn, whose stages have taken the payload
    apart.

    A payload that was cut is written as far as it came, so that it is not taken for a whole one.

    Args:
        response: a whole response, or a turn.
        wrapper: the key under which the payload stands in an object of its own, if it does.
    """
    if not isinstance(response, Turn):
        return said_in(response).verbatim
    calls = {call.call_id: call for call in response.calls if call.kind != "server"}
    if calls:
        return _around_calls(response, calls, wrapper)
    payload = payload_of_turn(response)
    if payload is not None:
        return _wrapped(payload_json(payload), wrapper)
    return response.text or _cut_scratchpad(response, wrapper) or response.refusal


def text_messages(turn: Turn, wrapper: str | None = None) -> list[dict[str, Any]]:
    """Returns a turn as text: the model's message, and one message with the results of its calls. Empty if the model
    said nothing."""
    text = assistant_text(turn, wrapper)
    if not text.strip():  # which providers refuse
        return []
    said = {"role": "assistant", "content": text}
    observed = {observation.call_id: observation.model_content for observation in turn.observations}
    ours = [call.call_id for call in turn.calls if call.kind != "server"]
    results = [f"Observation: {observed.get(call_id, _NOT_RUN)}" for call_id in ours]
    return [said, {"role": "user", "content": "\n".join(results)}] if results else [said]


# -- payloads, written anew --------------------------------------------------------------------------------------


def _around_calls(turn: Turn, calls: Mapping[str, ToolCall], wrapper: str | None) -> str:
    """Writes calls as payloads, with the text around them, in the order in which they came. The first has the
    scratchpad."""
    written: list[str] = []
    text, scratchpad, thought_first = "", scratchpad_of(turn), False
    for part in turn.parts:
        if part.kind == "text":
            text += part.text
        elif part.kind == "reasoning" and not part.provider_state:
            thought_first = thought_first or not written
        elif (call := calls.get(part.call_id or "")) is not None:
            before, after = (scratchpad, "") if thought_first else ("", scratchpad)
            written += [text, _call_text(call, before, after, wrapper)]
            text = scratchpad = ""
    return "\n".join(piece for piece in [*written, text] if piece.strip())


def _call_text(call: ToolCall, before: str, after: str, wrapper: str | None) -> str:
    """Writes a call as a payload, with a scratchpad before or after it; a cut call ends where it was cut."""
    members = {"scratchpad": _json(before)} if before else {}
    members |= {"tool": _json(call.name), "arguments": _arguments_text(call)}
    if after:
        members["scratchpad"] = _json(after)
    text = "{" + ",".join(f"{_json(key)}:{value}" for key, value in members.items())
    if call.status == "truncated":
        return _wrapped(_cut(text) if after else text, wrapper, cut=True)
    return _wrapped(text + "}", wrapper)


def _arguments_text(call: ToolCall) -> str:
    """Writes a call's arguments for the model: anew if they are whole, else as they came."""
    if call.kind == "custom":
        text = payload_json({"input": call.arguments_text})
        return _cut(text.removesuffix("}")) if call.status == "truncated" else text
    arguments = arguments_of_call(call)
    return call.arguments_text if arguments is None else payload_json(arguments)


def _cut_scratchpad(turn: Turn, wrapper: str | None) -> str:
    """Writes a payload that was cut in its scratchpad."""
    scratchpad = scratchpad_of(turn)
    return _wrapped(_cut(f'{{"scratchpad":{_json(scratchpad)}'), wrapper, cut=True) if scratchpad else ""


def _wrapped(payload: str, wrapper: str | None, *, cut: bool = False) -> str:
    if wrapper is None:
        return payload
    return f"{{{_json(wrapper)}:{payload}{'' if cut else '}'}"


def _json(text: str) -> str:
    return to_json(text).decode()


def _cut(text: str) -> str:
    """Cuts JSON that ends with a string, as if the string went on."""
    return text[:-1]
