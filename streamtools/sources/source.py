"""Opens a stream, reads it, and closes it on every exit."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from types import AsyncGeneratorType
from typing import Any, Protocol, TypeAlias

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..decode.body import as_items, read_json
from ..limits import Limits
from ..wires import Wire
from .kinds import (
    Item,
    Kind,
    answer_of,
    as_item,
    codings_of,
    connection_of,
    foreign_iterator_of,
    kind_of,
    langchain_chunks,
    raw_of,
    response_of,
    server_of,
    untap,
    without_finish,
)

_ACCEPTED = (
    "an SDK's stream, a response of httpx or aiohttp, or an iterable, asynchronous or not, of bytes, text or payloads"
)
_ADDRESS = re.compile(r"https?://\S+")
_MISTAKEN: tuple[tuple[Callable[[Any], object], str], ...] = (
    (lambda stream: stream is None, "None; return it from the function that makes the request"),
    (inspect.isroutine, "a {} that was not called; call it in pipeline(...()), with `await` if it is async"),
    (
        lambda stream: isinstance(stream, str) and _ADDRESS.fullmatch(stream),
        "an address; make the request, and pass its response",
    ),
)  # mistakes that have a kind of their own, and how their message goes on
_BLOCKING = {Kind.BLOCKING, Kind.BLOCKING_MANAGER, Kind.BLOCKING_RESPONSE}
_RESPONSES = {Kind.RESPONSE, Kind.BLOCKING_RESPONSE, Kind.AIOHTTP}
_STREAMS = set(Kind) - {Kind.MEMORY}
_FIRST_ERROR = 400  # of the HTTP statuses
_LINGER_S = 0.05  # how long the end of a body is waited for, when all that matters of it has come
_BUFFERED = 8  # chunks that may be in an HTTP library's hands at once


# -- one stream --


class OfConnection(Protocol):
    """One response of a connection that stays open; its type has `is_of_connection`."""

    def __aiter__(self) -> AsyncIterator[Item]: ...

    def later(self) -> AsyncGenerator[Mapping[str, Any], None] | None:
        """Returns an iterator of payloads about the calls of the response that has ended; None if none has."""

    async def aclose(self) -> None:
        """Leaves the connection open."""


Connected: TypeAlias = "Callable[[Any, Limits], OfConnection]"  # gives the next response of a connection


class Source:
    """One stream: iterate `items` once, then `aclose`."""

    gives_frames = False
    """True if texts are pieces of a body, cut anywhere."""

    def __init__(
        self, stream: Any, limits: Limits = Limits(), kind: Kind | None = None, connected: Connected | None = None
    ) -> None:
        self._stream = stream
        self._kind = kind  # as it was given: a response may be begun by others before it is read here
        self._limits = limits
        self._first: Any = None  # the stream to be closed, as long as there is only one
        self._exits: AsyncExitStack | None = None  # of all that was opened, where it is more
        self._begun = False
        self._response: Any = None  # of an HTTP library, once it is read
        self._body: AsyncIterator[bytes] | None = None  # of a response, to be read to its very end
        self._codings: tuple[str, ...] = ()  # of the body, where it comes as it is on the wire
        self._connected = connected
        self._of_connection: OfConnection | None = None
        self._is_at_line_start = True

    async def items(self) -> AsyncIterator[Any]:
        """Begins to read; returns the items for `as_item`. Call it in the task that iterates."""
        self._begun = True
        stream = self._stream
        # What a stream is good for is looked at again, now that it is read: somebody may have begun a response that was
        # untouched when the pipeline was made. A plain asynchronous iterable stays one.
        kind = self._kind if self._kind is Kind.ASYNC else kind_of(stream)
        # A request that was not awaited may return a stream, a manager that opens one, or a whole answer.
        if kind is Kind.AWAITABLE:
            stream = as_items(answer_of(await stream), None)
            kind = _check(stream)
        if kind is Kind.MANAGER:
            manager, stream = stream, await self._opened.enter_async_context(stream)
            kind = _check(stream)
            if kind is Kind.MANAGER:
                by = "" if stream is manager else ", which a context manager opened"
                advice = "for a client, pass the response of a request: client.stream(...)"
                raise TypeError(f"cannot stream from {type(stream).__name__}{by}; {advice}")
        if kind is Kind.AWAITABLE:
            raise TypeError(f"cannot stream from a {type(stream).__name__}; await the request where you make it")
        return self._read(stream, kind)

    def as_item(self, item: Any) -> Item | None:
        """Returns an item like the function `as_item`, with knowledge of the whole stream."""
        payload = as_item(item, lambda: self._langchain)
        # litellm ends every stream with a finish reason, also one that was cut; this attribute is None where no
        # provider gave it. A finish that litellm made up must run nothing.
        if getattr(self._stream, "received_finish_reason", "") is None and isinstance(payload, Mapping):
            return without_finish(payload)
        return self._ended(payload) if isinstance(payload, str) else payload

    @cached_property
    def _langchain(self) -> Any:
        return langchain_chunks()

    def _ended(self, text: str) -> str:
        """Returns a text with the end of its line if it is a whole JSON object: a frame of a socket comes without."""
        # Only at the start of a line, and only what parses: a piece of a body may begin and end with a brace, too.
        was_at_start, self._is_at_line_start = self._is_at_line_start, text.endswith("\n")
        if (
            was_at_start
            and text[:1] == "{"
            and text[-1:] == "}"
            and isinstance(read_json(text.encode("utf-8", "surrogatepass")), dict)
        ):
            self._is_at_line_start = True
            return text + "\n"
        return text

    def later(self) -> AsyncGenerator[Mapping[str, Any], None] | None:
        """Returns an iterator of later payloads about the calls of an ended response; None without a connection."""
        return None if self._of_connection is None else self._of_connection.later()

    async def aclose(self, error: BaseException | None = None) -> bool:
        """Closes the stream and the context managers that opened it, with the error that ended the reading. Idempotent.
        Returns whether a context manager suppresses the error."""
        # A stream that was never read is closed all the same, since it was handed over. A manager holds nothing before
        # it is entered.
        if not self._begun and (kind := kind_of(self._stream)) is not Kind.MANAGER:
            self._begun = True
            if kind is Kind.AWAITABLE:  # a coroutine that is not closed would warn
                await _close(self._stream)
            else:
                self._read(self._stream, kind)
        # First the body, then the response and all that was opened, in the reverse order of opening.
        if self._body is not None:
            await _end(self._body, cancelled=error is not None, chunks=_BUFFERED if self._codings else 1)
        if self._exits is None:
            first, self._first = self._first, None
            if first is not None:
                await _close(first)
            return False
        trace = None if error is None else error.__traceback__
        return bool(await self._opened.__aexit__(type(error) if error else None, error, trace))

    @property
    def _opened(self) -> AsyncExitStack:
        if self._exits is None:
            self._exits = AsyncExitStack()
            if self._first is not None:
                self._exits.push_async_callback(_close, self._first)
        return self._exits

    def _closes(self, stream: Any) -> None:
        if self._exits is None and self._first is None:
            self._first = stream
        else:
            self._opened.push_async_callback(_close, stream)

    def explain(self, error: BaseException) -> None:
        """Adds a note to the stream's error if its response has an HTTP error status."""
        if self.status is not None:
            error.add_note(f"The response has the HTTP status {self.status}.")

    @property
    def status(self) -> int | None:
        """The HTTP status of the response, if it is an error status."""
        numbers = (getattr(self._response, name, None) for name in ("status_code", "status"))
        status = next((number for number in numbers if isinstance(number, int)), 0)
        return status if status >= _FIRST_ERROR else None

    @property
    def server(self) -> tuple[str, int | None] | None:
        """The host and port of the response, if the HTTP library has them."""
        return None if self._response is None else server_of(self._response)

    @property
    def headers(self) -> Any:
        """The headers of the response, if it has any."""
        return getattr(self._response, "headers", None)

    def _read(self, stream: Any, kind: Kind | None) -> AsyncIterator[Any]:
        if type(stream) is AsyncGeneratorType:  # which has nothing of what others are known by
            self._closes(stream)
            return stream
        if kind is Kind.MEMORY:
            held = _in_memory([stream] if isinstance(stream, (bytes, bytearray, memoryview, str)) else stream)
            self._closes(held)
            return held
        if kind in _RESPONSES:
            self._response = stream if kind is Kind.AIOHTTP else response_of(stream)
        if kind in _BLOCKING:
            from .threads import BlockingItems

            blocking = BlockingItems(stream, self._limits)
            self._opened.push_async_exit(blocking.leave)
            return blocking
        if kind is Kind.CONNECTION:
            if self._connected is None:
                raise TypeError(f"cannot stream from {type(stream).__name__}, a connection of many responses")
            stream = self._connected(connection_of(stream), self._limits)
        self._of_connection = _of_connection(stream)
        self._closes(stream)
        # aiohttp's `response.content`, iterated, gives lines, and raises at one of more than 128 KiB.
        chunks: Any = stream.iter_any() if kind is Kind.ASYNC and hasattr(stream, "iter_any") else stream
        if kind is Kind.RESPONSE:
            response: Any = response_of(stream)
            if response is not stream:
                self._closes(response)
            chunks = self._bytes(response)
        elif kind is Kind.AIOHTTP:
            chunks = stream.content.iter_any()
            # None where aiohttp does not decode, because of `auto_decompress=False` or of a coding that it does not
            # know. Older versions lack the attribute.
            if getattr(stream.content, "total_compressed_bytes", 0) is None:
                self._codings = codings_of(stream)
        elif kind is Kind.EVENTS:
            chunks = stream.aiter_sse()
        items: AsyncIterator[Any] = aiter(chunks)
        if kind is Kind.ASYNC and (inner := foreign_iterator_of(stream)) is not None:
            self._closes(inner)
        if items is not stream:
            self._closes(items)
        if kind in (Kind.RESPONSE, Kind.AIOHTTP):
            self._body = items
        if self._codings:
            items = _decoded(items, self._codings, self._limits)
            self._closes(items)
        return items

    def _bytes(self, response: Any) -> Any:
        """Returns the bytes of a response; encoded ones as they came, since a library decodes without a bound."""
        # Before the first byte is read, which a tap would copy.
        untap(response)
        codings = codings_of(response)
        raw = raw_of(response, "aiter_raw") if codings else None
        if raw is None:
            return response.aiter_bytes()
        self._codings = codings
        return raw.aiter_raw()


