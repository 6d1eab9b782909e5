"""What Bedrock, its models and the gateways before it do otherwise, and what becomes of it."""

from __future__ import annotations

from ..wire import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    # the end
    Tolerance(
        seen="`end_turn` although tools were called",
        becomes="`tool_calls`",
        servers="Claude Sonnet 4, gpt-oss, gateways",
        warning="finish_reason_normalized",
        case="bedrock-end-turn-with-calls",
        source="strands-agents/harness-sdk#1810",
    ),
    Tolerance(
        seen="`tool_use` although no tool was called",
        becomes="`tool_calls` without a call; nothing is answered",
        servers="Bedrock",
        case="bedrock-tool-use-without-call",
        source="strands-rl/strands-env#252",
    ),
    Tolerance(
        seen="`metadata` before `messageStop`",
        becomes="the usage",
        servers="gateways",
        case="bedrock-metadata-before-stop",
    ),
    Tolerance(
        seen="a second `metadata`, without usage",
        becomes="ignored",
        servers="Bedrock",
        warning="data_after_done",
        case="bedrock-metrics-after-usage",
        source="anomalyco/opencode#38712",
    ),
    Tolerance(
        seen="`malformed_tool_use`, `malformed_model_output`",
        becomes="an error with the answer kept; nothing runs",
        servers="Bedrock",
        case="bedrock-malformed-tool-use",
    ),
    Tolerance(
        seen="blocks after `messageStop`",
        becomes="`UnknownPayload` events",
        servers="proxies",
        warning="event_after_stop",
        case="bedrock-events-after-stop",
    ),
    Tolerance(
        seen="`messageStart` twice",
        becomes="ignored; with blocks between them, a `protocol_error`",
        servers="gateways",
        warning="duplicate_message_start",
        case="bedrock-message-start-twice",
    ),
    # blocks
    Tolerance(
        seen="the start of a call's block twice",
        becomes="one call",
        servers="proxies",
        warning="duplicate_block_start",
        case="bedrock-duplicate-block-start",
    ),
    Tolerance(
        seen="a call's block that is never stopped, or whose index begins anew",
        becomes="closed by `messageStop`, or by the next start, which truncates a call without arguments",
        servers="proxies",
        warning="missing_block_stop",
        case="bedrock-missing-block-stop",
    ),
    Tolerance(
        seen="blocks out of order, or interleaved",
        becomes="found by index",
        servers="proxies",
        case="bedrock-interleaved-calls",
    ),
    Tolerance(
        seen="text of a block that another block's text has interrupted",
        becomes="told as a part of its own; a signature over such pieces does not go back",
        servers="proxies",
        warning="interleaved_blocks",
        case="bedrock-interleaved-text",
    ),
    Tolerance(
        seen="arguments of a block that never started",
        becomes="nobody's",
        servers="Bedrock, in edge cases",
        warning="delta_without_block",
        case="bedrock-delta-without-start",
        source="strands-agents/harness-sdk#1838",
    ),
    Tolerance(
        seen="a stop for a block that never started",
        becomes="nothing",
        servers="proxies",
        warning="stop_without_block",
        case="bedrock-delta-without-start",
    ),
    Tolerance(
        seen="a delta after its block's stop",
        becomes="text is kept, arguments are not added",
        servers="proxies",
        warning="delta_after_stop",
        case="bedrock-late-arguments",
    ),
    Tolerance(
        seen="a delta that does not fit its block",
        becomes="routed by its own type",
        servers="adapters",
        warning="mismatched_delta",
        case="bedrock-mismatched-delta",
    ),
    Tolerance(
        seen="arguments as an object",
        becomes="understood, integers of any size exact",
        servers="emulators",
        warning="arguments_object",
        case="bedrock-arguments-object",
    ),
    Tolerance(
        seen="`input` in the block's start",
        becomes="used if no delta came",
        servers="emulators",
        warning="input_in_block_start",
        case="bedrock-input-in-start",
    ),
    # what goes back
    Tolerance(
        seen="reasoning with a signature, redacted reasoning in several blobs, citations",
        becomes="kept byte for byte, given back",
        servers="Claude, GPT",
        case="bedrock-redacted-reasoning",
        source="anomalyco/opencode#46283",
    ),
    Tolerance(
        seen="redacted reasoning as `data`",
        becomes="given back as `redactedContent`",
        servers="earlier SDKs, gateways",
        case="bedrock-redacted-data",
        source="anomalyco/opencode#38712",
    ),
    Tolerance(
        seen="reasoning without a signature",
        becomes="not given back: no model takes it",
        servers="Nova, DeepSeek, gpt-oss",
        case="bedrock-unsigned-reasoning",
        source="can1357/oh-my-pi#9086",
    ),
    Tolerance(
        seen="`server_tool_use` and `toolResult`",
        becomes="calls of kind `server`: reported, never run, given back with their result",
        servers="Nova",
        case="bedrock-server-tool",
    ),
    # framing
    Tolerance(
        seen="the same events through InvokeModelWithResponseStream, or Anthropic's",
        becomes="unwrapped; the wire is the model's",
        servers="Nova; Claude",
        case="bedrock-invoke-model",
    ),
    Tolerance(
        seen="decoded events, as dicts or as JSON lines",
        becomes="the same turn",
        servers="botocore; recorders",
        case="bedrock-json-lines",
    ),
    # newer versions
    Tolerance(
        seen="an unknown event",
        becomes="an `UnknownPayload` event",
        servers="newer versions",
        warning="unknown_event",
        case="bedrock-unknown-parts",
    ),
    Tolerance(
        seen="an unknown block",
        becomes="an `UnknownPayload` event; not given back, since botocore refuses it",
        servers="newer versions",
        warning="unknown_block_type",
        case="bedrock-unknown-parts",
    ),
    Tolerance(
        seen="an unknown delta",
        becomes="an `UnknownPayload` event; its block does not go back",
        servers="newer versions",
        warning="unknown_delta_type",
        case="bedrock-unknown-parts",
    ),
)
