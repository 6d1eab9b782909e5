"""``anthropic.messages``: Messages stream events in, events out; a turn in, Anthropic messages out.

    data: {"type":"message_start","message":{"id":"msg_1","model":"claude","usage":{"input_tokens":9}}}
    data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}
    data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\": 1}"}}
    data: {"type":"content_block_stop","index":0}
    data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}
    data: {"type":"message_stop"}

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-20). A call ends at its block's
stop, a response at ``message_stop`` and nowhere else. Deltas are routed by their own type, not by their block's, and
blocks are found by index, never by position: gateways mix up both.
"""

from __future__ import annotations

from ..wire import CallIds, built_in
from . import facts

__all__ = ["WIRE"]

WIRE = built_in(
    "anthropic.messages",
    facts,
    decoder="decoder:AnthropicDecoder",
    short_name="anthropic",
    provider="anthropic",
    whole="history:whole",
    # "String should match pattern '^[a-zA-Z0-9_-]+$'", the API's answer to other ids
    call_ids=CallIds(pattern=r"[a-zA-Z0-9_-]{1,64}"),
    message_in=(),
    carries=("container",),
)
