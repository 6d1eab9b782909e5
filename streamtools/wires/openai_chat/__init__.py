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

from typing import TYPE_CHECKING

from ...on_demand import functions, names
from ..marks import is_chat_answer, is_chat_chunk
from ..wire import CallIds, Wire
from .facts import CALLS, RESULT, RULES, STRUCTURED, TOOLS, USAGE

if TYPE_CHECKING:
    from .decoder import OpenAIChatDecoder
    from .decoder import OpenAIChatDecoder as new_decoder
    from .history import read, render, render_prompt, whole
else:
    __getattr__ = names(__name__, {"decoder": "OpenAIChatDecoder"})
    new_decoder, read, render, render_prompt, whole = functions(
        __name__,
        "decoder:OpenAIChatDecoder",
        "history:read",
        "history:render",
        "history:render_prompt",
        "history:whole",
    )

__all__ = ["WIRE", "OpenAIChatDecoder"]

WIRE = Wire(
    name="openai.chat_completions",
    short_name="openai",
    provider="openai",
    decoder=new_decoder,
    recognises=is_chat_chunk,
    render=render,
    is_answer=is_chat_answer,
    whole=whole,
    # "tool_calls[0].id: string too long. Expected a string with maximum length 40" (pydantic/pydantic-ai#4389)
    call_ids=CallIds(pattern=r"[\x21-\x7e]{1,40}"),
    usage=USAGE,
    read=read,
    render_prompt=render_prompt,
    rules=RULES,
    tools=TOOLS,
    structured=STRUCTURED,
    message_in=("choices", 0, "message"),
    calls=CALLS,
    results=RESULT,
)
