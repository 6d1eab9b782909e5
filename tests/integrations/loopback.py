"""A server on this machine that answers with composed bytes, and notices when its client hangs up."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from anyio import to_thread

__all__ = ["Loopback"]

PATIENCE_S = 60  # for an event in a body: a tool that starts late on a busy machine still sets it
PACE_S = 0.002  # between the chunks of a body without end: the client hangs up after a few


class Loopback:
    """Serves while the block runs.

    Args:
        bodies: the body of each response in turn, as chunks; the last one is given again and again. An event among
            them is waited for: what follows is sent when it is set.
        forever: a chunk that follows the body again and again, until the client hangs up.
        content_type: of all responses.
        content_encoding: of all responses, whose bodies are encoded already.
    """

    def __init__(
        self,
        *bodies: Iterable[bytes | threading.Event],
        forever: bytes | None = None,
        content_type: str = "text/event-stream",
        content_encoding: str = "identity",
    ) -> None:
        self.bodies = [list(body) for body in bodies]
        self.forever = forever
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.url = ""
        self.requests: list[tuple[str, Any]] = []
        """Path and JSON body of each."""
        self.connections = 0
        self.hung_up = threading.Event()
        """The client closed its connection in the middle of a body without end."""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="loopback", daemon=True)
        self._listening = threading.Event()

    def __enter__(self) -> Loopback:
        self._thread.start()
        assert self._listening.wait(5)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)

    async def has_lost_its_client(self) -> bool:
        """Whether the client hangs up soon. Some SDKs leave that to the event loop, which so goes on."""
        return await to_thread.run_sync(self.hung_up.wait, 5)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._listening.set()
        await self._stop.wait()
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._read_request(reader):
                await self._respond(reader, writer)
        except ConnectionError:
            self.hung_up.set()
        except asyncio.CancelledError:
            return  # the server stops; asyncio would log it
        finally:
            writer.close()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kind = f"content-type: {self.content_type}\r\ncontent-encoding: {self.content_encoding}\r\n"
        head = f"HTTP/1.1 200 OK\r\n{kind}transfer-encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        for chunk in self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]:
            if isinstance(chunk, threading.Event):
                if not await to_thread.run_sync(chunk.wait, PATIENCE_S):
                    raise ConnectionAbortedError("nobody has set the event")
            elif chunk:  # an empty one would be the end
                await _write(writer, chunk)
        while self.forever is not None:
            await _write(writer, self.forever)
            if await _has_hung_up(reader):
                raise ConnectionResetError
        await _write(writer, b"")

    async def _read_request(self, reader: asyncio.StreamReader) -> bool:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return False
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((first.split()[1], json.loads(body or b"null")))
        return True


async def _write(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
    await writer.drain()


async def _has_hung_up(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), PACE_S) == b""
    except TimeoutError:
        return False
