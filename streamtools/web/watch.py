"""Sends a stream to one client: waits until it can receive, is never silent for long, and notices when it has gone.

A scope with a deadline of its own costs more than an event. So one scope is open over many events, and a task beside
the writer cancels it when a send, or a silence, has taken too long.
https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

import anyio
from anyio import CancelScope

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_HEARTBEAT = b": \n\n"
"""A comment: no event for the client, but a sign of life for proxies, which close silent connections."""


class GoneError(Exception):
    """Raised when nothing more can be sent."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        # By the ASGI specification an OSError of `send` means that the client has gone; our TimeoutError is one, too.
        self.fault = None if isinstance(error, OSError) else error


class ClientStream:
    """The response to one client: after `silence_s` something is sent; one send may take `send_s`."""

    def __init__(self, receive: Receive, send: Send, silence_s: float, send_s: float) -> None:
        self._receive, self._send = receive, send
        self._silence_s, self._send_s = silence_s, send_s
        self._due = math.inf
        self._scope = CancelScope()

    async def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Sends the head of the response; raises a `GoneError` if the client has gone, as `write` does."""
        await self._send_message({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, body: bytes, *, more: bool = True) -> None:
        await self._send_message({"type": "http.response.body", "body": body, "more_body": more})

    async def _send_message(self, message: Message) -> None:
        try:
            with anyio.fail_after(self._send_s):
                await self._send(message)
        except Exception as error:
            raise GoneError(error) from error

    async def pump(self, next_body: Callable[[], Awaitable[bytes | None]]) -> None:
        """Sends what comes until that is None, and comments where nothing comes. `next_body` may be cancelled while it
        waits, and is asked again then; b"" is silence, too."""
        body: bytes | None = b""
        self._due = anyio.current_time() + self._silence_s
        while True:
            is_sending = False
            with CancelScope() as self._scope:
                # It may be cancelled too late for the awaited: what came nevertheless counts.
                while not self._scope.cancel_called:
                    if body:
                        is_sending, self._due = True, anyio.current_time() + self._send_s
                        try:
                            await self._send({"type": "http.response.body", "body": body, "more_body": True})
                        except Exception as error:
                            raise GoneError(error) from error
                        is_sending, self._due = False, anyio.current_time() + self._silence_s
                        body = b""
                    if (body := await next_body()) is None:
                        return
            if is_sending:
                raise GoneError(TimeoutError("the client does not receive"))
            body = body or _HEARTBEAT

    async def keep(self) -> None:
        pause = min(self._silence_s, self._send_s)
        while pause < math.inf:
            now = anyio.current_time()
            if now >= self._due:
                self._due = math.inf
                self._scope.cancel()
            await anyio.sleep(min(pause, self._due - now))

    async def until_gone(self, writing: CancelScope) -> None:
        """Waits until the client has gone, then stops the writing. Only `http.disconnect` tells if nothing is sent."""
        while (await self._receive())["type"] != "http.disconnect":
            continue
        writing.cancel()
