"""One step whose trace is a file for the Jaeger UI."""

import asyncio
import os

import httpx

from streamtools import pipeline, tool
from streamtools.telemetry import configure

configure("jaeger-file", path="trace.json")


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city."""
    return "sunny"


async def main() -> None:
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"]) as client:
        turn = await pipeline(client.stream("POST", "/chat/completions", json={}), tools=[get_weather])
    print(turn.finish)


asyncio.run(main())
