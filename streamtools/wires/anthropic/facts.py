"""The Messages API's facts: how it writes calls, results and tools, what it demands of a history, what it counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...parts import CallKind, Finish
from ...schema.dialects import ANTHROPIC, ANTHROPIC_STRICT
from ...schema.names import PLAIN_NAMES
from .. import formats
from ..history_rules import HistoryRules, Violation, claude_since
from ..reading import KnownFields, UsageMap, list_of, object_of, objects_in, total

SERVER_CALLS = ("server_tool_use", "mcp_tool_use")

CALL_BLOCKS: dict[str, CallKind] = {"tool_use": "function", **dict.fromkeys(SERVER_CALLS, "server")}

_CONTAINER = KnownFields("expires_at", "id")
_MESSAGE = KnownFields(
    "content", "id", "model", "role", "stop_reason", "stop_sequence", "type", "usage", container=_CONTAINER
)

EVENT_FIELDS: dict[str, KnownFields] = {
    "message_start": KnownFields("type", message=_MESSAGE),
    "content_block_start": KnownFields("content_block", "index", "type"),
    "content_block_delta": KnownFields("delta", "index", "type"),
    "content_block_stop": KnownFields("index", "type"),
    "message_delta": KnownFields(
        "type", "usage", delta=KnownFields("stop_reason", "stop_sequence", container=_CONTAINER)
    ),
    # Bedrock's count of the tokens, which the usage has, and its latency
    "message_stop": KnownFields("amazon-bedrock-invocationMetrics", "type"),
    "ping": KnownFields("type"),
}  # the fields of each event that are read, or kept; those of blocks and deltas depend on their own types

BLOCK_FIELDS: dict[str, KnownFields] = {
    "text": KnownFields("citations", "text", "type"),
    "thinking": KnownFields("signature", "thinking", "type"),
}  # the fields that blocks begin with, of those that are not kept as they came

DELTA_FIELDS: dict[str, KnownFields] = {
    "text_delta": KnownFields("text", "type"),
    "thinking_delta": KnownFields("thinking", "type"),
    "signature_delta": KnownFields("signature", "type"),
    "citations_delta": KnownFields("citation", "type"),
    "input_json_delta": KnownFields("partial_json", "type"),
}  # the fields of deltas, but for those of which all are kept

OPAQUE_BLOCKS = frozenset({"redacted_thinking", "container_upload", "compaction", "fallback", "mcp_tool_listing"})
"""Blocks that are kept whole and given back without being looked into, beside the results of the provider's calls."""

FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "compaction": "pause",  # the turn goes back, compacted
    "refusal": "content_filter",
    # compatible servers
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
}

BAD_NEWS = frozenset({"length", "content_filter"})  # finishes that no later one takes back

THOUGHTS = frozenset({"thinking", "redacted_thinking"})

CALLS = (
    formats.CallFormat(
        name="anthropic.messages.tool", type="tool_use", id="id", arguments="input", run_by_provider=SERVER_CALLS
    ),
)

CALLERS = {"direct": "direct", "code": "code_execution_20260521"}

# `types/tool_param.py` of anthropic 2.12.0
HINT_FIELDS: dict[str, Callable[[Any], formats.JSON]] = {
    "defer_loading": lambda given: {"defer_loading": given},
    "allowed_callers": lambda given: {"allowed_callers": [CALLERS[one] for one in given]},
    "cache": lambda ttl: {"cache_control": {"type": "ephemeral", "ttl": ttl}},
    "examples": lambda given: {"input_examples": [dict(one) for one in given]},
    "eager": lambda given: {"eager_input_streaming": given},
}

RESULT = formats.ResultFormat(
    recognises=lambda result: result.get("type") == "tool_result" and "tool_use_id" in result, list_key="content"
)

# 400 otherwise: "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'".
NAMES = replace(PLAIN_NAMES, length=128)

# https://docs.claude.com/en/docs/build-with-claude/structured-outputs#schema-complexity-limits
LIMITS = formats.RequestLimits(strict_tools=20, optional_properties=24, unions=16)


def hosted(tool: formats.JSON) -> str | None:
    """Returns the name in ``{"type": "web_search_20250305", "name": "web_search"}``: the type ends in a date."""
    type_, name = tool.get("type"), tool.get("name")
    dated = isinstance(type_, str) and re.search(r"_\d{8}$", type_)
    return name if dated and isinstance(name, str) else None


TOOLS = (
    formats.ToolFormat(
        name="anthropic.messages",
        dialect=ANTHROPIC,
        strict=formats.StrictForm(dialect=ANTHROPIC_STRICT, location="`strict`"),
        names=NAMES,
        function=formats.EntryFormat(
            name="anthropic.messages.tool", schema_at=("input_schema",), strict="where_strict", hints=HINT_FIELDS
        ),
        choice={"tool_choice": {"type": "auto"}},
        hosted=hosted,
        limits=LIMITS,
    ),
)


