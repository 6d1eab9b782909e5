"""Reads a source, drives the decoder, emits what comes of it: the body of the pipeline's one reading task."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any, Protocol, TypeAlias

import anyio
from anyio import CancelScope
from anyio.lowlevel import checkpoint

from ..decode.body import SLICE_BYTES, slices
from ..errors import StreamError, TruncatedStream
from ..event_loop import is_cancelled, refuse_deferred, settle_next
from ..events import Event, StreamEnd, StreamWarning
from ..limits import Limits
from ..sources import Source
from ..stages import Deferred
from ..wires import Wire
from .queues import Outbox
from .step import Step

__all__ = ["ItemDecoder", "Pump", "Transform", "unwrapped"]


Transform: TypeAlias = Callable[[AsyncIterator[Event]], AsyncIterator[Event]]
"""An async stage: an async generator function that takes the events and yields what goes on."""


class ItemDecoder(Protocol):
    """What makes events of a source's items; `streamtools.decode.StreamDecoder` is one."""

    @property
    def done(self) -> bool:
        """Nothing that follows changes the turn."""
        ...

    @property
    def received(self) -> int:
        """How much has come so far."""
        ...

    @property
    def record(self) -> Wire | None:
        """The wire itself; None so far, or where only its name is known."""
        ...

    @property
    def wire(self) -> str | None:
        """Over which wire it comes; None so far."""
        ...

    @property
    def deferred(self) -> Deferred | None:
        """Work that has to be done, and given to `resume`, before anything else is fed."""
        ...

    def feed(self, item: bytes | Mapping[str, Any], /) -> list[Event]:
        """Take the next item; return events."""
        ...

    def resume(self, made: Iterable[Event], /) -> list[Event]:
        """Go on with what `deferred` has made; return events."""
        ...

    def finish(self, error: StreamError | None = None, *, abandoned: bool = False) -> list[Event]:
        """The source is over; return the last events."""
        ...


