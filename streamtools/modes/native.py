"""Defines the interface to the ways in which models call tools, and adapts models whose API has tool calling.

An adapter handles what differs between models: the request, the response, the arguments. Any object with the methods of
`ToolCallingAdapter` is one; with those of `StreamingAdapter` it reads streams, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..events import Observation
from ..exports import payload
from ..history import with_results
from ..parts import ToolCall
from ..stages import DEFAULT, StageList
from ..stages.arguments import arguments_of
from ..tools import AnyTool, Exported, Tool
from ..tools.entries import find
from ..turn import Turn
from ..wires import known
from .reading import ToolCallValidation, check
from .responses import Payload, ResponseCall, named_tools, payload_of_call, said_in
from .text_histories import result_text

__all__ = ["NativeToolAdapter", "StreamingAdapter", "ToolCallingAdapter"]


@runtime_checkable
class ToolCallingAdapter(Protocol):
    """Handles the parts that differ between models: request, response and arguments. Any object with these three
    methods is an adapter."""

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the fields to add to the request of a chat completion.

        They may include ``messages``, which then take the place of yours: ``create(**{"model": model, "messages":
        messages, **adapter.format_request(tools, messages)})``.

        Raises:
            ExportError: a tool cannot be expressed in this mode.
        """
        ...

    def extract_tool_call(self, response: Any) -> Payload | None:
        """Returns the model's decision: ``{"tool", "arguments"}`` or ``{"answer"}``, maybe with a ``"scratchpad"``, or
        a scratchpad alone. None if it wrote nothing of this form.

        Args:
            response: a whole response (an object of the SDK, or its dict), its text, or a `Turn` that was read with
                the adapter's stages.

        Raises:
            TypeError: `response` is none of these.
        """
        ...

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Checks whether the call may run; returns its arguments in the tool's types, or the problems for the model."""
        ...


@runtime_checkable
class StreamingAdapter(ToolCallingAdapter, Protocol):
    """An adapter that also reads streams: ``pipeline(stream, tools=tools, stages=adapter.stages())``."""

    def stages(self) -> StageList:
        """Returns the stages for a stream in this mode: calls in its text become calls like native ones."""
        ...

    def messages(self, turn: Turn) -> list[dict[str, Any]]:
        """Returns the messages to append after a turn: the model's answer, and the results of its calls, or the request
        to go on if it has only thought."""
        ...

    def only_thinks(self, turn: Turn) -> bool:
        """Returns whether the model has only thought, and is to be asked again: its turn is a scratchpad alone."""
        ...

    def with_results(self, messages: Sequence[Any], results: Iterable[Observation]) -> list[Any]:
        """Returns a history with the results of its last calls that waited for an approval, once they are resumed.

        Args:
            messages: the history that `messages` has written while they waited. It is not changed.
            results: one observation for each of these calls (``events.turn.observations`` of `resume`).

        Raises:
            ValueError: the history has no such calls.
        """
        ...

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """Returns the model's answer as a message for the history."""
        ...

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """Returns a call's result as a message for the history.

        Args:
            result: an `Observation`, or the value that the tool returned.
            tool_call_id: the call's id, where the mode has any.
        """
        ...


# -- the API's own calls -----------------------------------------------------------------------------------------------


_CHAT = "openai.chat_completions"


