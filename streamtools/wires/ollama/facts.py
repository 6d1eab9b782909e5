"""Ollama's facts: how it writes calls, results and tools, what it demands of a history, what it counts."""

from __future__ import annotations

from ...schema.dialects import OLLAMA
from ..call_format import ResultFormat
from ..history_rules import HistoryRules
from ..openai_chat.facts import FUNCTION_CALL, FUNCTION_TOOL
from ..tool_format import ToolFormat
from ..usage import UsageMap

__all__ = ["CALLS", "RESULT", "RULES", "TOOLS", "USAGE"]

CALLS = (FUNCTION_CALL,)

RESULT = ResultFormat(
    recognises=lambda result: result.get("role") == "tool" and "tool_name" in result,
    call_id_key="tool_call_id",
    id_optional=True,
    is_message=True,
)

TOOLS = (ToolFormat(name="ollama.chat", dialect=OLLAMA, names=None, function=FUNCTION_TOOL),)

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

USAGE = UsageMap({
    "input_tokens": ("prompt_eval_count",),
    "output_tokens": ("eval_count",),
})  # fmt: skip
