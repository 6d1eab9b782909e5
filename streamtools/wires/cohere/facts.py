"""Cohere's facts: how it writes calls, results and tools, what it demands of a history, what it counts."""

from __future__ import annotations

from dataclasses import replace

from ...parts import Finish
from ...schema.dialects import PLAIN
from ...schema.names import PLAIN_NAMES
from ..formats import RequestLimits, StructuredOutput, ToolFormat
from ..history_rules import HistoryRules
from ..openai_chat.facts import FUNCTION_CALL, FUNCTION_TOOL, STRICT
from ..openai_chat.facts import RESULT as RESULT
from ..reading import KnownFields, UsageMap

FINISHES: dict[str, Finish] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "TOOL_CALL": "tool_calls",
    "MAX_TOKENS": "length",
    "ERROR_LIMIT": "length",  # "the maximum number of tokens for its context length"
    "ERROR_TOXIC": "content_filter",
}

FAILURES = frozenset({"ERROR", "TIMEOUT"})  # reasons for which there is no answer

CALLS = (FUNCTION_CALL,)


# What is strict about it, and "you can define a maximum of 200 fields across all tools":
# https://docs.cohere.com/docs/tool-use-parameter-types
TOOLS = (
    ToolFormat(
        name="cohere.chat",
        dialect=PLAIN,
        strict=replace(STRICT, location="`strict_tools` of the request", whole_request=True, wants_required=True),
        names=PLAIN_NAMES,
        function=replace(FUNCTION_TOOL, strict="never"),
        # and no `choice`, which is "REQUIRED" or "NONE": https://docs.cohere.com/reference/chat (read 2026-11-21)
        request=lambda entries, strict: {"tools": entries} | ({"strict_tools": True} if strict else {}),
        limits=RequestLimits(properties=200),
    ),
)


# The v2 API's, https://docs.cohere.com/docs/structured-outputs, with the dialect of its strict tools.
STRUCTURED = StructuredOutput(
    request=lambda name, schema, strict: {"response_format": {"type": "json_object", "json_schema": schema}},
    strict=replace(STRICT, location="`response_format`"),
)

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
    "input_tokens": ("tokens.input_tokens", "billed_units.input_tokens", "inputTokenCount"),  # the third: Bedrock
    "output_tokens": ("tokens.output_tokens", "billed_units.output_tokens", "outputTokenCount"),
    "cached_input_tokens": ("cached_tokens",),
    "reasoning_tokens": ("tokens.reasoning_tokens", "billed_units.reasoning_tokens"),
})  # fmt: skip


# -- fields that are known --


def _message(*known: str, **inside: KnownFields) -> KnownFields:
    return KnownFields("id", "index", "type", delta=KnownFields(message=KnownFields(*known, **inside)))


def _legacy(*known: str, **inside: KnownFields) -> KnownFields:
    return KnownFields("event_type", "index", "is_finished", *known, **inside)


_CONTENT = KnownFields("text", "thinking", "type")

EVENT_FIELDS: dict[str, KnownFields] = {
    "message-start": _message("role"),
    "content-start": _message(content=_CONTENT),
    "content-delta": _message(content=_CONTENT),
    "content-end": _message(),
    "tool-plan-delta": _message("tool_plan"),
    "tool-call-end": _message(),
    "citation-start": _message("citations"),
    "citation-end": _message(),
    "message-end": KnownFields("id", "type", delta=KnownFields("error", "error_type", "finish_reason", "usage")),
    "tool-call-start": _message("tool_calls"),  # what a call begins with is kept, or passed on apart
    "tool-call-delta": _message(tool_calls=KnownFields("id", "index", "type", function=KnownFields("arguments"))),
    # v1
    "stream-start": _legacy("generation_id"),
    "text-generation": _legacy("text"),
    "tool-calls-chunk": _legacy("text", tool_call_delta=KnownFields("index", "name", "parameters", "text")),
    "tool-calls-generation": _legacy("text", tool_calls=KnownFields("id", "name", "parameters")),
    "citation-generation": _legacy("citations"),
    "stream-end": _legacy("amazon-bedrock-invocationMetrics", "error", "finish_reason", "response"),
    "stream-error": _legacy("err", "error", "message", "finish_reason"),
}

FUNCTION = frozenset({"arguments", "name"})

SEARCHED = frozenset({"documents", "search_queries", "search_results"})
"""The fields of the whole response that v1's events of a search have, too."""

RESPONSE = frozenset({  # the fields of the whole response at the end of a stream of v1
    "chat_history",  # of the request, with what was told
    "error", "finish_reason",
    "generation_id",  # which the start has
    "meta",
    "response_id",  # which no request takes
    "text", "tool_calls",
})  # fmt: skip
