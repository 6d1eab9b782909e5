"""Follows a response beside its client: a pipeline reads a copy of it, traces it, and starts the calls that may start.

To its client, feeding a chunk (`BodyCopy.feed`, from any task or thread) takes about a microsecond, awaits nothing and
raises nothing; at most ``max_bytes`` wait. A body that shows no wire leads to no events at all.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future, wait
from contextvars import Context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from ..decode import StreamDecoder
from ..decode.body import payloads_of, read_json
from ..dispatch.event_loop import call_soon, ring
from ..errors import StreamError, TruncatedStream
from ..events import Event
from ..front import pipeline
from ..limits import Limits
from ..observers import Observer
from ..sources import Source, open_source
from ..telemetry import default_observers
from ..tools import Toolset
from ..wires import Wire
from .early_runs import EarlyRuns, Note, ResponseRuns

if TYPE_CHECKING:
    from ..privacy import Privacy


OnEvent: TypeAlias = Callable[[Event], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    runs: EarlyRuns
    wire: Wire | str | None
    limits: Limits
    observers: Callable[[], Iterable[Observer]] | None
    """Makes the observers of a response, beside those of the application."""
    privacy: Privacy | None
    on_event: OnEvent | None
    note: Note

    async def follow(self, copy: BodyCopy) -> None:
        try:
            await self._follow(copy)
        except StreamError:
            return  # of the response: its events have it, and the client that reads the response gets it as well
        except Exception as error:
            self.note("tap_failed", error)
        finally:
            copy.close()
            copy.done.set_result(None)

    async def _follow(self, copy: BodyCopy) -> None:
        source = open_source(copy, self.limits)
        try:
            items = await source.items()
            if copy.is_whole:
                answer = await self._answer(items)
                if answer is not None:
                    await self._read(answer, self.wire, copy)
                return
            held, wire = await self._found(items)
            if wire is not None:
                await self._read(_Joined(held, items, source), wire, copy)
        finally:
            await source.aclose()

    async def _answer(self, items: AsyncIterator[Any]) -> dict[str, Any] | None:
        pieces, size = [], 0
        try:
            async for item in items:
                pieces.append(item)
                size += len(item)
                if size > self.limits.max_event_bytes:
                    return None
        except TruncatedStream:
            return None
        answer = read_json(b"".join(pieces))
        return answer if isinstance(answer, dict) and payloads_of(answer, None) is not None else None

    async def _found(self, items: AsyncIterator[Any]) -> tuple[list[Any], Wire | str | None]:
        # Before a pipeline exists: any response of the client may have the content type of a stream, and one that is
        # not a model's is to have neither spans nor a warning.
        held: list[Any] = []
        decoder = StreamDecoder(wire=self.wire, limits=self.limits)
        while decoder.record is None and not decoder.done and decoder.received < self.limits.max_event_bytes:
            try:
                held.append(await anext(items))
            except (StopAsyncIteration, TruncatedStream):
                break
            decoder.feed(held[-1])
        return held, decoder.record

    async def _read(self, body: Any, wire: Wire | str | None, copy: BodyCopy) -> None:
        runs = ResponseRuns(self.runs, copy.token)
        runs.observers = [*default_observers(), *(() if self.observers is None else self.observers())]
        observers: list[Observer] = [runs, *runs.observers]
        if self.on_event is not None:
            observers.append(_Callback(self.on_event, self.note))
        events = pipeline(
            body,
            # The framework asks for the calls of a whole answer as soon as it has it: nothing can be won there.
            tools=Toolset() if copy.is_whole else self.runs.tools,
            wire=wire,
            start="pure",
            # When the stream is cut, runs that the framework has claimed are awaited: `ResponseRuns` cancels others.
            on_source_error="drain",
            # The framework reads as slowly as it likes, and the copy is no faster.
            limits=replace(self.limits, idle_timeout=None, first_chunk_timeout=None),
            observers=observers,
            requested_at=copy.asked_at,
            privacy=self.privacy,
        )
        runs.cancel_call = events.cancel
        try:
            await events
        finally:
            runs.settle()


class _Callback(Observer):
    sees_originals = True  # as one who iterates

    def __init__(self, call: OnEvent, note: Note) -> None:
        self._call: OnEvent | None = call
        self._note = note

    def on_event(self, event: Event) -> None:
        if self._call is None:
            return
        try:
            self._call(event)
        except Exception as error:
            self._call = None
            self._note("on_event_failed", error)


class _Joined:
    def __init__(self, held: list[Any], items: AsyncIterator[Any], source: Source) -> None:
        self._held = deque(held)
        self._items = items
        self._source = source

    def __aiter__(self) -> _Joined:
        return self

    def __anext__(self) -> Awaitable[Any]:  # not a coroutine of ours, which would cost each chunk 0.3 µs
        return self._first() if self._held else self._items.__anext__()

    async def _first(self) -> Any:
        return self._held.popleft()

    async def aclose(self) -> None:
        await self._source.aclose()


_CHUNK_BYTES = 64  # what a waiting chunk costs beside its bytes: its header, and its place in the queue


class BodyCopy:
    """The copy of one body: `feed` and `end` it where the body is read, iterate it once where the copy is read, in the
    event loop `token`, which may be the same. `is_whole`: it may be a whole answer, and is no stream; `asked_at`: when
    the request was sent, on ``time.monotonic``; `on_drop` is called if the reader lags behind, and the copy is
    dropped."""

    is_stream_consumed = False  # as the attribute of a response: nobody has read the body

    def __init__(
        self,
        content_encoding: str,
        *,
        max_bytes: int,
        token: EventLoopToken,
        same_loop: bool,
        is_whole: bool,
        asked_at: float,
        on_drop: Callable[[], None],
    ) -> None:
        self.headers: Mapping[str, str] = {"content-encoding": content_encoding}
        self.token = token  # the event loop of the copy's reader
        self.is_whole = is_whole  # the body may be a whole answer, and is no stream
        self.asked_at = asked_at
        self.done: Future[None] = Future()  # done when the reader has ended, and all that it started
        self.caught_up = threading.Event()  # set when the body has ended, and the reader has read all of it or has left
        self._ring: Callable[[anyio.Event], None] = ring if same_loop else self._ring_there
        self._on_drop = on_drop
        self._chunks: deque[bytes] = deque()
        self._max_bytes = max_bytes
        # Two counts, each written on one side only, since the sides may be two threads.
        self._fed = 0
        self._read = 0
        self._ended = False
        self._error: TruncatedStream | None = None
        self._left = False
        self._awaited: anyio.Event | None = None

    def is_behind(self) -> bool:
        """Returns whether some of what was fed is still to be decoded; from any thread."""
        # The reader asks for more only when it has passed on all events of what it got.
        return not self.caught_up.is_set() and (self._awaited is None or bool(self._chunks))

    # -- where the body is read --

    def feed(self, chunk: bytes) -> None:
        if self._ended or self._left:
            return
        # The client must not wait for its copy, so what cannot be kept is dropped as a whole: a copy with a hole would
        # decode to something that the model has not written.
        self._fed += len(chunk) + _CHUNK_BYTES
        if self._fed - self._read > self._max_bytes:
            self._drop()
            return
        self._chunks.append(chunk if type(chunk) is bytes else bytes(chunk))
        if self._awaited is not None:
            self._wake(self._ring)

    def end(self) -> None:
        self._end(None)

    def cut(self) -> None:
        """Ends the copy, if it has not ended: its body was left before its end. May be called in any thread."""
        self._end(TruncatedStream("the response was closed before its end"))

    def yield_to(self) -> None:
        """Leaves the body to somebody else who decodes it. Changes nothing once the copy's reader has some of it."""
        # Its calls may run by then, and its spans are open.
        if self._read == 0:
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

    # A copy looks like a response of httpx, so that `sources` decodes its content codings as those of any other.

    def aiter_raw(self) -> BodyCopy:
        return self

    def aiter_bytes(self) -> BodyCopy:
        return self

    def __aiter__(self) -> BodyCopy:
        return self

    async def __anext__(self) -> bytes:
        # Looked at once more when the event is in place: a chunk or the end may have arrived in between from another
        # thread, which saw no event to set.
        while not self._chunks:
            if self._ended:
                self._raise_end()
            self._awaited = awaited = anyio.Event()
            if not self._chunks and not self._ended:
                await awaited.wait()
        chunk = self._chunks.popleft()
        self._read += len(chunk) + _CHUNK_BYTES
        return chunk

    def _raise_end(self) -> None:
        self.caught_up.set()
        error, self._error = self._error, None
        if error is not None:
            raise error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self._left = True
        self._chunks.clear()
        self.caught_up.set()


