"""Reads a recording, which is not trusted: its events, its turns, and the bodies of its responses.

A last line that was cut, such as by a crash, is left out. A line that is not JSON was torn, such as by a full disk: it
is lost, and its number is kept. Any other invalid line raises a `RecordingError` with its number.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeAlias

from ..durable.codec import read_event, read_value, written_value
from ..durable.fields import Range, read_object
from ..errors import StreamError, StreamToolsError
from ..events import AttemptDiscarded, CausedEvent, Event, EventBase, Observation, StepEnd, StepStart
from ..ground import one_line, shown_by
from ..limits import Limits
from ..observers import StreamFacts
from ..parts import RunOutcome
from ..turn import Turn, TurnBuilder
from .recorder import VERSION

_HEAD = b'{"recording":'
_ID_CHARS, _MOST_IDS = 80, 5  # in a message
_SAME_CLOCK_S = 1.0  # calendars are set right in between, by less than that


class RecordingError(StreamToolsError, ValueError):
    """A file is not a recording, or an invalid one; the message names the line."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a response body, as it was read."""

    at: float
    """The time when it was read, in seconds on the recording's clock."""
    item: bytes | str | Mapping[str, Any] | None = field(repr=False)
    """The piece; None if the recording is redacted."""
    size: int
    """The size in bytes; that of text and payloads in characters."""


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The end of a response body."""

    error: StreamError | None
    """The error that ended the body, if it did not end by itself."""


Entry: TypeAlias = Event | Chunk | StreamFacts | SourceEnd
"""An entry of a recording. `StreamFacts` marks the beginning of a response."""


@dataclass(slots=True, kw_only=True)
class _Run:
    begin: _Begin
    entries: list[Entry] = field(default_factory=list)
    shift: float = 0.0  # of the times that are read now: a run that goes on in another process may have another clock
    outcome: str | None = None
    cut: bool = False
    lost: list[int] = field(default_factory=list)


class Recording:
    """One recorded run; made by `read`."""

    def __init__(self, run: _Run) -> None:
        self.run_id = run.begin.run_id
        """The run's id."""
        self.name = run.begin.name
        """The agent's name, if it had one."""
        self.conversation_id = run.begin.conversation_id
        """The run's conversation, if it is known."""
        self.began = run.begin.began
        """When the recording began, by the calendar."""
        self.began_at = run.begin.at
        """The same moment on the recording's clock, in seconds: that of events' `time`."""
        self.redacted = run.begin.redacted
        """True if the recording has no bodies, and its texts were redacted."""
        self.outcome = run.outcome
        """The run's outcome (`RunOutcome`); None if it has none, or had not ended."""
        self.cut = run.cut
        """True if the recording was full before the run had ended."""
        self.lost = tuple(run.lost)
        """The numbers of the file's lines that were torn, as by a full disk; the rest of their step is missing."""
        self.entries = tuple(run.entries)
        """Everything, in the order in which it happened."""

    __repr__ = shown_by("run_id", "name", "began", "redacted", "outcome", "cut", "lost")

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, run_id: str | None = None, limits: Limits = Limits()) -> Recording:
        """Reads a file.

        Args:
            path: the file.
            run_id: the run, if the file has several.
            limits: the largest file is ``max_recording_bytes``.

        Raises:
            RecordingError: the file is not a recording, has several runs or not this one, or has an invalid line.
            OSError: the file cannot be read.
        """
        runs = _read(Path(path), limits)
        if run_id is None and len(runs) > 1:
            raise RecordingError(f"{path} has {len(runs)} runs; choose one: run_id={shown_ids(list(runs)[:1])}, ...")
        found = next(iter(runs.values())) if run_id is None else runs.get(run_id)
        if found is None:
            raise RecordingError(f"{path} has no run {shown_ids([run_id])}; it has {shown_ids(runs)}")
        return cls(found)

    @classmethod
    def read_all(cls, path: str | os.PathLike[str], *, limits: Limits = Limits()) -> tuple[Recording, ...]:
        """Reads all runs of a file, in the order in which they began; see `read`."""
        return tuple(map(cls, _read(Path(path), limits).values()))

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events."""
        return tuple(entry for entry in self.entries if isinstance(entry, EventBase))

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The turn of each step in order; a resumed step has one more."""
        return tuple(turns_of(self.events))

    @property
    def bodies(self) -> tuple[tuple[Chunk, ...], ...]:
        """The body of each response in the pieces that were read; without their bytes if the recording is redacted."""
        bodies: list[list[Chunk]] = []
        for entry in self.entries:
            if isinstance(entry, StreamFacts):
                bodies.append([])
            elif isinstance(entry, Chunk) and bodies:
                bodies[-1].append(entry)
        return tuple(map(tuple, bodies))

    def timed(self) -> Iterator[tuple[float, Entry]]:
        """Yields each entry with its time on the recording's clock."""
        # Deltas have no time of their own, and get that of their chunk.
        at = self.began_at
        for entry in self.entries:
            if isinstance(entry, Chunk):
                at = max(at, entry.at)
            elif isinstance(entry, CausedEvent) and entry.time:
                at = max(at, entry.time)
            yield at, entry


