"""Streams as people hold them: SDK objects, responses, iterators; read the cheap way, and closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from typing import Any

import anthropic as anthropic_sdk
import anyio
import anyio.lowlevel
import httpx
import httpx2
import openai
import pytest
from profiles import every
from streams import add, anthropic, chat, stream

from streamtools import Turn, pipeline

pytestmark = pytest.mark.anyio

CALLS = [("call_a", "add", '{"a": 1, "b": 2}'), ("call_b", "add", '{"a": 3, "b": 4}')]
CHAT = chat(["Hel", "lo"], CALLS)
MESSAGES = anthropic(["Hel", "lo"], CALLS)
REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


class Body(httpx.AsyncByteStream, httpx2.AsyncByteStream):
    """A response body in chunks that remembers how far it was read, and whether it was closed."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks
        self.read = 0
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        if self.read == len(self.chunks):
            raise StopAsyncIteration
        self.read += 1
        return self.chunks[self.read - 1]

    async def aclose(self) -> None:
        self.closed = True


class BlockingBody(httpx.SyncByteStream, httpx2.SyncByteStream):
    """The same for a synchronous client."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks

    def close(self) -> None:
        self.closed = True


EVENT_STREAM = {"content-type": "text/event-stream"}


def client_for(body: Body | BlockingBody, headers: Any = EVENT_STREAM, library: Any = httpx2) -> Any:
    """A client of httpx or httpx2 whose every response has this body."""

    def answer(_: Any) -> Any:
        return library.Response(200, headers=headers, stream=body)

    client = library.AsyncClient if hasattr(body, "aclose") else library.Client
    return client(transport=library.MockTransport(answer))


def is_whole(turn: Turn) -> None:
    assert turn.text == "Hello"
    assert [observation.value for observation in turn.observations] == [3, 7]
    assert turn.complete
    assert turn.error is None


async def run(source: Any) -> Turn:
    return await pipeline(source, tools=[add])


def asked(client: Any, how: str) -> Any:
    """A request for a stream: of the SDK's own kind, of its helper, or raw."""
    if hasattr(client, "messages"):
        create = client.messages.stream if how.endswith("manager") else client.messages.create
        more = {} if how.endswith("manager") else {"stream": True}
        return create(**REQUEST, max_tokens=9, **more)
    completions = client.chat.completions
    if how.endswith("manager"):
        return completions.stream(**REQUEST)
    create = completions.with_streaming_response.create if how == "raw" else completions.create
    return create(**REQUEST, stream=True)


HOWS = ("new", "begun", "manager", "begun manager")
STREAMS = [*(("openai", how) for how in (*HOWS, "raw")), *(("anthropic", how) for how in HOWS)]
SDKS: dict[str, tuple[Any, Any, list[bytes]]] = {
    "openai": (openai.AsyncOpenAI, openai.OpenAI, CHAT),
    "anthropic": (anthropic_sdk.AsyncAnthropic, anthropic_sdk.Anthropic, MESSAGES),
}


# The openai SDK leaves its inner generators to the garbage collector at [DONE], which trio reports.
@pytest.mark.asyncio_only
@every("sdk, how", STREAMS)
async def test_a_stream_of_an_sdk_is_read_as_bytes_or_goes_on_event_by_event_and_is_closed(sdk: str, how: str) -> None:
    """The events that a helper derives are not counted twice."""
    make, _, chunks = SDKS[sdk]
    body = Body(chunks)
    async with make(api_key="k", http_client=client_for(body)) as client:
        source = asked(client, how)
        if how in ("new", "begun"):
            source = await source
        if how == "begun manager":
            async with source as stream_of_it:
                await stream_of_it.__anext__()
                is_whole(await run(stream_of_it))
        else:
            if how == "begun":
                await source.__anext__()
            is_whole(await run(source))
        assert how != "new" or source.response.is_stream_consumed
    assert body.closed


@every("sdk, how", [(sdk, how) for sdk, how in STREAMS if how != "begun manager"])
async def test_the_streams_of_a_synchronous_client_are_read_without_blocking(sdk: str, how: str) -> None:
    _, make, chunks = SDKS[sdk]
    body = BlockingBody(chunks)
    with make(api_key="k", http_client=client_for(body)) as client:
        source = asked(client, how)
        if how == "begun":
            next(source)
        is_whole(await run(source))
    assert body.closed


