"""The server's side of an ASGI connection, played by a test: what the client gets, and when it goes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from streamtools.framing import SSEDecoder

__all__ = ["Client", "told"]


def told(body: bytes) -> list[tuple[str, Any]]:
    """The server-sent events of a body: their names and data."""
    decoder = SSEDecoder()
    return [(frame.event, json.loads(frame.data)) for frame in [*decoder.feed(body), *decoder.finish()]]


class Client:
    """One request of one client.

    Args:
        on_body: is awaited with each piece of the body; what it raises, the server's `send` raises.
    """

    def __init__(self, on_body: Callable[[bytes], Awaitable[None]] | None = None) -> None:
        self.start: dict[str, Any] | None = None
        self.pieces: list[bytes] = []
        self.ended = False
        self.gone = anyio.Event()
        self._on_body = on_body
        self._requested = 0

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def told(self) -> list[tuple[str, Any]]:
        return told(self.body)

    async def request(self, app: Any, *, kind: str = "http", last_event_id: bytes | None = None) -> None:
        """Let the application answer."""
        headers = [(b"host", b"localhost")]
        if last_event_id is not None:
            headers.append((b"last-event-id", last_event_id))
        await app({"type": kind, "method": "POST", "path": "/", "headers": headers}, self.receive, self.send)

    async def receive(self) -> dict[str, Any]:
        if self._requested < 2:
            self._requested += 1
            return {"type": "http.request", "body": b"{}", "more_body": self._requested == 1}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert self.start is None
            self.start = message
            return
        assert self.start is not None
        assert not self.ended
        self.pieces.append(message["body"])
        self.ended = not message.get("more_body", False)
        if self._on_body is not None:
            await self._on_body(message["body"])
