"""Encoded responses over a connection, by every HTTP library, are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from encoded import PAIRS, encoded
from loopback import Loopback
from streams import chat

from streamtools import pipeline

pytestmark = pytest.mark.anyio

ASYNCIO_ONLY = pytest.mark.parametrize("anyio_backend", ["asyncio"])
CODINGS = pytest.mark.parametrize("codings", [("gzip",), ("deflate",), ("br",), ("zstd",), *PAIRS], ids=" then ".join)
BODY = chat(["Hel", "lo"], finish="stop")


def installed(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} IS NOT INSTALLED: nox -s integrations")


@asynccontextmanager
async def by_httpx(url: str, library: str = "httpx") -> AsyncIterator[Any]:
    async with installed(library).AsyncClient(trust_env=False) as client:
        yield client.stream("GET", url)


@asynccontextmanager
async def by_httpx2(url: str) -> AsyncIterator[Any]:
    async with by_httpx(url, "httpx2") as stream:
        yield stream


@asynccontextmanager
async def by_httpx_synchronously(url: str) -> AsyncIterator[Any]:
    with installed("httpx").Client(trust_env=False) as client:
        yield client.stream("GET", url)


@asynccontextmanager
async def by_aiohttp_undecoded(url: str) -> AsyncIterator[Any]:
    async with installed("aiohttp").ClientSession(auto_decompress=False) as session:
        yield await session.get(url)


@asynccontextmanager
async def by_requests(url: str) -> AsyncIterator[Any]:
    with installed("requests").Session() as session:
        session.trust_env = False
        yield await anyio.to_thread.run_sync(lambda: session.get(url, stream=True))


@asynccontextmanager
async def by_urllib3(url: str) -> AsyncIterator[Any]:
    with installed("urllib3").PoolManager() as pool:
        yield await anyio.to_thread.run_sync(lambda: pool.request("GET", url, preload_content=False))


LIBRARIES = [by_httpx, by_httpx2, by_httpx_synchronously, by_requests, by_urllib3, by_aiohttp_undecoded]
EVERY = [
    pytest.param(library, backend, id=f"{library.__name__}-{backend}")
    for library in LIBRARIES
    for backend in ("asyncio", "trio")
    if library is not by_aiohttp_undecoded or backend == "asyncio"
]


@pytest.mark.parametrize(("library", "anyio_backend"), EVERY)
@CODINGS
async def test_an_encoded_response_is_read(library: Callable[[str], Any], codings: tuple[str, ...]) -> None:
    with Loopback(encoded(BODY, *codings), content_encoding=", ".join(codings)) as server:
        async with library(server.url) as stream:
            with anyio.fail_after(30):
                turn = await pipeline(stream)
    assert turn.text == "Hello"
    assert turn.complete


@ASYNCIO_ONLY
@CODINGS
async def test_what_aiohttp_does_not_decode_itself_is_decoded(codings: tuple[str, ...]) -> None:
    if len(codings) == 1 and codings[0] in ("br", "zstd"):
        installed({"br": "brotli", "zstd": "backports.zstd"}[codings[0]])  # what aiohttp wants for these
    with Loopback(encoded(BODY, *codings), content_encoding=", ".join(codings)) as server:
        async with installed("aiohttp").ClientSession() as session, pipeline(await session.get(server.url)) as events:
            _ = [event async for event in events]
    assert events.turn.text == "Hello"


async def test_a_response_of_requests_that_was_read_before_is_taken_from_memory() -> None:
    requests = installed("requests")
    with Loopback(encoded(BODY, "gzip"), content_encoding="gzip") as server:
        response = await anyio.to_thread.run_sync(lambda: requests.get(server.url))
        turn = await pipeline(response)
    assert turn.text == "Hello"
