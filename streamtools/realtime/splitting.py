"""Splits a connection into its responses: each is a separate source, or, over a socket, one follows the other.

Nothing is read ahead of a consumer that waits, nor between responses; what waits for others is bounded by
``max_open_responses`` and ``max_waiting_bytes``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakMethod

import anyio
import orjson

from ..decode.body import Body, read_json
from ..errors import LimitExceeded, RemoteProtocolError
from ..framing import Frame
from ..limits import Limits
from ..sources.kinds import Item, as_event, as_item, connection_of
from ..sources.source import open_source
from ..wires import Lanes, OpenResponse, detect, find, malformed, provider_error

_MAX_ASIDES = 64  # events kept although they belong to no open response


# -- a connection of many responses --
#
# There is no task, since only a pipeline may open one. The consumer that waits, be it for its response's next event or
# for the next response, reads the connection under a lock, and puts what is not its own where the others find it.


class Events(Protocol):
    gives_frames: bool  # whether each text is one whole event, as a socket's are; otherwise texts are pieces of a body

    async def items(self) -> AsyncIterator[Any]: ...

    def as_item(self, item: Any, /) -> Item | None:
        """Returns bytes, text or a payload; None for an item without content."""

    async def aclose(self, error: BaseException | None = None, /) -> object:
        """Ends the reading."""


class Responses:
    """The responses of one connection, in the order in which they begin: an async iterator of `ResponseSource`."""

    def __init__(self, splitter: Splitter, kept: Any = None) -> None:
        self._splitter = splitter
        self._kept = kept  # the connection, which a splitter of a socket refers to weakly

    @property
    def asides(self) -> deque[Mapping[str, Any]]:
        """The latest events that belong to no open response, such as ``response.steer.pending``."""
        return self._splitter.asides

    def __aiter__(self) -> Responses:
        return self

    async def __anext__(self) -> ResponseSource:
        return ResponseSource(self._splitter, await self._splitter.next(), self._kept)

    async def __aenter__(self) -> Responses:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection's stream; responses that have not ended are cut. Idempotent."""
        await self._splitter.aclose()


