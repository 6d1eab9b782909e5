"""Makes text fit into the cells of a terminal. All functions cost time linear in the text."""

from __future__ import annotations

from streamtools.cli.common import cells

__all__ = ["clip", "wrap"]


def clip(text: str, width: int, ellipsis: str) -> str:
    """`text`, or as much of it as fits into `width` cells with `ellipsis` after it.

    >>> clip("weather in Tokyo", 10, "…")
    'weather i…'
    """
    if cells(text) <= width:
        return text
    return text[: _room(text, 0, width - cells(ellipsis))] + ellipsis


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
        width -= cells(text[at])
        if width < 0:
            return at
    return len(text)
