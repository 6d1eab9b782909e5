"""A real uvicorn on loopback, in the test's own event loop."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import anyio
import httpx
import uvicorn

__all__ = ["client_of", "serving"]


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@asynccontextmanager
async def serving(
    app: Any, *, send_buffer: int | None = None, access_log: bool = False, patience_s: float = 50
) -> AsyncIterator[int]:
    """Serve an application; gives its port. At the end every connection has to be done within seconds."""
    with closing(socket.socket()) as listener:
        if send_buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            log_config=None,
            access_log=access_log,
            log_level="info" if access_log else "warning",
        )
        server = _Server(config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            with anyio.fail_after(patience_s):
                await server.ready.wait()
                yield listener.getsockname()[1]
            server.should_exit = True


def client_of(port: int) -> httpx.AsyncClient:
    """A client of it; leaving its `stream` block closes the connection."""
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False)
