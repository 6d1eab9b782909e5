"""Puts the bodies of a recording through pipelines of today, whose tools run.

Each recorded response is a step of one new run. The steps are pipelines, opened one after the other, each with a task
of its own that the replay closes.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from ..errors import StreamError
from ..events import Event
from ..observers import Observer, StreamFacts
from ..pipelines.entry import PipelineKeywords, pipeline
from ..pipelines.hosted import OpenPipeline
from ..pipelines.trajectory import Trajectory
from ..tools import AnyTools
from .recording import Chunk, Recording, RecordingError, SourceEnd
from .redecoding import Difference

__all__ = ["LONGEST_PAUSE_S", "Clock", "LiveSteps"]

LONGEST_PAUSE_S = 10.0
"""On the recording's clock."""


class Clock:
    """Waits until a moment of the recording has come. A longer pause than `LONGEST_PAUSE_S` is cut to that: a person
    may have taken a night to approve a call.

    Args:
        began_at: the beginning, on the recording's clock.
        speed: how many times faster.
    """

    def __init__(self, began_at: float, speed: float) -> None:
        self._speed = speed
        self._at = began_at
        self._now = 0.0

    def start(self) -> None:
        """Begins to count: the recording begins now."""
        self._now = anyio.current_time()

    async def wait(self, at: float) -> None:
        """Waits for a moment on the recording's clock."""
        pause = min(max(0.0, at - self._at), LONGEST_PAUSE_S)
        self._at = max(self._at, at)
        if self._speed < math.inf:
            self._now += pause / self._speed
            left = self._now - anyio.current_time()
            if left > 0:
                await anyio.sleep(left)


class LiveSteps:
    """Puts the recorded bodies through pipelines, one after the other."""

    differences: tuple[Difference, ...] = ()
    """None: what comes out now is not compared."""
    unchecked: tuple[str, ...] = ()
    """None either."""

    def __init__(
        self,
        recording: Recording,
        speed: float,
        tools: AnyTools | None,
        observers: tuple[Observer, ...],
        options: PipelineKeywords,
    ) -> None:
        if tools is None:
            raise TypeError('results="live" needs the tools: replay(path, tools=[...], results="live")')
        if recording.redacted:
            raise RecordingError("the recording is redacted, so that no tool can run: it has no bodies")
        self._steps = _steps(recording)
        self._began_at = recording.began_at
        self._speed = speed
        self._tools = tools
        self._options = options
        self._run = Trajectory(name=recording.name, conversation_id=recording.conversation_id, observers=observers)
        self._current: OpenPipeline | None = None

    async def enter(self) -> None:
        """Begins the run."""
        self._clock = Clock(self._began_at, self._speed)
        self._clock.start()
        self._run.enter()

    async def leave(self, kind: Any, error: Any, trace: Any) -> None:
        """Closes the step that goes on."""
        try:
            if self._current is not None:
                await self._current.aclose()
        finally:
            self._run.leave("left" if kind is not None else None, error)

    async def next(self) -> Event:
        """Returns the next event.

        Raises:
            StreamError: a response failed.
        """
        while True:
            if self._current is None:
                step = next(self._steps, None)
                if step is None:
                    await checkpoint()
                    raise StopAsyncIteration
                self._current = self._opened(step)
            try:
                return await anext(self._current)
            except StopAsyncIteration:
                await self._current.aclose()
                self._current = None

    def _opened(self, step: _Step) -> OpenPipeline:
        options: dict[str, Any] = {"wire": step.facts.wire, **self._options}
        return pipeline(_Body(step, self._clock), tools=self._tools, trajectory=self._run, **options).open_in(None)


class _Step:
    """The body of one response, and how it is decoded."""

    def __init__(self, facts: StreamFacts) -> None:
        self.facts = facts
        self.chunks: list[Chunk] = []
        self.error: StreamError | None = None


def _steps(recording: Recording) -> Iterator[_Step]:
    step: _Step | None = None
    for entry in recording.entries:
        if isinstance(entry, StreamFacts):
            if step is not None:
                yield step
            step = _Step(entry)
        elif isinstance(entry, Chunk) and step is not None:
            step.chunks.append(entry)
        elif isinstance(entry, SourceEnd) and step is not None:
            step.error = entry.error
    if step is not None:
        yield step


class _Body:
    """A recorded body, as a stream."""

    def __init__(self, step: _Step, clock: Clock) -> None:
        self._chunks = iter(step.chunks)
        self._error = step.error
        self._clock = clock

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        for chunk in self._chunks:
            await self._clock.wait(chunk.at)
            await checkpoint()
            return chunk.item
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration
