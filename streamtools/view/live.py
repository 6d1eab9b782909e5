"""Shows a run while it goes on: an ASGI application that serves the page and a stream of patches.

In go requests; out come the page, and server-sent events of which each has the lanes that have changed since the one
before. A reader asks for the newest state when it has taken the last one, so a slow reader gets fewer and larger
patches, never a backlog: the run neither waits for it nor keeps anything for it. The stream ends when `finish` has been
called, or the reader goes.

Specification: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, TypeAlias

import anyio
import orjson

from ..text import well_formed_tree
from .page import document
from .picture import Picture, Seen
from .watch import Watch

__all__ = ["LiveView"]

_Message: TypeAlias = MutableMapping[str, Any]

EVENTS = "events"  # the last part of the stream's path
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_PORT = re.compile(":[0-9]*$")
READERS = 32  # streams at the same time: each costs a patch per interval
_PLAIN = (b"content-type", b"text/plain; charset=utf-8")
_ALONE = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"), (b"x-frame-options", b"DENY")]


class LiveView:
    """An ASGI application with the page of a run that goes on.

        watch = Watch()
        app.mount("/run", LiveView(watch))
        run = agent_loop(ask, messages, trajectory=Trajectory(observers=[watch]), ...)

    It shows texts, arguments and results to everybody who can reach it: bind it to the loopback address, or put your
    own authorization before it. A request whose ``Host`` is neither a name of this machine's loopback address, nor the
    address that was asked, nor one of `hosts`, is answered 421, without content.

    Args:
        watch: the run's observer.
        interval: seconds between two patches for one reader.
        hosts: further names under which browsers reach it, as behind a proxy.

    Raises:
        ValueError: `interval` is no positive number.
        TypeError: `hosts` is a text.
    """

    def __init__(self, watch: Watch, *, interval: float = 0.2, hosts: Collection[str] = ()) -> None:
        if not interval > 0:
            raise ValueError(f"interval={interval!r}: must be a number of seconds greater than 0")
        if isinstance(hosts, str):
            raise TypeError(f"expected hosts=[...], got the text {hosts!r}")
        self.watch = watch
        self._interval = interval
        self._hosts = _LOOPBACK | {_PORT.sub("", host.lower()) for host in hosts}
        self.readers = 0
        """Streams that are being read."""
        self._over = False

    def finish(self) -> None:
        """Ends the streams once their readers have everything. Call it when the run is over."""
        self._over = True

    async def __call__(
        self, scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            raise ValueError(f"LiveView serves http, not {scope['type']}")
        if not self._is_asked_by_name(scope):
            await _answer(send, 421, b"this Host is not known here: LiveView(watch, hosts=[...])", _PLAIN)
            return
        path = str(scope.get("path", "")).removeprefix(str(scope.get("root_path", ""))).strip("/")
        if scope.get("method", "GET") != "GET":
            await _answer(send, 405, b"GET only", _PLAIN)
        elif path == EVENTS:
            await self._serve_events(receive, send)
        elif path == "":
            await self._serve_page(scope, send)
        else:
            await _answer(send, 404, b"there is nothing here", _PLAIN)

    def _is_asked_by_name(self, scope: _Message) -> bool:
        """Returns whether a request names a host that stands for this server.

        A page of ``evil.example`` may let that name lead to 127.0.0.1, and then reads what is served there as its own;
        its browser still sends ``Host: evil.example`` (https://fetch.spec.whatwg.org/#forbidden-request-header). The
        port proves nothing, and differs behind a tunnel or a container's mapping.
        """
        named = [value for name, value in scope.get("headers", ()) if name == b"host"]
        if len(named) != 1:
            return False
        host = _PORT.sub("", named[0].decode("latin-1").lower())
        address = str((scope.get("server") or ("",))[0]).lower()
        return host in self._hosts or (host != "" and host in (address, f"[{address}]"))

    async def _serve_page(self, scope: _Message, send: Callable[[_Message], Awaitable[None]]) -> None:
        data = Picture(self.watch.picture.title).patch()  # the first event brings everything
        html = document(data, live=f"{scope.get('root_path', '')}/{EVENTS}")
        await _answer(send, 200, html.encode("utf-8", "replace"), (b"content-type", b"text/html; charset=utf-8"))

    async def _serve_events(
        self, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        if self.readers >= READERS:
            await _answer(send, 503, b"too many readers", _PLAIN)
            return
        self.readers += 1
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
                await self._stream(send)
                tasks.cancel_scope.cancel()
        finally:
            self.readers -= 1

    async def _stream(self, send: Callable[[_Message], Awaitable[None]]) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"), *_ALONE]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        seen: Seen | None = None
        while True:
            over = self._over  # read before the patch, which then has everything
            since = Seen() if seen is None else seen
            patch, seen_now = self.watch.patch(since)
            if seen_now != seen:
                await send(_event("patch", {**patch, "whole": seen is None}))
                seen = seen_now
            if over:
                break
            await anyio.sleep(self._interval)
        await send({**_event("end", {}), "more_body": False})


async def _until_gone(receive: Callable[[], Awaitable[_Message]], scope: anyio.CancelScope) -> None:
    """Ends the response when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _event(name: str, data: Any) -> _Message:
    try:
        text = orjson.dumps(data)
    except TypeError:  # half a surrogate pair
        text = orjson.dumps(well_formed_tree(data))
    return {"type": "http.response.body", "body": b"event: %s\ndata: %s\n\n" % (name.encode(), text), "more_body": True}


async def _answer(
    send: Callable[[_Message], Awaitable[None]], status: int, body: bytes, kind: tuple[bytes, bytes]
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [kind, *_ALONE]})
    await send({"type": "http.response.body", "body": body})