class Pump:
    """One stream from its source to the step. Run it in a task; cancel that to stop.

    Args:
        source: read to its end, or until the decoder is done, and closed.
        decoder: makes events of what is read.
        step: takes the events.
        outbox: full means that the consumer is behind, so that reading pauses.
        transforms: what the events pass between decoder and step.
        limits: how long the source may be silent, and its closing take.
    """

    def __init__(
        self,
        source: Source,
        decoder: ItemDecoder,
        step: Step,
        outbox: Outbox,
        transforms: tuple[Transform, ...],
        limits: Limits,
    ) -> None:
        self.raised: Exception | None = None
        """What the source, a transform or a stage raised."""
        self.must_pause = False
        """A call was started: let it begin before more is read."""
        self.end: StreamEnd | None = None
        """The decoder's own `StreamEnd`, once it has made it; a transform may have kept it from being emitted."""
        self._source = source
        self._decoder = decoder
        self._step = step
        self._outbox = outbox
        self._transforms = transforms
        self.idle_timeout_s = math.inf if limits.idle_timeout is None else limits.idle_timeout
        """How long the source may be silent; `look` finds out whether it is."""
        self._cancel_grace_s = limits.cancel_grace
        self._reading: CancelScope | None = None  # made in the event loop: a pipeline may be made where none runs
        self._came = -1  # how much had come when `look` looked last, and since when it is no more
        self._since = 0.0
        self._pausing = False  # for the consumer, or for a call to start: the source is not asked
        self._passing_on = False  # the transforms have events, and have not asked for more

    async def run(self) -> None:
        """Emit everything that comes of the source, no faster than it is consumed; then close it."""
        self._reading = reading = CancelScope()
        if self.raised is not None:  # its time was over before this task came to begin
            reading.cancel()
        with reading:
            await self._run()
        if reading.cancelled_caught:
            try:
                self._step.emit_all([*self._last_events(), *self._noted(refuse_deferred(self._decoder))])
            except Exception as raised:  # a stage of the user's
                self.raised = raised

    @property
    def came(self) -> bool:
        """The source has brought something."""
        return self._decoder.received > 0

    def fail(self, error: StreamError) -> None:
        """Stop reading: the stream ends with this error."""
        self.raised = self.raised or error
        if self._reading is not None:
            self._reading.cancel()

    def look(self, now: float) -> None:
        """Stop the reading of a source that has been silent for too long. While the consumer is behind, or a transform
        is busy, nothing is expected of it."""
        if self._pausing or self._passing_on:
            self._came = -1  # its silence begins later, and is counted from the next look
        elif self._decoder.received != self._came:
            self._came, self._since = self._decoder.received, now
        elif now - self._since >= self.idle_timeout_s:
            self._since = math.inf
            self.fail(TruncatedStream(f"the source was silent for idle_timeout={self.idle_timeout_s:g} seconds"))

    async def _run(self) -> None:
        error: BaseException | None = None
        # Entered before the source is opened, so that what it opens (scopes, task groups) is closed inside.
        with CancelScope() as closing:
            try:
                await self._read()
            except BaseException as raised:  # judged below, when the scopes that the source holds are gone
                error = raised
            self._pausing = True  # nothing more is expected of it
            closing.shield = True  # also when cancelled, within the grace
            closing.deadline = anyio.current_time() + self._cancel_grace_s
            await self._close_source(error, closing)
        await checkpoint()  # the grace may have swallowed a cancellation from outside
        if isinstance(error, Exception):  # a transform or a stage raised
            self.raised = self.raised or error
        elif isinstance(error, anyio.get_cancelled_exc_class()):
            self.raised = self.raised or stray(error)
        elif error is not None:
            raise error

    def stream_error(self) -> StreamError | None:
        """What was raised, as the turn tells it."""
        if self.raised is None or isinstance(self.raised, StreamError):
            return self.raised
        error = TruncatedStream(f"the source, a stage or a transform raised {type(self.raised).__name__}")
        error.__cause__ = self.raised
        return error

    async def _read(self) -> None:
        async with aclosing(self._batches()) as batches:
            if self._transforms:
                await self._transform(batches)
                return
            async for events in batches:
                self._step.emit_all(events)
                if self.must_pause:  # calls that waited for the turn's end begin before the source is closed
                    self.must_pause = False
                    await checkpoint()

    async def _transform(self, batches: AsyncIterator[list[Event]]) -> None:
        async with AsyncExitStack() as stack:
            stream: Any = await stack.enter_async_context(aclosing(_flat(batches)))
            for transform in self._transforms:
                stream = transform(stream)
                if hasattr(stream, "aclose"):
                    await stack.enter_async_context(aclosing(stream))
            async for event in stream:
                if not isinstance(event, Event):
                    raise TypeError(f"a transform yields events, not {type(event).__name__}")
                self._step.emit(event)
                if self.must_pause or len(self._outbox.queue) >= self._outbox.full_at:
                    await self._pause()

    async def _batches(self) -> AsyncGenerator[list[Event], None]:
        """The events of each item of the source, and at last those of its end.

        Without transforms nobody has to see the events before they are emitted: they are emitted here, and only those
        of the end are yielded. That saves a hop, 0.1 µs an event.
        """
        decoder, step, outbox, direct = self._decoder, self._step, self._outbox, not self._transforms
        queue = outbox.queue
        try:
            async for item in await self._source.items():
                if direct and type(item) is bytes and len(item) <= SLICE_BYTES:  # nearly always: saves 0.1 µs an event
                    step.emit_all(decoder.feed(item))
                    while decoder.deferred is not None:
                        step.emit_all(await self._settle_next())
                    if self.must_pause or len(queue) >= outbox.full_at:
                        await self._pause()
                else:
                    for part in self._parts(item):
                        events = decoder.feed(part)
                        while decoder.deferred is not None:
                            events += await self._settle_next()
                        if not direct:
                            self._passing_on = True
                            yield events
                            self._passing_on = False
                            continue
                        step.emit_all(events)
                        if self.must_pause or len(queue) >= outbox.full_at:
                            await self._pause()
                if decoder.done:
                    break
        except Exception as error:
            if is_cancelled():  # what came of the source's being cancelled is no error of the stream
                step.emit(StreamWarning("source_close_failed", type(error).__name__))
                await checkpoint()
            self.raised = error
        last = self._last_events()
        while decoder.deferred is not None:
            last += self._noted(await self._settle_next())
        yield last

    def _last_events(self) -> list[Event]:
        """What is left to say when nothing more comes."""
        return self._noted(self._decoder.finish(self.stream_error()))

    def _noted(self, last: list[Event]) -> list[Event]:
        self.end = next((event for event in last if isinstance(event, StreamEnd)), self.end)
        return last

    async def _settle_next(self) -> list[Event]:
        """Let a large call be judged in a thread. Meanwhile nothing is expected of the source."""
        self._pausing = True
        events = await settle_next(self._decoder)
        self._pausing = False
        return events

    def _parts(self, item: Any) -> Iterable[bytes | Mapping[str, Any]]:
        """What the source yielded, in pieces that the decoder takes."""
        payload = self._source.as_item(item)
        return () if payload is None else slices(payload)

    async def _pause(self) -> None:
        """Let others run: calls that were launched, and a consumer who is behind."""
        self._pausing = True
        if self.must_pause:  # a call that may start now does start now, however fast the source is
            self.must_pause = False
            await checkpoint()
            await checkpoint()  # on trio, which runs in any order what may run, its turn comes in the round after
        await self._outbox.wait_for_room()
        self._pausing = False

    async def _close_source(self, error: BaseException | None, closing: CancelScope) -> None:
        try:
            await self._source.aclose(error)
        except Exception as raised:
            if error is not None and not isinstance(error, Exception) and not is_cancelled():
                self.raised = self.raised or raised  # the source's own time is up: its manager says so
            elif raised is not error:
                self._step.emit(StreamWarning("source_close_failed", type(raised).__name__))
        except anyio.get_cancelled_exc_class() as raised:
            if closing.cancel_called:
                self._step.emit(StreamWarning("source_unresponsive", f"closing took over {self._cancel_grace_s:g} s"))
            stray(raised)
            self._step.emit(StreamWarning("source_close_failed", type(raised).__name__))


def stray(error: BaseException) -> TruncatedStream:
    """A cancellation that nobody asked for (of a task that was awaited), as an error; any other is raised again."""
    if is_cancelled():
        raise error
    found = TruncatedStream("the source was cancelled from within")
    found.__cause__ = error
    return found


async def _flat(batches: AsyncIterator[list[Event]]) -> AsyncGenerator[Event, None]:
    async for events in batches:
        for event in events:
            yield event


def unwrapped(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """A single exception by itself; several stay a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
