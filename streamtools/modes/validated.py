"""Adds validation to another adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..stages import StageList
from ..tools import AnyTool
from ..turn import Turn
from .adapter import StreamingAdapter, ToolCallingAdapter
from .checking import ToolCallValidation, check
from .history import assistant_text, result_text, text_messages
from .payloads import Payload
from .stage import with_payloads
from .text_modes import ParsedAdapter

__all__ = ["ValidatedAdapter"]


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
        """Refuses the calls that the base refuses; validate by the tool those it lets pass without a schema."""
        if payload is None:
            return check(payload, tools_by_name)
        found = self.base.validate_tool_call(payload, tools_by_name)
        if found.validated or not found.is_valid:
            return found
        return check({**payload, "arguments": found.arguments}, tools_by_name)

    def stages(self) -> StageList:
        """Returns the base's stages, if they validate; otherwise those for a payload in the text."""
        if isinstance(self.base, StreamingAdapter) and not isinstance(self.base, ParsedAdapter):
            return self.base.stages()
        return with_payloads()

    def messages(self, turn: Turn) -> list[dict[str, Any]]:
        """Returns the messages to append after a turn: the base's, or as text."""
        return self.base.messages(turn) if isinstance(self.base, StreamingAdapter) else text_messages(turn)

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """Returns the model's message: the base's, or as text."""
        if isinstance(self.base, StreamingAdapter):
            return self.base.format_assistant_message(response)
        return {"role": "assistant", "content": assistant_text(response)}

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """Returns a call's result: the base's, or as text."""
        if isinstance(self.base, StreamingAdapter):
            return self.base.format_tool_result(result, tool_call_id=tool_call_id)
        return {"role": "user", "content": f"Observation: {result_text(result)}"}
