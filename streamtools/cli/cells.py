"""Counts text in terminal cells, so that columns stand below each other.

A terminal counts cells, not characters: a Chinese character takes two, a combining accent none. Both functions cost
time linear in the text.
"""

from __future__ import annotations

import unicodedata

__all__ = ["cells", "pad"]


def cells(text: str) -> int:
    """Counts the cells of a terminal that `text` takes.

    >>> cells("Zürich"), cells("東京")
    (6, 4)
    """
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def pad(text: str, width: int) -> str:
    """Fills `text` with spaces up to `width` cells; a wider text stays as it is."""
    return text + " " * (width - cells(text))


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
