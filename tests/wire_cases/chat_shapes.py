"""Shapes of OpenAI's Chat Completions that other providers took over: chunks, messages, functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openai.types.chat import ChatCompletionFunctionToolParam
from streams import chat_chunk

from .parts import cut, new, plain, typed
from .record import Call, Format, Message, Payload, Response, Spoken, Vary

__all__ = [
    "FUNCTION", "NOTHING", "TOLD_BY", "USER", "SYSTEM", "flow", "function", "said", "say", "takes_function",
    "tools_with_choice",
]  # fmt: skip

# -- the stream --------------------------------------------------------------------------------------------------------

TOLD_BY = rb'"choices"\s*:|"chat\.completion\.chunk"'


def say(response: Response) -> list[Payload]:
    """Composes a response in chunks; reasoning is a field of DeepSeek's."""
    payloads = [chat_chunk({"role": "assistant", "content": ""})]
    payloads += [chat_chunk({"reasoning_content": piece}) for piece in response.reasoning]
    payloads += [chat_chunk({"content": piece}) for piece in response.text]
    payloads += [chat_chunk({"refusal": piece}) for piece in response.refusal]
    for index, (call_id, name, arguments) in enumerate(response.calls):
        head = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        payloads.append(chat_chunk({"tool_calls": [head]}))
        for piece in cut(arguments, response.pieces):
            payloads.append(chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    return [*payloads, chat_chunk({}, "tool_calls" if response.calls else "stop")] if response.ends else payloads


def _chunk(**delta: Any) -> Payload:
    return {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}


NOTHING: dict[str, Vary] = {
    "empty text": lambda _: _chunk(content=""),
    "an empty delta": lambda _: _chunk(),
    "no choices": lambda n: {"id": f"c{n}", "object": "chat.completion.chunk", "choices": []},
    "usage": lambda n: {"choices": [], "usage": {"prompt_tokens": n, "completion_tokens": n, new(n): n}},
    "no calls": lambda _: _chunk(tool_calls=[]),
    "another choice": lambda n: {"choices": [{"index": 1 + n, "delta": {"content": "x"}}]},
    "an unknown field": lambda n: _chunk(**{new(n): n}),
}

# -- the history -------------------------------------------------------------------------------------------------------

USER, SYSTEM = plain("user"), plain("system")


def function(call: Call) -> Message:
    """Writes a call."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def said(text: str, calls: list[Call]) -> list[Message]:
    """Writes an answer."""
    message: Message = {"role": "assistant", "content": text or None}
    return [message | ({"tool_calls": [function(call) for call in calls]} if calls else {})]


def flow(message: Message) -> Iterator[Spoken]:
    """Reads who speaks."""
    role = message["role"]
    if role == "assistant":
        yield "model", [call["id"] for call in message.get("tool_calls") or []]
    elif role == "tool":
        yield "result", [message["tool_call_id"]]
    else:
        yield ("system" if role == "developer" else role), []


# -- the tools ---------------------------------------------------------------------------------------------------------

FUNCTION = Format(
    name="openai.chat_completions.function",
    call=lambda call_id, name, arguments, _: {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    tool=lambda said, parameters: {"type": "function", "function": {**said, "parameters": parameters}},
)


def tools_with_choice(tool: Message) -> Payload:
    """Writes a request whose model may choose."""
    return {"tools": [tool], "tool_choice": "auto"}


takes_function = typed(list[ChatCompletionFunctionToolParam])
