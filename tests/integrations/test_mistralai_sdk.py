"""The mistralai SDK: against the real model, and over composed bodies in Mistral's own manner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from loopback import Loopback
from mistral_streams import mistral, thinking
from streams import chat, chat_chunk, sse
from weather import ask_and_answer, get_weather, leaves_in_the_middle, read

from streamtools import parse

sdk = pytest.importorskip("mistralai.client", reason="THE mistralai SDK IS NOT INSTALLED: nox -s integrations")
# The asynchronous half of the SDK needs asyncio.
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

WIRE, CHAT = "mistral.chat", "openai.chat_completions"
CALLS = [("D681PevKs", "get_weather", '{"city": "Tokyo"}'), ("D681PevKt", "get_weather", '{"city": "Oslo"}')]
FIRST = mistral("Let me ", "look.", calls=CALLS, finish="tool_calls")
SECOND = mistral("Tokyo has 5 degrees.")

STREAMS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "asynchronous": lambda client, messages: client.chat.stream_async(**request(messages)),
    "synchronous": lambda client, messages: client.chat.stream(**request(messages)),
}
every_way = pytest.mark.parametrize("how", STREAMS)


def request(messages: list[Any]) -> dict[str, Any]:
    hello = [{"role": "user", "content": "Hi"}]
    return {"model": "tiny", "messages": messages or hello, "tools": [get_weather.to(WIRE)], "temperature": 0}


@every_way
async def test_two_turns_with_the_real_model(llama: str, how: str) -> None:
    """What nobody calls Mistral's is read as Chat Completions; the SDK itself refuses llama.cpp's pieces of calls."""
    httpx = pytest.importorskip("httpx2")
    # llama.cpp closes a connection after a stream without saying so.
    http_client = httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0))
    async with sdk.Mistral(api_key="none", server_url=llama, async_client=http_client) as client:
        await ask_and_answer(lambda messages: STREAMS[how](client, messages), CHAT)


@every_way
async def test_two_turns_of_its_own_wire(how: str) -> None:
    with Loopback(FIRST, SECOND) as server:
        async with sdk.Mistral(api_key="none", server_url=server.url) as client:
            await ask_and_answer(lambda messages: STREAMS[how](client, messages), WIRE, text="Let me look.", named=True)
    _, (_, again) = server.requests
    _, answer, *results = again["messages"]
    assert [call["id"] for call in answer["tool_calls"]] == [result["tool_call_id"] for result in results]
    assert [result["content"] for result in results] == ["5 degrees", "4 degrees"]


async def test_a_stream_that_was_begun_goes_on_chunk_by_chunk() -> None:
    body = mistral([thinking("Hm.")], "Hello", calls=CALLS, finish="tool_calls")
    with Loopback(body) as server:
        async with sdk.Mistral(api_key="none", server_url=server.url) as client:
            stream = await client.chat.stream_async(**request([]))
            await stream.__anext__()
            turn = await read(stream, WIRE, named=True)
    assert (turn.reasoning, turn.text, turn.complete) == ("Hm.", "Hello", True)
    assert turn.parts == parse(body, wire=WIRE).parts
    assert turn.calls == parse(body, wire=WIRE, tools=[get_weather]).calls


@every_way
async def test_leaving_in_the_middle_hangs_up(how: str) -> None:
    with Loopback(chat(finish=None), forever=sse([chat_chunk({"content": "lo"})])[0]) as server:
        async with sdk.Mistral(api_key="none", server_url=server.url) as client:
            await leaves_in_the_middle(STREAMS[how](client, []))
            assert await server.has_lost_its_client()
