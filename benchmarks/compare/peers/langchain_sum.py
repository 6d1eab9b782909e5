"""langchain: the chunks of `astream` added up as they come, as its documentation shows."""

from __future__ import annotations

from typing import Any

from ...workloads import CHAT
from ..transport import KEY, anthropic_client, http_client
from ..work import Answer, Read, save_report

__all__ = ["answer", "model", "reader"]


def reader(wire: str, chunks: list[bytes]) -> Read:
    chat = model(wire, chunks)

    async def read() -> Answer:
        whole: Any = None
        async for chunk in chat.astream("hello"):
            whole = chunk if whole is None else whole + chunk
        return answer(whole)

    return read


def model(wire: str, chunks: list[bytes]) -> Any:
    """A chat model with the tool, to which every request is answered with `chunks`."""
    given: dict[str, Any] = {"api_key": KEY}
    if wire == CHAT:
        from langchain_openai import ChatOpenAI
        from openai import DefaultAsyncHttpxClient

        client = http_client(DefaultAsyncHttpxClient, chunks)
        chat: Any = ChatOpenAI(model="gpt-4o", http_async_client=client, stream_usage=True, **given)
    else:
        from langchain_anthropic import ChatAnthropic

        chat = ChatAnthropic(model_name="claude-sonnet-4-6", **given)
        chat.__dict__["_async_client"] = anthropic_client(chunks)  # a cached property; there is no other way in
    return chat.bind_tools([save_report.to(wire)])


def answer(message: Any) -> Answer:
    """What a whole message says."""
    return Answer(str(message.text), [(call["name"], call["args"]) for call in message.tool_calls])
