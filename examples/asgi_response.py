"""Serves a chat endpoint: streams a pipeline's events and stores the turn at the end, even if the client disconnects.

Put `app` behind any ASGI server (`uvicorn asgi_response:app`). Here it gets one request without a server.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import httpx

from streamtools import Turn, pipeline, tool
from streamtools.integrations import EventStreamResponse

MODEL = httpx.AsyncClient(
    base_url=os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    headers={"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
    timeout=60,
)
history: list[dict[str, Any]] = []


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city."""
    return f"sunny in {city}"


async def store(turn: Turn) -> None:
    history.extend(turn.messages())


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers a request. In Starlette this would be an endpoint that returns the response."""
    question = json.loads((await receive())["body"])["question"]  # a framework reads the whole body for you
    history.append({"role": "user", "content": question})
    request = {
        "model": "gpt-5-mini",
        "messages": history,
        "tools": [get_weather.to("openai.chat_completions")],
        "stream": True,
    }
    stream = MODEL.stream("POST", "chat/completions", json=request)
    response = EventStreamResponse(pipeline(stream, tools=[get_weather]), after=store)
    await response(scope, receive, send)


async def main() -> None:
    async with MODEL, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        answer = await client.post("/", json={"question": "What is the weather in Rome?"})
    print(answer.text)
    print([message["role"] for message in history])


if __name__ == "__main__":
    asyncio.run(main())
