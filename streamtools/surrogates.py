"""Halves of surrogate pairs: joined where they meet, replaced where they stay alone.

Servers that escape per token cut a character outside the BMP in two (UKGovernmentBEIS/inspect_ai#3802). A half in a
Python string makes everything that encodes UTF-8 raise, so none leaves the library.
"""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["SurrogateJoiner", "well_formed", "well_formed_tree"]

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
        joined = well_formed(text)
        if joined.count("\ufffd") > text.count("\ufffd"):
            self.lone = True
        return joined


def well_formed(text: str) -> str:
    """`text` with adjacent halves joined, and lone ones replaced by U+FFFD."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def well_formed_tree(value: Any) -> Any:
    """A JSON value that every encoder takes: strings well-formed, keys too, and no NaN or infinity. The caller bounds
    its depth."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed_tree(item) for item in value]
    if isinstance(value, dict):
        return {well_formed_tree(key): well_formed_tree(item) for key, item in value.items()}
    return value
