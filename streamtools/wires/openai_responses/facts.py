"""The Responses API's facts: its calls, results, tools and counts, its demands, its events."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...parts import CallKind, Finish
from ...schema.dialects import OPENAI
from ...schema.names import PLAIN_NAMES
from .. import formats
from ..formats import JSON, CallFormat, EntryFormat, NamespaceFormat, ResultFormat, StructuredOutput, ToolFormat
from ..history_rules import HistoryRules
from ..openai_chat.facts import CHOICE, LIMITS, STRICT
from ..reading import ERROR, ERROR_PAYLOAD, KnownFields, UsageMap, object_of, objects_in

CALLS = (
    CallFormat(
        name="openai.responses.function", type="function_call", id="call_id", as_text=True, namespace="namespace"
    ),
    CallFormat(
        name="openai.responses.custom",
        type="custom_tool_call",
        id="call_id",
        arguments="input",
        raw=True,
        namespace="namespace",
    ),
)

RESULT = ResultFormat(
    recognises=lambda result: result.get("type") in ("function_call_output", "custom_tool_call_output"),
    call_id_key="call_id",
    raw_type="custom_tool_call_output",
)

CALLERS = {"direct": "direct", "code": "programmatic"}

# `types/responses/function_tool_param.py` of openai 3.54.0
HINT_FIELDS: dict[str, Callable[[Any], JSON]] = {
    "defer_loading": lambda given: {"defer_loading": given},
    "allowed_callers": lambda given: {"allowed_callers": [CALLERS[one] for one in given]},
}

FUNCTION = EntryFormat(
    name="openai.responses.function",
    type="function",
    schema_at=("parameters",),
    # Without `strict` the API would try to make the schema strict, and change it:
    # https://platform.openai.com/docs/guides/function-calling#strict-mode
    strict="always",
    output_at="output_schema",
    hints=HINT_FIELDS,
)

CUSTOM = EntryFormat(
    name="openai.responses.custom",
    type="custom",
    freeform=True,
    hints=HINT_FIELDS,
    never=frozenset({"custom", "input_schema"}),
)


def hosted(tool: JSON) -> str | None:
    """Returns any type but the two: ``{"type": "web_search"}``, ``{"type": "mcp", "server_label": ...}``. A date in a
    type is written with underscores here (``web_search_preview_2025_03_11``), never as eight digits."""
    type_ = tool.get("type")
    ours = isinstance(type_, str) and type_ not in ("function", "custom") and not re.search(r"_\d{8}$", type_)
    return type_ if ours else None


TOOLS = (
    ToolFormat(
        name="openai.responses",
        dialect=OPENAI,
        strict=replace(STRICT, location="`strict`, always sent"),
        names=PLAIN_NAMES,
        function=FUNCTION,
        freeform=CUSTOM,
        choice=CHOICE,
        hosted=hosted,
        # https://platform.openai.com/docs/guides/function-calling#defining-namespaces
        namespace=NamespaceFormat(type="namespace"),
        limits=LIMITS,
    ),
)


# https://platform.openai.com/docs/guides/structured-outputs
STRUCTURED = StructuredOutput(
    request=lambda name, schema, strict: {
        "text": {"format": {"type": "json_schema", "name": name, "strict": strict, "schema": schema}}
    },
    strict=replace(STRICT, location="`text.format`"),
    loose=OPENAI,
)

# `AdditionalTools` in `types/responses/response_input_item_param.py` of openai 3.57.0, and the models known to take it:
# https://tanstack.com/ai/latest/docs/advanced/mid-conversation-changes (read 2026-12-01)
_TAKES_TOOLS = re.compile(r"gpt-(5\.4-mini|5\.5|5\.6-(luna|sol|terra)|6-(astra|luna|sol))(-\d{4}-\d\d-\d\d)?")


TOOL_CHANGES = formats.ToolChanges(
    takes=lambda model: _TAKES_TOOLS.fullmatch(model) is not None,
    render=lambda new, gone: [{"type": "additional_tools", "role": "developer", "tools": list(new)}] if new else [],
    read=lambda item: (objects_in(object_of(item), "tools"), []) if item.get("type") == "additional_tools" else None,
)

# 0xPlaygrounds/rig#751, of a message in continuedev/continue#11994
NO_REASONING = "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."

_NO_OUTPUT = "No tool output found for {} call call_1."

RULES = HistoryRules(
    list_name="input",
    unanswered_texts={
        "computer_call": _NO_OUTPUT.format("computer"),
        "shell_call": _NO_OUTPUT.format("shell"),  # microsoft/agent-framework#8663
        "local_shell_call": _NO_OUTPUT.format("local shell"),
        "apply_patch_call": _NO_OUTPUT.format("apply patch"),
        "tool_search_call": _NO_OUTPUT.format("tool search"),
        "mcp_approval_request": "The following MCP approval requests do not have an approval: mcpr_1",
    },
    namespaces=True,
    texts={
        # bytedance/trae-agent#245
        "unanswered_call": "No tool output found for function call call_1.",
        # continuedev/continue#10092
        "orphan_result": "No tool call found for function call output with call_id call_1.",
        # openai/codex#14355
        "bad_id": "Invalid 'input[4].call_id': string too long. Expected a string with maximum length 64, but got a "
        "string with length 1324 instead.",
        # vercel/ai#7883
        "duplicate_id": "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
        # continuedev/continue#8933
        "reasoning_apart": "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        # AAswordman/Operit#797
        "missing_field": "Missing required parameter: 'input[7].summary'.",
        # BerriAI/litellm#13420
        "surplus_field": "Unknown parameter: 'input[1].status'.",
    },
)

USAGE = UsageMap({
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cached_input_tokens": ("input_tokens_details.cached_tokens",),
    "cache_write_input_tokens": ("input_tokens_details.cache_write_tokens",),
    "long_cache_write_input_tokens": ("input_tokens_details.cache_write_tokens_details.ttl_12h_tokens",),
    "reasoning_tokens": ("output_tokens_details.reasoning_tokens",),
})  # fmt: skip

# -- the stream's vocabulary --

TERMINALS: dict[str, str] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": "completed",
}  # the last event, and the status that it stands for where the response has none

STATUSES = frozenset(TERMINALS.values())

RUNNING = {"queued": "response.queued", "in_progress": "response.in_progress"}
"""The statuses of a response that the provider still works on, and the last event of each."""

ERRORS = frozenset({"error", "response.error"})

WAITING = frozenset({"response.created", "response.queued", "response.in_progress"})
"""Events of a response that has said nothing yet."""

FINISHES: dict[str, Finish] = {
    "completed": "stop",
    "cancelled": "other",
    "max_output_tokens": "length",
    "max_tokens": "length",  # compatible servers
    "content_filter": "content_filter",
    "steered": "steered",
}

TEXTS: dict[str, tuple[str, ...]] = {"message": ("text", "refusal"), "reasoning": ("summary", "content")}
"""Items that are told as text, and the texts that they have, the likeliest first."""

TEXT_DELTAS: dict[str, tuple[str, str, str]] = {
    "response.output_text.delta": ("message", "text", "content_index"),
    "response.refusal.delta": ("message", "refusal", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "content", "content_index"),
}  # deltas of text: the type of their item, which of its texts they are, and what numbers the paragraphs

TEXT_DONES: dict[str, tuple[str, str, str]] = {
    "response.output_text.done": ("message", "text", "text"),
    "response.refusal.done": ("message", "refusal", "refusal"),
    "response.reasoning_summary_text.done": ("reasoning", "summary", "text"),
    "response.reasoning_text.done": ("reasoning", "content", "text"),
}  # the ends of these texts, and the field that has one whole

ARGUMENTS: dict[str, tuple[str, CallKind]] = {
    "response.function_call_arguments": ("function_call", "function"),
    "response.custom_tool_call_input": ("custom_tool_call", "custom"),
    "response.mcp_call_arguments": ("mcp_call", "server"),
}  # what the events about a call's arguments begin with: the type of its item, and its kind

QUIET = frozenset({
    "codex.keepalive", "codex.rate_limits", "keepalive", "ping", "response.compaction.compacting",
    "response.keep_alive", "response.rate_limits.updated",
})  # fmt: skip

NOTICES: dict[str, str | None] = {
    "response.steer.accepted": None,
    "response.steer.pending": None,
    "response.steer.failed": "steer_failed",
    "response.inject.created": None,
    "response.inject.failed": "inject_failed",
}
"""Answers to what the client sent while the response went on, and the warning of those that refuse it. None of them
changes the response: https://developers.openai.com/api/docs/guides/steering (read 2026-11-23)."""

