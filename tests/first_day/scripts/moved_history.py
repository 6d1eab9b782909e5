"""A conversation that began with OpenAI, and goes on with Anthropic."""

import asyncio
import os

import httpx
from anthropic import AsyncAnthropic

from streamtools import agent_loop, pipeline, tool
from streamtools.history import convert, lint


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city."""
    return "sunny"


async def begin() -> list:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "weather in Tokyo?"}]
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"]) as client:
        turn = await pipeline(client.stream("POST", "/chat/completions", json={}), tools=[get_weather])
    return messages + turn.messages()


async def main() -> None:
    moved = convert(await begin(), "openai.chat_completions", "anthropic.messages")
    assert lint(moved.messages, "anthropic.messages") == []
    async with AsyncAnthropic() as client:

        async def ask(messages, tools):
            return await client.messages.create(
                model="claude", max_tokens=100, system=moved.system, messages=messages, tools=tools, stream=True
            )

        turn = await agent_loop(ask, moved.messages, tools=[get_weather], wire="anthropic.messages")
    print(moved.system, moved.losses, turn.text)


asyncio.run(main())
