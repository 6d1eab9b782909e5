"""Gives each connection to the next worker: the least that a balancer has to do. Nothing sticks to a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress


class Balancer:
    """Listens on loopback for workers whose *ports* may change meanwhile."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._next = 0

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[int]:
        """Carries connections until the block ends; gives the port."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", port)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):  # asyncio calls this, and would log it
            behind = await self._connected()
            if behind is not None:
                both = _copied(reader, behind[1]), _copied(behind[0], writer)
                tasks = [asyncio.ensure_future(one) for one in both]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                behind[1].close()
        writer.close()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connects to the next worker, or to the one behind it where that refuses."""
        for _ in self._ports:
            self._next += 1
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", self._ports[self._next % len(self._ports)])
        return None


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)  # each frame at once: a balancer must not collect them
            await writer.drain()
