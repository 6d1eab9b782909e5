"""Splits a connection of the Responses API into its responses, each a source of its own.

    connection in (whatever `pipeline` reads: SDK objects, dicts, bytes) → `responses(...)` → one `ResponseSource` each

Theory of operation. There is no task: the consumer that waits, be it for its response's next event or for the next
response, reads the connection under a lock, and puts what is not its own where the others find it. So nothing is read
ahead, and the order of the events within a response is the connection's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

import anyio
import orjson

from ..decode.body import Body, tolerant_json
from ..errors import LimitExceeded
from ..framing import Frame
from ..limits import Limits
from ..wires.openai_responses.lanes import Lanes, OpenResponse
from ..wires.reading import malformed
from .items import Item
from .source import open_source

__all__ = ["ResponseSource", "Responses", "responses"]

_MAX_ASIDES = 64  # events kept although they belong to no open response


def responses(stream: Any, *, limits: Limits = Limits()) -> Responses:
    """Splits a connection of the Responses API into its responses: lanes, successors after steering, a gateway's
    rounds.

    Pass each one to `pipeline`, in a task of its own if several are open at once, or return it from `agent_loop`'s
    ``call_model``. A connection is read only while somebody waits, and events that somebody else will want are kept
    within ``max_waiting_bytes``. A reader that is cancelled while it waits cancels the connection's read with it, so
    read every response to its end if the connection is an async generator.

    Args:
        stream: anything that `pipeline` takes; the connection of OpenAI's SDK, too.
        limits: bounds ``max_open_responses``, ``max_waiting_bytes`` and the framing.

    Raises:
        TypeError: this cannot be streamed.
    """
    return Responses(stream, limits)


class Responses:
    """The responses of one connection, in the order in which they begin: an async iterator of `ResponseSource`."""

    def __init__(self, stream: Any, limits: Limits) -> None:
        self.asides: deque[Mapping[str, Any]] = deque(maxlen=_MAX_ASIDES)
        """The latest events that came while their response was not open, such as ``response.steer.pending``."""
        self._source = open_source(stream, limits)
        self._limits = limits
        self._body = Body(limits)
        self._lanes = Lanes()
        self._items: AsyncIterator[Any] | None = None
        self._reading = anyio.Lock()
        self._sources: dict[OpenResponse, ResponseSource] = {}
        self._new: deque[ResponseSource] = deque()
        self._waiting = 0  # bytes
        self._over = False
        self._error: BaseException | None = None

    def __aiter__(self) -> Responses:
        return self

    async def __anext__(self) -> ResponseSource:
        """Returns the next response, as soon as it begins."""
        await self._read_until(lambda: bool(self._new))
        if self._new:
            return self._new.popleft()
        self._raise()
        raise StopAsyncIteration

    async def __aenter__(self) -> Responses:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection's stream; responses that have not ended are cut. Idempotent."""
        self._over = True
        with anyio.move_on_after(self._limits.cancel_grace, shield=True):
            try:
                await self._source.aclose(self._error)
            except Exception as error:
                self._error = self._error or error

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    async def _read_until(self, is_there: Callable[[], bool]) -> None:
        """Reads the connection until something is there, or nothing more comes."""
        while not (is_there() or self._over):
            async with self._reading:
                if not (is_there() or self._over):
                    await self._read()

    async def _read(self) -> None:
        try:
            if self._items is None:
                self._items = await self._source.items()
            item = await anext(self._items, None)
            for payload, kept in self._end() if item is None else self._payloads(self._source.as_item(item)):
                self._route(payload, kept)
        except Exception as error:  # of the source, the framing or a limit: everyone's
            self._error = error
            self._over = True
        if self._over:
            await self.aclose()

    # -- payloads --

    def _payloads(self, item: Item | None) -> Iterator[tuple[Mapping[str, Any] | None, Item]]:
        """Yields each payload, and the item that it goes on as."""
        if isinstance(item, Mapping):
            yield item, item
        elif item is not None:
            data = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
            yield from self._framed(self._body.feed_payloads(data))

    def _end(self) -> Iterator[tuple[Mapping[str, Any] | None, Item]]:
        self._over = True
        yield from self._framed(self._body.finish())
        if self._body.began and not self._lanes.begun:
            raise self._body.what_it_is()

    def _framed(self, found: Iterable[bytes | Frame]) -> Iterator[tuple[Mapping[str, Any] | None, Item]]:
        for frame in found:
            data, name = (frame.data, frame.event) if isinstance(frame, Frame) else (frame, "message")
            if not data.strip() or data.startswith((b":", b"[DONE]")):
                continue  # a keep-alive, or a marker that proves nothing
            payload = _parsed(data)
            yield payload if isinstance(payload, dict) else None, _event(data, name)

    # -- to their responses --

    def _route(self, payload: Mapping[str, Any] | None, item: Item) -> None:
        """Gives an item to the responses that it belongs to; one that cannot be read breaks them all."""
        owners = list(self._lanes.open) if payload is None else self._lanes.owners(payload)
        if not owners and payload is None:
            raise malformed("the data of an event between two responses is no JSON object")
        if not owners and payload is not None:
            self.asides.append(payload)
        for owner in owners:
            source = self._sources.get(owner) or self._begin(owner)
            source.put(item)
            if owner.ended:
                del self._sources[owner]

    def _begin(self, response: OpenResponse) -> ResponseSource:
        count = len(self._sources) + sum(one.response.ended for one in self._new) + 1
        if count > (limit := self._limits.max_open_responses):
            raise LimitExceeded("max_open_responses", limit=limit, value=count, where="the connection")
        self._body.settle()
        source = self._sources[response] = ResponseSource(self, response)
        self._new.append(source)
        return source

    def _charge(self, size: int) -> None:
        self._waiting += size
        if size > 0 and self._waiting > (limit := self._limits.max_waiting_bytes):
            raise LimitExceeded("max_waiting_bytes", limit=limit, value=self._waiting, where="the connection")


class ResponseSource:
    """The events of one response, as they came: pass it to `pipeline`. It ends with the response."""

    def __init__(self, connection: Responses, response: OpenResponse) -> None:
        self.response = response
        """Its id and its lane."""
        self._connection = connection
        self._items: deque[tuple[Item, int]] = deque()
        self._closed = False

    def __aiter__(self) -> ResponseSource:
        return self

    async def __anext__(self) -> Item:
        """Returns the next event. If none is there yet, it reads the connection."""
        await self._connection._read_until(lambda: bool(self._items) or self.response.ended or self._closed)
        if self._items:
            item, size = self._items.popleft()
            self._connection._charge(-size)
            return item
        if not self.response.ended:
            self._connection._raise()
        raise StopAsyncIteration

    def put(self, item: Item) -> None:
        """Keeps an event until it is read; not if nobody reads it any more."""
        if not self._closed:
            size = _size(item)
            self._items.append((item, size))
            self._connection._charge(size)

    async def aclose(self) -> None:
        """Drops the rest of the response. The connection stays open."""
        self._closed = True
        self._connection._charge(-sum(size for _, size in self._items))
        self._items.clear()


def _size(item: Item) -> int:
    try:
        return len(item) if isinstance(item, bytes) else len(orjson.dumps(item, default=str))
    except TypeError:  # integers of any size, halves of surrogate pairs
        return len(repr(item))


def _parsed(data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return tolerant_json(data)


def _event(data: bytes, name: str) -> bytes:
    """Returns a payload as an event of an event stream; its name is kept where only the name marks an error."""
    lines = data.replace(b"\r", b" ").split(b"\n")
    return (
        (b"event: error\n" if name == "error" else b"") + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    )
