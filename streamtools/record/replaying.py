"""Replays a recording: the events come again, as fast as they did or faster, to a loop and to observers.

    async with replay("run.jsonl", speed=1) as run:
        async for event in run:
            ...
    run.turns[-1].text, run.differences

With the recorded results nothing is run: the bodies are decoded again, and all else is as it was recorded. With
``results="live"`` the bodies go through pipelines of today, and the tools run.

Recorded events have their `seq`, `causes` and `step`, and go to the observers directly. Their
times are moved, all by the same, so that the first one happens now: differences are those of the recording at any
speed.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from anyio.lowlevel import checkpoint

from ..display import shown_by
from ..errors import LocalProtocolError
from ..events import Event, Observation
from ..limits import Limits
from ..observers import Observer
from ..pipelines.entry import PipelineKeywords
from ..stages import OutputType, StageList
from ..tools import AnyTools
from ..turn import Turn
from .live import Clock, LiveSteps
from .recording import Recording, RecordingError, moved, turns_of
from .redecoding import Difference, Redecoding

__all__ = ["Replay", "replay"]

_RECORDED = {"stages", "output", "limits"}  # options that recorded results leave something to do


def replay(
    path: str | os.PathLike[str] | Recording,
    *,
    speed: float = math.inf,
    tools: AnyTools | None = None,
    results: Literal["recorded", "live"] = "recorded",
    run_id: str | None = None,
    observers: Iterable[Observer] = (),
    **options: Unpack[PipelineKeywords],
) -> Replay:
    """Replays a recording of `record`. Enter the block and iterate, or await it for the last turn.

    By default nothing is run. The events are those that were recorded, but for their times, and `Replay.differences`
    says where the recorded bodies decode to something else now: with the `tools`, also where arguments are judged
    otherwise.

    Args:
        path: the file, or a `Recording`.
        speed: how many times faster than it happened; by default without any pause.
        tools: the tools of today.
        results: ``"live"`` runs the tools, **for real**: what they buy or delete is bought or deleted again. The steps
            are those that were recorded, whatever the tools return now; calls that were resumed are left out.
        run_id: the run, if the file has several.
        observers: see every event: a `streamtools.view.Watch`, a `streamtools.telemetry.Tracing`.
        options: ``stages``, ``output`` and ``limits`` as for `pipeline`; live, all options of a pipeline.

    Raises:
        RecordingError: the file is no recording, or lacks the run; or it is redacted, and results are to be live.
        ValueError: `speed` is not greater than 0, or `results` is neither of the two words.
        TypeError: there is no such option; or results are to be live without tools.
        OSError: the file cannot be read.
    """
    recording = path if isinstance(path, Recording) else Recording.read(path, run_id=run_id)
    if not speed > 0:
        raise ValueError(f"speed={speed!r}: must be a number greater than 0")
    if results not in ("recorded", "live"):
        raise ValueError(f"unknown results {results!r}; known: recorded, live")
    return Replay(recording, speed, tools, tuple(observers), results == "live", options)


class Replay:
    """A recording as it is replayed; made by `replay`."""

    def __init__(
        self,
        recording: Recording,
        speed: float,
        tools: AnyTools | None,
        observers: tuple[Observer, ...],
        live: bool,
        options: PipelineKeywords,
    ) -> None:
        self.recording = recording
        """The recording."""
        self._events: list[Event] = []
        self._entered = False
        if live:
            self._way: _Recorded | LiveSteps = LiveSteps(recording, speed, tools, observers, options)
        else:
            self._way = _Recorded(recording, speed, tools, observers, options)

    __repr__ = shown_by("recording", "differences", "unchecked")

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turn of each step so far."""
        return tuple(turns_of(tuple(self._events)))

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The outcome of each call so far, in the order in which they came."""
        return tuple(event for event in self._events if isinstance(event, Observation))

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The places at which something else came out than was recorded; none with live results."""
        return self._way.differences

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The reasons why some of the recording was not decoded again: it is redacted, or stages are missing."""
        return self._way.unchecked

    async def __aenter__(self) -> Self:
        if self._entered:
            raise LocalProtocolError("a replay is entered once; make a new one to replay again")
        self._entered = True
        await self._way.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._way.leave(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._entered:
            raise TypeError("the replay's block was not entered; write:  async with replay(path) as run:")
        event = await self._way.next()
        self._events.append(event)
        return event

    async def finish(self) -> Turn:
        """Replays to the end, ignoring the events; returns the last turn. Awaiting the replay does the same.

        Raises:
            StreamError: a response failed, with live results.
            RecordingError: the recording has no step.
        """
        if not self._entered:
            async with self:
                return await self.finish()
        async for _ in self:
            pass
        turns = self.turns
        if not turns:
            raise RecordingError(f"the recording of {self.recording.run_id!r} has no step")
        return turns[-1]

    def __await__(self) -> Generator[Any, Any, Turn]:
        return self.finish().__await__()


class _Recorded:
    """Gives the recorded events."""

    def __init__(
        self,
        recording: Recording,
        speed: float,
        tools: AnyTools | None,
        observers: tuple[Observer, ...],
        options: PipelineKeywords,
    ) -> None:
        if unknown := sorted(options.keys() - _RECORDED):
            raise TypeError(
                f"{unknown[0]} means nothing where results are recorded; there are {', '.join(sorted(_RECORDED))}, or "
                'say results="live"'
            )
        stages: StageList | None = options.get("stages")
        output: OutputType | None = options.get("output")
        self._redecoding = Redecoding(
            recording, tools=tools, stages=stages, output=output, limits=options.get("limits", Limits())
        )
        self._recording = recording
        self._observers = observers
        self._clock = Clock(recording.began_at, speed)
        self._shift = 0.0
        self._timed: Iterator[tuple[float, Event]] = iter(())
        self._is_over = False

    @property
    def differences(self) -> tuple[Difference, ...]:
        return tuple(self._redecoding.differences)

    @property
    def unchecked(self) -> tuple[str, ...]:
        return tuple(self._redecoding.unchecked)

    async def enter(self) -> None:
        self._timed = self._redecoding.timed()
        self._shift = time.monotonic() - self._recording.began_at
        self._clock.start()
        for observer in self._observers:
            begin = getattr(observer, "begin_run", None)
            if begin is not None:
                begin(self._recording)

    async def leave(self, kind: Any, error: Any, trace: Any) -> None:
        for observer in self._observers:
            end = getattr(observer, "end_run", None)
            if end is not None:
                end(self._recording.outcome if self._is_over else "left", error)

    async def next(self) -> Event:
        for at, recorded in self._timed:
            await self._clock.wait(at)
            event = moved(recorded, self._shift)
            for observer in self._observers:
                kinds = observer.event_types
                if kinds is None or type(event) in kinds:
                    observer.on_event(event)
            return event
        self._is_over = True
        await checkpoint()
        raise StopAsyncIteration
