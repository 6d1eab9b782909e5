"""Arguments that are shown while the model still writes them."""

import asyncio
import os

import httpx

from streamtools import pipeline, tool
from streamtools.events import ToolCallDelta


@tool(effect="pure")
async def write_letter(to: str, text: str) -> str:
    """Write a letter."""
    return "written"


async def main() -> None:
    async with httpx.AsyncClient(base_url=os.environ["OPENAI_BASE_URL"]) as client:
        async with pipeline(client.stream("POST", "/chat/completions", json={}), tools=[write_letter]) as events:
            async for event in events:
                if isinstance(event, ToolCallDelta):
                    print(event.preview)


asyncio.run(main())