# -- an event loop for code that has none --
#
# There is one for the process, in a thread of its own, made when it is first asked for. Its thread is a daemon, so that
# it keeps no program alive; the end of a program waits for a moment until its tasks are done.

_AT_EXIT_S = 1.0  # the rest of a trace takes milliseconds; a tool that nobody waits for any more may take longer

_lock = threading.Lock()
_running: list[EventLoopToken] = []
_tasks: dict[Any, Future[None]] = {}  # asyncio itself holds its tasks weakly


def loop_of_its_own() -> EventLoopToken:
    with _lock:
        if not _running:
            begun: Future[EventLoopToken] = Future()
            threading.Thread(target=anyio.run, args=(_serve, begun), name="streamtools loop", daemon=True).start()
            _running.append(begun.result())
        return _running[0]


def spawn_there(run: Callable[[Any], Coroutine[Any, Any, None]], value: Any, context: Context) -> None:
    """Starts a task in `loop_of_its_own`, from any other thread. It must contain its errors."""
    loop: Any = loop_of_its_own().native_token

    # Not by anyio, which finds the loop by the current task: a callback has none.
    def start() -> None:
        task = loop.create_task(run(value))
        _tasks[task] = Future()
        task.add_done_callback(_ended)

    loop.call_soon_threadsafe(start, context=context)


def _ended(task: Any) -> None:
    _tasks.pop(task).set_result(None)


@atexit.register
def _settle() -> None:
    wait(list(_tasks.values()), _AT_EXIT_S)


async def _serve(begun: Future[EventLoopToken]) -> None:
    begun.set_result(current_token())
    await anyio.sleep_forever()


def _forget() -> None:
    """Forgets the loop of the parent process: a fork takes no thread along."""
    global _lock
    _lock = threading.Lock()
    _running.clear()
    _tasks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
