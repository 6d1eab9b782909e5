"""``mistral.chat``: Mistral's chat chunks in, events out; a turn in, Mistral's messages out.

    data: {"id":"9f1c","object":"chat.completion.chunk","model":"magistral-small","choices":[{"index":0,"delta":
          {"content":[{"type":"thinking","thinking":[{"type":"text","text":"Paris?"}]}]},"finish_reason":null}]}
    data: {"id":"9f1c","choices":[{"index":0,"delta":{"content":"Let me look."},"finish_reason":null}],"p":"abcdefgh"}
    data: {"id":"9f1c","choices":[{"index":0,"delta":{"tool_calls":[{"id":"D681PevKs","function":{"name":"f",
          "arguments":"{\\"a\\": 1}"},"index":0}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9}}
    data: [DONE]

Source: https://docs.mistral.ai/api/endpoint/chat and the types of https://github.com/mistralai/client-python (read
2026-11-21).
docs/providers/wires.md#mistral has its ends, and what goes back.
"""

from __future__ import annotations

from ..wire import CallIds, built_in
from . import facts

__all__ = ["WIRE"]

WIRE = built_in(
    "mistral.chat",
    facts,
    decoder="decoder:MistralDecoder",
    short_name="mistral",
    provider="mistral_ai",
    whole=".openai_chat.history:whole",
    # "Tool call id was abc123 but must be a-z, A-Z, 0-9, with a length of 9." (langchain-ai/langchain#24668)
    call_ids=CallIds(pattern=r"[a-zA-Z0-9]{9}", made_up=lambda digest: digest[:9]),
    ends_calls=False,
    message_in=("choices", 0, "message"),
)
