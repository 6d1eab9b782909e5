"""Programs as people write them. mypy and pyright look at this file; it is neither imported nor run.

`warn_unused_ignores` holds the ignores here: a mistake that goes unnoticed fails the check, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, assert_type

from openai import AsyncOpenAI

from streamtools import AgentLoop, Observation, TextDelta, Turn, agent_loop, parse, pipeline, resume, tool
from streamtools.dispatch import MemoryStore, SqliteStore
from streamtools.executors import LocalExecutor
from streamtools.exports import export_all


def get_city(name: str) -> str:
    return name


async def add(a: int, b: int = 2) -> int:
    return a + b


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather forecast for a city."""
    return f"{len(city) * 3} degrees"


@tool
def book(seats: list[str]) -> dict[str, int]:
    """Book seats."""
    return dict.fromkeys(seats, 1)


class Shop:
    def order(self, what: str) -> bool:
        return bool(what)


# -- the README's first program ------------------------------------------------------------------------------------


async def ask(messages: Any, tools: Any) -> Any:
    return await AsyncOpenAI().chat.completions.create(model="gpt-5-mini", messages=messages, tools=tools, stream=True)


async def main() -> None:
    question = [{"role": "user", "content": "weather in Tokyo and Oslo and Lima?"}]
    run = agent_loop(ask, question, tools=[get_weather], wire="openai.chat_completions")
    print((await run).text, run.messages)


asyncio.run(main())


# -- lists of tools ------------------------------------------------------------------------------------------------


async def lists_of_tools(stream: AsyncIterator[bytes]) -> None:
    functions = [get_city, add]
    mixed = [get_weather, add, book]
    methods = [Shop().order, book]
    for given in (functions, mixed, methods):
        async with pipeline(stream, tools=given) as events:
            assert_type(events.turn, Turn)
        parse(b"", tools=given)
        export_all(given, "anthropic.messages")
        LocalExecutor(given)
    async with pipeline(stream, tools=[get_weather, add]) as events, pipeline(stream, tools=(get_city, add)):
        pass
    await pipeline(stream, tools={get_city, add})
    await pipeline(stream, tools=export_all([get_weather, add], "anthropic.messages"))


# -- runs ----------------------------------------------------------------------------------------------------------


async def asked(messages: list[Any], tools: list[Any]) -> AsyncIterator[bytes]:
    raise NotImplementedError


async def runs() -> None:
    run = agent_loop(asked, [], tools=[get_weather, add], wire="anthropic.messages")
    assert_type(run, AgentLoop)
    async with run:
        async for event in run:
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case Observation(tool_name=name, outcome=outcome):
                    print(name.upper(), outcome)
    assert_type(run.turn, Turn)
    print(run.turn.text.upper(), len(run.messages))
    turn = await agent_loop(asked, [], wire="anthropic.messages")
    print(turn.text, turn.calls[0].name)
    if run.suspended is not None:
        kept = run.suspended.to_text(b"key")
        await resume(run.suspended, tools=[get_weather, add], store=SqliteStore("calls.sqlite"))
        print(kept.upper())


# -- mistakes ------------------------------------------------------------------------------------------------------


async def mistakes(stream: AsyncIterator[bytes]) -> None:
    pipeline(stream, tools=get_weather)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    pipeline(stream, wires="anthropic.messages")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    pipeline(stream, start="soon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    agent_loop(asked, [])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    agent_loop(asked, [], wire="x", stage=())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    pipeline(stream, store=MemoryStore)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    print((await pipeline(stream)).txt)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
