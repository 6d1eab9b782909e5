"""Messages of MCP servers are bounded before they are parsed, over stdio and over HTTP; the connection goes on."""

from __future__ import annotations

import gc
import inspect
import json
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp_servers import PLAIN_SERVER, leaky_before_sdk2, streamable_http_client
from mcp_session import observed
from profiles import every
from streams import chat, stream

from streamtools import Limits, pipeline
from streamtools.mcp import BoundedHTTPTransport, fetch_tools, stdio_transport

try:
    import httpx2 as httpx  # of mcp 2
except ImportError:  # mcp 1
    import httpx  # type: ignore[no-redef]

pytestmark = [pytest.mark.anyio, pytest.mark.costly]
# On trio, the SDK's transport over HTTP leaves httpx's generators to the garbage collector.
asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])

REFUSED = r"to tools/list exceeded max_message_bytes=1048576 and was dropped"


@asynccontextmanager
async def session_of(*arguments: str, **options: Any) -> AsyncIterator[ClientSession]:
    command = StdioServerParameters(command=sys.executable, args=[str(PLAIN_SERVER), *arguments])
    with anyio.fail_after(60):
        async with stdio_transport(command, **options) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            yield session


@asynccontextmanager
async def measured(most_s: float = 1.0, most_bytes: int = 32_000_000) -> AsyncIterator[None]:
    """Fails where the event loop stands still too long, or too much is held; the time is for busy machines."""
    longest_s = 0.0

    async def watch() -> None:
        nonlocal longest_s
        before = time.perf_counter()
        while True:
            await anyio.sleep(0.001)
            now = time.perf_counter()
            longest_s, before = max(longest_s, now - before - 0.001), now

    gc.collect()
    tracemalloc.start()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            yield
            group.cancel_scope.cancel()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (longest_s < most_s, peak < most_bytes) == (True, True), f"{longest_s:.3f} s, {peak / 1e6:.1f} MB"


# -- stdio -------------------------------------------------------------------------------------------------------------


async def test_a_list_of_32_mb_in_one_line_is_refused_and_costs_little() -> None:
    async with session_of("large") as session:
        async with measured():
            with pytest.raises(Exception, match=REFUSED):
                await fetch_tools(session, server="large")
        assert (await session.call_tool("echo", {"text": "hi"})).content[0].text == "hi"


async def test_small_values_are_counted_before_a_line_is_parsed_but_not_those_in_texts() -> None:
    async with session_of("answers") as session:
        tools = await fetch_tools(session, server="s")
        calls = [("a", "many", "{}"), ("b", "few", "{}"), ("c", "echo", json.dumps({"text": '[{"a,\\\\' * 40_000}))]
        async with (
            measured(most_bytes=20 << 20),
            pipeline(stream(chat([], calls)), tools=tools) as events,
        ):
            await events.finish()
    seen = {one.call_id: one for one in events.turn.observations}
    assert [seen[one].outcome for one in "abc"] == ["failed", "ok", "ok"]
    assert "to tools/call exceeded max_message_bytes=1048576 and was dropped" in seen["a"].model_content


# -- HTTP --------------------------------------------------------------------------------------------------------------

LARGE = json.dumps(
    {"tools": [{"name": "t", "inputSchema": {"type": "object"}, "description": "x" * 32_000_000}]}
).encode()
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "small", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "hi"}]},
}


class Chunks(httpx.AsyncByteStream):
    def __init__(self, body: bytes, size: int) -> None:
        self.body, self.size = body, size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self.body), self.size):
            await anyio.lowlevel.checkpoint()
            yield self.body[at : at + self.size]