def _of_connection(stream: Any) -> OfConnection | None:
    return stream if getattr(type(stream), "is_of_connection", False) is True else None


# -- what may be opened --


def open_source(stream: Any, limits: Limits = Limits(), connected: Connected | None = None) -> Source:
    """Returns a source for `stream` without reading from it; raises a TypeError that names what to pass. `connected`
    makes the source of a connection's next response."""
    return Source(stream, limits, _check(stream), connected)


def _check(stream: Any) -> Kind:
    if hasattr(type(stream), "__aiter__") and not hasattr(stream, "model_dump") and kind_of(stream) is Kind.ASYNC:
        return Kind.ASYNC  # nearly always; it is none of what follows
    name = type(stream).__name__
    for is_mistaken, advice in _MISTAKEN:
        if is_mistaken(stream):
            raise TypeError(f"the stream is {advice.format(name)}")
    if isinstance(stream, Mapping):
        if kind_of(stream.get("stream")) in _STREAMS:  # botocore's answer to `converse_stream`
            raise TypeError("the stream is inside the mapping that was passed; pass response['stream']")
        raise TypeError("the stream is one mapping; pass an iterable of payloads, or request it with stream=True")
    if hasattr(stream, "model_dump"):
        raise TypeError(f"cannot stream from {name}, one object of an SDK, not a stream; pass stream=True")
    kind = kind_of(stream)
    if kind is Kind.BLOCKING and hasattr(stream, "recv"):
        raise TypeError(f"the stream is a blocking connection ({name}), which never ends; pass an asynchronous one")
    if kind is None:
        raise TypeError(f"cannot stream from {name}; pass {_ACCEPTED}")
    return kind


