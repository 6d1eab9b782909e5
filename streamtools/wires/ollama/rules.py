"""What Ollama's chat demands of a history, and in which words it refuses one."""

from __future__ import annotations

from ..rules import HistoryRules

__all__ = ["RULES"]

RULES = HistoryRules(
    call_path="tool_calls[{}]",
    call_ids_optional=True,
    result_names=True,
    texts={
        # aliasrobotics/cai#76, ollama/ollama#12794
        "arguments_not_object": "json: cannot unmarshal string into Go struct field "
        "ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments",
    },
)
