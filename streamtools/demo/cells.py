"""Text and terminal cells: what a text takes on the screen, and how to make it fit.

A terminal counts cells, not characters: a Chinese character takes two, a combining accent none. All functions cost
time linear in the text.
"""

from __future__ import annotations

import unicodedata

__all__ = ["cells", "clip", "pad", "printable", "wrap"]


def printable(text: str) -> str:
    """`text` with everything that a terminal might obey, or show as nothing, written as its escape.

    What a model or a file says must not move the cursor, change the title or turn the direction of writing.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )


def cells(text: str) -> int:
    """How many cells of a terminal `text` takes.

    >>> cells("Zürich"), cells("東京")
    (6, 4)
    """
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def clip(text: str, width: int, ellipsis: str) -> str:
    """`text`, or as much of it as fits into `width` cells with `ellipsis` after it.

    >>> clip("weather in Tokyo", 10, "…")
    'weather i…'
    """
    if cells(text) <= width:
        return text
    return text[: _room(text, 0, width - cells(ellipsis))] + ellipsis


def pad(text: str, width: int) -> str:
    """`text` with spaces after it, up to `width` cells."""
    return text + " " * (width - cells(text))


def wrap(text: str, width: int) -> list[str]:
    """The lines of `text`, none wider than `width` cells. Breaks at spaces; a word that is too long is cut.

    All lines but the last stay as they are when the text goes on, so that only the last has to be kept.

    >>> wrap("weather in Tokyo and Oslo", 10)
    ['weather in', 'Tokyo and', 'Oslo']
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        at = 0
        while (end := _room(paragraph, at, width)) < len(paragraph):
            space = paragraph.rfind(" ", at, end + 1)
            end = space if space > at else end
            lines.append(paragraph[at:end])
            at = end + (paragraph[end] == " ")
        lines.append(paragraph[at:])
    return lines


def _room(text: str, start: int, width: int) -> int:
    """Where the text that begins at `start` leaves a line of `width` cells."""
    if text.isascii():
        return min(start + width, len(text))
    for at in range(start, len(text)):
        width -= _cells_of(text[at])
        if width < 0:
            return at
    return len(text)


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
