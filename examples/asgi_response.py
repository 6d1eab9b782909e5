"""Serves a chat endpoint: runs the model and its tools until it answers, streams that, and stores the history at the
end, even if the client disconnects.

Put `app` behind any ASGI server (`uvicorn asgi_response:app`). Here it gets one request without a server.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import httpx
from local_model import use_model

from streamtools import AgentLoop, agent_loop, tool
from streamtools.integrations import EventStreamResponse

use_model("OPENAI_API_KEY")
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


async def ask(messages: list[Any], tools: list[Any]) -> Any:
    request = {"model": "gpt-5-mini", "messages": messages, "tools": tools, "stream": True}
    return MODEL.stream("POST", "chat/completions", json=request)


async def store(run: AgentLoop) -> None:
    history[:] = run.messages


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers a request. In Starlette or FastAPI this would be an endpoint that returns the response."""
    question = json.loads((await receive())["body"])["question"]  # a framework reads the whole body for you
    messages = [*history, {"role": "user", "content": question}]
    run = agent_loop(ask, messages, tools=[get_weather], wire="openai.chat_completions")
    await EventStreamResponse(run, after=store)(scope, receive, send)


async def main() -> None:
    async with MODEL, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        answer = await client.post("/", json={"question": "What is the weather in Rome?"})
    print(answer.text)
    print([message["role"] for message in history])


if __name__ == "__main__":
    asyncio.run(main())
