"""Defines adapters: the one interface to the ways in which models call tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..events import Observation
from ..stages import StageList
from ..tools import AnyTool
from ..turn import Turn
from .checking import ToolCallValidation
from .responses import Payload

__all__ = ["StreamingAdapter", "ToolCallingAdapter"]


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