def is_recording(file: BinaryIO) -> bool:
    head = file.read(len(_HEAD))
    file.seek(0)
    return head == _HEAD


def shown_ids(run_ids: Iterable[str | None]) -> str:
    shown = [f"'{one_line(run_id or '', _ID_CHARS)}'" for run_id in islice(run_ids, _MOST_IDS + 1)]
    return ", ".join([*shown[:_MOST_IDS], *(["..."] if len(shown) > _MOST_IDS else [])])


# -- times and turns --


def moved(event: Event, shift: float) -> Event:
    if not isinstance(event, CausedEvent):
        return event
    if isinstance(event, StepStart) and event.requested_at is not None:
        return replace(event, time=event.time + shift, requested_at=event.requested_at + shift)
    if isinstance(event, Observation) and (event.waits or event.failed_attempts):
        return replace(
            event,
            time=event.time + shift,
            waits=tuple(replace(one, began=one.began + shift, ended=one.ended + shift) for one in event.waits),
            failed_attempts=tuple(
                replace(one, began=one.began + shift, ended=one.ended + shift) for one in event.failed_attempts
            ),
        )
    return replace(event, time=event.time + shift)


def turns_of(events: tuple[Event, ...]) -> Iterator[Turn]:
    builder: TurnBuilder | None = None
    for event in events:
        if isinstance(event, StepStart):
            if builder is not None:  # the program ended in the middle of a step
                yield builder.build()
            builder = TurnBuilder()
        if builder is not None:
            builder.add(event)
            if isinstance(event, AttemptDiscarded):
                was, builder = builder, TurnBuilder()
                builder.begin_as(was)
            if isinstance(event, StepEnd):
                yield builder.build()
                builder = None
    if builder is not None:
        yield builder.build()


# -- lines --


def _read(path: Path, limits: Limits) -> dict[str, _Run]:
    # Before anything of it is in memory.
    if path.stat().st_size > limits.max_recording_bytes:
        raise RecordingError(
            f"{path} exceeds max_recording_bytes={limits.max_recording_bytes}; raise "
            "Limits(max_recording_bytes=...) if this is wanted"
        )
    runs: dict[str, _Run] = {}
    current: _Run | None = None
    lost: list[int] = []  # before any run
    lines = path.read_bytes().split(b"\n")
    # What follows the last line end is nothing, or was cut when the program ended: a recording of a program that died
    # ends where the program did.
    whole = len(lines) - 1
    for number, line in enumerate(lines[:whole], start=1):
        try:
            try:
                record = json.loads(line)
            except (json.JSONDecodeError, UnicodeDecodeError):
                (lost if current is None else current.lost).append(number)
                continue
            if not isinstance(record, dict):
                raise ValueError(f"expected an object, got {type(record).__name__}")
            if "recording" in record:
                if record["recording"] != VERSION:
                    version = str(record["recording"])[:20]
                    raise ValueError(f"a recording of version {version}; this release reads version {VERSION}")
                current = _begun(read_object(_Begin, record, label=""), runs)
            elif current is None:
                raise ValueError("no recording begins before this line")
            else:
                _take(current, record)
        except (ValueError, RecursionError) as error:
            raise RecordingError(f"{path}, line {number}: {_problem(error)}") from None
    if not runs:
        raise RecordingError(f"{path} is not a recording: it has no complete line")
    first = next(iter(runs.values()))
    first.lost = [*lost, *first.lost]
    return runs


