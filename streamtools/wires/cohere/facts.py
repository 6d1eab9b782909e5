"""Cohere's facts: how it writes calls, results and tools, what it demands of a history, what it counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...schema.dialects import PLAIN
from ...schema.names import PLAIN_NAMES
from ..history_rules import HistoryRules
from ..openai_chat.facts import FUNCTION_CALL, FUNCTION_TOOL, RESULT, STRICT
from ..tool_format import RequestLimits, StructuredOutput, ToolFormat
from ..usage import UsageMap

__all__ = ["CALLS", "RESULT", "RULES", "STRUCTURED", "TOOLS", "USAGE"]

CALLS = (FUNCTION_CALL,)


def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """Returns ``tools``, and ``strict_tools`` if any is strict."""
    return {"tools": entries, "strict_tools": True} if strict else {"tools": entries}


# What is strict about it, and "you can define a maximum of 200 fields across all tools":
# https://docs.cohere.com/docs/tool-use-parameter-types
TOOLS = (
    ToolFormat(
        name="cohere.chat",
        dialect=PLAIN,
        strict=replace(STRICT, said_at="`strict_tools` of the request", whole_request=True, wants_required=True),
        names=PLAIN_NAMES,
        function=replace(FUNCTION_TOOL, strict="never"),
        # and no `choice`, which is "REQUIRED" or "NONE": https://docs.cohere.com/reference/chat (read 2026-11-21)
        request=request,
        limits=RequestLimits(properties=200),
    ),
)


def response_format(name: str, schema: dict[str, Any], strict: bool) -> dict[str, Any]:
    """Returns ``response_format`` of the v2 API. https://docs.cohere.com/docs/structured-outputs"""
    return {"response_format": {"type": "json_object", "json_schema": schema}}


# The dialect of its strict tools.
STRUCTURED = StructuredOutput(request=response_format, strict=replace(STRICT, said_at="`response_format`"))

RULES = HistoryRules(
    call_path="tool_calls[{}]",
    call_ids_optional=True,  # v1 has none; v2's `read` says so itself where one is missing
    texts={
        # vercel/ai#5794
        "mixed_results": "text content is not allowed when tool_calls are provided",
        # langchain-ai/langchain-cohere#15
        "empty_message": "invalid request: all elements in history must have a message.",
    },
)

USAGE = UsageMap({
    "input_tokens": ("tokens.input_tokens", "billed_units.input_tokens"),
    "output_tokens": ("tokens.output_tokens", "billed_units.output_tokens"),
    "cached_input_tokens": ("cached_tokens",),
    "reasoning_tokens": ("tokens.reasoning_tokens", "billed_units.reasoning_tokens"),
})  # fmt: skip
