"""``openai.chat_completions``: Chat Completions chunks in, events out; a turn in, chat messages out.

    data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"Let me"}}]}
    data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":""}}]}}]}
    data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"a\\":1}"}}]}}]}
    data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}
    data: [DONE]

Source: https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-20), and what compatible servers do.
The wire has no end marker of its own for a call: all calls end with the response, at ``[DONE]`` or at the end of the
body. A response is complete when a finish reason was seen; ``[DONE]`` alone proves nothing, because gateways add it
after an upstream died (lemonade-sdk/lemonade#2826).
"""

from __future__ import annotations

from ..wire import CallIds, built_in
from . import facts

__all__ = ["WIRE"]

WIRE = built_in(
    "openai.chat_completions",
    facts,
    decoder="decoder:OpenAIChatDecoder",
    short_name="openai",
    provider="openai",
    whole="history:whole",
    # "tool_calls[0].id: string too long. Expected a string with maximum length 40" (pydantic/pydantic-ai#4389)
    # Gateways write a signature of Gemini's into it (BerriAI/litellm#16895); nobody else gives one of a hundred.
    call_ids=CallIds(pattern=r"[\x21-\x7e]{1,40}", own=r"[\x21-\x7e]{100,}"),
    ends_calls=False,
    message_in=("choices", 0, "message"),
)
