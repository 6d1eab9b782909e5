"""What the Messages API demands of a history, and in which words it refuses."""

from __future__ import annotations

from ..rules import HistoryRules
from .tools import NAMES

__all__ = ["RULES", "SERVER_CALL", "SERVER_RESULT", "TEXTS"]

TEXTS: dict[str, str] = {
    # anthropics/claude-code#7929
    "unanswered_call": "messages.125: `tool_use` ids were found without `tool_result` blocks immediately after: "
    "toolu_1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
    # anthropics/claude-code#18947
    "orphan_result": "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each "
    "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
    # as public clients quote it that guard against it
    "duplicate_result": "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` "
    "blocks with id: toolu_1",
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
    # anthropics/claude-code#10627; of an empty one: anthropics/anthropic-sdk-csharp#126
    "missing_signature": "messages.1.content.0: Invalid `signature` in `thinking` block",
    # tailcallhq/forgecode#2107
    "reasoning_apart": "messages.1: The final block in an assistant message cannot be `thinking`.",
}

# open-gsd/gsd-pi#1330
SERVER_CALL = (
    "`web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result` block"
)
# anthropics/claude-code#64383
SERVER_RESULT = (
    "messages.7.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_1. Each "
    "`advisor_tool_result` block must have a corresponding `server_tool_use` block before it."
)


RULES = HistoryRules(
    system="apart",
    # https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages (read 2026-11-21)
    system_stands="before_answer",
    # kennethreitz/simplemind#37, of models that take none among the messages at all
    system_text='messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not '
    '"system" as an input message role.',
    first_user=True,
    results_in_one_message=True,
    names=NAMES,
    texts=TEXTS,
)
