"""Starts tools early under a loop that is not yours: here the tool runner of Anthropic's SDK; a framework likewise."""

from __future__ import annotations

import asyncio

import httpx2
from anthropic import AsyncAnthropic, beta_async_tool
from local_model import use_model

from streamtools import Event, Observation
from streamtools.integrations.httpx import Tap


def show(event: Event) -> None:
    if isinstance(event, Observation):
        print(f"[{event.tool_name}: {event.outcome}, {event.value}]")


tap = Tap(httpx2.AsyncHTTPTransport(), on_event=show)


@beta_async_tool
@tap.tool(effect="pure")
async def get_weather(city: str, days: int = 1) -> str:
    """Weather forecast for a city.

    Args:
        city: City name, as a person would write it.
        days: How many days ahead, 1 to 14.
    """
    return f"{len(city) * 3} degrees"


async def main() -> None:
    async with httpx2.AsyncClient(transport=tap, timeout=60) as http_client:
        runner = AsyncAnthropic(http_client=http_client).beta.messages.tool_runner(
            model="claude-sonnet-4-6",
            max_tokens=500,
            messages=[{"role": "user", "content": "weather in Tokyo and Oslo?"}],
            tools=[get_weather],
            stream=True,
        )
        async for stream in runner:
            async for text in stream.text_stream:
                print(text, end="", flush=True)
    print()


if __name__ == "__main__":
    use_model("ANTHROPIC_API_KEY")
    asyncio.run(main())
