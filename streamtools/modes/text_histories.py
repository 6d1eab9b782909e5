"""Writes histories for models that know neither calls nor results: what was called and observed becomes text.

    {"role": "assistant", "content": '{"tool": "add", "arguments": {"a": 1, "b": 2}}'}
    {"role": "user", "content": "Observation: 3"}

A turn comes in, its messages in the shape of its wire go out. A model that only thought is asked to go on, since many
templates and providers refuse a history that ends with the model's own message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import to_json

from ..content import Media, Text
from ..errors import ApprovalPending
from ..events import Observation
from ..history.calls import result_of
from ..history.native import wire_named
from ..parts import OUTCOMES, Part, ToolCall
from ..turn import Turn
from ..wires import Answer
from ..wires.transcript import Prompt
from .responses import (
    arguments_of_call,
    only_thinks,
    payload_json,
    payload_of_turn,
    said_in,
    scratchpad_of,
)

__all__ = ["CHAT", "assistant_text", "observed_line", "result_text", "text_messages", "with_text_results"]

CHAT = "openai.chat_completions"
"""The wire of turns that have none."""

_GO_ON = "Go on: call a tool, or give the answer."
_WAITING = (f"Error: {ApprovalPending()}", OUTCOMES["skipped"].to_model)  # once the block was left, and before
_WAITS = re.compile(rf"^Observation: (?:{'|'.join(map(re.escape, _WAITING))})$", re.MULTILINE)
_MESSAGE_DEPTH = 4  # objects and lists around the text of a user's message: no wire has more than three


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
    """Returns a turn as text, in the shape of its wire: the model's message, and one message of the user's with the
    results of its calls, or with the request to go on if the model has only thought. Empty if it said nothing.

    Images and files of results stand behind the text, which has a placeholder for each.
    """
    text = assistant_text(turn, wrapper)
    if not text.strip():  # which providers refuse
        return []
    wire = wire_named(turn.record or turn.wire or CHAT)
    part = Part(kind="text", text=text)
    rendered = wire.render(Answer(parts=(part,), calls={}, arguments={}, results=(), own_wire=False))
    observed = {observation.call_id: observation for observation in turn.observations}
    ours = [call for call in turn.calls if call.kind != "server"]
    results = [result_of(call, observed.get(call.call_id), wire.name) for call in ours]
    lines = [observed_line(result.content) for result in results]
    if only_thinks(turn):
        lines.append(_GO_ON)
    media = [block for result in results for block in result.blocks if isinstance(block, Media)]
    prompt = Prompt(role="user", blocks=(Text("\n".join(lines)), *media))
    return [*rendered, *wire.render_prompt(prompt)] if lines else rendered


def observed_line(content: str) -> str:
    """Returns a result as the model is to read it in the user's words."""
    return f"Observation: {content}"


def with_text_results(messages: Iterable[Any], results: Iterable[Observation]) -> list[Any]:
    """Returns the same history with the results of calls that it says are waiting for an approval.

    Args:
        messages: the history, in which the results of these calls' turn stand last. It is not changed.
        results: one observation for each call that waits.

    Raises:
        ValueError: the history does not have as many calls that wait as there are results.
    """
    history = list(messages)
    written = [observed_line(result.model_content) for result in sorted(results, key=lambda result: result.index)]
    for at in reversed(range(len(history) if written else 0)):
        filled = _Filled(written)
        message = filled.copy(history[at], _MESSAGE_DEPTH)
        if filled.found:
            break
    else:
        filled, message, at = _Filled(written), None, 0
    if filled.found != len(written):
        raise ValueError(f"messages: {len(written)} calls wait for a result, and the history says so of {filled.found}")
    return [*history[:at], message, *history[at + 1 :]] if written else history


class _Filled:
    """Copies a message, replacing each line that says that a call waits by the next result."""

    def __init__(self, written: list[str]) -> None:
        self.found = 0
        """The number of such lines so far."""
        self._written = written

    def copy(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return _WAITS.sub(self._next, value)
        if isinstance(value, dict) and depth:
            return {name: self.copy(inner, depth - 1) for name, inner in value.items()}
        if isinstance(value, list) and depth:
            return [self.copy(inner, depth - 1) for inner in value]
        return value

    def _next(self, line: re.Match[str]) -> str:
        self.found += 1
        return self._written[self.found - 1] if self.found <= len(self._written) else line[0]


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
