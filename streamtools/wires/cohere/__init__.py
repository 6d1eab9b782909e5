"""``cohere.chat``: Cohere's chat stream in, events out; a turn in, Cohere's messages out.

    data: {"type":"message-start","id":"1bbe","delta":{"message":{"role":"assistant","content":[],"tool_plan":""}}}
    data: {"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I will look."}}}
    data: {"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":
          {"id":"f_1x","type":"function","function":{"name":"f","arguments":""}}}}}
    data: {"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":
          {"arguments":"{\\"a\\":1}"}}}}}
    data: {"type":"tool-call-end","index":0}
    data: {"type":"message-end","delta":{"finish_reason":"TOOL_CALL","usage":{"tokens":{"input_tokens":9}}}}
    data: [DONE]

and the deprecated v1, as JSON lines or as an event stream:

    {"event_type":"stream-start","generation_id":"04f2"}
    {"event_type":"tool-calls-chunk","tool_call_delta":{"index":0,"name":"f"}}
    {"event_type":"tool-calls-generation","tool_calls":[{"name":"f","parameters":{"a":1}}]}
    {"event_type":"stream-end","finish_reason":"COMPLETE","response":{"text":"","meta":{"tokens":{"input_tokens":9}}}}

Source: https://docs.cohere.com/v2/docs/streaming, https://docs.cohere.com/v1/docs/streaming and the types of
https://github.com/cohere-ai/cohere-python (read 2026-11-21).
docs/providers/wires.md#cohere has its ends, and what goes back.
"""

from __future__ import annotations

from ..wire import CallIds, built_in
from . import facts

__all__ = ["WIRE"]

WIRE = built_in(
    "cohere.chat",
    facts,
    decoder="decoder:CohereDecoder",
    short_name="cohere",
    provider="cohere",
    whole="history:whole",
    # No rule is documented; the API's own ids are a tool's name, an underscore, letters and digits.
    call_ids=CallIds(pattern=r"[a-zA-Z0-9_-]{1,64}"),
    message_in=("message",),
)
