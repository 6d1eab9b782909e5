"""Adapts models that write payloads in the text: asked for by a schema, by JSON mode, or by the prompt.

Their histories are text, too: `text_histories` writes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ExportError
from ..events import Observation
from ..exports import export
from ..schema.bounds import schema_problem
from ..stages import StageList
from ..tools import AnyTool, Exported, Tool
from ..turn import Turn
from ..wires import find
from .adapter import StreamingAdapter, ToolCallingAdapter
from .answer_form import named_tools, payload_schema, tool_prompt, with_system_prompt
from .checking import ToolCallValidation, check, pass_unchecked, unchecked
from .reading import WRAPPER
from .responses import Payload, find_payload, only_thinks, payload_of_call, payload_of_turn, said_in
from .stage import with_payloads
from .text_histories import CHAT, assistant_text, observed_line, result_text, text_messages, with_text_results

__all__ = [
    "JSONObjectAdapter",
    "OpenAIStructuredAdapter",
    "ParsedAdapter",
    "ValidatedAdapter",
]


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

    def only_thinks(self, turn: Turn) -> bool:
        """Returns whether the turn is a scratchpad alone, whole or cut by its length."""
        return only_thinks(turn)

    def with_results(self, messages: Sequence[Any], results: Iterable[Observation]) -> list[Any]:
        """Returns the history with the results of calls that waited for an approval; see `StreamingAdapter`."""
        return with_text_results(messages, results)

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """Returns the model's message, in the form of chat completions."""
        return {"role": "assistant", "content": assistant_text(response, self._wrapper)}

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """Returns a call's result, as ``Observation: ...`` in the form of chat completions; a call has no id here."""
        return {"role": "user", "content": observed_line(result_text(result))}


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
        form = find(CHAT).structured
        assert form is not None, "the wire of this adapter has structured output"
        if self._strict and (problem := schema_problem(schema, form.strict.bounds)) is not None:
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


def _exported(tool: Tool, strict: bool) -> Exported:
    if tool.kind == "custom":  # as a function with one text
        function = {"parameters": {**tool.schema, "additionalProperties": False}}
        return Exported(tool=tool, wire=CHAT, name=tool.name, payload={"function": function}, decode=dict)
    try:
        return export(tool, CHAT, strict=strict)
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
        """Returns the payload that the base finds; in a turn, that of the stages."""
        return (self._streaming if isinstance(response, Turn) else self.base).extract_tool_call(response)

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

    def only_thinks(self, turn: Turn) -> bool:
        """Returns whether the turn is a scratchpad alone: by the base, or as text."""
        return self._streaming.only_thinks(turn)

    def with_results(self, messages: Sequence[Any], results: Iterable[Observation]) -> list[Any]:
        """Returns the history with the results of calls that waited for an approval: by the base, or as text."""
        return self._streaming.with_results(messages, results)

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """Returns the model's message: the base's, or as text."""
        return self._streaming.format_assistant_message(response)

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """Returns a call's result: the base's, or as text."""
        return self._streaming.format_tool_result(result, tool_call_id=tool_call_id)

    @property
    def _streaming(self) -> StreamingAdapter:
        return self.base if isinstance(self.base, StreamingAdapter) else JSONObjectAdapter()
