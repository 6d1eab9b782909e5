"""Defines the lanes of a picture: runs, steps, calls, and the pieces of responses.

Times are seconds from the run's first event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

Usage: TypeAlias = dict[str, int]
SHORTEST_S = 0.005  # a wait that is worth showing; less is the dispatcher's own time


@dataclass(slots=True, kw_only=True)
class Span:
    reason: str
    start: float
    end: float | None = None

    def row(self) -> list[Any]:
        return [self.reason, micros(self.start), micros(self.end)]


@dataclass(slots=True, kw_only=True)
class Try:
    number: int
    start: float
    end: float | None = None
    error: str | None = None  # the type of its error; None if it did not fail, or nothing is known of it

    def row(self) -> list[Any]:
        return [self.number, micros(self.start), micros(self.end), self.error]


@dataclass(slots=True, kw_only=True)
class Lane:
    """Base of everything that has a place in the picture. `ref` is its name in arrows and marks."""

    LETTER: ClassVar[str] = ""
    id: int
    start: float
    end: float | None = None

    @property
    def ref(self) -> str:
        """The lane's name in arrows and marks: a letter and its number."""
        return f"{self.LETTER}{self.id}"


@dataclass(slots=True, kw_only=True)
class RunHead(Lane):
    """The run that some steps belong to. A run that was resumed is a second one."""

    LETTER: ClassVar[str] = "r"
    run_id: str
    name: str | None = None  # the agent's name, where the run has one
    question: str | None = None  # the latest text of the user's in its first request
    outcome: str | None = None  # its `RunOutcome`; None while it goes on, or if nobody says
    error: str | None = None  # type and text of the error that ended it
    is_entered: bool = False  # True if its end will be announced


@dataclass(slots=True, kw_only=True)
class StepLane(Lane):
    LETTER: ClassVar[str] = "s"
    run: int
    number: int
    asks_model: bool = True
    outcome: str | None = None
    wire: str | None = None
    model: str | None = None
    stream_start: float | None = None
    stream_end: float | None = None
    finish: str | None = None
    error: str | None = None  # type and text of the error that ended the stream
    usage: Usage | None = None
    cost: float | None = None  # by the prices that were given, in their currency
    fed_by: list[int] = field(default_factory=list)  # the calls whose results this answer had, by `CallLane.id`
    warnings: list[tuple[float, str, str]] = field(default_factory=list)  # time, code and text
    opening: str = ""  # the beginning of its text
    user_messages: list[str] = field(default_factory=list)  # what the user said into the run before it
    waited_for: str | None = None
    """The lane that ended last, so that the next step had to wait for it: a call, or the step for its response."""
    saved: float = 0.0  # seconds by which it would have been longer, had its calls begun at the end of the response


@dataclass(slots=True, kw_only=True)
class CallLane(Lane):
    LETTER: ClassVar[str] = "c"
    step: int
    call_id: str
    name: str
    kind: str = "function"
    index: int = 0
    whole: float | None = None  # the time at which its arguments had ended
    ready: float | None = None  # the time at which they were found valid
    outcome: str | None = None
    problem: str | None = None  # code of what is wrong with the arguments
    error: str | None = None  # why it is not `ok`: type, then text
    waits: list[Span] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)
    after: int | None = None  # the piece of text or reasoning before it in the stream, by `StreamPiece.id`
    arguments: str | None = None  # the arguments, where they are not in the growth
    argument: str | None = None  # the argument that tells it from the other calls of its tool, in a few words
    result: str | None = None
    to_model: str | None = None
    """The text for the model instead of a result. It has read it if the next step is fed by this call."""
    result_type: str | None = None
    facts: list[tuple[str, str]] = field(default_factory=list)  # other facts of the call record, as label and text


@dataclass(slots=True, kw_only=True)
class StreamPiece(Lane):
    LETTER: ClassVar[str] = "p"
    step: int
    kind: str
    call: int | None = None  # the call whose arguments these are


def micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
