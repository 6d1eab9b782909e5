"""``mistral.chat``: Mistral's chat chunks in, events out; a turn in, Mistral's messages out.

    data: {"id":"9f1c","object":"chat.completion.chunk","model":"magistral-small","choices":[{"index":0,"delta":
          {"content":[{"type":"thinking","thinking":[{"type":"text","text":"Paris?"}]}]},"finish_reason":null}]}
    data: {"id":"9f1c","choices":[{"index":0,"delta":{"content":"Let me look."},"finish_reason":null}],"p":"abcdefgh"}
    data: {"id":"9f1c","choices":[{"index":0,"delta":{"tool_calls":[{"id":"D681PevKs","function":{"name":"f",
          "arguments":"{\\"a\\": 1}"},"index":0}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9}}
    data: [DONE]

Source: https://docs.mistral.ai/api/endpoint/chat and the types of https://github.com/mistralai/client-python (read
2026-11-21). These are Chat Completions chunks with typed content, so the decoder is that wire's with a few differences
(see `decoder`): what ends a call, and what ends a response, stands there.

**No payload is certainly Mistral's**: its chunks are those of any compatible server, whose ids and model names may look
the same (SGLang's ids do). So this wire is never found by itself: name it, ``wire="mistral.chat"``. A stream that
nobody named is read as ``openai.chat_completions``, which takes all of it, and loses the signatures of thinking, and
references, in the history.

The way back: one assistant message, its content a string, or a list of chunks in the order in which they came where
there is thinking or a reference among them; one ``tool`` message for each call, with its id and the tool's name. The
API refuses a message with neither content nor calls, ids that are not nine letters and digits, and a conversation that
ends with an assistant's message: add the user's next one, if there were no calls.
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
    message_in=("choices", 0, "message"),
)
