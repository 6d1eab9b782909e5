"""The deviations of Bedrock, its models and the gateways before it, and what becomes of each."""

from __future__ import annotations

from streamtools.wires import Tolerance

__all__ = ["TOLERANCES"]

TOLERANCES = (
    # the end
    Tolerance("`end_turn` although tools were called", "`tool_calls`",
              case="bedrock-end-turn-with-calls", warning="finish_reason_normalized",
              servers="Claude Sonnet 4, gpt-oss, gateways", source="strands-agents/harness-sdk#1810"),
    Tolerance("`tool_use` although no tool was called", "`tool_calls` without a call; nothing is answered",
              case="bedrock-tool-use-without-call", servers="Bedrock", source="strands-rl/strands-env#252"),
    Tolerance("`metadata` before `messageStop`", "the usage",
              case="bedrock-metadata-before-stop", servers="gateways"),
    Tolerance("a second `metadata`, without usage", "an `UnknownPayload` event",
              case="bedrock-metrics-after-usage", warning="data_after_done", servers="Bedrock",
              source="anomalyco/opencode#38712"),
    Tolerance("`malformed_tool_use`, `malformed_model_output`", "an error with the answer kept; nothing runs",
              case="bedrock-malformed-tool-use", servers="Bedrock"),
    Tolerance("blocks after `messageStop`", "`UnknownPayload` events",
              case="bedrock-events-after-stop", warning="event_after_stop", servers="proxies"),
    Tolerance("`messageStart` twice", "ignored; with blocks between them, a `protocol_error`",
              case="bedrock-message-start-twice", warning="duplicate_message_start", servers="gateways"),
    # blocks
    Tolerance("the start of a call's block twice", "one call",
              case="bedrock-duplicate-block-start", warning="duplicate_block_start", servers="proxies"),
    Tolerance("a call's block that is never stopped, or whose index begins anew",
              "closed by `messageStop`, or by the next start, which truncates a call without arguments",
              case="bedrock-missing-block-stop", warning="missing_block_stop", servers="proxies"),
    Tolerance("blocks out of order, or interleaved", "found by index",
              case="bedrock-interleaved-calls", servers="proxies"),
    Tolerance("text of a block that another block's text has interrupted",
              "told as a part of its own; a signature over such pieces does not go back",
              case="bedrock-interleaved-text", warning="interleaved_blocks", servers="proxies"),
    Tolerance("arguments of a block that never started", "nobody's",
              case="bedrock-delta-without-start", warning="delta_without_block", servers="Bedrock, in edge cases",
              source="strands-agents/harness-sdk#1838"),
    Tolerance("a stop for a block that never started", "nothing",
              case="bedrock-delta-without-start", warning="stop_without_block", servers="proxies"),
    Tolerance("a delta after its block's stop", "text is kept, arguments are not added",
              case="bedrock-late-arguments", warning="delta_after_stop", servers="proxies"),
    Tolerance("a delta that does not fit its block", "routed by its own type",
              case="bedrock-mismatched-delta", warning="mismatched_delta", servers="adapters"),
    Tolerance("arguments as an object", "understood, integers of any size exact",
              case="bedrock-arguments-object", warning="arguments_object", servers="emulators"),
    Tolerance("`input` in the block's start", "used if no delta came",
              case="bedrock-input-in-start", warning="input_in_block_start", servers="emulators"),
    # what goes back
    Tolerance("reasoning with a signature, redacted reasoning in several blobs, citations",
              "kept byte for byte, given back",
              case="bedrock-redacted-reasoning", servers="Claude, GPT", source="anomalyco/opencode#46283"),
    Tolerance("redacted reasoning as `data`", "given back as `redactedContent`",
              case="bedrock-redacted-data", servers="earlier SDKs, gateways", source="anomalyco/opencode#38712"),
    Tolerance("reasoning without a signature", "not given back: no model takes it",
              case="bedrock-unsigned-reasoning", servers="Nova, DeepSeek, gpt-oss", source="can1357/oh-my-pi#9086"),
    Tolerance("`server_tool_use` and `toolResult`",
              "calls of kind `server`: reported, never run, given back with their result",
              case="bedrock-server-tool", servers="Nova"),
    # framing
    Tolerance("the same events through InvokeModelWithResponseStream, or Anthropic's",
              "unwrapped; the wire is the model's",
              case="bedrock-invoke-model", servers="Nova; Claude"),
    Tolerance("decoded events, as dicts or as JSON lines", "the same turn",
              case="bedrock-json-lines", servers="botocore; recorders"),
    # newer versions
    Tolerance("an unknown event", "an `UnknownPayload` event",
              case="bedrock-unknown-parts", warning="unknown_event", servers="newer versions"),
    Tolerance("an unknown block", "an `UnknownPayload` event; not given back, since botocore refuses it",
              case="bedrock-unknown-parts", warning="unknown_block_type", servers="newer versions"),
    Tolerance("an unknown delta", "an `UnknownPayload` event; its block does not go back",
              case="bedrock-unknown-parts", warning="unknown_delta_type", servers="newer versions"),
)  # fmt: skip