# https://platform.claude.com/docs/en/build-with-claude/structured-outputs
STRUCTURED = formats.StructuredOutput(
    request=lambda name, schema, strict: {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
    strict=formats.StrictForm(dialect=ANTHROPIC_STRICT, location="`output_config.format`"),
)

# Definitions by value, taken by Opus since 4.8, Fable and Mythos since 5, Sonnet and Haiku since 5.5:
# https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages (read 2026-12-01)
_CHANGES_TOOLS = re.compile(r"claude-(opus-(4-[89]|[5-9])|(fable|mythos)-[5-9]|(sonnet|haiku)-(5-[5-9]|[6-9]))(?!\d)")


def _tool_changes(new: Sequence[formats.JSON], gone: Sequence[str]) -> Sequence[formats.JSON]:
    blocks = [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}} for name in gone]
    defined = ({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": one}} for one in new)
    return [{"role": "system", "content": [*blocks, *defined]}]


def _read_tool_changes(message: formats.JSON) -> tuple[Sequence[formats.JSON], Sequence[str]] | None:
    blocks = objects_in(message, "content") if message.get("role") == "system" else []
    changed = [(one.get("type"), object_of(one.get("tool"))) for one in blocks]
    new = [object_of(tool.get("definition")) for kind, tool in changed if kind == "tool_addition"]
    gone = [str(tool.get("name")) for kind, tool in changed if kind == "tool_removal"]
    return (new, gone) if new or gone else None


TOOL_CHANGES = formats.ToolChanges(
    takes=lambda model: _CHANGES_TOOLS.match(model) is not None,
    render=_tool_changes,
    read=_read_tool_changes,
    changes=True,
    beside={"betas": ["inline-tools-2026-09-15"]},
)

# open-gsd/gsd-pi#1330
SERVER_CALL = (
    "`web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result` block"
)
# anthropics/claude-code#64383
SERVER_RESULT = (
    "messages.7.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_1. Each "
    "`advisor_tool_result` block must have a corresponding `server_tool_use` block before it."
)


def _waits_for_code(message: Any) -> bool:
    """Returns whether an answer was stopped amid the provider's own work: code calls us, or a result is missing."""
    blocks = objects_in(object_of(message), "content")
    answered = [block.get("tool_use_id") for block in blocks]
    return any(
        (block.get("type") in SERVER_CALLS and block.get("id") not in answered) or _is_by_code(block)
        for block in blocks
    )


def _awaits(messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """400 otherwise: "container_id is required when there are pending tool uses generated by code execution with tools"
    (anthropics/anthropic-sdk-python#1424)."""
    answer = next((one for one in reversed(messages[-2:]) if object_of(one).get("role") == "assistant"), None)
    if not _waits_for_code(answer):
        return None
    return ("container",) if any(map(_is_by_code, objects_in(object_of(answer), "content"))) else ()


def _is_by_code(block: Mapping[str, Any]) -> bool:
    return bool(object_of(block.get("caller")).get("type", "direct") != "direct")


def _check(messages: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
    """Reports content beside the results that the provider's code waits for: only the last message counts, since with
    it the code goes on. Nothing can mend it: the content has to wait for the code's end.

    https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling
    """
    if len(messages) < 2 or not _waits_for_code(messages[-2]):
        return
    blocks = list_of(object_of(messages[-1]).get("content"))
    results = [object_of(block).get("type") == "tool_result" for block in blocks]
    if any(results) and not all(results):
        path = f"messages[{len(messages) - 1}]"
        yield RULES.violation("mixed_results", path, "the provider's code waits for results, and accepts nothing else")


RULES = HistoryRules(
    namespaces=True,  # toolsets: `toolset_name`
    system="apart",
    # https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages (read 2026-11-21)
    system_stands="before_answer",
    # kennethreitz/simplemind#37, of models that take none among the messages at all
    system_text='messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not '
    '"system" as an input message role.',
    first_user=True,
    answers_no_answer=claude_since(4, 6),
    binds=claude_since(5, 1),
    results_in_one_message=True,
    names=NAMES,
    texts={
        # anomalyco/opencode#48637
        "changed_prefix": "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
        "different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
        '"drop_block".',
        # anthropics/claude-code#7929
        "unanswered_call": "messages.125: `tool_use` ids were found without `tool_result` blocks immediately after: "
        "toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        # anthropics/claude-code#18947
        "orphan_result": "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each "
        "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
        # as public clients quote it that guard against it
        "duplicate_result": "messages.2.content.1: each tool_use must have a single result. Found multiple "
        "`tool_result` blocks with id: toolu_1",
        # Of results after other content, too: Zoo-Code-Org/Zoo-Code#1705
        "content_before_results": "tool_use ids were found without tool_result blocks immediately after",
        # trycua/cua#524
        "duplicate_id": "messages.1.content.1: `tool_use` ids must be unique",
        # LibreChat-AI/agents#153
        "bad_id": "messages.1.content.1.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        # anthropics/anthropic-sdk-typescript#648
        "arguments_not_object": "messages.3.content.1.tool_use.input: Input should be a valid dictionary",
        # anthropics/claude-code#59812; of white space: "must contain non-whitespace text" (#23369)
        "empty_message": "messages: text content blocks must be non-empty",
        # lobehub/lobehub#1601; some endpoints take it (anthropics/anthropic-sdk-typescript#622)
        "first_not_user": 'messages: first message must use the "user" role',
        # QwenLM/qwen-code#8039; Haiku 4.5 takes it (router-for-me/CLIProxyAPI#5319)
        "last_not_user": "This model does not support assistant message prefill. The conversation must end with a user "
        "message.",
        # anthropics/claude-code#10627; of an empty one: anthropics/anthropic-sdk-csharp#126
        "missing_signature": "messages.1.content.0: Invalid `signature` in `thinking` block",
        # tailcallhq/forgecode#2107
        "reasoning_apart": "messages.1: The final block in an assistant message cannot be `thinking`.",
    },
    awaits=_awaits,
    check=_check,
)

USAGE = UsageMap({
    # "Anthropic `input_tokens` excludes cached tokens": docs/gen-ai/anthropic.md of OpenTelemetry's conventions v1.41.1
    "input_tokens": total("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "output_tokens": ("output_tokens",),
    "cached_input_tokens": ("cache_read_input_tokens",),
    "cache_write_input_tokens": ("cache_creation_input_tokens",),
    "long_cache_write_input_tokens": ("cache_creation.ephemeral_1h_input_tokens",),
    "reasoning_tokens": ("output_tokens_details.thinking_tokens",),
})  # fmt: skip
