"""Streams as SDKs and HTTP libraries hand them out, by their shape alone; they remember how they were treated."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import openai
import orjson

Items = list[Any]


class Held:
    """What happened to one stream."""

    def __init__(self, items: Items, then: BaseException | None = None) -> None:
        self.items = items
        self.then = then
        self.opened = 0
        self.closed = 0
        self.pulled = 0
        self.ended = False
        self.threads: set[int] = set()
        self.at_once = 0  # how many threads were in it at the same time, at most
        self._inside = 0

    def enter(self) -> None:
        self._inside += 1
        self.at_once = max(self.at_once, self._inside)
        self.threads.add(threading.get_ident())

    def leave(self) -> None:
        self._inside -= 1

    def close(self) -> None:
        self.enter()
        self.closed += 1
        self.leave()

    async def pull_async(self) -> AsyncGenerator[Any, None]:
        for item in self.items:
            await anyio.lowlevel.checkpoint()
            if isinstance(item, anyio.Event):
                await item.wait()
            self.pulled += 1
            yield item
        if self.then is not None:
            raise self.then
        self.ended = True

    def pull(self) -> Iterator[Any]:
        for item in self.items:
            self.enter()
            self.pulled += 1
            self.leave()
            yield item
        if self.then is not None:
            raise self.then


class AsyncBody:
    """What httpx calls the stream of a response."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise AssertionError("read through the response")


class BlockingBody:
    def __iter__(self) -> Iterator[bytes]:
        raise AssertionError("read through the response")


class Response:
    """An httpx response: it has the methods of both worlds, and those of one raise."""

    def __init__(self, held: Held, *, blocking: bool = False) -> None:
        self.held = held
        self.stream = BlockingBody() if blocking else AsyncBody()
        self.is_stream_consumed = False
        self._blocking = blocking

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        if self._blocking:
            raise RuntimeError("an asynchronous iterator on a synchronous stream")
        self.is_stream_consumed = True
        return self.held.pull_async()

    def iter_bytes(self) -> Iterator[bytes]:
        if not self._blocking:
            raise RuntimeError("a synchronous iterator on an asynchronous stream")
        self.is_stream_consumed = True
        return self.held.pull()

    async def aclose(self) -> None:
        if self._blocking:
            raise RuntimeError("aclose() on a synchronous stream")
        await anyio.lowlevel.checkpoint()
        self.held.close()

    def close(self) -> None:
        if not self._blocking:
            raise RuntimeError("close() on an asynchronous stream")
        self.held.close()


_CLIENT: Any = SimpleNamespace(_make_sse_decoder=lambda: None)  # whoever iterates fails: typed chunks are dear


def sdk_stream(held: Held) -> Any:
    """OpenAI's stream of typed chunks over a response."""
    response: Any = Response(held)
    return openai.AsyncStream(cast_to=object, response=response, client=_CLIENT)


def blocking_sdk_stream(held: Held) -> Any:
    response: Any = Response(held, blocking=True)
    return openai.Stream(cast_to=object, response=response, client=_CLIENT)


class AiohttpResponse:
    """aiohttp's: the body is `content`, and the response is its own context manager."""

    class Content:
        def __init__(self, held: Held) -> None:
            self._held = held

        def iter_any(self) -> AsyncIterator[bytes]:
            return self._held.pull_async()

    def __init__(self, held: Held) -> None:
        self.content = self.Content(held)
        self.close = held.close

    async def __aenter__(self) -> AiohttpResponse:
        raise AssertionError("it is open already")

    async def __aexit__(self, *_: object) -> None:
        raise AssertionError("it was not entered")


class Event:
    """An event of an event source, as httpx-sse has it."""

    def __init__(self, data: str, event: str = "message") -> None:
        self.data = data
        self.event = event
        self.id = ""


class EventSource:
    """An event source that keeps its response to itself."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self.aclose = anyio.lowlevel.checkpoint

    async def aiter_sse(self) -> AsyncIterator[Event]:
        try:
            async with aclosing(self._held.pull_async()) as items:
                async for item in items:
                    (data,) = [line for line in item.decode().splitlines() if line.startswith("data: ")]
                    yield Event(data.removeprefix("data: "))
        finally:
            self._held.close()


class AsyncStream:
    """Any asynchronous iterable with an `aclose`."""

    def __init__(self, held: Held) -> None:
        self._items = held.pull_async()
        self._held = held

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Any:
        return await self._items.__anext__()

    async def aclose(self) -> None:
        await self._items.aclose()
        self._held.close()


class BlockingStream:
    """botocore's: an iterable of payloads with a `close`."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self.close = held.close

    def __iter__(self) -> Iterator[Any]:
        return self._held.pull()


class Wrapper:
    """litellm's: the methods of both worlds, one of which fails, and no `close`."""

    def __init__(self, inner: Any) -> None:
        self.completion_stream = inner

    def __iter__(self) -> Iterator[Any]:
        return iter(self.completion_stream)

    def __aiter__(self) -> AsyncIterator[Any]:
        return aiter(self.completion_stream)  # a TypeError if it blocks

    async def aclose(self) -> None:
        await self.completion_stream.aclose()


class Chunk:
    """A chunk of an SDK, which can give back the payload it was made of."""

    def __init__(self, payload: dict[str, Any]) -> None:
        self._payload = payload

    def to_dict(self) -> dict[str, Any]:
        return self._payload


async def async_generator(held: Held) -> AsyncIterator[Any]:
    try:
        async with aclosing(held.pull_async()) as items:
            async for item in items:
                yield item
    finally:
        held.close()


def generator(held: Held) -> Iterator[Any]:
    try:
        yield from held.pull()
    finally:
        held.close()


@asynccontextmanager
async def manager(held: Held) -> AsyncIterator[Any]:
    held.opened += 1
    try:
        yield held.pull_async()
    finally:
        held.close()


@asynccontextmanager
async def manager_of_blocking(held: Held) -> AsyncIterator[Any]:
    try:
        yield held.pull()
    finally:
        held.close()


@contextmanager
def blocking_manager(held: Held) -> Iterator[Any]:
    held.opened += 1
    try:
        yield held.pull()
    finally:
        held.close()


def typed(held: Held) -> AsyncStream:
    payloads = [orjson.loads(item.partition(b"data: ")[2]) for item in held.items if b"[DONE]" not in item]
    held.items = [Chunk(payload) for payload in payloads]
    return AsyncStream(held)


ASYNCHRONOUS: dict[str, Callable[[Held], Any]] = {
    "an SDK's stream": sdk_stream,
    "an SDK's typed chunks": typed,
    "a response": Response,
    "a response of aiohttp": AiohttpResponse,
    "an event source": EventSource,
    "an asynchronous generator": async_generator,
    "an asynchronous iterable": AsyncStream,
    "an asynchronous context manager": manager,
    "a wrapper": lambda held: Wrapper(AsyncStream(held)),
}
BLOCKING: dict[str, Callable[[Held], Any]] = {
    "a generator": generator,
    "an iterable": BlockingStream,
    "a blocking response": lambda held: Response(held, blocking=True),
    "a blocking SDK's stream": blocking_sdk_stream,
    "a context manager": blocking_manager,
    "a wrapper of what blocks": lambda held: Wrapper(BlockingStream(held)),
    "an asynchronous manager of a blocking stream": manager_of_blocking,
}
EVERY = ASYNCHRONOUS | BLOCKING
