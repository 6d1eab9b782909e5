"""Adapts models that write payloads in the text: asked for by a schema, by JSON mode, or by the prompt.

Their histories are text, too: calls and results are plain messages, of a turn in the shape of its wire.

{"role": "assistant", "content": '{"tool": "add", "arguments": {"a": 1, "b": 2}}'}
{"role": "user", "content": "Observation: 3"}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from ..content import Text
from ..errors import ExportError
from ..events import Observation
from ..exports import export
from ..history.native import wire_named
from ..parts import Part, ToolCall
from ..schema.bounds import schema_problem
from ..stages import StageList
from ..tools import AnyTool, Exported, Tool
from ..turn import Turn
from ..wires import Answer, find
from ..wires.transcript import Prompt
from .adapter import StreamingAdapter, ToolCallingAdapter
from .answer_form import named_tools, payload_schema, tool_prompt, with_system_prompt
from .checking import ToolCallValidation, check, pass_unchecked, unchecked
from .reading import WRAPPER
from .responses import (
    Payload,
    arguments_of_call,
    find_payload,
    payload_json,
    payload_of_call,
    payload_of_turn,
    said_in,
    scratchpad_of,
)
from .stage import with_payloads

__all__ = [
    "JSONObjectAdapter",
    "OpenAIStructuredAdapter",
    "ParsedAdapter",
    "ValidatedAdapter",
    "assistant_text",
    "result_text",
    "text_messages",
]

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
    """Returns a turn as text, in the shape of its wire: the model's message, and one message with the results of its
    calls. Empty if the model said nothing."""
    text = assistant_text(turn, wrapper)
    if not text.strip():  # which providers refuse
        return []
    wire = wire_named(turn.record or turn.wire or _WIRE)
    part = Part(kind="text", text=text)
    said = wire.render(Answer(parts=(part,), calls={}, arguments={}, results=(), own_wire=False))
    observed = {observation.call_id: observation.model_content for observation in turn.observations}
    ours = [call.call_id for call in turn.calls if call.kind != "server"]
    results = [f"Observation: {observed.get(call_id, _NOT_RUN)}" for call_id in ours]
    return [*said, *wire.render_prompt(Prompt(role="user", blocks=(Text("\n".join(results)),)))] if results else said


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


class _TextAdapter(ABC):
    """Base of these adapters: reads responses, and writes histories."""

    _wrapper: str | None = None
    """The key under which the model was asked to write its payload."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the fields to add to the request; see `ToolCallingAdapter`."""

    def extract_tool_call(self, response: Any) -> Payload | None:
        """Returns the payload of a response; None if it has no whole one. A native call, which may still come, counts
        as one."""
        if isinstance(response, Turn):
            return payload_of_turn(response)
        said = said_in(response)
        found = find_payload(said.text)
        if found is None and said.calls:
            native = payload_of_call(said.calls[0])
            return native if isinstance(native["arguments"], dict) else None
        return found

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Validates the call by the tool itself."""
        return check(payload, tools_by_name)

    def stages(self) -> StageList:
        """Returns the stages for a stream in this mode."""
        return with_payloads()

    def messages(self, turn: Turn) -> list[dict[str, Any]]:
        """Returns the messages to append after a turn, as text in the shape of the turn's wire.

        Raises:
            ExportError: the turn's wire is not known here.
        """
        return text_messages(turn, self._wrapper)

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """Returns the model's message, in the form of chat completions."""
        return {"role": "assistant", "content": assistant_text(response, self._wrapper)}

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """Returns a call's result, as ``Observation: ...`` in the form of chat completions; a call has no id here."""
        return {"role": "user", "content": f"Observation: {result_text(result)}"}


