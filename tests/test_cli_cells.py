"""Columns count in the cells of a terminal."""

from __future__ import annotations

import pytest

from streamtools.cli.common import cells, pad


@pytest.mark.parametrize(
    ("text", "wide"), [("", 0), ("Oslo", 4), ("Zürich", 6), ("Zu\u0308rich", 6), ("東京", 4), ("😀", 2), ("Ａ", 2)]
)
def test_cells_are_what_a_terminal_counts(text: str, wide: int) -> None:
    assert cells(text) == wide
    assert pad(text, 8) == text + " " * (8 - wide)
