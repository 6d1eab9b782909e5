"""Text fits into the cells of a terminal."""

from __future__ import annotations

from itertools import product

import pytest

from demo.cells import clip, wrap
from streamtools.cli.common import cells

TEXTS = ["", "a", "weather in Tokyo", "  two  spaces  ", "東京 と 大阪", "Zu\u0308rich", "x" * 30, "a\n\nb c", "😀 ok"]


def test_wrapped_lines_fit_and_lose_nothing_but_spaces() -> None:
    for text, width in product(TEXTS, (2, 3, 5, 8, 80)):
        lines = wrap(text, width)
        assert max(map(cells, lines)) <= width, (text, width)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "").replace("\n", ""), (text, width)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("weather in Tokyo", 10, ["weather in", "Tokyo"]),
        ("weather in Tokyo", 9, ["weather", "in Tokyo"]),
        ("abcdefgh ij", 3, ["abc", "def", "gh", "ij"]),
        ("東京 大阪", 5, ["東京", "大阪"]),
        ("東京大阪", 5, ["東京", "大阪"]),
        ("a\n\nb", 5, ["a", "", "b"]),
        ("", 5, [""]),
    ],
)
def test_lines_break_at_spaces_if_they_can(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_grows_keeps_its_lines_but_the_last(text: str) -> None:
    for cut in range(len(text)):
        assert wrap(text, 6)[: len(wrap(text[:cut], 6)) - 1] == wrap(text[:cut], 6)[:-1]


@pytest.mark.parametrize(
    ("text", "width", "clipped"),
    [("Tokyo", 5, "Tokyo"), ("Tokyo", 4, "Tok…"), ("東京大阪", 5, "東京…"), ("東京大阪", 6, "東京…"), ("ab", 1, "…")],
)
def test_a_clipped_text_fits_and_says_that_it_was_cut(text: str, width: int, clipped: str) -> None:
    assert clip(text, width, "…") == clipped