class OpenAIStructuredAdapter(_TextAdapter):
    """An adapter for a provider that enforces a schema for the whole answer: a variant per tool, an answer, a
    scratchpad.

    Args:
        strict: False for tools that no strict schema can express, or servers without it: the model may then deviate,
            and only validation finds it.
        wrapped: False puts the union at the root, which vLLM and llama.cpp take and OpenAI does not.
        scratchpad: calls and answers begin with a scratchpad, so that the model thinks before it decides.
    """

    def __init__(self, *, strict: bool = True, wrapped: bool = True, scratchpad: bool = False) -> None:
        self._strict = strict
        self._wrapper = WRAPPER if wrapped else None
        self._scratchpad = scratchpad

    def __repr__(self) -> str:
        said = f"strict={self._strict}, wrapped={self._wrapper is not None}, scratchpad={self._scratchpad}"
        return f"{type(self).__name__}({said})"

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns ``response_format`` with the schema.

        Raises:
            ExportError: a tool cannot be expressed strictly; the message says why.
        """
        told = [(name, tool.description, self._parameters(name, tool)) for name, tool in named_tools(tools)]
        schema = payload_schema(told, wrapped=self._wrapper is not None, scratchpad=self._scratchpad)
        form = find(_WIRE).structured
        assert form is not None, "the wire of this adapter has structured output"
        if self._strict and (problem := schema_problem(schema, form.bounds)) is not None:
            raise ExportError(f"the answer's schema, with all tools in it: {problem}; {_WITHOUT_STRICT}")
        return form.request("agent_response", schema, self._strict)

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Reads the arguments as the schema made the model write them, and validates them by the tool itself."""
        return check(payload, tools_by_name, self._told)

    def stages(self) -> StageList:
        """Returns the stages for a stream in this mode. They read arguments as the schema made the model write them."""
        return with_payloads(self._told)

    def _told(self, name: str, tool: Tool) -> Exported:
        """Returns the tool as the schema shows it. Its name is only a value there, so any name will do."""
        return replace(_exported(tool, self._strict), name=name)

    def _parameters(self, name: str, tool: Tool) -> dict[str, Any]:
        parameters: dict[str, Any] = self._told(name, tool).payload["function"]["parameters"]
        return parameters


_WITHOUT_STRICT = "OpenAIStructuredAdapter(strict=False) does without the provider's guarantee"
_WIRE = "openai.chat_completions"


def _exported(tool: Tool, strict: bool) -> Exported:
    if tool.kind == "custom":  # as a function with one text
        function = {"parameters": {**tool.schema, "additionalProperties": False}}
        return Exported(tool=tool, wire=_WIRE, name=tool.name, payload={"function": function}, decode=dict)
    try:
        return export(tool, _WIRE, strict=strict)
    except ExportError as error:
        raise ExportError(
            f"tool {tool.name!r} cannot be a variant of the answer's schema: {error}; {_WITHOUT_STRICT}"
        ) from error


class JSONObjectAdapter(_TextAdapter):
    """An adapter for JSON mode: the provider ensures that the answer is a JSON object, the system prompt describes it.

    `format_request` also returns ``messages``, which take the place of yours.
    """

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns ``response_format``, and the messages with the tools in the system prompt."""
        return {
            "response_format": {"type": "json_object"},
            "messages": with_system_prompt(messages, tool_prompt(tools)),
        }


class ParsedAdapter(_TextAdapter):
    """An adapter for JSON in the text as it comes: the provider gets no instructions, nothing is validated, and the
    record of each call says so. Tell the model its tools with `tool_prompt`.
    """

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns no fields."""
        return {}

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Lets the arguments pass if they are an object; ``validated`` is False."""
        return pass_unchecked(payload, tools_by_name)

    def stages(self) -> StageList:
        """Returns the stages for a stream in this mode: calls run with the arguments that came."""
        return with_payloads(_taken_as_it_comes)


def _taken_as_it_comes(name: str, tool: Tool) -> Exported:
    return Exported(tool=unchecked(tool), wire="", name=name, payload={}, decode=dict)


class ValidatedAdapter:
    """Another adapter, with every call validated by its tool.

    Args:
        base: the adapter that writes the request and reads the response; it may be one of yours. By default nothing is
            added to the request, and JSON is found in the text. Tell the model its tools with `tool_prompt` then.
    """

    def __init__(self, base: ToolCallingAdapter | None = None) -> None:
        self.base = base if base is not None else ParsedAdapter()
        """The wrapped adapter."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the base's fields for the request."""
        return self.base.format_request(tools, messages)

    def extract_tool_call(self, response: Any) -> Payload | None:
        """Returns the payload that the base finds."""
        return self.base.extract_tool_call(response)

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Refuses the calls that the base refuses; validates by the tool those it lets pass without a schema."""
        if payload is None:
            return check(payload, tools_by_name)
        found = self.base.validate_tool_call(payload, tools_by_name)
        if found.validated or not found.is_valid:
            return found
        return check({**payload, "arguments": found.arguments}, tools_by_name)

    def stages(self) -> StageList:
        """Returns the base's stages, if they validate; otherwise those for a payload in the text."""
        return with_payloads() if isinstance(self.base, ParsedAdapter) else self._streaming.stages()

    def messages(self, turn: Turn) -> list[dict[str, Any]]:
        """Returns the messages to append after a turn: the base's, or as text."""
        return self._streaming.messages(turn)

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """Returns the model's message: the base's, or as text."""
        return self._streaming.format_assistant_message(response)

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """Returns a call's result: the base's, or as text."""
        return self._streaming.format_tool_result(result, tool_call_id=tool_call_id)

    @property
    def _streaming(self) -> StreamingAdapter:
        return self.base if isinstance(self.base, StreamingAdapter) else JSONObjectAdapter()
