"""What the demo believes of the terminal it writes to."""

from __future__ import annotations

import io

import pytest

from demo.terminal import NARROWEST, Terminal


class Tty(io.TextIOWrapper):
    """A terminal of 100 by 30 cells, if the environment says so."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    monkeypatch.delenv("WT_SESSION", raising=False)


def test_a_terminal_is_live_and_coloured() -> None:
    assert Terminal.of(Tty(), {"WT_SESSION": "1"}) == Terminal(width=100, height=30, live=True, colour=True)


def test_a_file_is_neither() -> None:
    assert Terminal.of(io.StringIO(), {"WT_SESSION": "1"}) == Terminal(width=100, height=30)


def test_no_color_takes_the_colours_and_nothing_else() -> None:
    assert Terminal.of(Tty(), {"NO_COLOR": "1", "WT_SESSION": "1"}) == Terminal(width=100, height=30, live=True)
    assert Terminal.of(Tty(), {"NO_COLOR": "", "WT_SESSION": "1"}).colour


def test_a_dumb_terminal_is_written_to_like_a_file() -> None:
    terminal = Terminal.of(Tty(), {"TERM": "dumb", "WT_SESSION": "1"})
    assert (terminal.live, terminal.colour) == (False, False)


@pytest.mark.parametrize(("encoding", "unicode"), [("utf-8", True), ("ascii", False), ("latin-1", False)])
def test_signs_are_those_that_the_encoding_has(encoding: str, unicode: bool) -> None:
    assert Terminal.of(Tty(encoding)).unicode is unicode


def test_a_narrow_terminal_is_not_rewritten_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(NARROWEST - 1))
    terminal = Terminal.of(Tty(), {"WT_SESSION": "1"})
    assert (terminal.width, terminal.live) == (NARROWEST, False)


def test_colours_are_codes_around_the_text_or_nothing() -> None:
    assert Terminal(colour=True).paint("red", "no") == "\x1b[31mno\x1b[0m"
    assert Terminal(colour=True).paint("red", "") == ""
    assert Terminal().paint("red", "no") == "no"