TOLD_LATER = frozenset({  # topics of events whose content their item repeats at its end
    "apply_patch_call_operation_diff", "code_interpreter_call", "code_interpreter_call_code", "content_part",
    "file_search_call", "image_generation_call", "mcp_call", "mcp_list_tools", "output_text", "reasoning_part",
    "reasoning_summary_part", "shell_call_command", "shell_call_output_content", "web_search_call",
})  # fmt: skip


# -- fields that are known --

ENVELOPE = frozenset({
    "call_id", "content_index", "event_id", "item_id", "obfuscation", "output_index", "response_id", "sequence_number",
    "stream_id", "summary_index", "type",
})  # fmt: skip
_ENVELOPE = ENVELOPE - {"call_id", "event_id"}

REQUESTED = frozenset({
    "background", "frequency_penalty", "image", "instructions", "max_output_tokens", "max_tool_calls", "metadata",
    "parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store",
    "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip

_RESPONSE = KnownFields(
    *REQUESTED, "completed_at", "created_at", "id", "model", "object", "output", "status", "usage",
    error=ERROR, incomplete_details=KnownFields("reason"),
)  # fmt: skip


def _event(*known: str, **inside: KnownFields) -> KnownFields:
    return KnownFields(*_ENVELOPE, *known, **inside)


_TEXT = _event("delta")

EVENT_FIELDS: dict[str, KnownFields] = {
    **dict.fromkeys((*WAITING, *TERMINALS), _event(response=_RESPONSE)),
    "response.output_item.added": _event("item"),
    "response.output_item.done": _event("item"),
    **dict.fromkeys(TEXT_DELTAS, _TEXT),
    **{kind: _event(field) for kind, (_, _, field) in TEXT_DONES.items()},
    **{f"{prefix}.delta": _event("call_id", "delta") for prefix in ARGUMENTS},
    **{f"{prefix}.done": _event("arguments", "call_id", "input", "name") for prefix in ARGUMENTS},
    **dict.fromkeys(QUIET, _event()),
}

LATER = _event(  # those of events whose content their item repeats at its end
    "annotation", "annotation_index", "background", "code", "command", "command_index", "delta", "diff", "output",
    "output_format", "part", "partial_image_b64", "partial_image_index", "quality", "size", "status",
)  # fmt: skip

ERROR_EVENT = KnownFields(*ERROR_PAYLOAD.known - {"error"}, *_ENVELOPE, error=ERROR)

GROWING = frozenset({  # the fields of items that are not whole before the end
    "action", "actions", "arguments", "call_id", "code", "content", "encrypted_content", "error", "id", "input",
    "operation", "output", "outputs", "pending_safety_checks", "queries", "result", "results", "revised_prompt",
    "status", "summary", "tools",
})  # fmt: skip

HEAD = frozenset({"content", "encrypted_content", "id", "phase", "role", "status", "summary", "type"})
"""The fields of a text's item of which the turn holds as much as it can give back."""
