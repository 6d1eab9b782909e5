"""Copies the body of a response to a reader that may lag behind, without ever delaying the response.

Input: the chunks of a body, from the task or thread that reads it. Output: the same chunks, for a task that iterates
the copy, which looks like a response so that its content codings are decoded as those of any other.

Guarantees: feeding a chunk takes about a microsecond, awaits nothing and raises nothing; at most ``max_bytes`` wait. A
reader that lags behind that loses the rest, and is told by a `TruncatedStream`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import anyio
from anyio.lowlevel import EventLoopToken

from ..errors import TruncatedStream
from ..event_loop import call_soon, ring

__all__ = ["BodyCopy"]

_CHUNK_BYTES = 64  # what a waiting chunk costs beside its bytes: its header, and its place in the queue


class BodyCopy:
    """The copy of one body: `feed` and `end` it where the body is read, iterate it once where the copy is read.

    Args:
        content_encoding: of the body, as its header says.
        max_bytes: how much may wait.
        token: the event loop of the copy's reader.
        same_loop: the body is read in that loop, too, and not in another thread.
        on_drop: is called if the copy is dropped, since its reader lags behind.
    """

    is_stream_consumed = False
    """As the attribute of a response: nobody has read the body."""

    def __init__(
        self,
        content_encoding: str,
        *,
        max_bytes: int,
        token: EventLoopToken,
        same_loop: bool,
        on_drop: Callable[[], None],
    ) -> None:
        self.headers: Mapping[str, str] = {"content-encoding": content_encoding}
        """The headers that say how to decode the copy."""
        self.token = token
        """The event loop of the copy's reader."""
        self.done: Future[None] = Future()
        """Done when the reader has ended, and all that it started."""
        self.caught_up = threading.Event()
        """Set when the body has ended, and the reader has read all of it or has left."""
        self._ring: Callable[[anyio.Event], None] = ring if same_loop else self._ring_there
        self._on_drop = on_drop
        self._chunks: deque[bytes] = deque()
        self._max_bytes = max_bytes
        # Two counts, each written on one side only, since the sides may be two threads.
        self._fed = 0
        self._taken = 0
        self._ended = False
        self._error: TruncatedStream | None = None
        self._left = False
        self._awaited: anyio.Event | None = None

    # -- where the body is read --

    def feed(self, chunk: bytes) -> None:
        """Takes the next chunk of the body."""
        if self._ended or self._left:
            return
        self._fed += len(chunk) + _CHUNK_BYTES
        if self._fed - self._taken > self._max_bytes:
            self._drop()
            return
        self._chunks.append(chunk if type(chunk) is bytes else bytes(chunk))
        if self._awaited is not None:
            self._wake(self._ring)

    def end(self) -> None:
        """Ends the copy with the body."""
        self._end(None)

    def cut(self) -> None:
        """Ends the copy, if it has not ended: its body was left before its end. May be called in any thread."""
        self._end(TruncatedStream("the response was closed before its end"))

    def yield_to(self) -> None:
        """Leaves the body to somebody else who decodes it. Changes nothing once the copy's reader has some of it."""
        if self._taken == 0:
            self.close()
            self.end()

    def _drop(self) -> None:
        self._chunks.clear()
        text = f"the copy of the response was dropped, since more than max_waiting_bytes={self._max_bytes} waited"
        self._end(TruncatedStream(text))
        self._on_drop()

    def _end(self, error: TruncatedStream | None) -> None:
        if not self._ended:
            self._error, self._ended = error, True
            self._wake(self._ring_there)

    def _wake(self, ring: Callable[[anyio.Event], None]) -> None:
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            ring(awaited)

    def _ring_there(self, event: anyio.Event) -> None:
        call_soon(self.token, event.set)

    # -- where the copy is read --

    def aiter_raw(self) -> BodyCopy:
        """Returns the chunks as they came over the wire, as the method of a response does."""
        return self

    def aiter_bytes(self) -> BodyCopy:
        """Returns the chunks of a body without a coding, as the method of a response does."""
        return self

    def __aiter__(self) -> BodyCopy:
        return self

    async def __anext__(self) -> bytes:
        while not self._chunks:
            if self._ended:
                self._raise_end()
            self._awaited = awaited = anyio.Event()
            if not self._chunks and not self._ended:  # else it came meanwhile, from another thread
                await awaited.wait()
        chunk = self._chunks.popleft()
        self._taken += len(chunk) + _CHUNK_BYTES
        return chunk

    def _raise_end(self) -> None:
        self.caught_up.set()
        error, self._error = self._error, None
        if error is not None:
            raise error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Leaves the copy, as a reader of a response does."""
        self.close()

    def close(self) -> None:
        """Leaves the copy: what is fed from now on is ignored."""
        self._left = True
        self._chunks.clear()
        self.caught_up.set()
