"""Replays a recording: emits its events again, at their old pace or faster, to a loop and to observers.

    async with replay("run.jsonl", speed=1) as run:
        async for event in run:
            ...
    run.turns[-1].text, run.differences

With the recorded results nothing is run: the bodies are decoded again, and all else is as it was recorded. With
``results="live"`` the bodies go through pipelines of today, and the tools run: each recorded response is a step of one
new run.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self, Unpack

import anyio
from anyio.lowlevel import checkpoint

from ..codec import written_event
from ..decode.decoder import StreamDecoder
from ..errors import LocalProtocolError, StreamError
from ..events import (
    AnswerRequested,
    ApprovalRequested,
    ApprovalResolved,
    AttemptBegan,
    AttemptCommitted,
    AttemptDiscarded,
    CausedEvent,
    Event,
    EventBase,
    MessageAdded,
    Observation,
    OutputDelta,
    OutputEnd,
    RequestFailed,
    StepEnd,
    StepStart,
    StreamWarning,
    ToolCallEnd,
    ToolCallValidated,
    ToolProgress,
    ToolStarted,
    UnknownPayload,
)
from ..limits import Limits
from ..observers import Observer, StreamFacts
from ..pipelines.entry import PipelineKeywords, pipeline
from ..pipelines.hosted import OpenPipeline
from ..pipelines.trajectory import Trajectory
from ..stages import DEFAULT, OutputType, StageList
from ..text import shown_by
from ..tools import AnyTools
from ..turn import Turn
from ..wires import names
from .recording import Chunk, Recording, RecordingError, SourceEnd, moved, shown_ids, turns_of

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
    lists where the recorded bodies decode to something else now: with the `tools`, also where arguments are judged
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
        RecordingError: the file is not a recording, or lacks the run; or it is redacted, and results are to be live.
        ValueError: `speed` is not greater than 0, or `results` is neither of the two words.
        TypeError: an option is unknown; or results are to be live without tools.
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
            self._source: _Recorded | LiveSteps = LiveSteps(recording, speed, tools, observers, options)
        else:
            self._source = _Recorded(recording, speed, tools, observers, options)

    __repr__ = shown_by("recording", "differences", "unchecked")

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turn of each step so far."""
        return tuple(turns_of(tuple(self._events)))

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The outcome of each call so far, in order."""
        return tuple(event for event in self._events if isinstance(event, Observation))

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The places where the bodies decode to other events than were recorded; none with live results."""
        return self._source.differences

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The reasons why some was not decoded again: it is redacted, stages are missing, or lines were torn."""
        return self._source.unchecked

    async def __aenter__(self) -> Self:
        if self._entered:
            raise LocalProtocolError("a replay is entered once; make a new one to replay again")
        self._entered = True
        await self._source.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._source.leave(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._entered:
            raise TypeError("the replay's block was not entered; write:  async with replay(path) as run:")
        event = await self._source.next()
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
            raise RecordingError(f"the recording of {shown_ids([self.recording.run_id])} has no step")
        return turns[-1]

    def __await__(self) -> Generator[Any, Any, Turn]:
        return self.finish().__await__()


# -- with the recorded results -----------------------------------------------------------------------------------------


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
        # All times are moved by the same, so that the first event happens now: at any speed, durations are those of the
        # recording.
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
            # Directly, since a pipeline would stamp the event anew: `seq`, `causes` and `step` are the recorded ones.
            for observer in self._observers:
                kinds = observer.event_types
                if kinds is None or type(event) in kinds:
                    observer.on_event(event)
            return event
        self._is_over = True
        await checkpoint()
        raise StopAsyncIteration


LONGEST_PAUSE_S = 10.0
"""On the recording's clock."""


