"""A stream that somebody has wrapped or patched is iterated, never bypassed: an instrumentation's span must end."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from streams import chat
from test_sources import Body, client_for

from streamtools import pipeline, tool

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@tool(effect="pure")
async def add(a: int) -> int:
    """Add."""
    return a


BODY = chat(text=["Hel", "lo"], calls=[("c1", "add", '{"a":1}')])


@asynccontextmanager
async def stream_of_the_sdk(body: Body) -> AsyncIterator[Any]:
    """OpenAI's own stream over a response without a network."""
    async with client_for(body) as http, openai.AsyncOpenAI(api_key="none", http_client=http) as client:
        yield await client.chat.completions.create(model="m", messages=[], stream=True)


SEEN: list[str] = []


class Holder:
    """A wrapper of its own kind, with the attributes that people ask for."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.response = inner.response

    def __aiter__(self) -> Holder:
        return self

    async def __anext__(self) -> Any:
        try:
            chunk = await self.inner.__anext__()
        except StopAsyncIteration:
            SEEN.append("end")
            raise
        SEEN.append("chunk")
        return chunk

    async def close(self) -> None:
        await self.inner.close()


class Forwarding:
    """A wrapper that ends with its block, and forwards `aclose` to the stream inside: as OpenTelemetry's for openai."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __aiter__(self) -> Forwarding:
        return self

    async def __anext__(self) -> Any:
        return await anext(self.inner)

    async def __aenter__(self) -> Forwarding:
        return self

    async def __aexit__(self, *_: object) -> None:
        SEEN.append("left")


async def read(stream: Any) -> Any:
    return await pipeline(stream, tools=[add])


@on_asyncio
async def test_a_stream_whose_type_is_patched_is_iterated(monkeypatch: pytest.MonkeyPatch) -> None:
    SEEN.clear()
    before = openai.AsyncStream.__aiter__

    @functools.wraps(before)
    async def watched(self: Any) -> AsyncIterator[Any]:
        async for chunk in before(self):
            SEEN.append("chunk")
            yield chunk
        SEEN.append("end")

    monkeypatch.setattr(openai.AsyncStream, "__aiter__", watched)
    async with stream_of_the_sdk(Body(BODY)) as stream:
        assert (await read(stream)).text == "Hello"
    assert (SEEN[0], SEEN[-1]) == ("chunk", "end")


@on_asyncio
async def test_a_wrapped_stream_that_is_left_early_is_closed_through_its_wrapper() -> None:
    body = Body(BODY)
    async with stream_of_the_sdk(body) as stream:
        async with pipeline(Holder(stream)) as events:
            async for _ in events:
                break
        assert body.closed


async def test_a_wrapper_that_forwards_the_closing_is_left_as_a_block_is() -> None:
    SEEN.clear()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            for event in chat(text=["Hel"], finish=None):
                yield event

    inner = endless()
    async with pipeline(Forwarding(inner)) as events:
        async for _ in events:
            break
    assert SEEN == ["left"]
    with pytest.raises(StopAsyncIteration):
        await anext(inner)


@on_asyncio
async def test_the_iterator_inside_a_stream_that_is_left_early_is_closed_at_once() -> None:
    """Logfire's record of a response is made when its generator ends, and not only when it is collected."""
    async with stream_of_the_sdk(Body(BODY)) as stream:
        inner = stream._iterator

        async def watched() -> AsyncIterator[Any]:
            try:
                async for chunk in inner:
                    yield chunk
            finally:
                SEEN.append("closed")

        SEEN.clear()
        held = stream._iterator = watched()
        async with pipeline(stream) as events:
            async for _ in events:
                break
        assert SEEN == ["closed"]
        assert held.ag_frame is None
