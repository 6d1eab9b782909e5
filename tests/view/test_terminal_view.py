"""The terminal view: what a person reads there, at any width, and that nothing said can steer the terminal."""

from __future__ import annotations

import io
import unicodedata

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from streams import anthropic
from view.seen_runs import HOSTILE, hostile_events, many_events, watched

from streamtools import pipeline, tool
from streamtools.events import MessageAdded, StepEnd, StepStart
from streamtools.view import draw
from streamtools.view.terminal import TerminalView, show

pytestmark = pytest.mark.anyio


@tool
async def book(people: int) -> str:
    """Book a table."""
    return "booked"


def console(width: int = 110, *, terminal: bool = False) -> Console:
    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=terminal,
        color_system="truecolor" if terminal else None,
        legacy_windows=False,
    )


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_each_step_is_printed_once_with_its_calls_and_outcomes() -> None:
    out = console()
    with TerminalView(console=out) as view:
        await watched(view)  # type: ignore[arg-type]  # an observer as a Watch is
    text = written(out)
    assert [text.count(f"Step {number} · ") for number in (1, 2, 3)] == [1, 1, 1]
    rows = [" ".join(line.split()) for line in text.splitlines()]
    for begins, ends in (
        ('✔ get_weather Lisbon → {"city"', "ok"),
        ("✔ get_rates EUR → 1.08", "ok x3"),
        ("∅ find_hotel × unknown tool", "unknown tool"),
        ("✖ book four × invalid arguments", "invalid"),
        ("⊘ pay amount=70007000 × not run:", "denied"),
        ("✖ book people=4 × ValueError: closed on Mondays", "failed"),
    ):
        assert any(row.startswith(begins) and ends in row for row in rows), (begins, ends)
    assert 'For the model: "Error: the tool book raised ValueError"' in rows
    assert rows[0] == "You: Plan a trip."
    assert "answered · 3 steps · 3 of 7 calls failed, 1 denied · " in " ".join(rows[-2:])


async def test_a_live_view_draws_and_leaves_the_finished_steps() -> None:
    out = console(terminal=True)
    with TerminalView("Trip", console=out) as view:
        await watched(view)  # type: ignore[arg-type]
        assert view.picture.steps
    assert "Trip · answered · 3 steps" in Text.from_ansi(written(out)).plain
    assert written(out).endswith("\n")


async def test_the_arguments_of_a_call_that_did_not_succeed_are_shown_whole() -> None:
    out, word = console(72), "x" * 60
    body = anthropic([], [("c1", "book", f'{{"people": "{word}"}}'), ("c2", "gone", "{}")])
    with TerminalView(console=out) as view:
        await pipeline(body, tools=[book], observers=[view])
    text = "".join(line.strip() for line in written(out).splitlines())
    assert text.count(word) == 1
    assert text.count("{}") == 0


async def test_without_content_no_text_argument_or_result_is_shown() -> None:
    out = console()
    with TerminalView(content=False, console=out) as view:
        await watched(view)  # type: ignore[arg-type]
    for secret in ("Lisbon", "may rain", "EUR", "closed on Mondays", "paid", "Plan a trip", "For the model"):
        assert secret not in written(out)
    assert "get_weather" in written(out)


def test_nothing_that_was_said_steers_the_terminal_or_is_markup() -> None:
    out = console()
    show(draw(hostile_events()), out)
    text = written(out).replace("\n", "")
    assert "[bold]" not in HOSTILE
    assert [one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs") and one != "\x1b"] == []


def test_what_a_user_said_into_a_run_is_shown_at_its_step_or_noted_without_the_words() -> None:
    said = [{"role": "user", "content": "the secret"}]
    for when, words in {"now": "at once", "next": "behind the results"}.items():
        events = [StepStart(run_id="r"), MessageAdded("m", tuple(said), when, seq=1), StepEnd("complete", seq=2)]  # type: ignore[arg-type]
        whole, bare = console(), console()
        show(draw(events), whole)
        show(draw(events, content=False), bare)
        assert "You: the secret\n" in written(whole)
        assert f"! message_added a message of the user, {words}" in written(bare)
        assert "secret" not in written(bare)


async def test_many_calls_of_one_tool_share_a_row_with_the_reasons_why_some_failed() -> None:
    @tool(effect="pure")
    async def fetch(url: str) -> str:
        """Fetch."""
        if url.endswith("5.org"):
            raise ConnectionError("no route")
        return "found"

    body = anthropic([], [(f"c{number}", "fetch", f'{{"url": "u{number}.org"}}') for number in range(40)])
    for width in (40, 80, 200):
        out = console(width)
        with TerminalView("Trip", console=out) as view:
            await pipeline(body, tools=[fetch], observers=[view])
        lines, text = written(out).splitlines(), " ".join(written(out).split())
        assert all(len(line) <= width for line in lines)
        assert [line[: len("✖ fetch ×40, 4 f")] for line in lines if line[2:7] == "fetch"] == ["✖ fetch ×40, 4 f"]
        listed = "u5.org, u15.org, u25.org, u35.org"
        reason = f"4 failed: ConnectionError: no route: {listed}"
        assert (f"4 failed: {listed}" if width > 80 else reason) in text
        assert 'For the model: "Error: the tool fetch raised ConnectionError"' in text
        assert "4 of 40 calls failed" in text


def test_the_rows_of_any_run_fit_any_width() -> None:
    for picture in (draw(hostile_events()), draw(many_events(3000)), draw([])):
        for width in (40, 61, 200):
            out = console(width)
            show(picture, out)
            assert all(cell_len(line) <= width for line in written(out).splitlines()), width
