"""Reads a connection over a socket: one response at a time, by `recv`, and without ever closing it.

    a connection (an SDK's, a lane of its session, one of websockets) in
    → `NextResponse`, an async iterator of the events of one response; or `responses_of`, of all

Theory of operation. A connection outlives its responses, so what was read of it is kept beside it, as long as it lives:
which responses have begun, and the events that wait for another reader. The record holds the connection by a weak
reference alone, and is made anew once the connection has failed. Nothing is read between responses.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakMethod

from ..limits import Limits
from .items import Item, as_item
from .splitting import Responses, ResponseSource

__all__ = ["NextResponse", "responses_of"]

_METHODS = ("recv_bytes", "recv")  # OpenAI's SDK parses nothing in the first
_ENDS = frozenset({"ConnectionClosedOK", "EOFError"})  # of websockets; of a lane in OpenAI's SDK
_known: WeakKeyDictionary[Any, Responses] = WeakKeyDictionary()


def responses_of(connection: Any, limits: Limits) -> Responses:
    """Returns the responses of a connection, which all its readers share; the first one's limits hold."""
    found = _known.get(connection)
    if found is None or found.is_over:
        found = _known[connection] = Responses(_Connection(connection), limits)
    return found


class NextResponse:
    """The events of the response of a connection that begins next. The connection stays open."""

    is_of_connection = True

    def __init__(self, connection: Any, limits: Limits) -> None:
        self._connection = connection  # kept alive: the record refers to it weakly
        self._limits = limits
        self._response: ResponseSource | None = None

    def __aiter__(self) -> NextResponse:
        return self

    async def __anext__(self) -> Item:
        """Returns the next event of the response."""
        if self._response is None:
            self._response = await anext(responses_of(self._connection, self._limits))
        return await anext(self._response)

    def later(self) -> AsyncGenerator[Mapping[str, Any], None] | None:
        """Returns an iterator of what comes about the calls of the response that has ended; None if none has."""
        return None if self._response is None else self._response.later()

    async def aclose(self) -> None:
        """Drops the rest of the response."""
        if self._response is not None:
            await self._response.aclose()


class _Connection:
    """A connection as `Responses` reads it: a message is an event."""

    gives_frames = True

    def __init__(self, connection: Any) -> None:
        name = next(name for name in _METHODS if hasattr(connection, name))
        self._receive = WeakMethod(getattr(connection, name))

    async def items(self) -> AsyncIterator[Any]:
        return self

    def as_item(self, item: Any) -> Item | None:
        return as_item(item)

    async def aclose(self, _: BaseException | None = None) -> None:
        """Leaves the connection to its owner."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        receive = self._receive()
        assert receive is not None, "its reader keeps the connection alive"
        try:
            return await receive()
        except Exception as error:
            if _ENDS.isdisjoint(each.__name__ for each in type(error).__mro__):
                raise
        raise StopAsyncIteration
