"""Caches lists of tools until they have to be asked for again."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import anyio

from ..limits import Limits
from .listing import Listing
from .reading import peek

__all__ = ["Credentials", "MessageHandler", "SchemaCache"]

Credentials: TypeAlias = str | bytes | Mapping[str, str] | None
"""The means by which a server tells its callers apart: a token, or the headers of a request."""

LIST_CHANGED = "notifications/tools/list_changed"


class MessageHandler(Protocol):
    """The type of a handler for the SDK's ``ClientSession(message_handler=...)``."""

    async def __call__(self, message: Any) -> None:
        """Takes a message of the server."""


class _Key(NamedTuple):
    server: str
    partition: bytes | None  # a hash of the credentials; None: for everybody
    version: str | None
    limits: Limits


class SchemaCache:
    """Keeps the lists of tools of MCP servers, each for its server and its caller.

    A list is valid for as long as the server says (``ttlMs``, MCP 2026-07-28; 0 means that it is never kept), else for
    `default_ttl_s`. It is dropped earlier when the server announces a change (`message_handler`), on `invalidate`, and
    for a session whose server has another version. Lists are kept apart by a keyed hash of the credentials, unless the
    server says that all see the same (``cacheScope: public``). Credentials themselves are not kept.

    Calls of `resolve` that run at the same time wait for one ``tools/list``. Use one cache in one event loop at a time.

    Args:
        default_ttl_s: seconds for which a list is valid when the server does not say; 0 keeps none.
        max_ttl_s: the longest time that a server may ask for (the MCP SDK also has a day).
        max_entries: lists kept; the oldest goes first.
        clock: seconds from any start, for tests.
    """

    def __init__(
        self,
        *,
        default_ttl_s: float = 300.0,
        max_ttl_s: float = 86_400.0,
        max_entries: int = 64,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries={max_entries}: must be at least 1")
        self._default_ttl_s = default_ttl_s
        self._max_ttl_s = max_ttl_s
        self._max_entries = max_entries
        self._clock = clock
        self._salt = secrets.token_bytes(32)  # so that the kept hashes cannot be compared with those of guessed tokens
        self._entries: dict[_Key, tuple[Listing, float]] = {}  # each with the time at which it expires
        self._flights: dict[_Key, anyio.Event] = {}
        self._changes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<SchemaCache of {len(self)} lists>"

    async def resolve(
        self,
        server: str,
        ask: Callable[[], Awaitable[Listing]],
        *,
        credentials: Credentials = None,
        version: str | None = None,
        limits: Limits = Limits(),
    ) -> Listing:
        """Returns the list of a server: the cached one if it is still valid, else the one that `ask` gets.

        Args:
            server: its name here; two servers never share one.
            ask: gets the list from the server.
            credentials: the means by which the server tells callers apart.
            version: of the server; another one has another list.
            limits: those that `ask` reads the list by.
        """
        key = _Key(server, self._hash(credentials), version, limits)
        while True:
            for candidate in (key, key._replace(partition=None)):
                if (listing := self._fresh(candidate)) is not None:
                    return listing
            if (flight := self._flights.get(key)) is None:
                return await self._fly(key, ask)
            await flight.wait()  # its list may already be stale, or it failed: look again

    def invalidate(self, server: str | None = None) -> None:
        """Drops the lists of a server, or of all; lists being asked for right now are not kept either."""
        self._changes += 1
        gone = [key for key in self._entries if server is None or key.server == server]
        for key in gone:
            del self._entries[key]

    def message_handler(self, server: str, then: MessageHandler | None = None) -> MessageHandler:
        """Returns a handler for ``ClientSession(..., message_handler=...)`` that drops the server's list when the
        server announces a change. Servers of MCP 2026-07-28 announce it only to clients that listen for it
        (``subscriptions/listen``).

        Args:
            server: the name that `fetch_tools` is given.
            then: gets every message, too.
        """

        async def handle(message: Any) -> None:
            if peek(getattr(message, "root", message), "method") == LIST_CHANGED:  # SDK 1 wraps it in a `root`
                self.invalidate(server)
            if then is not None:
                await then(message)

        return handle

    def _fresh(self, key: _Key) -> Listing | None:
        listing, expires_at = self._entries.get(key, (None, math.inf))
        if self._clock() >= expires_at:
            del self._entries[key]
            return None
        return listing

    async def _fly(self, key: _Key, ask: Callable[[], Awaitable[Listing]]) -> Listing:
        flight = self._flights[key] = anyio.Event()
        asked_at, changes = self._clock(), self._changes
        try:
            listing = await ask()
            if changes == self._changes:
                self._keep(key, listing, asked_at)
            return listing
        finally:
            del self._flights[key]
            flight.set()

    def _keep(self, key: _Key, listing: Listing, asked_at: float) -> None:
        ttl_s = self._default_ttl_s if listing.ttl_s is None else min(listing.ttl_s, self._max_ttl_s)
        if ttl_s <= 0 or not listing.complete:
            return
        if listing.public:
            key = key._replace(partition=None)
        self._entries.pop(key, None)
        while len(self._entries) >= self._max_entries:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = listing, asked_at + ttl_s

    def _hash(self, credentials: Credentials) -> bytes:
        if credentials is None:
            return b""
        if isinstance(credentials, Mapping):
            credentials = json.dumps(sorted(credentials.items()))
        if isinstance(credentials, str):
            credentials = credentials.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(credentials, key=self._salt).digest()
