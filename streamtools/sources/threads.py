"""Reads and closes blocking streams in a separate thread, which reads nothing ahead: about 60 µs per item."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token

from ..decode.body import SLICE_BYTES
from ..errors import LimitExceeded
from ..limits import Limits
from .encoding import Decoding
from .kinds import Kind, codings_of, kind_of, pulled_of, raw_of, response_of, untap, wrapped_by

_END: Any = object()
_SMALL_READ_BYTES = 128  # as requests reads: urllib3 before 2.0 waits until that many are there
_READABLE = {Kind.MEMORY, Kind.BLOCKING_RESPONSE, Kind.BLOCKING}

_lock = threading.Lock()
_given_up = 0  # threads of this process that were given up and still wait for a stream


class BlockingItems:
    """A stream that blocks, or a context manager that opens one, as an asynchronous iterator."""

    def __init__(self, stream: Any, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._thread: _Thread | None = None
        self._items: Iterator[Any] | None = None
        self._opened = ExitStack()

    def __aiter__(self) -> BlockingItems:
        return self

    async def __anext__(self) -> Any:
        if self._thread is None:
            # Threads that were given up hang in a silent stream, perhaps for ever: their number in the process is
            # bounded.
            if _given_up >= (limit := self._limits.max_abandoned_threads):
                where = "threads are left waiting for silent streams; their number"
                raise LimitExceeded("max_abandoned_threads", limit=limit, value=_given_up, where=where)
            self._thread = _Thread()
        item = await self._thread.run(self._next)
        if item is _END:
            raise StopAsyncIteration
        return item

    async def leave(self, *raised: Any) -> bool:
        if self._thread is None:  # not begun, so that nothing is known to be open but the stream itself
            self._thread = _Thread()
            close_later(self._opened, self._stream)
        return bool(await self._thread.stop(partial(self._opened.__exit__, *raised)))

    # -- in the thread --

    def _next(self) -> Any:
        if self._items is None:
            self._items = self._begin()
        return next(self._items, _END)

    def _begin(self) -> Iterator[Any]:
        stream = self._stream
        # In the thread as well: the block of a manager, the iterator and the close find the thread-local state of each
        # other, and a generator's context variables stay together.
        kind = kind_of(stream)
        if kind is Kind.BLOCKING_MANAGER:
            manager, stream = stream, self._opened.enter_context(stream)
            kind = kind_of(stream)
            if kind not in _READABLE:
                by = "; pass the response of a request" if stream is manager else ", which a context manager opened"
                raise TypeError(f"cannot stream from {type(stream).__name__}{by}")
        if kind is Kind.MEMORY:
            return iter([stream] if isinstance(stream, (bytes, bytearray, memoryview, str)) else stream)
        close_later(self._opened, stream)
        holder: Any = stream
        if kind is Kind.BLOCKING_RESPONSE:
            holder = response_of(stream)
            untap(holder)  # before its bytes are asked for, which pass through the tap
            if holder is not stream:
                close_later(self._opened, holder)
        codings = codings_of(holder)
        encoded = _encoded(holder) if codings else None
        items: Iterator[Any]
        if encoded is None:
            items = iter(holder.iter_bytes() if kind is Kind.BLOCKING_RESPONSE else holder)
        else:
            close_later(self._opened, encoded)
            items = _decoded(encoded, codings, self._limits)
        if items is not stream:
            close_later(self._opened, items)
        return items


def _encoded(response: Any) -> Iterator[bytes] | None:
    chunks: Iterator[bytes] | None = None
    if (raw := raw_of(response, "iter_raw")) is not None:
        chunks = raw.iter_raw()
    elif (pulled := pulled_of(response)) is not None and hasattr(pulled, "read1"):
        chunks = iter(partial(pulled.read1, SLICE_BYTES, decode_content=False), b"")
    elif pulled is not None:  # without `read1`, a read waits until it has all the bytes that were asked for
        chunks = pulled.stream(_SMALL_READ_BYTES, decode_content=False)
    return chunks


def _decoded(chunks: Iterator[bytes], codings: tuple[str, ...], limits: Limits) -> Iterator[bytes]:
    decoding = Decoding(codings, limits)
    for chunk in chunks:
        piece = b""
        for piece in decoding.feed(chunk):
            yield piece
        # A reader that leaves is heard between two items: a body that decodes to nothing must have some, too.
        if not piece:
            yield piece
    decoding.finish()


def close_later(opened: ExitStack, stream: Any) -> None:
    close = getattr(stream, "close", None) or getattr(wrapped_by(stream), "close", None)
    if callable(close):
        opened.callback(close)


# -- the thread --
#
# A thread for each stream, not a pool: nothing of a stream is ever touched by two threads, and its iterator, context
# and thread-locals stay together. It is a daemon, so that a read that hangs does not keep the interpreter alive. It
# does one thing when it is asked to, and waits. It does not read ahead: an item that it holds while it waits for the
# next would come too late, and after the end marker it would be stuck in a server's silence.


@dataclass(slots=True, eq=False)
class _Job:
    function: Callable[[], Any]
    is_last: bool
    done: anyio.Event = field(default_factory=anyio.Event)
    is_awaited: bool = True
    value: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self.function()
        except BaseException as error:  # raised where it is awaited
            self.error = error


def thread_context() -> Context:
    """Returns the caller's context variables for a thread: no async library runs there, whatever anyio left in them."""
    context = copy_context()
    if (sniffio := sys.modules.get("sniffio")) is not None:
        context.run(sniffio.current_async_library_cvar.set, None)
    return context


class _Thread:
    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._token = current_token()
        self._has_ended = False
        self._is_given_up = False
        target = thread_context().run
        threading.Thread(target=target, args=(self._serve,), name="streamtools source", daemon=True).start()

    async def run(self, function: Callable[[], Any], *, is_last: bool = False) -> Any:
        """Calls `function` in the thread. If this is cancelled, its value or error goes nowhere."""
        job = _Job(function, is_last)
        self._jobs.put(job)
        try:
            await job.done.wait()
        finally:
            job.is_awaited = False
        if job.error is not None:
            raise job.error
        return job.value

    async def stop(self, function: Callable[[], Any]) -> Any:
        """Calls `function` in the thread as its last act. If this is cancelled, nobody hears of its end."""
        # Python cannot interrupt a thread. A reader that leaves a silent stream waits for the next item, or until the
        # pump's grace is over; then the thread is given up, and closes the stream as soon as it can.
        global _given_up
        try:
            return await self.run(function, is_last=True)
        except anyio.get_cancelled_exc_class():
            with _lock:
                self._is_given_up = not self._has_ended
                _given_up += self._is_given_up
            raise

    def _serve(self) -> None:
        global _given_up
        while True:
            job = self._jobs.get()
            job.run()
            if job.is_last:
                # Under the lock: given up just now, this thread has been counted, and must take itself out again.
                with _lock:
                    self._has_ended = True
                    _given_up -= self._is_given_up
            if job.is_awaited:
                try:
                    from_thread.run_sync(job.done.set, token=self._token)
                except RuntimeError:  # the event loop is gone, and with it the task that waited
                    return
            if job.is_last:
                return