def _problem(error: Exception) -> str:
    return "a value is nested too deeply" if isinstance(error, RecursionError) else one_line(str(error), 300)


def _begun(line: _Begin, runs: dict[str, _Run]) -> _Run:
    # A run that goes on in another process may have another clock: a monotonic one counts from the start of the
    # machine. The calendar shows how much later it went on. On the same clock, which both times show, nothing is moved,
    # since calendars are set right in between.
    known = runs.setdefault(line.run_id, _Run(begin=line))
    first = known.begin
    shift = first.at + (line.began - first.began).total_seconds() - line.at
    known.shift = shift if abs(shift) > _SAME_CLOCK_S else 0.0
    first.redacted |= line.redacted
    first.name, first.conversation_id = first.name or line.name, first.conversation_id or line.conversation_id
    return known


def _take(run: _Run, record: Mapping[str, Any]) -> None:
    if "event" in record:
        event = read_event(record)
        if isinstance(event, StepStart) and event.run_id != run.begin.run_id:
            raise ValueError("StepStart.run_id: expected the id of the recording, got another one")
        run.entries.append(moved(event, run.shift) if run.shift else event)
        return
    for key, kind in _LINES.items():
        if key in record:
            read_object(kind, record, label="", read=read_value).take(run)
            return
    raise ValueError("a line of an unknown kind")


# Each kind of line but an event's, with what it adds to its run.


@dataclass(slots=True, kw_only=True)
class _Begin:
    recording: int
    run_id: str
    began: datetime
    at: float
    name: str | None = None
    conversation_id: str | None = None
    redacted: bool = False
    by: str | None = None  # the program that wrote it


@dataclass(slots=True, kw_only=True)
class _Text:
    chunk: str | None
    at: float
    size: Annotated[int, Range(0, 1 << 53)] = 0

    def take(self, run: _Run) -> None:
        size = self.size if self.chunk is None else len(self.chunk)
        run.entries.append(Chunk(self.at + run.shift, self.chunk, size))


@dataclass(slots=True, kw_only=True)
class _Bytes:
    bytes: str
    at: float

    def take(self, run: _Run) -> None:
        try:
            data = base64.b64decode(self.bytes, validate=True)
        except ValueError:
            raise ValueError("expected base64 in bytes, got other text") from None
        run.entries.append(Chunk(self.at + run.shift, data, len(data)))


@dataclass(slots=True, kw_only=True)
class _Payload:
    payload: dict[str, Any]
    at: float

    def take(self, run: _Run) -> None:
        run.entries.append(Chunk(self.at + run.shift, self.payload, len(json.dumps(written_value(self.payload)))))


@dataclass(slots=True, kw_only=True)
class _Stream:
    stream: dict[str, Any]

    def take(self, run: _Run) -> None:
        facts: StreamFacts = read_object(StreamFacts, self.stream, label="stream")
        if len(set(facts.tools)) < len(facts.tools):
            raise ValueError("stream.tools: expected different names, got the same name twice")
        run.entries.append(facts)


@dataclass(slots=True, kw_only=True)
class _SourceEnd:
    source_end: StreamError | None
    at: float

    def take(self, run: _Run) -> None:
        run.entries.append(SourceEnd(self.source_end))


@dataclass(slots=True, kw_only=True)
class _RunEnd:
    run_end: RunOutcome | None
    error: str | None
    at: float

    def take(self, run: _Run) -> None:
        run.outcome = self.run_end


@dataclass(slots=True, kw_only=True)
class _Cut:
    cut: str

    def take(self, run: _Run) -> None:
        run.cut = True


_LINES: Mapping[str, Any] = {  # the class of each kind of line, by the key that shows it
    "chunk": _Text,
    "bytes": _Bytes,
    "payload": _Payload,
    "stream": _Stream,
    "source_end": _SourceEnd,
    "run_end": _RunEnd,
    "cut": _Cut,
}
