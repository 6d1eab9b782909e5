"""Gives one interface to models that call tools in different ways: natively, by a schema for the answer, or in text.

    adapter = get_adapter("gpt-4o-mini")                              by the name; sends no request
    run = agent_loop(ask, messages, tools=tools, wire=CHAT, mode=adapter)     a whole run, or by hand:
    request = adapter.format_request(tools, messages)
    async with pipeline(stream, tools=tools, stages=adapter.stages()) as events: ...
    messages += adapter.messages(events.turn)

Whatever the mode, a call has the same events and the same record. Without a stream: `extract_tool_call`, then
`validate_tool_call`.

    text_modes     the adapter's interface, the modes, and the choice of a mode for a model
    reading        the payloads' grammar, the events for it, the check of calls and the message for refused ones
    responses      whole texts and whole responses; the form of the answer for the model; histories in text
"""

from __future__ import annotations

from .reading import AskAgain, RetriesSpent, RetryBudget, ToolCallValidation
from .responses import Payload, parse_json_response, read_results, tool_prompt
from .text_modes import (
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
