"""Finds where a JSON value ends, while its text comes in pieces. Nothing else of it is checked.

The brackets outside of strings are counted, and a backslash there breaks the value. So the text of a value can be given
out as it comes, and each character is looked at once.
"""

from __future__ import annotations

import re

__all__ = ["Extent"]

_search_mark = re.compile(r'["\\{}\[\]]').search
_search_string_end = re.compile(r'["\\]').search


class Extent:
    """Finds the end of a JSON value by its brackets and quotes.

    Args:
        max_depth: the most containers that may be open.
    """

    __slots__ = ("_escaped", "_expected", "_max_depth", "broken", "in_string")

    def __init__(self, max_depth: int) -> None:
        self._expected: list[str] = []  # the closing bracket of each container that is open
        self._max_depth = max_depth
        self._escaped = False
        self.in_string = False
        """True while a string is open."""
        self.broken = False
        """True if a bracket closes one that is not open, or too many are open: no further text can mend that."""

    @property
    def is_over(self) -> bool:
        """True if no container is open, so that the value ends with the string that has just ended."""
        return not self._expected

    def scan(self, text: str, at: int, end: int) -> int:
        """Reads on up to `end`; returns where in `text` the value ends or breaks, or 0 if it goes on."""
        while at < end:
            if self.in_string:
                at = self.scan_string(text, at, end)
                if not at:
                    return 0
            else:
                match = _search_mark(text, at, end)
                if match is None:
                    return 0
                at = match.end()
                self._mark(match[0])
                if self.broken:
                    return at
            if not self._expected and not self.in_string:
                return at
        return 0

    def scan_string(self, text: str, at: int, end: int) -> int:
        """Reads on up to `end`; returns where in `text` the open string ends, or 0 if it goes on."""
        while at < end:
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            match = _search_string_end(text, at, end)
            if match is None:
                return 0
            at = match.end()
            if match[0] == '"':
                self.in_string = False
                return at
            self._escaped = True
        return 0

    def _mark(self, character: str) -> None:
        """Takes a quote or bracket outside of strings."""
        expected = self._expected
        if character == '"':
            self.in_string = True
        elif character in "{[":
            expected.append("}" if character == "{" else "]")
            self.broken = len(expected) > self._max_depth
        else:
            self.broken = character == "\\" or expected.pop() != character