class Server(httpx.AsyncBaseTransport):
    """Answers in pieces of this size."""

    def __init__(self, kind: str, size: int = 65_536, encoding: str = "identity") -> None:
        self.kind, self.size, self.encoding = kind, size, encoding
        self.accepted: set[str] = set()
        self.is_large = False

    async def handle_async_request(self, request: Any) -> Any:
        self.accepted.add(request.headers["accept-encoding"])
        asked = json.loads(request.content) if request.method == "POST" else {}
        if "id" not in asked:
            return httpx.Response(202 if asked else 405)
        result = LARGE if self.is_large else json.dumps(RESULTS[asked["method"]]).encode()
        before, end = b'{"jsonrpc": "2.0", "id": %d, "result": ' % asked["id"], b"}"
        if self.kind == "text/event-stream":
            before, end = b": hello\r\n\r\nevent: message\r\ndata: " + before, b"}\r\n\r\n"
        headers = {"content-type": self.kind, "content-encoding": self.encoding}
        return httpx.Response(200, headers=headers, stream=Chunks(b"".join([before, result, end]), self.size))


@asynccontextmanager
async def http_session_of(transport: Any, url: str = "http://server/mcp", **options: Any) -> AsyncIterator[Any]:
    client = httpx.AsyncClient(transport=BoundedHTTPTransport(transport, **options), follow_redirects=True)
    takes_client = "http_client" in inspect.signature(streamable_http_client).parameters
    # mcp 1.10 takes a function that makes the client, which it enters and leaves.
    how: Any = {"http_client": client} if takes_client else {"httpx_client_factory": lambda **given: client}
    with anyio.fail_after(60):
        async with (
            client if takes_client else nullcontext(),
            streamable_http_client(url, **how) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            yield session


@asyncio_only
@leaky_before_sdk2
@pytest.mark.parametrize("size", [65_536, 7])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_list_of_32_mb_over_http_is_refused_and_costs_little(kind: str, size: int) -> None:
    server = Server(kind, size)
    async with http_session_of(server) as session:
        server.is_large, server.size = True, 65_536
        async with measured(most_bytes=64_000_000):  # half of it is the body, which the server makes in this process
            with pytest.raises(Exception, match=REFUSED):
                await fetch_tools(session, server="s")
        server.is_large, server.size = False, size
        assert (await observed(await fetch_tools(session, server="s"), "small")).value == "hi"
    assert server.accepted == {"identity"}


@leaky_before_sdk2
async def test_an_encoded_answer_over_http_is_refused() -> None:
    with pytest.raises(BaseException) as raised:
        async with http_session_of(Server("application/json", encoding="gzip")):
            pass
    assert "has encoded its answer" in str(raised.getrepr(chain=True)) or raised.group_contains(ValueError)


@every("is_stream", [False, True])
async def test_small_values_are_counted_before_a_body_or_an_event_is_parsed(is_stream: bool) -> None:
    async def body(rows: list[Any]) -> AsyncIterator[bytes]:
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "[,{" * 60_000, "rows": rows}})
        data = (f"event: message\ndata: {text}\n\n" if is_stream else text).encode()
        for at in range(0, len(data), 50_000):
            yield data[at : at + 50_000]

    async def answered(rows: list[Any]) -> Any:
        kind = "text/event-stream" if is_stream else "application/json"
        answer = httpx.MockTransport(lambda _: httpx.Response(200, headers={"content-type": kind}, content=body(rows)))
        async with httpx.AsyncClient(transport=BoundedHTTPTransport(answer)) as client:
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            response = await client.post("http://server/mcp", json=request)
        return json.loads(response.text.partition("data: ")[2] if is_stream else response.text)

    assert len((await answered([{}] * 20_000))["result"]["rows"]) == 20_000
    assert "exceeded max_message_bytes=1048576" in (await answered([{}] * 60_000))["error"]["message"]


async def test_the_answer_to_a_redirected_request_is_bounded_too() -> None:
    async def large() -> AsyncIterator[bytes]:
        yield json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "x" * 5_000}}).encode()

    def answer(request: Any) -> Any:
        if request.url.path == "/mcp":
            return httpx.Response(307, headers={"location": "/mcp/"})
        return httpx.Response(200, headers={"content-type": "application/json"}, content=large())

    transport = BoundedHTTPTransport(httpx.MockTransport(answer), limits=Limits(max_message_bytes=1_000))
    async with httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
        response = await client.post("http://server/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert "max_message_bytes=1000" in response.text
    assert len(response.content) < 1_000
