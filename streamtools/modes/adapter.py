"""What an adapter is: the one interface to the ways in which models call tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..stages import StageList
from ..tools import AnyTool
from ..turn import Turn
from .checking import ToolCallValidation
from .payloads import Payload

__all__ = ["StreamingAdapter", "ToolCallingAdapter"]


@runtime_checkable
class ToolCallingAdapter(Protocol):
    """Request, response, arguments: what has to be done differently for different models. Any object with these three
    methods is one."""

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What to add to the request of a chat completion.

        It may hold ``messages``, which then take the place of yours:
        ``create(**{"model": model, "messages": messages, **adapter.format_request(tools, messages)})``.

        Raises:
            ExportError: a tool cannot be told in this mode.
        """
        ...

    def extract_tool_call(self, response: Any) -> Payload | None:
        """What the model decided: ``{"tool", "arguments"}`` or ``{"answer"}``, maybe with a ``"scratchpad"``, or that
        alone. None if it said nothing of the form.

        Args:
            response: a whole response (an object of the SDK, or its dict), its text, or a `Turn` that was read with
                the adapter's stages.

        Raises:
            TypeError: it is none of these.
        """
        ...

    def validate_tool_call(self, payload: Payload, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Whether the call may run, with its arguments as the tool wants them, or with what is wrong for the model."""
        ...


@runtime_checkable
class StreamingAdapter(ToolCallingAdapter, Protocol):
    """An adapter for streams, too: ``pipeline(stream, tools=tools, stages=adapter.stages())``."""

    def stages(self) -> StageList:
        """The stages for a stream in this mode: calls that stand in its text become calls as native ones are."""
        ...

    def messages(self, turn: Turn) -> list[dict[str, Any]]:
        """The messages to append after a turn: what the model said, and what came of its calls."""
        ...

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """What the model said, as the history wants it."""
        ...

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """A call's result, as the history wants it.

        Args:
            result: an `Observation`, or the value that the tool returned.
            tool_call_id: the call's id, where the mode has any.
        """
        ...
