"""langchain: the chunks of `astream` added up as they come, as its documentation shows; and the third version of its
events, with the message that they end in."""

from __future__ import annotations

from typing import Any

from ...workloads import CHAT, note, save_report
from ..transport import KEY, MESSAGES, anthropic_client, http_client
from ..work import Answer, Read, Run


def run_langchain_sum(answers: list[list[bytes]]) -> Run:
    from langchain.agents import create_agent
    from langchain_core.tools import StructuredTool

    own = StructuredTool.from_function(coroutine=note.fn, name=note.name, description=note.description)
    agent: Any = create_agent(_chat(*answers), [own])

    async def run() -> str:
        text = ""
        async for kind, found in agent.astream({"messages": MESSAGES}, stream_mode=["messages", "values"]):
            text = str(found["messages"][-1].text) if kind == "values" else text
        return text

    return run


def read_langchain_sum(wire: str, chunks: list[bytes]) -> Read:
    chat = _model(wire, chunks)

    async def read() -> Answer:
        whole: Any = None
        async for chunk in chat.astream("hello"):
            whole = chunk if whole is None else whole + chunk
        return _answer(whole)

    return read


def read_langchain_events(wire: str, chunks: list[bytes]) -> Read:
    chat = _model(wire, chunks)

    async def read() -> Answer:
        stream = await chat.astream_events("hello", version="v3")
        async for _ in stream:
            pass
        return _answer(await stream.output)

    return read


def _model(wire: str, chunks: list[bytes]) -> Any:
    """A chat model with the tool, to which every request is answered with `chunks`."""
    if wire == CHAT:
        chat: Any = _chat(chunks)
    else:
        from langchain_anthropic import ChatAnthropic

        given: dict[str, Any] = {"api_key": KEY}
        chat = ChatAnthropic(model_name="claude-sonnet-4-6", **given)
        chat.__dict__["_async_client"] = anthropic_client(chunks)  # a cached property; there is no other way in
    return chat.bind_tools([save_report.to(wire)])


def _chat(*answers: list[bytes]) -> Any:
    from langchain_openai import ChatOpenAI
    from openai import DefaultAsyncHttpxClient

    given: dict[str, Any] = {"api_key": KEY, "http_async_client": http_client(DefaultAsyncHttpxClient, *answers)}
    return ChatOpenAI(model="gpt-4o", stream_usage=True, **given)


def _answer(message: Any) -> Answer:
    """What a whole message says."""
    return Answer(str(message.text), [(call["name"], call["args"]) for call in message.tool_calls])
