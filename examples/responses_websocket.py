"""Runs an agent over one WebSocket of the Responses API: each step sends `response.create` and returns the connection.

Set ``OPENAI_WEBSOCKET_URL`` (``wss://api.openai.com/v1``) and ``OPENAI_API_KEY`` to ask a real model. Without them a
scripted server on this machine answers.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI
from websockets.asyncio.server import ServerConnection, serve

from streamtools import agent_loop, tool


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Get the current weather of a city."""
    return f"18 degrees and clear in {city}"


async def main() -> None:
    key = os.environ.get("OPENAI_API_KEY", "none")
    async with (
        server_url() as url,
        AsyncOpenAI(api_key=key, websocket_base_url=url) as client,
        client.responses.connect() as connection,
    ):

        async def ask(messages: list[Any], tools: list[Any]) -> Any:
            """Sends a request; the connection is the stream, from which the loop reads the one response to it."""
            await connection.response.create(model="gpt-5-mini", input=messages, tools=tools, store=False)
            return connection

        for question in ("What is the weather in Lima?", "And in Oslo?"):
            prompt = [{"role": "user", "content": question}]
            async with agent_loop(ask, prompt, tools=[get_weather], wire="openai.responses") as run:
                turn = await run.finish()
            print(f"{question} {turn.text} ({len(run.turns)} responses)")


@asynccontextmanager
async def server_url() -> AsyncIterator[str]:
    """Gives the URL of the real server, or of the scripted one."""
    if (url := os.environ.get("OPENAI_WEBSOCKET_URL")) is not None:
        yield url
        return
    async with serve(answer, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


async def answer(socket: ServerConnection) -> None:
    """Calls the tool when the user has spoken last, and repeats its result after it."""
    async for request in socket:
        for event in script(json.loads(request)["input"]):
            await socket.send(json.dumps(event))


def script(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the events of one response."""
    last = items[-1]
    if last.get("type") == "function_call_output":
        text = {"type": "output_text", "text": f"{last['output']}.", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    else:
        arguments = json.dumps({"city": last["content"].split()[-1].strip("?")})
        ids = {"id": "fc_1", "call_id": "call_1"}
        item = {"type": "function_call", **ids, "name": "get_weather", "arguments": arguments, "status": "completed"}
    response = {"id": f"resp_{len(items)}", "model": "scripted"}
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {**response, "status": "completed", "output": [item]}}


if __name__ == "__main__":
    asyncio.run(main())
