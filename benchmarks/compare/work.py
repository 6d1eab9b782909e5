"""What every reader reads, and what it should have found."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from ..workloads import Call, arguments, body, save_report, text


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader made of a response."""

    text: str
    calls: list[tuple[str, Any]]
    """Name and arguments of each call, in order."""


Run = Callable[[], Coroutine[Any, Any, str]]
"""Runs once; returns the text of the last answer."""
Read = Callable[[], Coroutine[Any, Any, Answer | None]]
"""Reads the response once; None if it decodes without an answer, as the limit does."""


@dataclass(frozen=True, slots=True)
class Work:
    """One response."""

    deltas: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()

    def chunks(self, wire: str) -> list[bytes]:
        return body(wire, text=self.deltas, calls=self.calls)

    @property
    def answer(self) -> Answer:
        return Answer("".join(self.deltas), [(name, value(arguments)) for name, arguments in self.calls])


RUN = "run"
"""The workload that is a whole run, see `benchmarks.bench_runs`, in microseconds a run and times the loop by hand."""
WORKLOADS = {
    "text": Work(deltas=tuple(text(2000))),
    "calls": Work(calls=tuple((save_report.name, arguments(size)) for size in (8000, 1000, 1000))),
}
"""2,000 deltas of text; three calls with 10,000 characters of arguments in pieces of five."""


def value(arguments: str) -> Any:
    """The arguments' value; the text itself if it is none, which makes the answer wrong."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def verdict(answer: Answer, expected: Answer) -> str:
    """``right``, or what is wrong with the answer."""
    return "; ".join(_wrong(answer, expected)) or "right"


def _wrong(answer: Answer, expected: Answer) -> Iterable[str]:
    if answer.text != expected.text:
        yield f"text differs: {len(answer.text)} of {len(expected.text)} characters"
    if len(answer.calls) != len(expected.calls):
        yield f"{len(answer.calls)} of {len(expected.calls)} calls"
    for number, (got, wanted) in enumerate(zip(answer.calls, expected.calls, strict=False), start=1):
        if got[0] != wanted[0]:
            yield f"call {number} has another name"
        if got[1] != wanted[1]:
            yield f"call {number} has other arguments"
