"""A WebSocket server on this machine that answers each request with composed events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import sniffio
from anyio.abc import TaskStatus
from openai import AsyncOpenAI
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed
from websockets.trio.client import connect as connect_on_trio
from websockets.trio.server import serve as serve_on_trio

__all__ = ["Server", "client_of", "connected", "serving"]

Payload = dict[str, Any]
Answer = Callable[[Payload], Iterable[Payload | str | bytes]]


class Server:
    """The server's side: what it was asked, and a way to send unasked."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[Payload] = []
        self.url = ""
        self._answer = answer
        self._socket: Any = None

    async def talk(self, socket: Any) -> None:
        """Answers every message of one client until it leaves."""
        self._socket = socket
        try:
            while True:
                request = json.loads(await socket.recv())
                self.requests.append(request)
                await self.send(*self._answer(request))
        except ConnectionClosed:
            return

    async def send(self, *events: Payload | str | bytes) -> None:
        """Sends events, an object as JSON."""
        for event in events:
            await self._socket.send(event if isinstance(event, (str, bytes)) else json.dumps(event))

    async def hang_up(self, code: int = 1000) -> None:
        """Closes the connection from this side."""
        socket = self._socket
        await (socket.close if hasattr(socket, "close") else socket.aclose)(code)


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Server]:
    """Serves while the block runs, on either event loop."""
    server = Server(answer)
    if sniffio.current_async_library() == "asyncio":
        async with serve(server.talk, "127.0.0.1", 0) as listening:
            server.url = f"127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}"
            yield server
        return

    async def listen(*, task_status: TaskStatus[Any]) -> None:
        await serve_on_trio(server.talk, 0, host="127.0.0.1", task_status=task_status)

    async with anyio.create_task_group() as group:
        listening_on_trio = await group.start(listen)
        server.url = f"127.0.0.1:{listening_on_trio.listeners[0].socket.getsockname()[1]}"
        yield server
        group.cancel_scope.cancel()


def connected(server: Server) -> Any:
    """Returns a connection of websockets, to be entered."""
    on_asyncio = sniffio.current_async_library() == "asyncio"
    return (connect if on_asyncio else connect_on_trio)(f"ws://{server.url}")


def client_of(server: Server) -> AsyncOpenAI:
    """Returns OpenAI's client, which has to be closed."""
    return AsyncOpenAI(api_key="none", base_url=f"http://{server.url}/v1")