def answering(library: Any) -> Any:
    return library.MockTransport(lambda request: library.Response(200, content=b"".join(CHAT)))


@every("library", [httpx, httpx2])
async def test_a_response_of_a_synchronous_httpx_client_is_read_and_closed(library: Any) -> None:
    with library.Client(transport=answering(library)) as client:
        is_whole(await run(client.stream("POST", "http://test/")))
        is_whole(await run(client.post("http://test/")))  # read already
        response = client.send(client.build_request("POST", "http://test/"), stream=True)
        async with pipeline(response) as events:
            async for _ in events:
                break
        assert response.is_closed


@every("library", [httpx, httpx2])
async def test_a_response_of_httpx_or_httpx2_is_read_and_closed_also_when_the_consumer_leaves(library: Any) -> None:
    async with library.AsyncClient(transport=answering(library)) as client:
        async with client.stream("POST", "http://test/") as response:
            is_whole(await run(response))
        is_whole(await run(client.stream("POST", "http://test/")))  # not entered: entered for you
        response = await client.send(client.build_request("POST", "http://test/"), stream=True)
        async with pipeline(response) as events:
            async for _ in events:
                break
        assert response.is_closed


async def test_an_error_page_with_a_status_says_what_came_instead_of_a_stream() -> None:
    def answer(request: Any) -> Any:
        return httpx.Response(401, json={"error": {"message": "bad key", "type": "auth", "code": 401}})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        response = await client.send(client.build_request("POST", "http://test/"), stream=True)
        async with pipeline(response) as events:
            with pytest.raises(Exception, match="bad key"):
                _ = [event async for event in events]


async def test_what_cannot_be_streamed_is_refused_before_anything_starts() -> None:
    cases: list[tuple[Any, str]] = [
        ({"choices": []}, "pass the SDK's stream or its whole response"),
        ({"ResponseMetadata": {}, "stream": iter([])}, r"pass response\['stream'\]"),
        (openai.types.chat.ChatCompletionMessage(role="assistant"), "pass the SDK's stream or its whole response"),
        (42, "cannot stream from int; pass an SDK's stream"),
        (None, "the stream is None; return it"),
    ]
    for source, says in cases:
        with pytest.raises(TypeError, match=says):
            pipeline(source)


async def test_a_request_may_be_given_before_it_is_made() -> None:
    asked: list[str] = []

    async def request(answer: Any) -> Any:
        asked.append("made")
        await anyio.lowlevel.checkpoint()
        return answer

    class Streaming:
        async def __aenter__(self) -> Any:
            return CHAT

        async def __aexit__(self, *args: object) -> None:
            asked.append("left")

    whole = b"".join(CHAT)
    for answer in (whole, CHAT, iter(CHAT), Streaming()):
        made = pipeline(request(answer), tools=[add])
        assert asked == []
        is_whole(await made)
        assert asked.pop(0) == "made"
        asked.clear()


async def test_a_request_that_fails_raises_its_own_error_and_one_that_returns_nothing_says_so() -> None:
    async def fails() -> Any:
        raise KeyError("no such model")

    async def returns(value: Any) -> Any:
        return value

    with pytest.raises(KeyError, match="no such model"):
        await pipeline(fails())
    for value, says in (
        (None, "the stream is None; return it"),
        (42, "cannot stream from int"),
        (returns, "not called"),
    ):
        with pytest.raises(TypeError, match=says):
            await pipeline(returns(value))
    inner = returns(None)
    with pytest.raises(TypeError, match="await the request where"):
        await pipeline(returns(inner))
    inner.close()


async def test_a_context_manager_that_opens_another_is_refused() -> None:
    with pytest.raises(TypeError, match="which a context manager opened"):
        await run(nullcontext(nullcontext()))


async def test_a_client_that_opens_itself_is_refused_by_its_name() -> None:
    class Client(nullcontext[Any]):
        async def __aenter__(self) -> Any:
            return self

        def __enter__(self) -> Any:
            return self

    with pytest.raises(TypeError, match="cannot stream from Client;"):
        await run(Client())


async def test_an_item_that_is_nothing_we_know_is_an_error_that_names_its_type() -> None:
    for make in (stream, iter):
        async with pipeline(make([b"", 42])) as events:
            with pytest.raises(TypeError, match=r"not int; convert each item to the provider's payload, a dict"):
                _ = [event async for event in events]
