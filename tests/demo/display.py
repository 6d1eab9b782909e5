"""A run as events, written by hand, and a terminal that obeys what the demo writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from demo.screen import Screen
from demo.terminal import Terminal
from streamtools.events import (
    Event,
    Moment,
    Observation,
    Preview,
    StepEnd,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolStarted,
)
from streamtools.parts import Outcome, ToolCall

PAGE = Terminal()
LIVE = Terminal(live=True)


class Seen(Preview):
    """What a delta shows of the arguments."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def at(self, end: int) -> Moment:
        return self._value, None


def call(call_id: str, name: str, arguments: Mapping[str, Any], *, begun: float, whole: float) -> list[Event]:
    """The model writes a call."""
    return [
        ToolCallStart(call_id, name, time=begun),
        ToolCallDelta(call_id, "{...", _source=Seen(arguments)),
        written(call_id, name, arguments, whole),
    ]


def written(call_id: str, name: str, arguments: Mapping[str, Any], time: float) -> ToolCallEnd:
    return ToolCallEnd(ToolCall(call_id=call_id, name=name, arguments=dict(arguments), status="ready"), time=time)


def ran(call_id: str, *, started: float, ended: float, content: str, outcome: Outcome = "ok") -> list[Event]:
    """Its tool runs, from its start to its end."""
    return [ToolStarted(call_id, "a_tool", time=started), observed(call_id, ended, content, outcome)]


def observed(call_id: str, time: float, content: str, outcome: Outcome = "ok") -> Observation:
    return Observation(call_id=call_id, tool_name="a_tool", outcome=outcome, model_content=content, time=time)


def said(text: str, *, until: float) -> list[Event]:
    """The model speaks, a word at a time, and its turn ends."""
    words = [TextDelta(word) for word in re.findall(r"\s*\S+", text)]
    return [TextStart(time=until), *words, TextEnd(time=until), *end(until)]


def end(time: float) -> list[Event]:
    return [StreamEnd(finish="stop", complete=True, time=time), StepEnd(time=time)]


def shown(screen: Screen, events: Iterable[Event]) -> str:
    """What is written for these events."""
    return "".join(map(screen.feed, events))


class Glass:
    """The screen of a terminal that knows what the demo uses: line feeds, cursor up, clear to the end."""

    def __init__(self) -> None:
        self.rows = [""]
        self._row = 0
        self._column = 0

    def write(self, text: str) -> Glass:
        for token in re.findall(r"\x1b\[\d*[A-Za-z]|\n|[^\x1b\n]+", text):
            self._obey(token)
        return self

    def text(self) -> str:
        return "".join(f"{row.rstrip()}\n" for row in self.rows).rstrip("\n") + "\n"

    @staticmethod
    def without_colours(text: str) -> str:
        return re.sub(r"\x1b\[\d*m", "", text)

    @staticmethod
    def ups(text: str) -> list[str]:
        """How far the cursor went up, each time."""
        return re.findall(r"\x1b\[(\d+)A", text)

    def _obey(self, token: str) -> None:
        if token == "\n":
            self._row, self._column = self._row + 1, 0
            self.rows += [""] * (self._row + 1 - len(self.rows))
        elif token.startswith("\x1b") and token.endswith("A"):
            up = int(token[2:-1])
            assert up <= self._row, "the cursor leaves the screen"
            self._row -= up
        elif token == "\x1b[K":
            self.rows[self._row] = self.rows[self._row][: self._column]
        elif token == "\x1b[J":
            self.rows[self._row :] = [self.rows[self._row][: self._column]]
        else:
            assert not token.startswith("\x1b"), f"what is {token!r}?"
            row = self.rows[self._row].ljust(self._column)
            self.rows[self._row] = row[: self._column] + token + row[self._column + len(token) :]
            self._column += len(token)
