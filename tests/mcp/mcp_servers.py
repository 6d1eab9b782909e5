"""Real MCP servers and sessions for tests, by the SDK of either generation: over stdio, over HTTP, in memory."""

from __future__ import annotations

import gc
import socket
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ImageContent

try:
    from mcp.client.streamable_http import streamable_http_client
except ImportError:  # its name before mcp 1.24
    from mcp.client.streamable_http import streamablehttp_client as streamable_http_client

if SDK2 := hasattr(mcp, "Client"):
    from mcp.server.mcpserver import Context, MCPServer
else:
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer

PLAIN_SERVER = Path(__file__).with_name("mcp_stdio_server.py")

sdk2_only = pytest.mark.skipif(not SDK2, reason="needs mcp 2: MCP 2026-07-28, and its Client")

# Over HTTP the first versions of mcp 1 leave streams to the garbage collector.
leaky_before_sdk2 = pytest.mark.filterwarnings("error" if SDK2 else "ignore:Unclosed <MemoryObject:ResourceWarning")

MessageHandler = Callable[[Any], Awaitable[None]]


@asynccontextmanager
async def stdio(*arguments: str, message_handler: MessageHandler | None = None) -> AsyncIterator[ClientSession]:
    """A session with the plain server in a process of its own, which is over afterwards."""
    command = StdioServerParameters(command=sys.executable, args=[str(PLAIN_SERVER), *arguments])
    handler: Any = {} if message_handler is None else {"message_handler": message_handler}
    async with stdio_client(command) as (read, write), ClientSession(read, write, **handler) as session:
        await session.initialize()
        yield session


def sdk_server() -> Any:
    """A server by the SDK, with typed tools."""
    server = _made("sdk")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    async def draw(ctx: Context) -> Any:  # type: ignore[type-arg]
        """Draws a picture."""
        await ctx.report_progress(1, 2, "sketched")
        return ImageContent(type="image", data="AAAA", mimeType="image/png")

    draw.__annotations__["ctx"] = Context  # the first versions of mcp 1 do not read annotations that are text
    server.tool()(draw)

    @server.tool()
    def fail() -> str:
        """Fails."""
        raise ValueError("out of paint")

    return server


def _made(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Field 'lifespan' has an incomplete definition")  # in mcp 1's own settings
        return MCPServer(name)


@asynccontextmanager
async def in_memory(server: Any) -> AsyncIterator[Any]:
    """A session with a server in this very task's neighbour."""
    if SDK2:
        async with mcp.Client(server) as client:
            yield client.session
    else:
        from mcp.shared.memory import create_connected_server_and_client_session

        async with create_connected_server_and_client_session(server._mcp_server) as session:
            yield session


@contextmanager
def served_over_http(make: Callable[[], Any]) -> Iterator[str]:
    """The address of a server on a free port of this machine, made and run in a thread of its own, which is over
    afterwards."""
    uvicorn = pytest.importorskip("uvicorn", reason="serves MCP over HTTP")
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    config = uvicorn.Config(
        lambda: make().streamable_http_app(), factory=True, log_level="error", ws="none", timeout_graceful_shutdown=1
    )
    served = uvicorn.Server(config)
    thread = threading.Thread(target=served.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        served.should_exit = True
        thread.join(10)
        listening.close()
        assert not thread.is_alive()
        gc.collect()  # what those have left open is told of here, and in no later test


@asynccontextmanager
async def http_session(url: str) -> AsyncIterator[ClientSession]:
    """A session over streamable HTTP, opened by the handshake of MCP 2025."""
    async with streamable_http_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session