class ResponseSource:
    """The events of one response, as they came: pass it to `pipeline`. It ends with the response."""

    is_of_connection = True

    def __init__(self, splitter: Splitter, inbox: _Inbox, kept: Any) -> None:
        self.response = inbox.response
        """Its id and its lane."""
        self._splitter = splitter
        self._inbox = inbox
        self._kept = kept  # as that of `Responses`, which nobody may hold any more

    def __aiter__(self) -> ResponseSource:
        return self

    async def __anext__(self) -> Item:
        inbox = self._inbox
        await self._splitter.read_until(lambda: bool(inbox.items) or self.response.ended or inbox.closed)
        if inbox.items:
            return self._take()
        # The connection's error is not that of a response which had ended before.
        if not self.response.ended:
            self._splitter.throw()
        raise StopAsyncIteration

    async def later(self) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yields the payloads about the response's calls that come after its end, until the connection is over.
        Meanwhile the events of other responses wait for their readers."""
        inbox = self._inbox
        inbox.closed = False
        try:
            while not self._splitter.is_over:
                await self._splitter.read_until(lambda: bool(inbox.items))
                while inbox.items:
                    item = self._take()
                    if isinstance(item, Mapping):
                        yield item
        finally:
            await self.aclose()

    def _take(self) -> Item:
        item, size = self._inbox.items.popleft()
        self._splitter.charge(-size)
        return item

    async def aclose(self) -> None:
        """Drops the rest of the response, later payloads about it included. The connection stays open."""
        inbox = self._inbox
        inbox.closed = True
        self._splitter.charge(-sum(size for _, size in inbox.items))
        inbox.items.clear()


class _Inbox:
    def __init__(self, response: OpenResponse) -> None:
        self.response = response
        self.items: deque[tuple[Item, int]] = deque()
        self.closed = False  # nobody reads it any more


class Splitter:
    def __init__(self, source: Events, limits: Limits) -> None:
        self.asides: deque[Mapping[str, Any]] = deque(maxlen=_MAX_ASIDES)
        self._source = source
        self._limits = limits
        self._body = Body(limits)
        self._lanes: Lanes | None = None
        self._items: AsyncIterator[Any] | None = None
        self._reading = anyio.Lock()
        self._inboxes: dict[OpenResponse, _Inbox] = {}
        self._new: deque[_Inbox] = deque()
        self._ended: _Inbox | None = None  # the latest; more may come about its calls
        self._waiting = 0  # bytes
        self._has_begun = False  # any of them
        self._error: BaseException | None = None
        self.is_over = False  # nothing more is read

    async def next(self) -> _Inbox:
        await self.read_until(lambda: bool(self._new))
        if self._new:
            return self._new.popleft()
        self.throw()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.is_over = True
        with anyio.move_on_after(self._limits.cancel_grace, shield=True):
            try:
                await self._source.aclose(self._error)
            except Exception as error:
                self._error = self._error or error

    def throw(self) -> None:
        if self._error is not None:
            raise self._error

    async def read_until(self, is_there: Callable[[], bool]) -> None:
        while not (is_there() or self.is_over):
            # Asked again under the lock: whoever held it may have put there what this consumer waits for.
            async with self._reading:
                if not (is_there() or self.is_over):
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
            self.is_over = True
        if self.is_over:
            await self.aclose()

    # -- payloads --

    def _payloads(self, item: Item | None) -> Iterator[tuple[Mapping[str, Any] | None, Item]]:
        if isinstance(item, Mapping):
            yield item, item
        elif item is not None:
            data = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
            yield from self._framed((data,) if self._source.gives_frames else self._body.feed_payloads(data))

    def _end(self) -> Iterator[tuple[Mapping[str, Any] | None, Item]]:
        self.is_over = True
        yield from self._framed(self._body.finish())
        if self._body.began and not self._has_begun:
            raise self._body.what_it_is()

    def _framed(self, found: Iterable[bytes | Frame]) -> Iterator[tuple[Mapping[str, Any] | None, Item]]:
        for frame in found:
            data, name = (frame.data, frame.event) if isinstance(frame, Frame) else (frame, "message")
            # A keep-alive; or a marker, which proves nothing here: it does not name the response that it would end.
            if not (line := data.strip()) or line.startswith(b":") or line == b"[DONE]":
                continue
            payload = read_json(data)
            if name == "error" and isinstance(payload, dict):
                payload["type"] = name  # only the event's name may say so
            yield payload if isinstance(payload, dict) else None, as_event(data, name)

    # -- to their responses --

    def _route(self, payload: Mapping[str, Any] | None, item: Item) -> None:
        """Gives an item to the responses that it belongs to; one that cannot be read breaks them all."""
        # Which response an unreadable event belongs to is unknown. Given to one, the others would be cut unnoticed.
        owners = list(self._inboxes) if payload is None else self._owners(payload)
        if not owners and payload is None:
            raise malformed("the data of an event between two responses is not a JSON object")
        if not owners and payload is not None:
            self.asides.append(payload)
        for owner in owners:
            # About a response that has ended: of its calls, say. `later` reads it, if anybody does.
            if payload is not None and self._ended is not None and owner is self._ended.response:
                if not self._put(self._ended, payload):  # nobody waits for it
                    self.asides.append(payload)
                continue
            self._put(self._inboxes.get(owner) or self._begin(owner), item)
            if owner.ended:
                self._ended = self._inboxes.pop(owner)

    def _owners(self, payload: Mapping[str, Any]) -> list[OpenResponse]:
        """Returns the responses that an event belongs to. An error is one of its own while the wire is not known."""
        # The first event that shows its wire decides which one's `Lanes` distinguish the responses.
        if self._lanes is None and (name := detect(payload)) is not None:
            if (lanes := find(name).lanes) is None:
                raise RemoteProtocolError(
                    f"{name} sends one response per body; pass the stream itself to pipeline(...)", kind="unknown_wire"
                )
            self._lanes = lanes()
        if self._lanes is not None:
            return self._lanes.owners(payload)
        return [OpenResponse(None, None, ended=True)] if provider_error(payload) else []

    def _put(self, inbox: _Inbox, item: Item) -> bool:
        """Keeps an event until it is read; not if nobody reads it any more: then it returns False."""
        if not inbox.closed:
            size = _size(item)
            inbox.items.append((item, size))
            self.charge(size)
        return not inbox.closed

    def _begin(self, response: OpenResponse) -> _Inbox:
        # Open ones, and those that have ended before anybody took them: a peer could begin and end any number.
        count = len(self._inboxes) + sum(one.response.ended for one in self._new) + 1
        if count > (limit := self._limits.max_open_responses):
            raise LimitExceeded("max_open_responses", limit=limit, value=count, where="the connection")
        self._has_begun = True
        self._body.settle()
        inbox = self._inboxes[response] = _Inbox(response)
        self._new.append(inbox)
        return inbox

    def charge(self, size: int) -> None:
        self._waiting += size
        if size > 0 and self._waiting > (limit := self._limits.max_waiting_bytes):
            raise LimitExceeded("max_waiting_bytes", limit=limit, value=self._waiting, where="the connection")


def _size(item: Item) -> int:
    try:
        return len(item) if isinstance(item, bytes) else len(orjson.dumps(item, default=str))
    except TypeError:  # integers of any size, halves of surrogate pairs
        return len(repr(item))


def responses(stream: Any, *, limits: Limits = Limits()) -> Responses:
    """Splits a connection of the Responses API, of Realtime or of Gemini's Live API into its responses: lanes,
    successors after steering, a gateway's rounds.

    Pass each one to `pipeline`, in separate tasks if several are open at once, or return it from `agent_loop`'s
    ``call_model``. A connection is read only while a reader waits, and events for other readers are kept within
    ``max_waiting_bytes``. Cancelling a waiting reader cancels the connection's read, so read every response to its end
    if the connection is an async generator. A connection with `recv` has one such object, which `pipeline(connection)`
    shares, and its socket stays open: leaving the block or closing this object only ends the splitting.

    Args:
        stream: anything that `pipeline` takes, including the connection of OpenAI's SDK and the session of Google's.
        limits: bounds ``max_open_responses``, ``max_waiting_bytes`` and the framing.

    Raises:
        TypeError: `stream` cannot be read as a stream.
    """
    # Two objects for one socket would take each other's events from it.
    if (connection := connection_of(stream)) is not None:
        return responses_of(connection, limits)
    return Responses(Splitter(open_source(stream, limits), limits))


# -- a socket, a response at a time --
#
# A socket is read by `recv` and never closed here. It outlives its responses, so a record is kept beside it, as long as
# it lives: which responses have begun, and the events that wait for another reader. The record is made anew once the
# connection has failed.

_METHODS = ("recv_bytes", "recv")  # OpenAI's SDK parses nothing in the first
_ENDS = frozenset({"ConnectionClosedOK", "EOFError"})  # of websockets; of a lane in OpenAI's SDK
_known: WeakKeyDictionary[Any, Splitter] = WeakKeyDictionary()


def responses_of(connection: Any, limits: Limits) -> Responses:
    """Returns the responses of a connection, which all its readers share; the first one's limits hold."""
    found = _known.get(connection)
    if found is None or found.is_over:
        found = _known[connection] = Splitter(_Connection(connection), limits)
    return Responses(found, connection)


class NextResponse:
    is_of_connection = True

    def __init__(self, connection: Any, limits: Limits) -> None:
        self._connection = connection
        self._limits = limits
        self._response: ResponseSource | None = None

    def __aiter__(self) -> NextResponse:
        return self

    async def __anext__(self) -> Item:
        if self._response is None:
            self._response = await anext(responses_of(self._connection, self._limits))
        return await anext(self._response)

    def later(self) -> AsyncGenerator[Mapping[str, Any], None] | None:
        """Returns an iterator of later payloads about the calls of the response that has ended; None if none has."""
        return None if self._response is None else self._response.later()

    async def aclose(self) -> None:
        if self._response is not None:
            await self._response.aclose()


class _Connection:
    gives_frames = True

    def __init__(self, connection: Any) -> None:
        # Weak, because the record is a value of `_known`: a strong reference to its own key would keep both for ever.
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
        assert receive is not None, "whoever reads it keeps the connection alive"
        # By the name of the exception's class, since neither library is imported here.
        try:
            return await receive()
        except Exception as error:
            if _ENDS.isdisjoint(each.__name__ for each in type(error).__mro__):
                raise
        raise StopAsyncIteration
