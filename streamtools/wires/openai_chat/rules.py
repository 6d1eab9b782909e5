"""What Chat Completions demands of a history, and in which words it refuses one."""

from __future__ import annotations

from ..rules import HistoryRules

__all__ = ["EMPTY_ARRAY", "RULES"]

# Of calls: openai/openai-node#1341, home-assistant/core#118577; of content: n8n-io/n8n#38526
EMPTY_ARRAY = "empty array. Expected an array with minimum length 1, but got an empty array instead."

RULES = HistoryRules(
    call_path="tool_calls[{}]",
    texts={
        # aliasrobotics/cai#111, agno-agi/agno#3105
        "unanswered_call": "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: call_jJATmoUduQWxi4tR",
        # dimagi/open-chat-studio#1659, miurla/morphic#136
        "orphan_result": "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
        "'tool_calls'.",
        # anomalyco/opencode#1211, agno-agi/agno#5116
        "duplicate_result": "Invalid parameter: Duplicate value for 'tool_call_id' of 'tool_0_glob', in messages[8] "
        "and messages[9].",
        # A tool's message behind a user's is none behind calls: the same words as for calls without one.
        "content_before_results": "An assistant message with 'tool_calls' must be followed by tool messages responding "
        "to each 'tool_call_id'.",
        # pydantic/pydantic-ai#4389
        "bad_id": "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, "
        "but got a string with length 46 instead.",
        # mcp-use/mcp-use#90
        "bad_name": "Invalid 'messages[9].tool_calls[0].function.name': string does not match pattern. Expected a "
        "string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        # run-llama/llama_index#17555, docker/docker-agent#63
        "empty_message": "Invalid value for 'content': expected a string, got null.",
        # Servers read the text as JSON, and say how that went (router-for-me/CLIProxyAPI#2001, agno-agi/agno#8343).
        "arguments_not_object": "Expecting ',' delimiter",
        # OpenHands/OpenHands#7700
        "mixed_results": "Invalid 'messages[234]'. Image URLs are only allowed for messages with role 'user', but this "
        "message with role 'tool' contains an image URL.",
    },
)
