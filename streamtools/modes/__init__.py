"""Gives one interface to models that call tools in different ways: natively, by a schema for the answer, or in text.

    adapter = get_adapter("gpt-4o-mini")                              by the name; sends no request
    run = agent_loop(ask, messages, tools=tools, wire=CHAT, mode=adapter)     a whole run, or by hand:
    request = adapter.format_request(tools, messages)
    async with pipeline(stream, tools=tools, stages=adapter.stages()) as events: ...
    messages += adapter.messages(events.turn)

Whatever the mode, a call has the same events and the same record. Without a stream: `extract_tool_call`, then
`validate_tool_call`.

All of it is in the room `text_calls`.
"""

from __future__ import annotations

from ..text_calls.modes import (
    DEFAULT_RULES,
    JSONObjectAdapter,
    ModelRule,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    StreamingAdapter,
    ToolCallingAdapter,
    ToolCallingMode,
    ValidatedAdapter,
    get_adapter,
    mode_for,
)
from ..text_calls.responses import Payload, parse_json_response, read_results, tool_prompt
from ..text_calls.validation import AskAgain, RetriesSpent, RetryBudget, ToolCallValidation

__all__ = [
    "DEFAULT_RULES",
    "JSONObjectAdapter",
    "ModelRule",
    "NativeToolAdapter",
    "OpenAIStructuredAdapter",
    "ParsedAdapter",
    "Payload",
    "RetriesSpent",
    "AskAgain",
    "RetryBudget",
    "StreamingAdapter",
    "ToolCallValidation",
    "ToolCallingAdapter",
    "ToolCallingMode",
    "ValidatedAdapter",
    "get_adapter",
    "mode_for",
    "parse_json_response",
    "read_results",
    "tool_prompt",
]