# -- a request that is still to be made --


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request that starts when it is awaited; the result is the stream."""

    ask: Callable[[], Any]  # returns the stream, or an awaitable of it
    wire: Wire | str | None
    pause_s: float = 0.0  # how long to wait before it is made

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._made().__await__()

    async def _made(self) -> Any:
        if self.pause_s:
            await anyio.sleep(self.pause_s)
        await checkpoint_if_cancelled()  # the answer may have been cut before it was asked for
        stream = self.ask()
        if isinstance(stream, Awaitable) and not hasattr(stream, "__aiter__"):
            stream = await stream
        return as_items(answer_of(stream), self.wire)


# -- reading and closing --


async def _decoded(
    chunks: AsyncIterator[bytes], codings: tuple[str, ...], limits: Limits
) -> AsyncGenerator[bytes, None]:
    from .encoding import Decoding

    decoding = Decoding(codings, limits)
    async for chunk in chunks:
        is_more = False
        for piece in decoding.feed(chunk):
            if is_more:  # a chunk may hold gigabytes: others run meanwhile
                await checkpoint()
            is_more = True
            yield piece
    decoding.finish()


async def _end(body: AsyncIterator[bytes], *, cancelled: bool, chunks: int) -> None:
    """Brings a body to its end before it is closed, if that is within a few chunks."""
    # After the last event its end is mostly here already; of an encoded body some bytes may stand before it. A
    # connection whose response was not read to its end is not used again, and the next request pays for a new one.
    #
    # Where the reader leaves in the middle, the body is cancelled where it waits for more: httpx leaves generators that
    # are merely closed to the garbage collector, of which trio warns.
    turns = ((0, _BUFFERED),) if cancelled else ((_LINGER_S, chunks), (0, _BUFFERED))
    for seconds, count in turns:
        with anyio.move_on_after(seconds):
            try:
                for _ in range(count):
                    if await anext(body, None) is None:
                        return
            except Exception:
                return  # the response is whole, or unwanted: how its connection ends is no news


async def _close(stream: Any) -> None:
    if type(stream) is AsyncGeneratorType:
        await stream.aclose()
        return
    for name in ("aclose", "close"):
        close = getattr(stream, name, None)
        if callable(close):
            break
    else:
        return
    result = close()
    if inspect.isawaitable(result):
        await result
    # A proxy whose `__getattr__` gave the method of the stream inside does not know that it was closed: one of
    # OpenTelemetry's ends its span only when its block is left. (wrapt's have this method, too, in C, whether or not
    # there is one inside.)
    leave = getattr(type(stream), "__aexit__", None)
    if inspect.isfunction(leave) and inspect.getattr_static(stream, name, None) is None:
        await leave(stream, None, None, None)


async def _in_memory(items: Iterable[Any]) -> AsyncGenerator[Any, None]:
    for item in items:
        yield item
