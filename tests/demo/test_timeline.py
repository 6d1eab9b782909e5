"""When everything happened, as bars."""

from __future__ import annotations

import pytest

from demo.terminal import NARROWEST, Terminal
from demo.timeline import Timeline
from streamtools.cli.common import cells


def two_tools_at_once() -> Timeline:
    timeline = Timeline()
    timeline.ask(10.0)
    timeline.started("a", 'get_weather(city="Tokyo")', 10.5)
    timeline.answered(10.5)
    timeline.started("b", 'get_weather(city="Oslo")', 10.5)
    timeline.ended("a", 11.5)
    timeline.ended("b", 11.0)
    timeline.ask(11.5)
    timeline.answered(12.0)
    return timeline


def test_each_chat_and_each_tool_has_its_bar() -> None:
    assert two_tools_at_once().lines(Terminal()) == [
        "                             0 s                 2.00 s",
        "chat 1                       ▒▒▒▒▒▒                      0.00 → 0.50 s   500 ms",
        '  get_weather(city="Tokyo")        █████████████         0.50 → 1.50 s  1000 ms',
        '  get_weather(city="Oslo")         ███████               0.50 → 1.00 s   500 ms',
        "chat 2                                          ▒▒▒▒▒▒▒  1.50 → 2.00 s   500 ms",
        "",
        "2 tools worked 1.50 s, waited for 1.00 s.",
    ]


def test_without_unicode_the_bars_are_ascii_and_still_differ() -> None:
    page = "\n".join(two_tools_at_once().lines(Terminal(unicode=False)))
    assert page.isascii()
    assert "-----" in page
    assert "#####" in page


@pytest.mark.parametrize("width", [NARROWEST, 80, 120, 200])
def test_every_line_fits_and_the_times_stand_in_one_column(width: int) -> None:
    lines = two_tools_at_once().lines(Terminal(width=width))
    assert max(map(cells, lines)) <= width - 1
    bars = [line for line in lines if " ms" in line]
    assert len({cells(line) for line in bars}) == 1
    assert len({line.index(" → ") for line in bars}) == 1


@pytest.mark.parametrize(
    ("end", "times"),
    [
        (9.5, "0.00 → 9.50 s  9500 ms"),
        (12.34, "0.00 → 12.3 s  12.3 s"),
        (9.99999, "0.00 → 10.0 s  10.0 s"),
        (145.6, "0.00 → 145 s  145 s"),
    ],
)
def test_a_long_run_is_told_in_as_many_cells(end: float, times: str) -> None:
    timeline = Timeline()
    timeline.ask(0.0)
    timeline.answered(end)
    line = timeline.lines(Terminal())[1]
    assert " ".join(line.split()[-6:]) == " ".join(times.split())
    assert cells(line) <= 79


def test_tools_one_after_the_other_save_nothing_and_say_nothing() -> None:
    timeline = Timeline()
    timeline.ask(0.0)
    for start in (1.0, 2.0):
        timeline.started("a", "add", start)
        timeline.ended("a", start + 1.0)
    assert "worked" not in "\n".join(timeline.lines(Terminal()))


def test_what_did_not_end_is_listed_without_a_bar() -> None:
    timeline = Timeline()
    timeline.ask(0.0)
    timeline.started("a", "add", 1.0)
    assert [line.split() for line in timeline.lines(Terminal())[1:]] == [
        ["chat", "1", "did", "not", "end"],
        ["add", "did", "not", "end"],
    ]


def test_a_run_that_never_asked_has_no_timeline() -> None:
    timeline = Timeline()
    timeline.answered(1.0)
    timeline.ended("a", 1.0)
    assert timeline.lines(Terminal()) == []


def test_a_long_name_is_cut() -> None:
    timeline = Timeline()
    timeline.ask(0.0)
    timeline.started("a", "x" * 200, 0.0)
    timeline.ended("a", 0.5)
    assert "  " + "x" * 25 + "…  " in timeline.lines(Terminal())[2]
