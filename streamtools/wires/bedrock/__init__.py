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
Text and reasoning have no start of their own. On the way back go ``{"role": "assistant", "content": [{"toolUse": …}]}``
and ``{"role": "user", "content": [{"toolResult": …}]}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...on_demand import functions, names
from ..marks import is_converse_answer, is_converse_event
from ..wire import CallIds, Wire
from .facts import CALLS, RESULT, RULES, STRUCTURED, TOOLS, USAGE

if TYPE_CHECKING:
    from .decoder import BedrockDecoder
    from .decoder import BedrockDecoder as new_decoder
    from .history import read, render, render_prompt, whole
else:
    __getattr__ = names(__name__, {"decoder": "BedrockDecoder"})
    new_decoder, read, render, render_prompt, whole = functions(
        __name__, "decoder:BedrockDecoder", "history:read", "history:render", "history:render_prompt", "history:whole"
    )

__all__ = ["WIRE", "BedrockDecoder"]

WIRE = Wire(
    name="bedrock.converse_stream",
    short_name="bedrock",
    provider="aws.bedrock",
    decoder=new_decoder,
    recognises=is_converse_event,
    render=render,
    is_answer=is_converse_answer,
    whole=whole,
    # The service takes dots and colons, too; Claude behind it does not: "should match pattern '^[a-zA-Z0-9_-]+$'".
    call_ids=CallIds(pattern=r"[a-zA-Z0-9_-]{1,64}"),
    usage=USAGE,
    read=read,
    render_prompt=render_prompt,
    rules=RULES,
    tools=TOOLS,
    structured=STRUCTURED,
    calls=CALLS,
    results=RESULT,
)
