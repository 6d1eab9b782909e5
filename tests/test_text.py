"""A peer's text is safe to show."""

from __future__ import annotations

import pytest

from streamtools.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Zürich 東京", "plain, Zürich 東京"),
        ("two\nlines", "two\nlines"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb\tc", "a\\rb\\tc"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud83d", "\\ud83d"),
    ],
)
def test_what_a_terminal_might_obey_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert printable(text) == shown
