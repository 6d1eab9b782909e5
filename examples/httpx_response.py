"""Reads an httpx response as bytes, without an SDK."""

from __future__ import annotations

import asyncio
import os

import httpx
from local_model import use_model

from streamtools import TextDelta, pipeline


async def main() -> None:
    base_url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    request = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Hello!"}], "stream": True}
    async with (
        httpx.AsyncClient(base_url=base_url, headers=headers, timeout=60) as client,
        client.stream("POST", "chat/completions", json=request) as response,
        pipeline(response) as events,
    ):
        async for event in events:
            if isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
    print(f"\n{events.turn.finish}, {events.turn.usage}")


if __name__ == "__main__":
    use_model("OPENAI_API_KEY")
    asyncio.run(main())
