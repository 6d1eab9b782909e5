"""The pieces that a step is shown as: texts and calls, each a few lines that settle.

Lines are never wider than the terminal, so that what is rewritten in place takes the rows that it is counted for.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from streamtools import Observation, ToolCall
from streamtools.cli.common import cells, pad
from streamtools.ground.text import printable

from .cells import clip, wrap
from .terminal import Style, Terminal
from .timeline import TIMES, TOOK, interval, milliseconds

__all__ = ["MARGIN", "Block", "CallBlock", "TextBlock", "margin"]

MARGIN = 7  # cells for who speaks
MAX_SHOWN_CHARS = 1000  # of one argument: more fits on no screen, and would be copied at every delta


class Block(Protocol):
    """A piece of a step. Its lines settle when they can no longer change."""

    finished: bool
    """Nothing of it will change any more."""

    def settle(self) -> list[str]:
        """The lines that have settled since the last time."""
        ...

    def open(self, now: float) -> list[str]:
        """The lines that have not, as they are `now` (seconds since the run began)."""
        ...


class TextBlock:
    """A text that grows. Costs time linear in it: only its last line is ever looked at again."""

    def __init__(self, who: str, terminal: Terminal, *, style: Style | None = None) -> None:
        self.finished = False
        self._who = who
        self._terminal = terminal
        self._style: Style | None = style
        self._lines: list[str] = []
        self._last = ""

    def add(self, text: str) -> None:
        """More of the text."""
        *lines, self._last = wrap(self._last + printable(text), self._terminal.width - 1 - MARGIN)
        self._lines += lines

    def settle(self) -> list[str]:
        """All lines but the last; that one, too, when the text has ended."""
        lines, self._lines = self._lines, []
        if self.finished and self._last:
            lines.append(self._last)
            self._last = ""
        placed = [self._placed(line, first=number == 0) for number, line in enumerate(lines)]
        if placed:
            self._who = ""
        return placed

    def open(self, now: float) -> list[str]:
        """What has not settled: the line that grows, and those above it that were not asked for yet."""
        lines = [*self._lines, self._last] if self._last else self._lines
        return [self._placed(line, first=number == 0) for number, line in enumerate(lines)]

    def _placed(self, line: str, *, first: bool) -> str:
        text = line if self._style is None else self._terminal.paint(self._style, line)
        return (margin(self._who if first else "", self._terminal) + text).rstrip()


class CallBlock:
    """A call: what the model writes, when its tool ran, and what came of it."""

    def __init__(self, who: str, terminal: Terminal, name: str) -> None:
        self.finished = False
        self.name = name
        self.arguments: Any = None
        """The best view of the arguments so far."""
        self.started: float | None = None
        """When its tool started, in seconds since the run began."""
        self._who = who
        self._terminal = terminal
        self._call: ToolCall | None = None
        self._ended: float | None = None
        self._observation: Observation | None = None

    def end(self, call: ToolCall) -> None:
        """The model has written the call, or will not go on with it."""
        self._call = call
        self.name = call.name
        if call.arguments is not None:
            self.arguments = call.arguments
        elif self.arguments is None:
            self.arguments = call.arguments_text

    def observe(self, observation: Observation, now: float) -> None:
        """The call is over."""
        self._observation, self._ended, self.finished = observation, now, True

    def text(self) -> str:
        """The call as far as it is written: ``get_weather(city="Tok…``."""
        call = f"{self.name}({_listed(self.arguments)}"
        if self._call is None or self._call.status == "truncated":
            # Whether its last string has ended is not known.
            return _one_line(call.removesuffix('"')) + self._terminal.sign("ellipsis")
        return _one_line(call + ")")

    def settle(self) -> list[str]:
        """All lines at once, when the call is over."""
        return self._lines(0.0) if self.finished else []

    def open(self, now: float) -> list[str]:
        """All lines, as long as they were not asked for as settled."""
        return self._lines(now)

    def _lines(self, now: float) -> list[str]:
        """One line if all fits its columns; a long call stands above them, a long result below."""
        terminal = self._terminal
        room = terminal.width - 1 - MARGIN
        beside = room - 2 - TIMES - 2 - TOOK - 2
        column = beside * 4 // 7
        text = self.text()
        lines = [pad(text, column)] if cells(text) <= column else [*wrap(text, room), " " * column]
        result, style = self._result()
        if cells(result) <= beside - column:
            lines[-1] += f"  {self._times(now)}  {terminal.paint(style, result)}"
        else:
            lines[-1] += f"  {self._times(now)}"
            lines.append(f"  {terminal.paint(style, clip(result, room - 2, terminal.sign('ellipsis')))}")
        placed = [margin(self._who if number == 0 else "", terminal) + line for number, line in enumerate(lines)]
        return [line.rstrip() for line in placed if line.strip()]

    def _times(self, now: float) -> str:
        if self.started is None:
            return " " * (TIMES + 2 + TOOK)
        times = pad(interval(self.started, self._ended, self._terminal), TIMES)
        unknown = self.finished and self._ended is None
        took = "" if unknown else milliseconds((now if self._ended is None else self._ended) - self.started)
        return self._terminal.paint("dim", f"{times}  {took:>{TOOK}}")

    def _result(self) -> tuple[str, Style]:
        observation = self._observation
        if observation is None:
            state = "did not end" if self.finished else "running"
            return ("" if self.started is None else state), "dim"
        if observation.outcome == "ok":
            return _one_line(observation.model_content), "green"
        return _one_line(f"{observation.outcome}: {observation.error}"), "red"


def margin(who: str, terminal: Terminal) -> str:
    """Who speaks, or nothing, in the cells that are kept for it."""
    return terminal.paint("cyan", who) + " " * (MARGIN - len(who))


def _listed(arguments: Any) -> str:
    """Arguments as a caller would write them; what is no object as it is."""
    if isinstance(arguments, dict):
        return ", ".join(f"{name}={_shown(value)}" for name, value in arguments.items())
    return "" if arguments is None else str(arguments)[:MAX_SHOWN_CHARS]


def _shown(value: Any) -> str:
    return json.dumps(value[:MAX_SHOWN_CHARS] if isinstance(value, str) else value, ensure_ascii=False)


def _one_line(text: str) -> str:
    return printable(text).replace("\n", " ")
