"""``bedrock.converse_stream``: Bedrock's ConverseStream events in, events out; a turn in, Converse messages out.

    {"messageStart":{"role":"assistant"}}
    {"contentBlockDelta":{"contentBlockIndex":0,"delta":{"text":"Let me look."}}}
    {"contentBlockStart":{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"tooluse_1","name":"f"}}}}
    {"contentBlockDelta":{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\\"a\\": 1}"}}}}
    {"contentBlockStop":{"contentBlockIndex":1}}
    {"messageStop":{"stopReason":"tool_use"}}
    {"metadata":{"usage":{"inputTokens":9,"outputTokens":5,"totalTokens":14},"metrics":{"latencyMs":20}}}

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html and the service model of
botocore 1.44 (read 2026-11-21). So the events look decoded, as botocore yields them; on the network they are binary
messages (`streamtools.framing.aws_eventstream`). Amazon's own models send the same through
InvokeModelWithResponseStream. A call ends at its block's stop, a response at ``messageStop``, which `metadata` follows.
Text and reasoning have no start of their own. docs/providers/wires.md#amazon-bedrock has what goes back.
"""

from __future__ import annotations

from ..wire import CallIds, built_in
from . import facts

__all__ = ["WIRE"]

WIRE = built_in(
    "bedrock.converse_stream",
    facts,
    decoder="decoder:BedrockDecoder",
    short_name="bedrock",
    provider="aws.bedrock",
    whole="history:whole",
    # The service takes dots and colons, too; Claude behind it does not: "should match pattern '^[a-zA-Z0-9_-]+$'".
    call_ids=CallIds(pattern=r"[a-zA-Z0-9_-]{1,64}"),
)
