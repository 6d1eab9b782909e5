"""Replays a recording: emits its events again, at their old pace or faster, to a loop and to observers.

No tool runs: the bodies are decoded again, and everything else is read from the recording.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.lowlevel import checkpoint

from .. import events as of
from ..decode import StreamDecoder
from ..durable.codec import written_event
from ..errors import LocalProtocolError, StreamError
from ..events import Event, Observation
from ..ground import shown_by
from ..limits import Limits
from ..observers import Observer, StreamFacts
from ..stages import DEFAULT, OutputType, StageList
from ..tools import AnyTools
from ..turn import Turn
from ..wires import names
from .recording import Chunk, Recording, RecordingError, SourceEnd, moved, shown_ids, turns_of


def replay(
    path: str | os.PathLike[str] | Recording,
    *,
    speed: float = math.inf,
    tools: AnyTools | None = None,
    run_id: str | None = None,
    observers: Iterable[Observer] = (),
    stages: StageList | None = None,
    output: OutputType | None = None,
    limits: Limits = Limits(),
) -> Replay:
    """Replays a recording of `record`. Enter the block and iterate, or await it for the last turn.

    No tool runs. The events are the recorded ones, with new times, and `Replay.differences` lists where the recorded
    bodies decode differently now; with `tools`, also where the arguments validate differently.

    Args:
        path: the file, or a `Recording`.
        speed: 2 is twice as fast as the run was; by default without pauses.
        tools: the current tools.
        run_id: the run, if the file has several.
        observers: get every event: a `streamtools.view.Watch`, a `streamtools.telemetry.Tracing`.
        stages: the run's own stages, if it had any; without them its responses are not decoded again.
        output: the output type of the run, as for `pipeline`.
        limits: the limits of decoding.

    Raises:
        RecordingError: the file is not a recording, or lacks the run.
        ValueError: `speed` is not greater than 0.
        OSError: the file cannot be read.
    """
    recording = path if isinstance(path, Recording) else Recording.read(path, run_id=run_id)
    if not speed > 0:
        raise ValueError(f"speed={speed!r}: must be a number greater than 0")
    return Replay(Redecoding(recording, tools, stages, output, limits), speed, tuple(observers))


class Replay:
    """A recording being replayed; made by `replay`."""

    def __init__(self, redecoding: Redecoding, speed: float, observers: tuple[Observer, ...]) -> None:
        self.recording = redecoding.recording
        """The recording."""
        self._redecoding, self._observers = redecoding, observers
        self._clock = Clock(self.recording.began_at, speed)
        self._shift = 0.0
        self._timed: Iterator[tuple[float, Event]] = iter(())
        self._events: list[Event] = []
        self._entered = self._is_over = False

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
        """The places where the bodies decode to other events than the recorded ones."""
        return tuple(self._redecoding.differences)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The reasons why some bodies were not decoded again: redaction, missing stages, torn lines."""
        return tuple(self._redecoding.unchecked)

    async def __aenter__(self) -> Self:
        if self._entered:
            raise LocalProtocolError("a replay can be entered once; call replay(...) again")
        self._entered = True
        # All times are moved by the same, so that the first event happens now: at any speed, durations are those of the
        # recording.
        self._timed = self._redecoding.timed()
        self._shift = time.monotonic() - self.recording.began_at
        self._clock.start()
        for observer in self._observers:
            begin = getattr(observer, "begin_run", None)
            if begin is not None:
                begin(self.recording)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for observer in self._observers:
            end = getattr(observer, "end_run", None)
            if end is not None:
                end(self.recording.outcome if self._is_over else "left", error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._entered:
            raise TypeError("the replay was not entered; write:  async with replay(path) as run:")
        for at, recorded in self._timed:
            await self._clock.wait(at)
            event = moved(recorded, self._shift)
            # Directly, since a pipeline would stamp the event anew: `seq`, `causes` and `step` are the recorded ones.
            for observer in self._observers:
                kinds = observer.event_types
                if kinds is None or type(event) in kinds:
                    observer.on_event(event)
            self._events.append(event)
            return event
        self._is_over = True
        await checkpoint()
        raise StopAsyncIteration

    async def finish(self) -> Turn:
        """Replays to the end, ignores the events, and returns the last turn, as awaiting the replay does.

        Raises:
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


LONGEST_PAUSE_S = 10.0  # on the recording's clock


class Clock:
    def __init__(self, began_at: float, speed: float) -> None:
        self._speed = speed
        self._at = began_at
        self._now = 0.0

    def start(self) -> None:
        self._now = anyio.current_time()

    async def wait(self, at: float) -> None:
        # A person may have taken a night to approve a call.
        pause = min(max(0.0, at - self._at), LONGEST_PAUSE_S)
        self._at = max(self._at, at)
        # By the sum of all pauses, not from now on: time that the consumer takes does not make the replay slower.
        if self._speed < math.inf:
            self._now += pause / self._speed
            left = self._now - anyio.current_time()
            if left > 0:
                await anyio.sleep(left)


# -- responses for a loop of today --


def recorded_responses(
    path: str | os.PathLike[str] | Recording, *, run_id: str | None = None
) -> Callable[[Any, Any], AsyncIterator[Any]]:
    """Returns an `ask` for a loop that answers with the recorded responses, one after the other.

        run = agent_loop(recorded_responses("trip.jsonl"), messages, tools=[...], wire="openai.chat_completions")

    Nothing is compared, and the tools run **for real**: pass tools that are safe to run. For `run_id` see `replay`.

    Raises:
        RecordingError: as for `replay`; or the recording is redacted and has no bodies. The returned function raises it
            where no further response was recorded.
    """
    recording = path if isinstance(path, Recording) else Recording.read(path, run_id=run_id)
    steps = _steps(recording)
    left = iter(steps)

    def ask(messages: Any, tools: Any) -> AsyncIterator[Any]:
        if (step := next(left, None)) is None:
            raise RecordingError(f"the loop asks for more than the {len(steps)} recorded responses")
        return _body(step)

    return ask


@dataclass(slots=True)
class _Step:
    facts: StreamFacts
    chunks: list[Chunk] = field(default_factory=list)
    error: StreamError | None = None


def _steps(recording: Recording) -> list[_Step]:
    if recording.redacted:
        raise RecordingError("the recording is redacted and has no bodies, so no tool can run")
    steps: list[_Step] = []
    step: _Step | None = None
    for entry in recording.entries:
        if isinstance(entry, StreamFacts):
            step = _Step(entry)
            steps.append(step)
        elif isinstance(entry, Chunk) and step is not None:
            step.chunks.append(entry)
        elif isinstance(entry, SourceEnd) and step is not None:
            step.error = entry.error
        elif isinstance(entry, of.AttemptDiscarded) and step is not None:
            steps.pop()  # another response follows in its place
            step = None
        elif isinstance(entry, of.StepStart):
            step = None
    return steps


async def _body(step: _Step) -> AsyncIterator[Any]:
    for chunk in step.chunks:
        await checkpoint()
        yield chunk.item
    if step.error is not None:
        raise step.error


# -- decoding the bodies again --
#
# In: the entries of a recording. Out: every recorded event in order, with the moment at which it happened; the
# decoder's own in the place of an equal one, so that its previews work. Differences are noted, and change nothing.
#
# The events of a response are made by its decoder; all others (of the step, of the tools, of people) come from the
# recording. The decoder is fed a chunk where the recording has it, and its events wait in a queue. A recorded event of
# a decoder's kind has to be the next one in it.

_OTHERS = (  # events that no decoder makes
    of.StepStart, of.StepEnd, of.MessageAdded, of.RequestFailed, of.AttemptBegan, of.AttemptDiscarded,
    of.AttemptCommitted, of.ToolStarted, of.ToolProgress, of.ApprovalRequested, of.ApprovalResolved,
    of.AnswerRequested, Observation,
)  # fmt: skip
_EITHER = (of.StreamWarning, of.UnknownPayload)  # made by decoders, and by pipelines
_PLACE = ("seq", "step", "causes", "time")  # the pipeline stamps them
_JUDGED = (None, "invalid_arguments")  # the problems of a call whose text is whole, before and after it is judged
_BY_SCHEMA = ("status", "problem", "arguments", "normalizations")  # fields of a call that depend on its judge
_WORDS = frozenset({"finish", "complete", "status", "problem", "code", "kind", "wire", "dispatchable"})
"""Fields whose values are words of this library: a difference may show these."""
_MOST_REPORTED = 100  # differences: one often leads to all that follow


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where a recording decodes differently now."""

    seq: int
    """`seq` of the recorded event at this place."""
    text: str
    """The difference in words, without content."""
    about: str | None = None
    """The tool of the call, and the arguments that do not fit."""

    def __str__(self) -> str:
        return f"event {self.seq}: {self.text}" + (f" ({self.about})" if self.about else "")


class Redecoding:
    """Decodes the bodies of one recording again; without tools, arguments are not validated again."""

    def __init__(
        self,
        recording: Recording,
        tools: AnyTools | None,
        stages: StageList | None,
        output: OutputType | None,
        limits: Limits,
    ) -> None:
        self.differences: list[Difference] = []  # the differences so far
        self.unchecked: list[str] = ["the recording is redacted"] if recording.redacted else []
        if recording.lost:
            self.unchecked.append(f"lines of the file were torn: {', '.join(map(str, recording.lost[:10]))}")
        self.recording = recording
        self._tools = tools
        self._stages, self._output, self._limits = stages, output, limits
        self._decoder: StreamDecoder | None = None
        self._made: deque[Event] = deque()
        self._is_over = False  # the decoder has finished
        self._is_left = False  # the step was left before the body's end: its decoder was finished in another way
        self._left = deque(_left(recording))
        self._seq = 0
        self._judged_otherwise: set[str] = set()  # calls of this response
        self._tool_names: tuple[str, ...] = ()

    def timed(self) -> Iterator[tuple[float, Event]]:
        for at, entry in self.recording.timed():
            if isinstance(entry, of.EventBase):
                self._seq = entry.seq
                if isinstance(entry, of.StepStart) and not entry.asks_model:
                    self._end()  # its calls come out of no body
                elif isinstance(entry, of.AttemptDiscarded):
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
        self._tool_names = facts.tools
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
        if self.recording.redacted:
            return "the recording is redacted"
        if not facts.is_plain and self._stages is None:
            return "a response passed through the program's own stages or transforms; pass stages="
        if facts.wire is not None and facts.wire not in names():
            return f"the wire {facts.wire} is not registered; register it, then replay again"
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
        unasked = () if self._output is not None else (of.OutputDelta, of.OutputEnd)
        unjudged = () if self._tools is not None else (of.ToolCallValidated,)
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
            self._differs(f"{type(self._made[0]).__name__} is emitted, but was not recorded")
            self._give_up()

    # -- the comparison --

    def _checked(self, event: Event) -> Event:
        if self._decoder is None or isinstance(event, _OTHERS):
            return event
        if self._output is None and isinstance(event, (of.OutputDelta, of.OutputEnd)):
            return event
        if self._tools is None and isinstance(event, of.ToolCallValidated):
            return event
        # A call that is judged otherwise is one difference, not three: its validation follows, or is missing, on either
        # side.
        while self._made and self._is_consequence(self._made[0]) and type(self._made[0]) is not type(event):
            self._made.popleft()
        if self._is_consequence(event) and not (self._made and isinstance(self._made[0], of.ToolCallValidated)):
            return event
        if not self._made:
            if not self._is_left and not isinstance(event, _EITHER):
                self._differs(f"{type(event).__name__} was recorded, but is not emitted", self._about(event))
                self._give_up()
            return event
        made = self._made[0]
        differs = self._difference(event, made)
        if differs is None:
            self._made.popleft()
            place = ("seq", "step", "causes", "time") if isinstance(event, of.CausedEvent) else ("seq", "step")
            return replace(made, **{name: getattr(event, name) for name in place})
        # A warning may be the pipeline's own, so that it has to be made only if it stands next.
        if isinstance(event, _EITHER):
            return event
        self._made.popleft()
        self._differs(differs, self._about(event, made))
        if isinstance(event, of.ToolCallEnd):
            self._judged_otherwise.add(event.call_id)
        if type(made) is not type(event):
            self._give_up()
        return event

    def _is_consequence(self, event: Event) -> bool:
        """Returns whether an event only follows from a reported difference: a call is valid now, or is not."""
        return isinstance(event, of.ToolCallValidated) and event.call_id in self._judged_otherwise

    def _difference(self, recorded: Event, made: Event) -> str | None:
        if type(made) is not type(recorded):
            return f"{type(recorded).__name__} was recorded, but {type(made).__name__} is emitted"
        before, now = (self._compared(event) for event in (recorded, made))
        name = _first_difference(before, now)
        if name is None:
            return None
        return f"{type(recorded).__name__} has another {_named(name, before.get(name), now.get(name))}"

    def _compared(self, event: Event) -> dict[str, Any]:
        written = written_event(event)
        for name in _PLACE:
            written.pop(name, None)
        # Without tools no arguments are judged. A problem of the text itself is found all the same, and compared.
        if isinstance(event, of.ToolCallEnd) and self._tools is None and event.call.problem in _JUDGED:
            written.pop("error", None)
            written["call"] = {name: value for name, value in written["call"].items() if name not in _BY_SCHEMA}
        if "error" in written:
            # The cause is an exception of a library's, whose words change with its version.
            written["error"] = {name: value for name, value in written["error"].items() if name != "cause"}
        return written

    def _differs(self, text: str, about: str | None = None) -> None:
        if len(self.differences) < _MOST_REPORTED:
            self.differences.append(Difference(self._seq, text, about))

    def _about(self, event: Event, made: Event | None = None) -> str | None:
        name = getattr(getattr(event, "call", event), "name", None)
        if name not in self._tool_names:  # else the model has made it up
            return None
        problems = getattr(getattr(made, "error", None), "problems", ())
        return ": ".join([name, *(["; ".join(problems)] if problems else [])])

    def _give_up(self) -> None:
        self._decoder = None
        self._made.clear()


def _left(recording: Recording) -> list[bool]:
    left: list[bool] = []
    for entry in recording.entries:
        if isinstance(entry, StreamFacts):
            left.append(True)
        elif isinstance(entry, SourceEnd) and left:
            left[-1] = False
    return left


def _first_difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    others = [name for name in before.keys() | now.keys() if before.get(name) != now.get(name)]
    return min(others, key=lambda name: (name not in _WORDS, name), default=None)


def _named(name: str, before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict) and name == "call":
        inner = _first_difference(before, now)
        return _named(f"call.{inner}", before.get(inner), now.get(inner))
    if name.removeprefix("call.") in _WORDS:
        return f"{name}: {before!r} was recorded, but is {now!r} now"
    return name
