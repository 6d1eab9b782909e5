"""Halves of surrogate pairs: joined where they meet, replaced where they stay alone.

Servers that escape per token cut a character outside the BMP in two (UKGovernmentBEIS/inspect_ai#3802). A half in a
Python string makes everything that encodes UTF-8 raise, so none leaves the library.
"""

from __future__ import annotations

import re

__all__ = ["SurrogateJoiner"]

_HALF = re.compile("[\ud800-\udfff]")


class SurrogateJoiner:
    """Makes one text, fed in deltas, well-formed. A half at the end waits for the next delta."""

    __slots__ = ("_held", "lone")

    def __init__(self) -> None:
        self._held = ""
        self.lone = False
        """A half stayed alone and became U+FFFD."""

    def feed(self, text: str) -> str:
        """Take a delta; returns the text that is certain now."""
        if not self._held and (text.isascii() or not _HALF.search(text)):
            return text
        text = self._held + text
        self._held = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return self._well_formed(text[: len(text) - len(self._held)])

    def finish(self) -> str:
        """The text is over; returns what a waiting half becomes."""
        held, self._held = self._held, ""
        return self._well_formed(held)

    def _well_formed(self, text: str) -> str:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if joined.count("\ufffd") > text.count("\ufffd"):
            self.lone = True
        return joined
