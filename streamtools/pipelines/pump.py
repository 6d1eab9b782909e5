"""Reads a source, drives the decoder, and emits the events: the body of the pipeline's one reading task."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio
from anyio import CancelScope
from anyio.lowlevel import checkpoint

from ..decode.body import SLICE_BYTES, slices
from ..dispatch.event_loop import is_cancelled, refuse_deferred, settle_next
from ..dispatch.states import Call, Mention
from ..errors import DeadlineExceeded, RequestError, StreamError, TruncatedStream
from ..events import Event, EventBase, Observation, RequestFailed, StreamEnd, StreamWarning, UnknownPayload
from ..ground.text import type_name
from ..limits import Limits
from ..observers import StreamFacts
from ..parts import REQUEST_OUTCOMES, Failure
from ..sources import Source
from ..stages import Chain, Deferred
from ..wires import Wire
from .queues import Outbox
from .step import Step

if TYPE_CHECKING:
    from ..dispatch.trials import Trials

Transform: TypeAlias = Callable[[AsyncIterator[Event]], AsyncIterator[Event]]
"""An async stage: an async generator function that takes the events and yields those to pass on."""

LOOKS = 8  # checks of a source within its idle timeout


class ItemDecoder(Protocol):
    chain: Chain
    record: Wire | None
    received: int
    done: bool

    @property
    def wire(self) -> str | None: ...

    @property
    def deferred(self) -> Deferred | None: ...

    def feed(self, item: bytes | Mapping[str, Any], /) -> list[Event]: ...

    def resume(self, made: Iterable[Event], /) -> list[Event]: ...

    def finish(self, error: StreamError | None = None, *, abandoned: bool = False) -> list[Event]: ...


class Tries(Protocol):
    """Decides what follows a failed attempt of a step that may ask the model again."""

    number: int  # of the attempt, from 1
    is_cut: bool  # the attempt was ended in the middle, but still counts
    is_followed: bool  # another step follows a cut one, so its error is not raised

    def listen(self) -> None: ...

    def begin(self) -> None: ...

    async def go_on(self) -> None:
        """Reads one attempt after the other, as long as each is discarded."""
        ...

    def cut(self, reason: str) -> None: ...

    def wake(self) -> None:
        """Ends a pause: a timeout of the step has passed."""
        ...

    def discarded_end(self, call: Mention | str) -> Observation | None:
        """Returns the end of a call of a discarded attempt, whose id may have recurred; None for any other call."""
        ...

    def rest(self, pump: Pump) -> Source | None:
        """Returns a source of the rest of a response that broke off, if the rest has to be read."""
        ...

    def discards(self, error: Exception, end: StreamEnd) -> bool:
        """Decides whether to discard the attempt that failed with this error, and returns the decision. The last events
        of a discarded attempt are not emitted."""
        ...

    async def serves(self, call: Call) -> bool:
        """Gives a call the ending of the same call in a discarded attempt; returns False if it has to run."""
        ...

    async def drop_carried(self) -> None:
        """Cancels the calls of discarded attempts that still run."""
        ...


@dataclass(slots=True, eq=False)
class Pump:
    """Carries one stream from its source to the step. Run it in a task; cancel that task to stop."""

    source: Source  # is read to its end, or until the decoder is done, and closed
    decoder: ItemDecoder
    _step: Step
    _outbox: Outbox
    _transforms: tuple[Transform, ...]
    limits: Limits
    _facts: StreamFacts | None  # this and the next as in `Reading`
    _begin: Callable[[Callable[[Event], None]], list[Event]] | None = None
    tries: Tries | None = None  # if the model may be asked again
    is_discarded: bool = False  # the attempt was discarded: its last events are not emitted
    raised: Exception | None = None  # the error that the source, a transform or a stage raised
    is_broken: bool = False
    """True if the source is the received part of a response that broke off: the absence of the rest is no error."""
    must_pause: bool = False  # True if the runner has started a call, which must begin before more is read
    trials: Trials | None = None  # of calls that have not ended
    end: StreamEnd | None = None
    """The decoder's own `StreamEnd`, once there is one; a transform may have kept it from being emitted."""
    _is_cut: bool = False  # the rest of the stream is not wanted
    _rest: Source | None = None  # of the response, to be read next
    _is_rest: bool = False  # the source gives the rest of a response that broke off
    blamed: Source | None = None  # set by `tries`: the source whose status explains the failure, if not the last
    _reading: CancelScope | None = None  # made in the event loop: a pipeline may be made where none runs
    _seen_length: int = -1  # how much had come at the last look
    _silent_looks: int = 0  # looks since then that found no more
    _pausing: bool = False  # for the consumer, or for a call to start: the source is not asked
    _passing_on: bool = False  # the transforms have events, and have not asked for more

    @property
    def idle_timeout_s(self) -> float:
        """The seconds for which the source may be silent; `look` checks whether it is."""
        return math.inf if self.limits.idle_timeout is None else self.limits.idle_timeout

    async def run(self) -> None:
        """Emits all events of the source, no faster than they are consumed; then closes the source."""
        reading = await self._read_source()
        while self._has_rest(reading):
            assert self._rest is not None, "just found"
            self.source, self._rest, self.raised, self._seen_length = self._rest, None, None, -1
            self._is_rest = True
            reading = await self._read_source()
        # It may be cut after its last events, while the source is closed.
        if reading.cancelled_caught and not self.is_discarded:
            try:
                last = [*self._last_events(), *self._noted(refuse_deferred(self.decoder))]
                self._step.emit_all(self._kept(last))
            except Exception as raised:  # a user's stage
                self.raised = raised

    async def _read_source(self) -> CancelScope:
        self._reading = reading = self._step.new_scope()
        if self.raised is not None or self._is_cut:  # before this task began
            reading.cancel()
        with reading:
            await self._run()
        return reading

    def _has_rest(self, reading: CancelScope) -> bool:
        if reading.cancel_called and self._rest is not None:
            self._rest = None  # a timeout passed while the source was closed
            return False
        return self._rest is not None or (reading.cancelled_caught and self._finds_rest())

    def _finds_rest(self) -> bool:
        # Transforms see one iteration, which ends with its source.
        if self.tries is None or self._is_cut or self._transforms or isinstance(self.raised, DeadlineExceeded):
            return False
        self._rest = self.tries.rest(self)
        return self._rest is not None

    async def discard(self) -> None:
        """Closes a source that will not be read, within the grace, even when cancelled."""
        with CancelScope(shield=True, deadline=anyio.current_time() + self.limits.cancel_grace):
            await self.source.aclose()

    @property
    def is_transformed(self) -> bool:
        return bool(self._transforms)

    @property
    def came(self) -> bool:
        return self.decoder.received > 0

    def fail(self, error: StreamError) -> None:
        self.raised = self.raised or error
        if self._reading is not None:
            self._reading.cancel()

    def cut(self) -> None:
        """Stops reading: the rest of the stream is not wanted, and its absence is no error."""
        self._is_cut = True
        if self._reading is not None:
            self._reading.cancel()

    def pause(self) -> None:
        self.must_pause = True

    def look(self) -> None:
        """Stops reading a source that has been silent for `LOOKS` looks; look that often in `idle_timeout_s`. While the
        consumer is behind, or a transform is busy, nothing is expected of the source."""
        # Looks are counted, not seconds: while the process is stopped, or something blocks the event loop, the time
        # passes, and bytes that come meanwhile are read only afterwards.
        if self._pausing or self._passing_on:
            self._seen_length = -1  # a silence begins later, and is counted from the next look
        elif self.decoder.received != self._seen_length:
            self._seen_length, self._silent_looks = self.decoder.received, 0
        elif (silent := self._silent_looks + 1) < LOOKS:
            self._silent_looks = silent
        else:
            self.fail(TruncatedStream(f"the source was silent for idle_timeout={self.idle_timeout_s:g} seconds"))

    async def _run(self) -> None:
        error: BaseException | None = None
        # Entered before the source is opened, so that the source's own scopes and task groups are closed inside.
        with self._step.new_scope() as closing:
            try:
                await self._read()
            except BaseException as raised:  # judged below, when the source's own scopes are gone
                error = raised
            self._pausing = True  # nothing more is expected of the source
            closing.shield = True  # even when cancelled, within the grace
            closing.deadline = self._step.now() + self.limits.cancel_grace
            await self._close_source(error, closing)
        around, reading = self._step.scope, self._reading
        if around is None or around.cancel_called or reading is None or reading.cancel_called:
            await checkpoint()  # the grace may have swallowed a cancellation
        if error is None:
            return
        if isinstance(error, Exception):  # a transform or a stage raised
            self.raised = error if self.is_discarded else self.raised or error
            self.is_discarded = False
        elif isinstance(error, anyio.get_cancelled_exc_class()):
            self.raised = self.raised or stray(error)
        else:
            raise error

    def later(self) -> AsyncIterator[Mapping[str, Any]] | None:
        """Returns an iterator of later news about the calls of the response; None if nothing can take them back."""
        record = self.decoder.record
        if record is None or record.taken_back is None or self.raised is not None:
            return None
        return self.source.later()

    async def watch(self, later: AsyncIterator[Mapping[str, Any]], take_back: Callable[[str], None]) -> None:
        record = self.decoder.record
        taken_back = None if record is None else record.taken_back
        assert taken_back is not None, "else there is nothing to watch"
        async for payload in later:
            self._step.emit(UnknownPayload(payload))
            for call_id in taken_back(payload):
                take_back(call_id)

    def stream_error(self) -> StreamError | None:
        if self.raised is None or isinstance(self.raised, StreamError):
            return self.raised
        error: StreamError = TruncatedStream(f"the source, a stage or a transform raised {type(self.raised).__name__}")
        if not self.came:
            failed = self.failure(self.raised)
            words = REQUEST_OUTCOMES[failed.outcome]
            error = RequestError(f"{words} ({failed.error_type})", status=failed.status, retry_after=failed.retry_after)
        error.__cause__ = self.raised
        return error

    def failure(self, error: Exception) -> Failure:
        from ..sources.failures import failure_of  # most requests are answered

        source = self.blamed or self.source
        return failure_of(error, status=source.status, headers=source.headers)

    async def _read(self) -> None:
        if self._transforms:
            async with aclosing(self._batches()) as batches:
                await self._transform(batches)
            return
        decoder, step, outbox = self.decoder, self._step, self._outbox
        chain, queue = decoder.chain, outbox.queue
        if self._begin is not None:
            await self._emit(self._begin(step.keep))
        try:
            async for item in await self._items():
                if type(item) is bytes and len(item) <= SLICE_BYTES:  # nearly always: saves 0.1 µs an event
                    step.emit_all(decoder.feed(item))
                    if chain.deferred is not None or self.must_pause or len(queue) >= outbox.full_at:
                        await self._give_way()
                else:
                    for part in self._parts(item):
                        step.emit_all(decoder.feed(part))
                        await self._give_way()
                if decoder.done:
                    break
        except Exception as error:
            await self._fails(error)
        if not self._finds_rest():
            await self._emit(await self._ending())

    async def _give_way(self) -> None:
        while self.decoder.deferred is not None:
            self._step.emit_all(await self._settle_next())
        if self.must_pause or len(self._outbox.queue) >= self._outbox.full_at:
            await self._pause()

    async def _emit(self, events: Iterable[Event]) -> None:
        self._step.emit_all(events)
        if self.must_pause:  # calls that waited for the turn's end begin before the source is closed
            self.must_pause = False
            await checkpoint()

    async def _transform(self, batches: AsyncIterator[list[Event]]) -> None:
        async with AsyncExitStack() as stack:
            stream: Any = await stack.enter_async_context(aclosing(_flat(batches)))
            for transform in self._transforms:
                stream = _transformed(transform, stream)
                if hasattr(stream, "aclose"):
                    await stack.enter_async_context(aclosing(stream))
            async for event in stream:
                if not isinstance(event, EventBase):
                    raise TypeError(
                        f"the transform {_name(self._transforms[-1])} yielded {type(event).__name__}, not an event"
                    )
                if self.is_discarded:
                    continue  # the end of an attempt that is discarded by now
                self._step.emit(event)  # type: ignore[arg-type]  # Event is the union of its subclasses
                if self.must_pause or len(self._outbox.queue) >= self._outbox.full_at:
                    await self._pause()

    async def _batches(self) -> AsyncGenerator[list[Event], None]:
        """Yields the events for the transforms, which see them before they are emitted."""
        decoder = self.decoder
        if self._begin is not None:
            yield self._begin(self._step.keep)
        try:
            async for item in await self._items():
                for part in self._parts(item):
                    events = decoder.feed(part)
                    while decoder.deferred is not None:
                        events += await self._settle_next()
                    self._passing_on = True
                    yield events
                    self._passing_on = False
                if decoder.done:
                    break
        except Exception as error:
            await self._fails(error)
        if not self._finds_rest():
            yield await self._ending()

    async def _items(self) -> AsyncIterator[Any]:
        self._pausing = True  # a request may take longer than a stream may be silent
        items = await self.source.items()
        self._pausing = False
        if self._is_rest:
            self._step.emit(StreamWarning("response_resumed"))
        if self._step.observers and (server := self.source.server) is not None:
            self._step.tell("see_server", *server)
        return self._seen(items)

    async def _fails(self, error: Exception) -> None:
        if is_cancelled():  # an error that comes from cancelling the source is not the stream's
            self._step.emit(StreamWarning("source_close_failed", type_name(error)))
            await checkpoint()
        self.raised = error

    async def _ending(self) -> list[Event]:
        last = self._last_events()
        while self.decoder.deferred is not None:
            last += self._noted(await self._settle_next())
        return self._kept(last)

    def _seen(self, items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        if self._facts is None or not any(hasattr(observer, "on_item") for observer in self._step.observers):
            return items
        if not self._is_rest:
            self._step.tell("begin_stream", self._facts)
        return _Seen(items, self.source.as_item, partial(self._step.tell, "on_item"))

    def _last_events(self) -> list[Event]:
        error = self.stream_error()
        is_cut = (self._is_cut or self.is_broken) and error is None
        if self._facts is not None and self._step.observers and not is_cut:
            self._step.tell("end_stream", error)
        last = self._noted(self.decoder.finish(error, abandoned=is_cut))
        ended = self.raised or (None if self.end is None else self.end.error)
        is_unanswered = self.raised is not None and not self.came
        if (
            ended is not None
            and self._facts is not None
            and (is_unanswered or (self.blamed or self.source).status is not None)
        ):
            failed = self.failure(ended)
            self._step.emit(RequestFailed(failed.outcome, failed.error_type, failed.status, failed.retry_after))
        return last

    def _kept(self, last: list[Event]) -> list[Event]:
        error = self.raised or (None if self.end is None else self.end.error)
        if error is not None and self.tries is not None and self.end is not None:
            self.is_discarded = self.tries.discards(error, self.end)
        return [] if self.is_discarded else last

    def _noted(self, last: list[Event]) -> list[Event]:
        for event in last:
            if isinstance(event, StreamEnd):
                self.end = event
                if event.error is not None:
                    self.source.explain(event.error)
        return last

    async def _settle_next(self) -> list[Event]:
        """Checks a large call in a thread. Meanwhile nothing is expected of the source."""
        self._pausing = True
        events = await settle_next(self.decoder)
        self._pausing = False
        return events

    def _parts(self, item: Any) -> Iterable[bytes | Mapping[str, Any]]:
        payload = self.source.as_item(item)
        return () if payload is None else slices(payload)

    async def _pause(self) -> None:
        self._pausing = True
        if self.trials is not None:
            if not self.decoder.done:  # else the calls end now
                self.trials.begin()
            self.must_pause = False  # a source that does not wait leaves no time to win, and no other call starts yet
        if self.must_pause:  # a call that may start now does start now, however fast the source is
            self.must_pause = False
            await checkpoint()
            await checkpoint()  # on trio, which runs the tasks of a round in any order, it runs in the next round
        await self._outbox.wait_for_room()
        self._pausing = False

    async def _close_source(self, error: BaseException | None, closing: CancelScope) -> None:
        try:
            await self.source.aclose(error)
        except Exception as raised:
            if error is not None and not isinstance(error, Exception) and not is_cancelled():
                self.raised = self.raised or raised  # the source's own timeout has passed
            elif raised is not error:
                self._step.emit(StreamWarning("source_close_failed", type_name(raised)))
        except anyio.get_cancelled_exc_class() as raised:
            if closing.cancel_called:
                self._step.emit(
                    StreamWarning("source_unresponsive", f"closing took more than {self.limits.cancel_grace:g} s")
                )
            stray(raised)
            self._step.emit(StreamWarning("source_close_failed", type_name(raised)))


class _Seen:
    def __init__(
        self,
        items: AsyncIterator[Any],
        as_item: Callable[[Any], Any],
        see: Callable[[bytes | str | Mapping[str, Any]], None],
    ) -> None:
        self._items = items
        self._as_item = as_item
        self._see = see

    def __aiter__(self) -> _Seen:
        return self

    async def __anext__(self) -> Any:
        while True:
            item = self._as_item(await anext(self._items))
            if item is not None:
                self._see(item)
                return item


def stray(error: BaseException) -> TruncatedStream:
    """Returns an error for a cancellation that was not requested (of an awaited task); raises any other error."""
    if is_cancelled():
        raise error
    found = TruncatedStream("the source was cancelled from within")
    found.__cause__ = error
    return found


def _transformed(transform: Transform, stream: AsyncIterator[Event]) -> AsyncIterator[Event]:
    given: Any = transform(stream)
    if hasattr(given, "__aiter__"):
        return given  # type: ignore[no-any-return]  # it was just looked at
    if isinstance(given, Coroutine):
        given.close()  # else Python warns that it was never awaited
    raise TypeError(
        f"the transform {_name(transform)} returned {type(given).__name__}; a transform is an async generator "
        "function that takes the events and yields those to pass on"
    )


def _name(transform: Transform) -> str:
    return getattr(transform, "__name__", type(transform).__name__)


async def _flat(batches: AsyncIterator[list[Event]]) -> AsyncGenerator[Event, None]:
    async for events in batches:
        for event in events:
            yield event


def unwrapped(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