class NativeToolAdapter:
    """An adapter for the API's own tool calling: ``tools`` in the request, ``tool_calls`` in the response.

    A whole response is read for its first call, as one payload has one. A stream (or a `Turn`) has them all: there
    `messages` writes every call and every result.

    Args:
        wire: the wire whose form the tools take.

    Raises:
        ValueError: the wire does not say where a whole response has its message (`Wire.message_in`); use
            `streamtools.exports`.
    """

    def __init__(self, wire: str = _CHAT) -> None:
        readable = [each.name for each in known() if each.message_in is not None]
        if wire not in readable:
            raise ValueError(
                f"NativeToolAdapter does not know {wire!r}; known: {', '.join(readable)}. "
                "For others, put what streamtools.exports gives into the request yourself"
            )
        self.wire = wire
        """The wire whose form the tools take."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wire!r})"

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the request's fields for its tools; none if there are no tools, since an empty list is refused.

        Raises:
            ExportError: the wire cannot carry a tool, or not in the form that it has; then pass the tool as
                `streamtools.exports.export` gives it, here and to the pipeline.
        """
        payloads = [
            given.payload if isinstance(given, Exported) else payload(given, self.wire) for given in _made(tools)
        ]
        return find(self.wire, False)[0].request(payloads, False) if payloads else {}

    def extract_tool_call(self, response: Any) -> Payload | None:
        """Returns the first call, or the text as the answer; None if there is neither."""
        if isinstance(response, Turn):
            calls = [_of_turn(call) for call in response.calls if call.kind != "server"]
            text = response.text
        else:
            content = said_in(response)
            calls, text = [payload_of_call(call) for call in content.calls], content.verbatim
        if calls:
            return calls[0]
        return {"answer": text} if text else None

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Validates the call by the tool itself; the API's own check is not relied upon."""
        return check(payload, tools_by_name)

    def stages(self) -> StageList:
        """Returns the default stages: native calls need no others."""
        return DEFAULT

    def messages(self, turn: Turn) -> list[dict[str, Any]]:
        """Returns the messages to append after a turn, in the wire's form."""
        return turn.messages(self.wire)

    def only_thinks(self, turn: Turn) -> bool:
        """Returns False: a native turn is an answer if it calls nothing."""
        return False

    def with_results(self, messages: Sequence[Any], results: Iterable[Observation]) -> list[Any]:
        """Returns the history with each observation as its call's result; see `streamtools.history.with_results`."""
        return with_results(list(messages), results, self.wire)

    def tool_call_id(self, response: Any) -> str | None:
        """Returns the id of the call that `extract_tool_call` gives; None if there is none."""
        if isinstance(response, Turn):
            return next((call.call_id for call in response.calls if call.kind != "server"), None)
        return next((call.call_id for call in said_in(response).calls), None)

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """Returns the model's message in the form of chat completions, with only the call that `extract_tool_call`
        gives: a call without a result is refused. For a turn, the message has all calls."""
        if isinstance(response, Turn):
            return next(iter(response.messages(_CHAT)), {"role": "assistant", "content": ""})
        content = said_in(response)
        message: dict[str, Any] = {"role": "assistant", "content": content.verbatim or None}
        if content.calls:
            message["tool_calls"] = [_chat_call(content.calls[0])]
        return message

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """Returns a call's result, in the form of chat completions.

        Raises:
            ValueError: there is no id; `tool_call_id` returns a response's.
        """
        if tool_call_id is None and isinstance(result, Observation):
            tool_call_id = result.call_id
        if tool_call_id is None:
            raise ValueError("format_tool_result() needs tool_call_id=...; take it from tool_call_id(response)")
        return {"role": "tool", "tool_call_id": tool_call_id, "content": result_text(result)}


def _made(tools: Sequence[AnyTool]) -> list[Tool | Exported]:
    """Returns the given tools as tools, also those that are functions."""
    exported = {given.name: given for given in tools if isinstance(given, Exported)}
    return [exported.get(name) or tool for name, tool in named_tools(tools)]


def _of_turn(call: ToolCall) -> Payload:
    if call.arguments is not None:
        return {"tool": call.name, "arguments": call.arguments}
    return payload_of_call(ResponseCall(call_id=call.call_id, name=call.name, text=call.arguments_text))


def _chat_call(call: ResponseCall) -> dict[str, Any]:
    if call.is_custom:
        return {"id": call.call_id, "type": "custom", "custom": {"name": call.name, "input": call.text}}
    found = arguments_of(call.text)
    whole = not isinstance(found, str) and not found[1]
    function = {"name": call.name, "arguments": call.text if whole else "{}"}
    return {"id": call.call_id, "type": "function", "function": function}
