"""What a person sees: events in, the picture out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from display import LIVE, PAGE, Glass, Seen, call, end, observed, ran, said, shown, written

from demo.screen import Screen
from demo.terminal import NARROWEST, Terminal
from streamtools.cli.common import cells
from streamtools.errors import CallTruncated, ToolError
from streamtools.events import (
    Event,
    Observation,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    StepStart,
    StreamEnd,
    StreamWarning,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolStarted,
    UnknownPayload,
)
from streamtools.parts import ToolCall

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


def test_colours_change_nothing_but_colours() -> None:
    coloured = two_calls(Screen(Terminal(colour=True)))
    assert "\x1b[36mmodel\x1b[0m" in coloured
    assert Glass.without_colours(coloured) == PICTURE


def test_a_wide_terminal_gives_calls_and_results_more_room() -> None:
    lines = two_calls(Screen(Terminal(width=120))).splitlines()
    assert lines[2] == 'model  get_weather(city="Tokyo")                          0.20 → 1.20 s  1000 ms  7 degrees'
    assert lines[5].endswith("27 degrees, and it will stay so.")


def test_a_terminal_without_unicode_gets_ascii() -> None:
    picture = two_calls(Screen(Terminal(unicode=False)))
    assert picture.isascii()
    assert "0.20 -> 1.20 s" in picture


# -- while it happens --------------------------------------------------------------------------------------------


def test_a_call_grows_on_its_line() -> None:
    screen, glass = Screen(LIVE), Glass()
    glass.write(screen.ask(5.0))
    growing = [None, {}, {"city": "To"}, {"city": "Tokyo"}, {"city": "Tokyo", "days": 1}]
    events: list[Event] = [ToolCallStart("a", "get_weather", time=5.1)]
    events += [ToolCallDelta("a", "x", _source=Seen(value)) for value in growing]
    events.append(written("a", "get_weather", {"city": "Tokyo", "days": 14}, 5.2))
    assert [glass.write(screen.feed(event)).text().strip() for event in events] == [
        "model  get_weather(…",
        "model  get_weather(…",
        "model  get_weather(…",
        'model  get_weather(city="To…',
        'model  get_weather(city="Tokyo…',
        'model  get_weather(city="Tokyo", days=1…',
        'model  get_weather(city="Tokyo", days=14)',
    ]


def test_a_running_tool_shows_its_start_and_its_time_so_far() -> None:
    screen, glass = Screen(LIVE), Glass()
    glass.write(screen.ask(5.0) + shown(screen, call("a", "get_weather", TOKYO, begun=5.1, whole=5.2)))
    glass.write(screen.feed(ToolStarted("a", "get_weather", time=5.2)))
    assert glass.text() == '\nmodel  get_weather(city="Tokyo")   0.20 →            0 ms  running\n'
    glass.write(screen.tick(5.3))
    assert glass.text() == '\nmodel  get_weather(city="Tokyo")   0.20 →          100 ms  running\n'


def test_a_call_that_ended_stays_in_sight_below_one_that_runs() -> None:
    screen, glass = Screen(LIVE), Glass()
    glass.write(screen.ask(5.0) + shown(screen, call("a", "get_weather", TOKYO, begun=5.1, whole=5.2)))
    glass.write(shown(screen, [ToolStarted("a", "get_weather", time=5.2)]))
    glass.write(shown(screen, call("b", "get_weather", OSLO, begun=5.2, whole=5.3)))
    glass.write(shown(screen, ran("b", started=5.3, ended=5.4, content="27 degrees")))
    assert glass.text() == (
        '\nmodel  get_weather(city="Tokyo")   0.20 →          200 ms  running\n'
        '       get_weather(city="Oslo")    0.30 → 0.40 s   100 ms  27 degrees\n'
    )


def test_text_appears_as_it_comes() -> None:
    screen, glass = Screen(LIVE), Glass()
    glass.write(screen.ask(5.0))
    seen = [glass.write(screen.feed(TextDelta(text))).text() for text in ("The wea", "ther", " in\nTokyo")]
    assert seen == ["\nmodel  The wea\n", "\nmodel  The weather\n", "\nmodel  The weather in\n       Tokyo\n"]


def test_nothing_is_written_where_nothing_changes() -> None:
    screen = Screen(LIVE)
    assert screen.tick(1.0) == ""
    assert screen.feed(StepStart("run")) == ""
    assert Screen(PAGE).feed(TextDelta("not a whole line yet")) == ""


@pytest.mark.parametrize("height", [2, 3, 10])
def test_what_is_rewritten_never_exceeds_the_height(height: int) -> None:
    screen = Screen(Terminal(live=True, height=height))
    output = screen.ask(0.0)
    calls = [f"c{number}" for number in range(30)]
    for number, call_id in enumerate(calls):
        output += shown(screen, call(call_id, "get_weather", {"city": str(number)}, begun=0.1, whole=0.2))
    for call_id in reversed(calls):  # the first keeps all others waiting
        output += shown(screen, ran(call_id, started=0.3, ended=0.4, content="7 degrees"))
    ups = [int(up) for up in Glass.ups(output + screen.close())]
    assert ups
    assert max(ups) < height
    lines = Glass().write(output).text().splitlines()
    assert [f'city="{number}"' in line for number, line in enumerate(lines[-30:])] == [True] * 30


def test_a_long_text_is_not_written_over_and_over() -> None:
    screen = Screen(LIVE)
    words = [TextDelta(f"word{number} ") for number in range(2000)]
    assert len(screen.ask(0.0) + shown(screen, words) + screen.close()) < 100 * len(words)


@pytest.mark.parametrize("width", [NARROWEST, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    screen = Screen(Terminal(width=width))
    wide = {"city": "東京" * 40, "days": 3}
    output = screen.ask(0.0) + shown(screen, call("a", "get_weather", wide, begun=0.1, whole=0.2))
    output += shown(screen, ran("a", started=0.2, ended=0.3, content="x" * 500))
    output += screen.ask(0.4) + shown(screen, said("東京" * 200 + " " + "y" * 200, until=0.5))
    assert max(map(cells, output.splitlines())) in (width - 1, width - 2)


# -- what does not go well, and what is rare ---------------------------------------------------------------------


def test_a_long_call_and_a_long_result_get_lines_of_their_own() -> None:
    screen = Screen(PAGE)
    arguments = {"amount": 89.67, "from_currency": "USD", "to_currency": "EUR"}
    output = screen.ask(0.0) + shown(screen, call("a", "convert", arguments, begun=0.1, whole=0.2))
    output += shown(screen, ran("a", started=0.2, ended=0.3, content="about as much as one would have thought"))
    assert output == (
        '\nmodel  convert(amount=89.67, from_currency="USD", to_currency="EUR")\n'
        "                                   0.20 → 0.30 s   100 ms\n"
        "         about as much as one would have thought\n"
    )


def test_a_call_that_failed_says_how() -> None:
    screen = Screen(PAGE)
    output = screen.ask(0.0) + shown(screen, call("a", "convert", {}, begun=0.1, whole=0.2))
    failed = Observation(call_id="a", tool_name="convert", outcome="failed", error=ToolError("no rate"), time=0.3)
    output += shown(screen, [ToolStarted("a", "convert", time=0.2), failed])
    assert output == "\nmodel  convert()                   0.20 → 0.30 s   100 ms  failed: no rate\n"


def test_a_call_that_never_ran_says_why_and_shows_what_came_of_it() -> None:
    screen = Screen(PAGE)
    cut = ToolCall(call_id="a", name="get_weather", arguments_text='{"city": "To', problem="incomplete_json")
    error = CallTruncated("its arguments were cut")
    output = screen.ask(0.0) + shown(screen, [ToolCallStart("a", "get_weather"), ToolCallEnd(cut, error=error)])
    output += screen.feed(Observation(call_id="a", tool_name="get_weather", outcome="truncated", error=error))
    assert output == '\nmodel  get_weather({"city": "To…\n         truncated: its arguments were cut\n'


def test_a_call_that_was_cut_keeps_what_could_be_read_of_it() -> None:
    screen = Screen(PAGE)
    cut = ToolCall(call_id="a", name="get_weather", arguments_text='{"city": "To', problem="incomplete_json")
    growing = [ToolCallStart("a", "get_weather"), ToolCallDelta("a", "x", _source=Seen({"city": "To"}))]
    output = screen.ask(0.0) + shown(screen, [*growing, ToolCallEnd(cut)]) + screen.close()
    assert output == '\nmodel  get_weather(city="To…\n'


def test_a_call_of_the_providers_own_is_shown_without_times() -> None:
    screen = Screen(PAGE)
    search = ToolCall(call_id="a", name="web_search", kind="server", arguments={"q": "x"}, status="ready")
    output = screen.ask(0.0) + shown(screen, [ToolCallStart("a", "web_search", kind="server"), ToolCallEnd(search)])
    assert output == '\nmodel  web_search(q="x")\n'


def test_reasoning_refusals_and_warnings_are_told_apart() -> None:
    screen = Screen(PAGE)
    events = [
        ReasoningStart(),
        ReasoningDelta("Let me think."),
        ReasoningEnd(),
        TextStart(),
        TextEnd(),
        StreamWarning("inline_think", "seen"),
        UnknownPayload({"type": "new"}),
        RefusalDelta("I will not."),
        *end(1.0),
    ]
    assert screen.ask(0.0) + shown(screen, events) == (
        "\nthinks Let me think.\nnote   inline_think seen\nmodel  I will not.\n"
    )


def test_a_run_that_breaks_off_leaves_what_was_seen() -> None:
    for terminal in (PAGE, LIVE):
        screen, glass = Screen(terminal), Glass()
        glass.write(screen.ask(0.0) + shown(screen, call("a", "get_weather", TOKYO, begun=0.1, whole=0.2)))
        glass.write(screen.feed(ToolStarted("a", "get_weather", time=0.2)) + screen.tick(0.5))
        glass.write(screen.close() + "next\n")
        assert glass.text().splitlines()[1:] == [
            'model  get_weather(city="Tokyo")   0.20 →                  did not end',
            "next",
        ]


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
