"""Reads the copy of a response by a pipeline, which traces it and starts the calls that may start early.

Input: a `BodyCopy`. Output: events for observers and a callback, and runs for `EarlyRuns`.

Guarantees: `Follower.follow` raises nothing but a cancellation. A body that shows no wire leads to no events at all.
Calls start within the pipeline of their response only while its stream is whole: when it is cut, the runs that nobody
has claimed are cancelled, and those that were claimed are awaited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..decode.decoder import StreamDecoder
from ..errors import StreamError, TruncatedStream
from ..events import Event
from ..limits import Limits
from ..observers import Observer
from ..pipelines.entry import pipeline
from ..sources import open_source
from ..sources.source import Source
from ..telemetry import default_observers
from ..wires import Wire
from .copies import BodyCopy
from .early_runs import EarlyRuns, Note, ResponseRuns

__all__ = ["Follower", "OnEvent"]

OnEvent: TypeAlias = Callable[[Event], object]
"""Takes an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """Reads the copies of one tap."""

    runs: EarlyRuns
    """Has the tools, and takes the runs."""
    wire: Wire | str | None
    """The wire of all bodies, if it is known."""
    limits: Limits
    observers: Callable[[], Iterable[Observer]] | None
    """Makes the observers of a response; None stands for spans, if OpenTelemetry is configured."""
    on_event: OnEvent | None
    """Takes each event."""
    note: Note
    """Takes note of a failure of ours."""

    async def follow(self, copy: BodyCopy) -> None:
        """Reads a copy to its end, and waits for the runs that were started."""
        try:
            await self._follow(copy)
        except StreamError:
            return  # of the response: the events told it, and the client that reads the response is told as well
        except Exception as error:
            self.note("tap_failed", error)
        finally:
            copy.close()
            copy.done.set_result(None)

    async def _follow(self, copy: BodyCopy) -> None:
        source = open_source(copy, self.limits)
        try:
            items = await source.items()
            held, wire = await self._found(items)
            if wire is not None:
                await self._read(_Joined(held, items, source), wire, copy)
        finally:
            await source.aclose()

    async def _found(self, items: AsyncIterator[Any]) -> tuple[list[Any], Wire | str | None]:
        """Returns the first items of a body and the wire that they show; None if this is no stream of a model."""
        held: list[Any] = []
        decoder = StreamDecoder(wire=self.wire, limits=self.limits)
        while decoder.record is None and not decoder.done and decoder.received < self.limits.max_event_bytes:
            try:
                held.append(await anext(items))
            except (StopAsyncIteration, TruncatedStream):
                break
            decoder.feed(held[-1])
        return held, decoder.record

    def _observers(self) -> Iterable[Observer]:
        made = default_observers() if self.observers is None else self.observers()
        return made if self.on_event is None else [*made, _Callback(self.on_event, self.note)]

    async def _read(self, body: AsyncIterator[Any], wire: Wire | str, copy: BodyCopy) -> None:
        runs = ResponseRuns(self.runs, copy.token)
        events = pipeline(
            body,
            tools=self.runs.tools,
            wire=wire,
            start="pure",
            on_source_error="drain",  # runs that were claimed; the others are cancelled below
            # The framework reads as slowly as it likes, and the copy is no faster.
            limits=replace(self.limits, idle_timeout=None, first_chunk_timeout=None),
            observers=[runs, *self._observers()],
        )
        runs.cancel_call = events.cancel
        try:
            await events
        finally:
            runs.settle()


class _Callback:
    """An observer that passes each event to a function, until that raises."""

    event_types = None

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

    def around_tool(self, call_id: str) -> None:
        return None


class _Joined:
    """Some items, then those of an iterator; closes the source of both."""

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
