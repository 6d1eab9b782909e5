"""Decodes a recording's bodies again, and says where other events come out than those that were recorded.

In: the entries of a recording. Out: every recorded event in order, with the moment at which it happened; the decoder's
own in the place of an equal one, so that its previews work. Differences are noted, and change nothing.

Theory of operation. The events of a response are made by its decoder; all others (of the step, of the tools, of people)
are taken from the recording. The decoder is fed a chunk where the recording has it, and the events that come out wait
in a queue. A recorded event of a decoder's kind has to be the next one in it. A warning may be the pipeline's own, so
it has to be there only if it stands next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..decode.decoder import StreamDecoder
from ..events import (
    ApprovalRequested,
    ApprovalResolved,
    CausedEvent,
    Event,
    Observation,
    OutputDelta,
    OutputEnd,
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
from ..observers import StreamFacts
from ..stages import DEFAULT, OutputType, StageList
from ..tools import AnyTools
from ..wires import names
from .codec import written_event
from .recording import Chunk, Recording, SourceEnd

__all__ = ["Difference", "Redecoding"]

_OTHERS = (
    StepStart, StepEnd, ToolStarted, ToolProgress, ApprovalRequested, ApprovalResolved, Observation,
)  # fmt: skip
"""Events that no decoder makes."""
_EITHER = (StreamWarning, UnknownPayload)  # made by decoders, and by pipelines
_PLACE = ("seq", "step", "causes", "time")  # the pipeline stamps them
_JUDGED = (None, "invalid_arguments")  # the problems of a call whose text is whole, before and after it is judged
_BY_SCHEMA = ("status", "problem", "arguments", "normalizations")  # fields of a call that depend on its judge
_WORDS = frozenset({"finish", "complete", "status", "problem", "code", "kind", "wire", "dispatchable"})
"""Fields whose values are words of ours, which a difference may show."""
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
    """Decodes the bodies of one recording again.

    Args:
        recording: the recording.
        tools: the tools; without them arguments are not validated again.
        stages: the stages, if they were not the default ones.
        output: the type of the answer, if one was asked for.
        limits: bounds for each response.
    """

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
            if isinstance(entry, Event):
                self._seq = entry.seq
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
        if self._decoder is None or chunk.item is None or self._decoder.done:
            return
        self._left_over()
        if self._decoder is not None:
            self._take(self._decoder.feed(chunk.item))

    def _finish(self, end: SourceEnd) -> None:
        if self._decoder is not None:
            self._take(self._decoder.finish(end.error))
            self._is_over = True

    def _take(self, events: list[Event]) -> None:
        unasked = () if self._output is not None else (OutputDelta, OutputEnd)
        unjudged = () if self._tools is not None else (ToolCallValidated,)
        self._made += (event for event in events if not isinstance(event, (*unasked, *unjudged)))

    def _end(self) -> None:
        """Ends a response; events that were made and not recorded are a difference, unless the step was left."""
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
            return _stamped(made, event)
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
        """Returns whether an event only follows from a difference that was told: a call is valid now, or is not."""
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
        if isinstance(event, ToolCallEnd) and self._tools is None and event.call.problem in _JUDGED:
            written.pop("error", None)
            written["call"] = {name: value for name, value in written["call"].items() if name not in _BY_SCHEMA}
        if "error" in written:
            written["error"] = _without_cause(written["error"])
        return written

    def _differs(self, text: str) -> None:
        if len(self.differences) < _MOST_REPORTED:
            self.differences.append(Difference(self._seq, text))

    def _give_up(self) -> None:
        """Decodes this response no further: all that follows would be a difference."""
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


def _without_cause(error: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in error.items() if name != "cause"}


def _stamped(made: Event, recorded: Event) -> Event:
    """Returns the event that was made, in the recorded one's place."""
    place = ("seq", "step", "causes", "time") if isinstance(recorded, CausedEvent) else ("seq", "step")
    return replace(made, **{name: getattr(recorded, name) for name in place})
