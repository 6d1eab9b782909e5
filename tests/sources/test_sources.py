"""Streams as people hold them: SDK objects, responses, iterators; read the cheap way, and closed."""

from __future__ import annotations

import gc
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from typing import Any

import anthropic as anthropic_sdk
import anyio
import anyio.lowlevel
import httpx
import httpx2
import openai
import orjson
import pytest
from streams import anthropic, chat, stream

from streamtools import Limits, TextDelta, Turn, parse, pipeline, tool

pytestmark = pytest.mark.anyio

CALLS = [("call_a", "add", '{"a": 1, "b": 2}'), ("call_b", "add", '{"a": 3, "b": 4}')]
CHAT = chat(["Hel", "lo"], CALLS)
MESSAGES = anthropic(["Hel", "lo"], CALLS)
REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Body(httpx2.AsyncByteStream):
    """A response body in chunks that remembers how far it was read, and whether it was closed."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks
        self.read = 0
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.read == len(self.chunks):
            raise StopAsyncIteration
        self.read += 1
        return self.chunks[self.read - 1]

    async def aclose(self) -> None:
        self.closed = True


def client_for(body: Body) -> httpx2.AsyncClient:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body)

    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


def is_whole(turn: Turn) -> None:
    assert turn.text == "Hello"
    assert [observation.value for observation in turn.observations] == [3, 7]
    assert turn.complete
    assert turn.error is None


async def run(source: Any) -> Turn:
    async with pipeline(source, tools=[add]) as events:
        _ = [event async for event in events]
    return events.turn


async def test_an_openai_stream_nobody_has_begun_is_read_as_bytes_and_closed() -> None:
    body = Body(CHAT)
    async with openai.AsyncOpenAI(api_key="k", http_client=client_for(body)) as client:
        source = await client.chat.completions.create(**REQUEST, stream=True)
        is_whole(await run(source))
        assert source.response.is_stream_consumed
    assert body.closed


# The openai SDK leaves its inner generators to the garbage collector at [DONE], which trio reports.
ASYNCIO_ONLY = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@ASYNCIO_ONLY
async def test_an_openai_stream_that_was_begun_goes_on_chunk_by_chunk() -> None:
    body = Body(CHAT)
    async with openai.AsyncOpenAI(api_key="k", http_client=client_for(body)) as client:
        source = await client.chat.completions.create(**REQUEST, stream=True)
        first = await source.__anext__()
        assert first.choices[0].delta.role == "assistant"
        is_whole(await run(source))
    assert body.closed


@ASYNCIO_ONLY
async def test_an_openai_stream_manager_is_entered_and_its_derived_events_are_not_counted_twice() -> None:
    for begun in (False, True):
        body = Body(CHAT)
        async with openai.AsyncOpenAI(api_key="k", http_client=client_for(body)) as client:
            manager = client.chat.completions.stream(**REQUEST)
            if begun:
                async with manager as source:
                    await source.__anext__()
                    is_whole(await run(source))
            else:
                is_whole(await run(manager))
        assert body.closed


async def test_an_openai_response_that_is_streamed_raw_is_read_as_bytes() -> None:
    body = Body(CHAT)
    async with openai.AsyncOpenAI(api_key="k", http_client=client_for(body)) as client:
        is_whole(await run(client.chat.completions.with_streaming_response.create(**REQUEST, stream=True)))
    assert body.closed


async def test_an_anthropic_stream_is_read_as_bytes_or_goes_on_event_by_event() -> None:
    for begun in (False, True):
        body = Body(MESSAGES)
        async with anthropic_sdk.AsyncAnthropic(api_key="k", http_client=client_for(body)) as client:
            source = await client.messages.create(**REQUEST, max_tokens=9, stream=True)
            if begun:
                assert (await source.__anext__()).type == "message_start"
            is_whole(await run(source))
        assert body.closed


async def test_the_derived_events_of_the_anthropic_helper_are_not_counted_twice() -> None:
    for begun in (False, True):
        body = Body(MESSAGES)
        async with anthropic_sdk.AsyncAnthropic(api_key="k", http_client=client_for(body)) as client:
            manager = client.messages.stream(**REQUEST, max_tokens=9)
            if begun:
                async with manager as source:
                    await source.__anext__()
                    is_whole(await run(source))
            else:
                is_whole(await run(manager))
        assert body.closed


class BlockingBody(httpx2.SyncByteStream):
    """The same for a synchronous client."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = iter(chunks)
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self.chunks

    def close(self) -> None:
        self.closed = True


def blocking_client_for(body: BlockingBody) -> httpx2.Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


