"""What a person sees: events in, the picture out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from demo.screen import Screen
from demo.terminal import Terminal
from streamtools.events import (
    Event,
    Moment,
    Observation,
    Preview,
    StepEnd,
    StreamEnd,
    StreamWarning,
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


TOKYO, OSLO = {"city": "Tokyo"}, {"city": "Oslo"}
ANSWER = "The weather in Tokyo is 7 degrees. The weather in Oslo is 27 degrees, and it will stay so."


def two_calls(screen: Screen) -> str:
    """A whole run: two calls at once, then the answer."""
    return "".join(
        [
            screen.say("you", "weather in Tokyo and Oslo?"),
            screen.ask(100.0),
            shown(screen, call("a", "get_weather", TOKYO, begun=100.1, whole=100.2)),
            shown(screen, [ToolStarted("a", "get_weather", time=100.2)]),
            shown(screen, call("b", "get_weather", OSLO, begun=100.2, whole=100.3)),
            shown(screen, [StreamEnd(finish="tool_calls", complete=True, time=100.3)]),
            shown(screen, ran("b", started=100.3, ended=100.8, content="27 degrees")),
            screen.tick(101.0),
            shown(screen, [observed("a", 101.2, "7 degrees"), *end(101.2)]),
            screen.ask(101.2),
            shown(screen, said(ANSWER, until=101.5)),
            screen.close(),
        ]
    )


PICTURE = """\
you    weather in Tokyo and Oslo?

model  get_weather(city="Tokyo")   0.20 → 1.20 s  1000 ms  7 degrees
       get_weather(city="Oslo")    0.30 → 0.80 s   500 ms  27 degrees

model  The weather in Tokyo is 7 degrees. The weather in Oslo is 27 degrees,
       and it will stay so.
"""


def test_a_file_gets_each_line_once_and_whole() -> None:
    assert two_calls(Screen(PAGE)) == PICTURE


def test_a_terminal_ends_with_the_same_picture() -> None:
    assert Glass().write(two_calls(Screen(LIVE))).text() == PICTURE


# -- what does not go well, and what is rare ---------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [PAGE, LIVE])
def test_a_model_cannot_move_the_cursor(terminal: Terminal) -> None:
    attack = "\x1b[2Jgone\r\x07\u202eback\x9b1A"
    screen = Screen(replace(terminal, colour=False))
    arguments: dict[str, Any] = {attack: attack}
    output = screen.say("you", attack) + screen.ask(0.0)
    output += shown(screen, call("a", attack, arguments, begun=0.1, whole=0.2))
    output += shown(screen, ran("a", started=0.2, ended=0.3, content=attack))
    output += screen.ask(0.4) + shown(screen, said(attack, until=0.5)) + screen.feed(StreamWarning(attack, attack))
    for forbidden in ("\x1b[2J", "\r", "\x07", "\u202e", "\x9b"):
        assert forbidden not in output
    assert "\\x1b[2Jgone" in output