class Clock:
    """Waits until a moment of the recording has come, `speed` times faster, `LONGEST_PAUSE_S` at most."""

    def __init__(self, began_at: float, speed: float) -> None:
        self._speed = speed
        self._at = began_at
        self._now = 0.0

    def start(self) -> None:
        """Begins to count: the recording begins now."""
        self._now = anyio.current_time()

    async def wait(self, at: float) -> None:
        """Waits for a moment on the recording's clock."""
        # A person may have taken a night to approve a call.
        pause = min(max(0.0, at - self._at), LONGEST_PAUSE_S)
        self._at = max(self._at, at)
        # By the sum of all pauses, not from now on: time that the consumer takes does not make the replay slower.
        if self._speed < math.inf:
            self._now += pause / self._speed
            left = self._now - anyio.current_time()
            if left > 0:
                await anyio.sleep(left)


# -- with the tools of today -------------------------------------------------------------------------------------------


class LiveSteps:
    """Puts the recorded bodies through pipelines, one after the other."""

    differences: tuple[Difference, ...] = ()
    """None: with live results nothing is compared."""
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
        self._run = Trajectory(
            name=recording.name, conversation_id=recording.conversation_id, observers=observers, default_observers=False
        )
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
        """Returns the next event; raises a `StreamError` if a response failed."""
        while True:
            if self._current is None:
                step = next(self._steps, None)
                if step is None:
                    await checkpoint()
                    raise StopAsyncIteration
                # One after the other, each in a task of its own: a block may not be open across a `yield`, and this
                # method is left and entered again for each event.
                options: dict[str, Any] = {"wire": step.facts.wire, **self._options}
                body = _Body(step, self._clock)
                opening = pipeline(body, tools=self._tools, trajectory=self._run, **options)
                self._current = opening.open_in(None)
            try:
                return await anext(self._current)
            except StopAsyncIteration:
                await self._current.aclose()
                self._current = None


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
        elif isinstance(entry, AttemptDiscarded):
            step = None  # another response follows in its place
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


# -- decoding the bodies again ---------------------------------------------------------------------------------------
#
# In: the entries of a recording. Out: every recorded event in order, with the moment at which it happened; the
# decoder's own in the place of an equal one, so that its previews work. Differences are noted, and change nothing.
#
# The events of a response are made by its decoder; all others (of the step, of the tools, of people) come from the
# recording. The decoder is fed a chunk where the recording has it, and its events wait in a queue. A recorded event of
# a decoder's kind has to be the next one in it.

_OTHERS = (
    StepStart, StepEnd, MessageAdded, RequestFailed, AttemptBegan, AttemptDiscarded, AttemptCommitted, ToolStarted,
    ToolProgress, ApprovalRequested, ApprovalResolved, AnswerRequested, Observation,
)  # fmt: skip
"""Events that no decoder makes."""
_EITHER = (StreamWarning, UnknownPayload)  # made by decoders, and by pipelines
_PLACE = ("seq", "step", "causes", "time")  # the pipeline stamps them
_JUDGED = (None, "invalid_arguments")  # the problems of a call whose text is whole, before and after it is judged
_BY_SCHEMA = ("status", "problem", "arguments", "normalizations")  # fields of a call that depend on its judge
_WORDS = frozenset({"finish", "complete", "status", "problem", "code", "kind", "wire", "dispatchable"})
"""Fields with words of ours as values: a difference may show these."""
_MOST_REPORTED = 100  # differences: one often leads to all that follow


@dataclass(frozen=True, slots=True)
class Difference:
    """A place at which a recording decodes to something else now."""

    seq: int
    """`seq` of the recorded event at this place."""
    text: str
    """The difference in words, without content."""

    def __str__(self) -> str:
        return f"event {self.seq}: {self.text}"


