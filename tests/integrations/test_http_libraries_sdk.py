"""HTTP libraries, without any SDK: their responses are read as bytes. The model is real."""

from __future__ import annotations

from typing import Any

import pytest
from loopback import Loopback
from streams import chat, chat_chunk, sse
from weather import ask_and_answer, get_weather, leaves_in_the_middle, read

pytestmark = pytest.mark.anyio

ASYNCIO_ONLY = pytest.mark.parametrize("anyio_backend", ["asyncio"])
HTTPX = pytest.mark.parametrize("library", ["httpx", "httpx2"])

PATHS = {
    "openai.chat_completions": "/v1/chat/completions",
    "openai.responses": "/v1/responses",
    "anthropic.messages": "/v1/messages",
}
CHAT = "openai.chat_completions"
BODY = chat(["Hel", "lo"], finish="stop")
MORE = sse([chat_chunk({"content": "lo"})])[0]


def keeping_none(library: Any, url: str) -> Any:
    """A client for llama.cpp, which closes a connection after a stream without saying so."""
    limits = library.Limits(max_keepalive_connections=0)
    return library.AsyncClient(base_url=url, limits=limits, trust_env=False)


def installed(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} IS NOT INSTALLED: nox -s integrations")


def request(wire: str, messages: list[Any]) -> dict[str, Any]:
    key = "input" if wire == "openai.responses" else "messages"
    more = {"max_tokens": 500} if wire == "anthropic.messages" else {}
    return {"model": "t", key: messages, "tools": [get_weather.to(wire)], "temperature": 0, "stream": True, **more}


@HTTPX
@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize("how", ["response", "manager"])
async def test_httpx_two_turns(llama: str, library: str, wire: str, how: str) -> None:
    async with keeping_none(installed(library), llama) as client:

        def ask(messages: list[Any]) -> Any:
            body = request(wire, messages)
            if how == "manager":
                return client.stream("POST", PATHS[wire], json=body)
            return client.send(client.build_request("POST", PATHS[wire], json=body), stream=True)

        await ask_and_answer(ask, wire)


@HTTPX
@pytest.mark.parametrize("how", ["asynchronous", "synchronous"])
async def test_leaving_httpx_in_the_middle_hangs_up(library: str, how: str) -> None:
    httpx = installed(library)
    with Loopback(BODY[:1], forever=MORE) as server:
        if how == "asynchronous":
            async with httpx.AsyncClient(trust_env=False) as client:
                await leaves_in_the_middle(client.stream("POST", server.url, json={}))
                assert await server.has_lost_its_client()
        else:
            with httpx.Client(trust_env=False) as client:
                await leaves_in_the_middle(client.stream("POST", server.url, json={}))
                assert await server.has_lost_its_client()


@ASYNCIO_ONLY
@pytest.mark.parametrize("wire", PATHS)
async def test_aiohttp_two_turns(llama: str, wire: str) -> None:
    aiohttp = installed("aiohttp")
    async with aiohttp.ClientSession(llama, connector=aiohttp.TCPConnector(force_close=True)) as session:
        await ask_and_answer(lambda messages: session.post(PATHS[wire], json=request(wire, messages)), wire)


@ASYNCIO_ONLY
async def test_aiohttp_uses_its_connection_again_and_hangs_up_when_one_leaves() -> None:
    async with installed("aiohttp").ClientSession() as session:
        with Loopback(BODY) as server:
            for _ in range(3):
                assert (await read(session.post(server.url, json={}))).text == "Hello"
            assert (len(server.requests), server.connections) == (3, 1)
        with Loopback(BODY[:1], forever=MORE) as server:
            await leaves_in_the_middle(session.post(server.url, json={}))
            assert await server.has_lost_its_client()


@ASYNCIO_ONLY
async def test_a_line_longer_than_aiohttps_limit_is_read_from_its_content() -> None:
    body = chat(["x" * 400_000], finish="stop")
    async with installed("aiohttp").ClientSession() as session:
        with Loopback(body) as server:
            async with session.post(server.url, json={}) as response:
                assert len((await read(response.content)).text) == 400_000


# Its events leave generators of httpx to the garbage collector, which trio reports.
WAYS = [(how, backend) for how in ("manager", "source", "events") for backend in ("asyncio", "trio")]


@pytest.mark.parametrize(("how", "anyio_backend"), WAYS[:-1])
async def test_httpx_sse_two_turns(llama: str, how: str) -> None:
    httpx, httpx_sse = installed("httpx"), installed("httpx_sse")
    async with keeping_none(httpx, llama) as client:

        async def ask(messages: list[Any]) -> Any:
            body = request(CHAT, messages)
            if how == "manager":
                return httpx_sse.aconnect_sse(client, "POST", PATHS[CHAT], json=body)
            response = await client.send(client.build_request("POST", PATHS[CHAT], json=body), stream=True)
            source = httpx_sse.EventSource(response)
            return source if how == "source" else source.aiter_sse()

        await ask_and_answer(ask, CHAT)


async def test_leaving_requests_in_the_middle_hangs_up() -> None:
    with Loopback(BODY[:1], forever=MORE) as server, installed("requests").Session() as session:
        session.trust_env = False
        await leaves_in_the_middle(session.post(server.url, json={}, stream=True))
        assert await server.has_lost_its_client()
