"""The Interactions API's facts: its calls, results, tools, demands, counts, events, steps and statuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...parts import CallKind, Finish
from .. import (
    CallFormat,
    EntryFormat,
    HistoryRules,
    KnownFields,
    ResultFormat,
    StrictForm,
    StructuredOutput,
    ToolFormat,
    UsageMap,
    list_of,
    read_text,
)
from ..gemini import WIRE as GEMINI
from ..reading import ERROR_PAYLOAD, total

CALLS = (CallFormat(name="gemini.interactions.function", type="function_call", id="id", never=frozenset({"call_id"})),)

RESULT = ResultFormat(
    recognises=lambda result: result.get("type") == "function_result" and "call_id" in result, call_id_key="call_id"
)

FUNCTION = EntryFormat(
    name="gemini.interactions.function",
    type="function",
    schema_at=("parameters",),
    hints={"defer_loading": lambda given: {"defer_loading": given}},
    never=frozenset({"strict", "function"}),  # as the Responses API has them, and chat
    alike=frozenset({"openai.responses.function"}),
)


def hosted(tool: Mapping[str, Any]) -> str | None:
    type_ = tool.get("type")
    return type_ if isinstance(type_, str) and type_ in _HOSTED else None


# `_gaos/types/interactions/tool.py` of google-genai 3.4.0
_HOSTED = frozenset({
    "code_execution", "computer_use", "file_search", "google_maps", "google_search", "mcp_server", "retrieval",
    "tool_search", "url_context",
})  # fmt: skip


def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    return {"tools": entries} | ({"generation_config": {"tool_choice": "validated"}} if strict else {})


_GENERATE = GEMINI.tools[0]

TOOLS = (
    ToolFormat(
        name="gemini.interactions",
        dialect=_GENERATE.dialect,
        strict=StrictForm(dialect=_GENERATE.dialect, location="mode `validated` of the request", whole_request=True),
        names=_GENERATE.names,
        function=FUNCTION,
        request=request,
        choice={"generation_config": {"tool_choice": "auto"}},
        hosted=hosted,
    ),
)


def text_response(name: str, schema: dict[str, Any], strict: bool) -> dict[str, Any]:
    return {"response_format": {"type": "text", "mime_type": "application/json", "schema": schema}}


STRUCTURED = StructuredOutput(
    request=text_response, strict=StrictForm(dialect=_GENERATE.dialect, location="`response_format`")
)

RULES = HistoryRules(
    list_name="input",
    system="apart",
    names=GEMINI.rules.names,
    result_names=True,
    texts={
        # google/adk-python#4381
        "missing_field": "Missing call_id in content of type function_result",
    },
)

USAGE = UsageMap({
    "input_tokens": ("total_input_tokens",),
    # "total_tokens: prompt + responses + other internal tokens": 53 + 15 + 65 thoughts = 133 in a recorded answer
    "output_tokens": total("total_output_tokens", "total_thought_tokens"),
    "cached_input_tokens": ("total_cached_tokens",),
    "tool_use_input_tokens": ("total_tool_use_tokens",),
    "reasoning_tokens": ("total_thought_tokens",),
})  # fmt: skip

# -- the stream's vocabulary --

FINISHES: dict[str, Finish] = {
    "completed": "stop",
    "requires_action": "tool_calls",
    "requires_continuation": "pause",
    "incomplete": "length",
    "budget_exceeded": "length",
    "cancelled": "other",
    "failed": "error",
}  # statuses of an interaction that has ended. One that is not known is ``other``.

RUNNING = frozenset({"in_progress", "queued"})  # statuses of an interaction that goes on; at its end they say nothing

_SERVERS = (
    "code_execution", "file_search", "google_maps", "google_search", "mcp_server_tool", "processing", "retrieval",
    "tool_search", "url_context",
)  # fmt: skip

SERVER_STEPS: dict[str, str] = {f"{name}_call": f"{name}_result" for name in _SERVERS}
"""Calls that the API runs itself, and the steps that hold their results."""

WHOLE = frozenset({*SERVER_STEPS, *SERVER_STEPS.values(), "function_result"})
"""Steps that come whole, in their start or in a delta of their own type."""

STEPS = WHOLE | {"model_output", "thought", "function_call", "user_input"}

MEDIA = frozenset({"image", "audio", "video", "document"})  # contents that come whole, in a delta of their type


BEGINS: dict[str, str] = {
    "text": "model_output",
    "thought_summary": "thought",
    "thought_signature": "thought",
    "arguments_delta": "function_call",
    **dict.fromkeys(MEDIA, "model_output"),
}  # the deltas of steps that come in pieces, and the type of step that one begins where none was announced

CONTENTS: dict[str, str] = {"model_output": "content", "thought": "summary"}
"""Steps that are shown as text, and the field with their contents."""

EVENT_FIELDS = frozenset({
    "event_type", "event_id", "index", "step", "delta", "usage", "step_usage", "metadata", "interaction",
    "interaction_id", "status", "continuation_token",
})  # fmt: skip

TEXT_FIELDS = KnownFields("type", "text", "annotations")

DELTA_FIELDS: dict[str, KnownFields] = {
    "text": TEXT_FIELDS,
    "text_annotation_delta": KnownFields("type", "annotations"),
    "thought_summary": KnownFields("type", content=TEXT_FIELDS),
    "thought_signature": KnownFields("type", "signature"),
    "arguments_delta": KnownFields("type", "arguments"),
}  # the fields of the deltas that are not kept whole

ERROR_EVENT = ERROR_PAYLOAD.but("event_id")

INTERACTION_FIELDS = frozenset({
    "id", "status", "object", "model", "agent", "created", "updated", "service_tier", "usage", "steps",
    "continuation_token", "previous_interaction_id",
})  # fmt: skip
"""The fields of an interaction that are read, or say nothing about the response that is not known."""


LEGACY_SCHEMA = (
    "the stream has the legacy schema of the Interactions API (content.* instead of step.* events), which Google "
    "ended on 2026-06-08; update google-genai, or omit the header Api-Revision, to get the current one"
)
SAID_AGAIN = "the interaction was resumed from a checkpoint before texts that had ended, which cannot be undone"


def call_kind(type_: str, raw: Mapping[str, Any]) -> CallKind | None:
    if type_ == "function_call":
        return "function"
    if type_ not in SERVER_STEPS:
        return None
    return "function" if type_ == "tool_search_call" and raw.get("execution") == "client" else "server"


def name_of(raw: Mapping[str, Any]) -> str | None:
    """Returns the name of the tool that a call is for: its type, where it has no other."""
    type_ = read_text(raw.get("type"))
    return read_text(raw.get("name")) or (type_ if type_ in SERVER_STEPS else None)


def contents_of(raw: Mapping[str, Any]) -> list[Any]:
    return list_of(raw.get(CONTENTS.get(str(raw.get("type")), "")))
