"""A tapped client whose server is a script: bodies of chunks, with events between them that are waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from anyio.lowlevel import checkpoint
from streams import anthropic

from streamtools.events import Event
from streamtools.integrations.httpx import Tap

__all__ = ["CALL", "Server", "called", "kinds", "read", "tapped"]

PATIENCE_S = 10
EVENT_STREAM = "text/event-stream; charset=utf-8"


def called(name: str = "look_up", arguments: str = '{"key": "a"}', times: int = 1) -> tuple[list[bytes], list[bytes]]:
    """Returns a Messages body with calls, in two parts: up to the end of the last call, and the rest."""
    body = anthropic([], [(f"c{number}", name, arguments) for number in range(times)])
    return body[:-2], body[-2:]


CALL = called()


class Server:
    """Answers requests by a script.

    Args:
        bodies: the body of each response in turn, the last one again and again; an `anyio.Event` in it is waited for,
            an exception is raised.
        library: httpx or httpx2.
        headers: of all responses.
    """

    def __init__(
        self,
        *bodies: Iterable[bytes | anyio.Event | Exception],
        library: Any = httpx,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.library = library
        self.closed = 0
        """How many bodies were left or ended."""
        self._bodies = [list(body) for body in bodies]
        self._status = status
        self._headers = {"content-type": EVENT_STREAM, **(headers or {})}

    def transport(self) -> Any:
        return self.library.MockTransport(self._answer)

    def sync_transport(self) -> Any:
        return self.library.MockTransport(self._answer_sync)

    def _answer(self, request: Any) -> Any:
        return self.library.Response(self._status, headers=self._headers, content=self._chunks(self._next()))

    def _answer_sync(self, request: Any) -> Any:
        return self.library.Response(self._status, headers=self._headers, content=iter(self._next()))

    def _next(self) -> list[Any]:
        return self._bodies.pop(0) if len(self._bodies) > 1 else self._bodies[0]

    async def _chunks(self, items: list[Any]) -> AsyncIterator[bytes]:
        try:
            for item in items:
                await checkpoint()
                if isinstance(item, anyio.Event):
                    await item.wait()
                elif isinstance(item, Exception):
                    raise item
                else:
                    yield item
        finally:
            self.closed += 1


@asynccontextmanager
async def tapped(server: Server, *, patience_s: float = PATIENCE_S, **options: Any) -> AsyncIterator[tuple[Tap, Any]]:
    """Gives a tap and the client over it, in time."""
    with anyio.fail_after(patience_s):
        tap = Tap(server.transport(), **options)
        async with server.library.AsyncClient(transport=tap) as client:
            yield tap, client


async def read(client: Any) -> list[bytes]:
    """Returns the chunks of a response, as they came over the wire."""
    async with client.stream("POST", "http://model/") as response:
        return [chunk async for chunk in response.aiter_raw()]


def kinds(events: Iterable[Event]) -> Iterator[str]:
    return (type(event).__name__ for event in events)