@pytest.mark.parametrize("how", ["new", "begun", "manager", "raw"])
async def test_the_streams_of_the_synchronous_openai_client_are_read_without_blocking(how: str) -> None:
    body = BlockingBody(CHAT)
    with openai.OpenAI(api_key="k", http_client=blocking_client_for(body)) as client:
        if how == "manager":
            source: Any = client.chat.completions.stream(**REQUEST)
        elif how == "raw":
            source = client.chat.completions.with_streaming_response.create(**REQUEST, stream=True)
        else:
            source = client.chat.completions.create(**REQUEST, stream=True)
        if how == "begun":
            next(source)
        is_whole(await run(source))
    assert body.closed


@pytest.mark.parametrize("how", ["new", "begun", "manager"])
async def test_the_streams_of_the_synchronous_anthropic_client_are_read_without_blocking(how: str) -> None:
    body = BlockingBody(MESSAGES)
    with anthropic_sdk.Anthropic(api_key="k", http_client=blocking_client_for(body)) as client:
        if how == "manager":
            source: Any = client.messages.stream(**REQUEST, max_tokens=9)
        else:
            source = client.messages.create(**REQUEST, max_tokens=9, stream=True)
        if how == "begun":
            next(source)
        is_whole(await run(source))
    assert body.closed


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_a_response_of_a_synchronous_httpx_client_is_read_and_closed(library: Any) -> None:
    def answer(request: Any) -> Any:
        return library.Response(200, content=b"".join(CHAT))

    with library.Client(transport=library.MockTransport(answer)) as client:
        is_whole(await run(client.stream("POST", "http://test/")))
        is_whole(await run(client.post("http://test/")))  # read already
        response = client.send(client.build_request("POST", "http://test/"), stream=True)
        async with pipeline(response) as events:
            async for _ in events:
                break
        assert response.is_closed


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_a_response_of_httpx_or_httpx2_is_read_and_closed_also_when_the_consumer_leaves(library: Any) -> None:
    def answer(request: Any) -> Any:
        return library.Response(200, content=b"".join(CHAT))

    async with library.AsyncClient(transport=library.MockTransport(answer)) as client:
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


@pytest.mark.parametrize("wire", [CHAT, MESSAGES])
async def test_bytes_text_and_payloads_make_the_same_turn(wire: list[bytes]) -> None:
    whole = b"".join(wire)
    payloads = [orjson.loads(item.partition(b"data: ")[2]) for item in wire if b"[DONE]" not in item]
    for source in (
        wire,
        [whole],
        whole,
        whole.decode(),
        [item.decode() for item in wire],
        [bytearray(item) for item in wire],
        [memoryview(whole)],
        payloads,
        stream(wire),
        stream(payloads),
        stream([whole[:100].decode(), whole[100:]]),
        iter(wire),
        iter(payloads),
        io.BytesIO(whole),
        memoryview(whole),
    ):
        is_whole(await run(source))
    expected = parse(whole, tools=[add])
    assert parse(payloads, tools=[add]).parts == expected.parts


async def test_what_cannot_be_streamed_is_refused_before_anything_starts() -> None:
    cases: list[tuple[Any, str]] = [
        ({"choices": []}, "stream=True"),
        ({"ResponseMetadata": {}, "stream": iter([])}, r"pass response\['stream'\]"),
        (openai.types.chat.ChatCompletionMessage(role="assistant"), "ask for stream=True"),
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
    with pytest.raises(TypeError, match="has to be awaited once more"):
        await pipeline(returns(inner))
    inner.close()


async def test_a_request_that_is_never_made_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    async def never() -> Any:
        raise AssertionError("it was made")

    events = pipeline(never())
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with events:
            await anyio.lowlevel.checkpoint()
    del events
    gc.collect()
    assert [str(one.message) for one in recwarn if "never awaited" in str(one.message)] == []


async def test_a_stream_that_cannot_be_closed_need_not_be() -> None:
    class Bare:
        def __init__(self) -> None:
            self.items = iter(CHAT)

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            for item in self.items:
                return item
            raise StopAsyncIteration

    is_whole(await run(Bare()))


async def test_a_context_manager_that_opens_another_is_refused() -> None:
    with pytest.raises(TypeError, match="which a context manager opened"):
        await run(nullcontext(nullcontext()))


async def test_an_item_that_is_nothing_we_know_is_an_error_that_names_its_type() -> None:
    for make in (stream, iter):
        async with pipeline(make([b"", 42])) as events:
            with pytest.raises(TypeError, match=r"not int; make each item the provider's payload, a dict"):
                _ = [event async for event in events]


async def test_a_huge_chunk_is_worked_on_in_slices_so_that_the_consumer_keeps_up() -> None:
    body = b"".join(chat(["x" * 10] * 5000, finish="stop"))
    waiting = []
    async with pipeline(stream([body]), limits=Limits(event_buffer=4)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                waiting.append(len(events._outbox.queue))
    assert len(events.turn.text) == 50_000
    assert max(waiting) < 1000


async def test_the_source_is_not_read_past_the_end_marker() -> None:
    body = Body([*CHAT, *CHAT])

    is_whole(await run(body))
    assert body.read == len(CHAT)
