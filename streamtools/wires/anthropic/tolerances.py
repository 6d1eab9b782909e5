"""What Messages servers do otherwise, and what becomes of it."""

from __future__ import annotations

from ..wire import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    Tolerance(
        seen="a delta for a block that never started",
        becomes="text and thinking are kept; arguments are nobody's",
        servers="Bifrost, proxies",
        warning="delta_without_block",
        case="anthropic-delta-without-start",
    ),
    Tolerance(
        seen="a stop for a block that never started",
        becomes="nothing",
        servers="proxies",
        warning="stop_without_block",
        case="anthropic-stop-without-start",
    ),
    Tolerance(
        seen="arguments after their block's stop",
        becomes="not added",
        servers="proxies",
        warning="delta_after_stop",
        case="anthropic-delta-after-stop",
    ),
    Tolerance(
        seen="a delta that does not fit its block",
        becomes="routed by its own type",
        servers="SGLang, LiteLLM",
        warning="mismatched_delta",
        case="anthropic-text-delta-on-tool-block",
    ),
    Tolerance(
        seen="the start of a call's block twice",
        becomes="one call",
        servers="relays",
        warning="duplicate_block_start",
        case="anthropic-duplicate-block-start",
    ),
    Tolerance(
        seen="a call's index that begins anew before its block was stopped",
        becomes="two calls; the first is truncated if it has no arguments",
        servers="relays",
        warning="missing_block_stop",
        case="anthropic-call-superseded",
    ),
    Tolerance(
        seen="text of a block that another block's text has interrupted",
        becomes="told as a part of its own; a signature over such pieces does not go back",
        servers="proxies",
        warning="interleaved_blocks",
        case="anthropic-interleaved-thinking",
    ),
    Tolerance(
        seen="two different stop reasons",
        becomes="the last counts, unless an earlier one was bad news",
        servers="relays",
        warning="conflicting_finish_reason",
        case="anthropic-conflicting-stop-reason",
    ),
    Tolerance(
        seen="a block that is never stopped, or stopped at the very end",
        becomes="closed by `message_stop`",
        servers="Gemini relays, llama.cpp",
        warning="missing_block_stop",
        case="anthropic-missing-block-stop",
    ),
    Tolerance(
        seen="blocks out of order, or interleaved",
        becomes="found by index",
        servers="proxies",
        case="anthropic-out-of-order-index",
    ),
    Tolerance(
        seen="`input` in the block's start",
        becomes="used if no delta came",
        servers="compatible servers",
        warning="input_in_block_start",
        case="anthropic-input-in-start",
    ),
    Tolerance(
        seen="calls whole inside `message_start`",
        becomes="calls",
        servers="Anthropic, programmatic tool calling",
        case="anthropic-call-in-message-start",
    ),
    Tolerance(
        seen="the same `message_start` twice",
        becomes="ignored; another message inside this one is a `protocol_error`",
        servers="gateways",
        warning="duplicate_message_start",
        case="anthropic-duplicate-message-start",
    ),
    Tolerance(
        seen="`end_turn` although tools were called",
        becomes="`tool_calls`",
        servers="compatible servers",
        warning="finish_reason_normalized",
        case="anthropic-stop-reason-end-turn-with-tools",
    ),
    Tolerance(
        seen="`data: [DONE]` after `message_stop`",
        becomes="nothing",
        servers="OpenRouter",
        case="anthropic-done-after-stop",
    ),
    Tolerance(
        seen="an unknown event",
        becomes="an `UnknownPayload` event",
        servers="newer versions",
        warning="unknown_event",
        case="anthropic-unknown-event",
    ),
    Tolerance(
        seen="an unknown block",
        becomes="given back if no delta changed it",
        servers="newer versions",
        warning="unknown_block_type",
        case="anthropic-unknown-block",
    ),
    Tolerance(
        seen="an unknown delta",
        becomes="its block does not go back",
        servers="newer versions",
        warning="unknown_delta_type",
        case="anthropic-unknown-block",
    ),
    Tolerance(
        seen="`thinking`, `signature_delta`, `redacted_thinking`, citations",
        becomes="kept byte for byte, given back",
        servers="Anthropic",
        case="anthropic-thinking-signature",
    ),
    Tolerance(
        seen="`server_tool_use`, `mcp_tool_use` and their results",
        becomes="calls of kind `server`: reported, never run, given back",
        servers="Anthropic",
        case="anthropic-server-tool",
    ),
    Tolerance(
        seen="`pause_turn`",
        becomes="`pause`; goes back as it is",
        servers="Anthropic",
        case="anthropic-pause-turn",
    ),
    Tolerance(
        seen="a finish reason that speaks of calls, and no call",
        becomes="no call; what was read of the stream before it was passed on is lost",
        servers="a stream that somebody had begun to read",
        warning="finish_without_calls",
        case="anthropic-finish-without-calls",
    ),
)
