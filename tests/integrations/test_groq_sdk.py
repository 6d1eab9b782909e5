"""The groq SDK against the real model, which is served at another path than Groq's."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from loopback import Loopback
from streams import chat, chat_chunk, sse
from weather import ask_and_answer, get_weather, leaves_in_the_middle

groq = pytest.importorskip("groq", reason="THE groq SDK IS NOT INSTALLED: make test-integrations")
pytestmark = pytest.mark.anyio

# The SDK leaves the generators of a begun stream to the garbage collector, which trio reports.
ASYNCIO_ONLY = pytest.mark.parametrize("anyio_backend", ["asyncio"])

CHAT = "openai.chat_completions"
KEY = {"api_key": "none"}


def elsewhere(request: httpx.Request) -> httpx.Request:
    request.url = request.url.copy_with(path=request.url.path.removeprefix("/openai"))
    return request


class Elsewhere(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await super().handle_async_request(elsewhere(request))


class ElsewhereBlocking(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return super().handle_request(elsewhere(request))


def request(messages: list[Any]) -> dict[str, Any]:
    return {"model": "t", "messages": messages, "tools": [get_weather.to(CHAT)], "temperature": 0, "stream": True}


async def test_two_turns(llama: str) -> None:
    http_client = httpx.AsyncClient(transport=Elsewhere())
    async with groq.AsyncGroq(base_url=llama, http_client=http_client, **KEY) as client:
        await ask_and_answer(lambda messages: client.chat.completions.create(**request(messages)), CHAT)


@ASYNCIO_ONLY
async def test_a_stream_that_was_begun(llama: str) -> None:
    http_client = httpx.AsyncClient(transport=Elsewhere())
    async with groq.AsyncGroq(base_url=llama, http_client=http_client, **KEY) as client:

        async def ask(messages: list[Any]) -> Any:
            stream = await client.chat.completions.create(**request(messages))
            await stream.__anext__()
            return stream

        await ask_and_answer(ask, CHAT)


@pytest.mark.parametrize("begun", [False, True])
async def test_the_synchronous_client(llama: str, begun: bool) -> None:
    http_client = httpx.Client(transport=ElsewhereBlocking())
    with groq.Groq(base_url=llama, http_client=http_client, **KEY) as client:

        def ask(messages: list[Any]) -> Any:
            stream = client.chat.completions.create(**request(messages))
            if begun:
                next(stream)
            return stream

        await ask_and_answer(ask, CHAT)


async def test_leaving_in_the_middle_hangs_up() -> None:
    with Loopback(chat(finish=None), forever=sse([chat_chunk({"content": "lo"})])[0]) as server:
        async with groq.AsyncGroq(base_url=server.url, **KEY) as client:
            await leaves_in_the_middle(client.chat.completions.create(**request([])))
            assert await server.has_lost_its_client()
