"""Gives each delta of a growing JSON text the value of its own moment.

In: the text, piece by piece. Out: at any end of a piece, the value of the text up to there, which later text never
changes. Moments that are asked for in the order of the text take time linear in the text together. A reader that is
behind another one reads the text once more, and one that goes back begins at the start.

Theory of operation. `PartialJSON` reads on in place, and only the containers that are still open ever change. So a
moment shares all closed ones with the reader, and has copies of the open ones, from the innermost outwards. While these
have up to `EAGER_ITEMS` items together, each moment has copies of its own. Beyond that, new
ones are made when the new text is worth them, a character for every `ITEMS_PER_CHARACTER` items; the moments in between
show the last ones. So a long list, as a long string, is shown a little late, and its total cost is linear.
"""

from __future__ import annotations

from typing import Literal

from ..events import NO_MOMENT, Moment, Preview
from .preview import DEFAULT_MAX_DEPTH, PartialJSON

__all__ = ["EAGER_ITEMS", "ITEMS_PER_CHARACTER", "Moments"]

EAGER_ITEMS = 64
ITEMS_PER_CHARACTER = 4  # copying four takes a tenth of the time that reading a character does


class Moments(Preview):
    """The moments of one growing JSON text.

    >>> moments = Moments()
    >>> for piece in ['{"cities": ["Par', 'is", "Ro']:
    ...     moments.feed(piece)
    >>> moments.at(16), moments.at(24)
    (({'cities': ['Par']}, None), ({'cities': ['Paris', 'Ro']}, None))

    Args:
        max_depth: how many containers may be open at once; see `PartialJSON`.
    """

    __slots__ = ("_behind", "_growing", "_max_depth", "_moment", "_moment_at", "_pieces", "_read", "_taken", "length")

    def __init__(self, max_depth: int = DEFAULT_MAX_DEPTH) -> None:
        self.length = 0
        """Characters fed so far."""
        self._max_depth = max_depth
        self._pieces: list[str] = []
        self._taken = self._read = 0  # the pieces that were read, and their characters
        self._growing = PartialJSON(max_depth=max_depth)
        self._moment, self._moment_at = NO_MOMENT, 0  # the last one, and the characters up to it
        self._behind: Moments | None = None  # for a reader that asks for earlier moments

    def feed(self, text: str) -> None:
        """Appends text, cut anywhere. Takes constant time."""
        if text:
            self._pieces.append(text)
            self.length += len(text)

    def state(self) -> Literal["empty", "partial", "complete", "broken"]:
        """Returns the state of the whole text; see `PartialJSON.state`."""
        if self._taken < len(self._pieces):
            self._growing.read(self._next(self.length))
        return self._growing.state()

    def at(self, end: int) -> Moment:
        """Returns the moment at character `end`, which is rounded up to the end of a piece."""
        if self._moment_at == end:
            return self._moment
        if end < self._read:
            return self._earlier(end)
        growing, pieces, taken = self._growing, self._pieces, self._taken
        if end > self._read and taken < len(pieces):
            text = pieces[taken]
            self._taken = taken + 1
            self._read += len(text)
            if growing.read(text if self._read >= end else text + self._next(end)) is None:
                return self._moment
        worth = (self._read - self._moment_at) * ITEMS_PER_CHARACTER
        found = growing.moment(worth if worth > EAGER_ITEMS else EAGER_ITEMS)
        if found is not None:
            self._moment, self._moment_at = found, self._read
        return self._moment

    def _next(self, end: int) -> str:
        """Returns the text from the place that was read up to `end`, and notes that it is read."""
        start, pieces = self._taken, self._pieces
        while self._read < end and self._taken < len(pieces):
            self._read += len(pieces[self._taken])
            self._taken += 1
        return "".join(pieces[start : self._taken])

    def _earlier(self, end: int) -> Moment:
        if self._behind is None or self._behind._read > end:
            self._behind = Moments(self._max_depth)
            self._behind._pieces, self._behind.length = self._pieces, self.length
        return self._behind.at(end)
