"""A run over plain HTTP: httpx makes the request, `agent_loop` does the rest."""

import asyncio
import os

import httpx

from streamtools import Observation, TextDelta, agent_loop, tool


@tool(effect="pure")
def get_weather(city: str) -> str:
    """Weather in a city."""
    return f"{len(city) * 3} degrees"


async def main() -> None:
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"]) as client:

        async def ask(messages, tools):
            request = {"model": "any", "messages": messages, "tools": tools, "stream": True}
            return client.stream("POST", "/chat/completions", json=request)

        question = [{"role": "user", "content": "weather in Tokyo?"}]
        async with agent_loop(ask, question, tools=[get_weather], wire="openai.chat_completions") as run:
            async for event in run:
                if isinstance(event, TextDelta):
                    print(event.text, end="")
                elif isinstance(event, Observation):
                    print(f"[{event.tool_name}: {event.value}]")
    print(f"\n{run.outcome}: {[message['role'] for message in run.messages]}")


asyncio.run(main())
