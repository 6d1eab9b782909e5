"""Finds fixed strings in a text that is cut anywhere, and the end of the text that may still become one."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Markers"]


class Markers:
    """Finds the first of several strings. Of two that begin at the same place, the longer is found."""

    __slots__ = ("_beginnings", "_longest", "search")

    def __init__(self, markers: Iterable[str]) -> None:
        longest_first = sorted(markers, key=len, reverse=True)
        self.search = re.compile("|".join(map(re.escape, longest_first))).search
        """``search(text, start)``: the match of the first marker from `start` on, or None."""
        self._longest = len(longest_first[0])
        self._beginnings = frozenset(marker[:end] for marker in longest_first for end in range(1, len(marker)))

    def held_from(self, text: str, start: int) -> int:
        """Returns where the end of a text begins that may become a marker with more text; the text's length if there is
        none.

        Call it when `search` found nothing. Takes time linear in the longest marker.
        """
        for at in range(max(start, len(text) - self._longest + 1), len(text)):
            if text[at:] in self._beginnings:
                return at
        return len(text)
