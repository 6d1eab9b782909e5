"""The terminal view: what a person reads there, at any width, and that nothing said can steer the terminal."""

from __future__ import annotations

import io
import unicodedata

import pytest
from rich.console import Console
from streams import anthropic
from view.seen_runs import HOSTILE, hostile_events, many_events, watched

from streamtools import pipeline, tool
from streamtools.events import MessageAdded, StepEnd, StepStart
from streamtools.parts import OUTCOMES
from streamtools.view import draw
from streamtools.view.terminal import SHAPES, TerminalView, show

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
    assert [text.count(f"step {number} · ") for number in (1, 2, 3)] == [1, 1, 1]
    rows = [" ".join(line.split()) for line in text.splitlines()]
    for begins, ends in (
        ("✔ get_weather", "ok"),
        ("✔ get_rates", "ok x3"),
        ("∅ find_hotel", "unknown tool"),
        ('✖ book {"people": "four"}', "invalid"),
        ('⊘ pay {"amount": 70007000}', "denied"),
    ):
        assert any(row.startswith(begins) and ends in row for row in rows), (begins, ends)
    assert any(row.startswith("InvalidArguments: ") for row in rows)
    assert "3 steps · 7 calls" in rows[-1]


@pytest.mark.parametrize("width", [40, 60, 72, 110, 240])
async def test_lines_fit_the_terminal(width: int) -> None:
    out = console(width)
    with TerminalView(console=out) as view:
        await watched(view)  # type: ignore[arg-type]
    assert all(len(line) <= width for line in written(out).splitlines())
    assert ("█" in written(out)) is (width >= 72)


async def test_a_live_view_draws_and_leaves_the_finished_steps() -> None:
    out = console(terminal=True)
    with TerminalView("Trip", console=out) as view:
        await watched(view)  # type: ignore[arg-type]
        assert view.picture.steps
    assert "Trip · 3 steps" in written(out)
    assert written(out).endswith("\n")


async def test_the_arguments_of_a_call_that_did_not_succeed_are_shown_whole() -> None:
    out, word = console(72), "x" * 60
    body = anthropic([], [("c1", "book", f'{{"people": "{word}"}}'), ("c2", "gone", "{}")])
    with TerminalView(console=out) as view:
        await pipeline(body, tools=[book], observers=[view])
    text = "".join(line.strip() for line in written(out).splitlines())
    assert text.count(word) == 1
    assert text.count("{}") == 1


async def test_without_content_no_text_argument_or_result_is_shown() -> None:
    out = console()
    with TerminalView(content=False, console=out) as view:
        await watched(view)  # type: ignore[arg-type]
    for secret in ("Lisbon", "may rain", "EUR", "closed on Mondays", "= paid"):
        assert secret not in written(out)
    assert "get_weather" in written(out)


def test_nothing_that_was_said_steers_the_terminal_or_is_markup() -> None:
    out = console()
    show(draw(hostile_events()), out)
    text = written(out).replace("\n", "")
    assert "[bold]" not in HOSTILE
    assert [one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs") and one != "\x1b"] == []


def test_a_long_run_is_shown_whole_and_its_texts_by_their_ends() -> None:
    out = console()
    show(draw(many_events(3000)), out)
    assert len(written(out)) < 400_000


def test_every_outcome_has_a_shape_and_a_word() -> None:
    assert set(OUTCOMES) <= set(SHAPES)
    assert all(len(shape) == 1 for shape, _ in SHAPES.values())


def test_what_a_user_said_into_a_run_is_noted_at_its_step_without_the_words() -> None:
    said = [{"role": "user", "content": "the secret"}]
    for when, words in {"now": "at once", "next": "behind the results"}.items():
        events = [StepStart(run_id="r"), MessageAdded("m", tuple(said), when, seq=1), StepEnd("complete", seq=2)]  # type: ignore[arg-type]
        screen = console()
        show(draw(events), screen)
        assert f"! message_added the user spoke, {words}" in written(screen)
        assert "secret" not in written(screen)