class Redecoding:
    """Decodes the bodies of one recording again; without tools, arguments are not validated again."""

    def __init__(
        self,
        recording: Recording,
        *,
        tools: AnyTools | None = None,
        stages: StageList | None = None,
        output: OutputType | None = None,
        limits: Limits = Limits(),
    ) -> None:
        self.differences: list[Difference] = []
        """The differences so far."""
        self.unchecked: list[str] = ["the recording is redacted"] if recording.redacted else []
        """Why some of the responses were not decoded again."""
        if recording.lost:
            self.unchecked.append(f"lines of the file were torn: {', '.join(map(str, recording.lost[:10]))}")
        self._recording = recording
        self._tools = tools
        self._stages = stages
        self._output = output
        self._limits = limits
        self._decoder: StreamDecoder | None = None
        self._made: deque[Event] = deque()
        self._is_over = False  # the decoder has finished
        self._is_left = False  # the step was left before the body's end: its decoder was finished in another way
        self._left = deque(_left(recording))
        self._seq = 0
        self._judged_otherwise: set[str] = set()  # calls of this response

    def timed(self) -> Iterator[tuple[float, Event]]:
        """Yields each event with the moment at which it happened, on the recording's clock."""
        for at, entry in self._recording.timed():
            if isinstance(entry, EventBase):
                self._seq = entry.seq
                if isinstance(entry, StepStart) and not entry.asks_model:
                    self._end()  # its calls come out of no body
                elif isinstance(entry, AttemptDiscarded):
                    self._give_up()  # its last events were not emitted
                yield at, self._checked(entry)
            elif isinstance(entry, StreamFacts):
                self._begin(entry)
            elif isinstance(entry, Chunk):
                self._feed(entry)
            else:
                self._finish(entry)
        self._end()

    # -- the decoder --

    def _begin(self, facts: StreamFacts) -> None:
        self._end()
        self._is_left = self._left.popleft()
        self._judged_otherwise.clear()
        problem = self._problem(facts)
        if problem is not None:
            if problem not in self.unchecked:
                self.unchecked.append(problem)
            return
        self._decoder = StreamDecoder(
            wire=facts.wire,
            tools=facts.tools if self._tools is None else self._tools,
            stages=self._stages or DEFAULT,
            output=self._output,
            limits=self._limits,
            id_salt=facts.id_salt,
        )

    def _problem(self, facts: StreamFacts) -> str | None:
        if self._recording.redacted:
            return "the recording is redacted"
        if not facts.is_plain and self._stages is None:
            return "a response passed stages or transforms of the program's own; give stages="
        if facts.wire is not None and facts.wire not in names():
            return f"the wire {facts.wire} is not registered here"
        return None

    def _feed(self, chunk: Chunk) -> None:
        # A chunk behind the end is of another response, whose beginning was torn.
        if self._decoder is None or self._is_over or chunk.item is None or self._decoder.done:
            return
        self._left_over()
        if self._decoder is not None:
            self._take(self._decoder.feed(chunk.item))

    def _finish(self, end: SourceEnd) -> None:
        if self._decoder is not None and not self._is_over:
            self._take(self._decoder.finish(end.error))
            self._is_over = True

    def _take(self, events: list[Event]) -> None:
        # What depends on a type or on tools that were not given to the replay is not compared.
        unasked = () if self._output is not None else (OutputDelta, OutputEnd)
        unjudged = () if self._tools is not None else (ToolCallValidated,)
        self._made += (event for event in events if not isinstance(event, (*unasked, *unjudged)))

    def _end(self) -> None:
        """Ends a response; events that were made and not recorded are a difference, unless the step was left."""
        # A step that was left has not finished its decoder here, and recorded no more than its consumer saw.
        if self._is_over:
            self._left_over()
        self._decoder, self._is_over = None, False
        self._made.clear()

    def _left_over(self) -> None:
        if self._made:
            self._differs(f"{type(self._made[0]).__name__} comes out, and was not recorded")
            self._give_up()

    # -- the comparison --

    def _checked(self, event: Event) -> Event:
        """Returns the event that the decoder has made, if it is the recorded one; else the recorded one."""
        if self._decoder is None or isinstance(event, _OTHERS):
            return event
        if self._output is None and isinstance(event, (OutputDelta, OutputEnd)):
            return event
        if self._tools is None and isinstance(event, ToolCallValidated):
            return event
        # A call that is judged otherwise is one difference, not three: its validation follows, or is missing, on either
        # side.
        while self._made and self._is_consequence(self._made[0]) and type(self._made[0]) is not type(event):
            self._made.popleft()
        if self._is_consequence(event) and not (self._made and isinstance(self._made[0], ToolCallValidated)):
            return event
        if not self._made:
            if not self._is_left and not isinstance(event, _EITHER):
                self._differs(f"{type(event).__name__} was recorded, and does not come out")
                self._give_up()
            return event
        made = self._made[0]
        differs = self._difference(event, made)
        if differs is None:
            self._made.popleft()
            place = ("seq", "step", "causes", "time") if isinstance(event, CausedEvent) else ("seq", "step")
            return replace(made, **{name: getattr(event, name) for name in place})
        # A warning may be the pipeline's own, so that it has to be made only if it stands next.
        if isinstance(event, _EITHER):
            return event
        self._made.popleft()
        self._differs(differs)
        if isinstance(event, ToolCallEnd):
            self._judged_otherwise.add(event.call_id)
        if type(made) is not type(event):
            self._give_up()
        return event

    def _is_consequence(self, event: Event) -> bool:
        """Returns whether an event only follows from a reported difference: a call is valid now, or is not."""
        return isinstance(event, ToolCallValidated) and event.call_id in self._judged_otherwise

    def _difference(self, recorded: Event, made: Event) -> str | None:
        if type(made) is not type(recorded):
            return f"{type(recorded).__name__} was recorded, and {type(made).__name__} comes out"
        before, now = (self._compared(event) for event in (recorded, made))
        name = _first_difference(before, now)
        if name is None:
            return None
        return f"{type(recorded).__name__} has another {_named(name, before.get(name), now.get(name))}"

    def _compared(self, event: Event) -> dict[str, Any]:
        """Returns the fields of an event that are compared, as plain JSON."""
        written = written_event(event)
        for name in _PLACE:
            written.pop(name, None)
        # Without tools no arguments are judged. A problem of the text itself is found all the same, and compared.
        if isinstance(event, ToolCallEnd) and self._tools is None and event.call.problem in _JUDGED:
            written.pop("error", None)
            written["call"] = {name: value for name, value in written["call"].items() if name not in _BY_SCHEMA}
        if "error" in written:
            # The cause is an exception of a library's, whose words change with its version.
            written["error"] = {name: value for name, value in written["error"].items() if name != "cause"}
        return written

    def _differs(self, text: str) -> None:
        if len(self.differences) < _MOST_REPORTED:
            self.differences.append(Difference(self._seq, text))

    def _give_up(self) -> None:
        self._decoder = None
        self._made.clear()


def _left(recording: Recording) -> list[bool]:
    """Returns of each response whether its step was left before the end of its body."""
    left: list[bool] = []
    for entry in recording.entries:
        if isinstance(entry, StreamFacts):
            left.append(True)
        elif isinstance(entry, SourceEnd) and left:
            left[-1] = False
    return left


def _first_difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Returns the name of a field that differs, if there is one: rather one that may be shown."""
    others = [name for name in before.keys() | now.keys() if before.get(name) != now.get(name)]
    return min(others, key=lambda name: (name not in _WORDS, name), default=None)


def _named(name: str, before: Any, now: Any) -> str:
    """Returns the name of a field that differs; of a call, the field inside it; and our own words for it."""
    if isinstance(before, dict) and isinstance(now, dict) and name == "call":
        inner = _first_difference(before, now)
        return _named(f"call.{inner}", before.get(inner), now.get(inner))
    if name.removeprefix("call.") in _WORDS:
        return f"{name}: {before!r} was recorded, and {now!r} comes out"
    return name
