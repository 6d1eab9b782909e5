"""Whether a value can be written as JSON within a bound, seen before it is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import is_
from typing import Any

from ...content import Text, ToolResult

__all__ = ["TooLarge", "within"]

MAX_DEPTH = 100
"""Below it nothing is counted; pydantic-core writes no JSON that is deeper than 255."""


class TooLarge(Exception):
    """The value's JSON is larger than the bound."""


def within(value: Any, max_bytes: int) -> Any:
    """Returns the value, with iterators read out into lists. Counts the least that its JSON must have, so that nothing
    large is built for nothing; objects of other classes count as one byte.

    Raises:
        TooLarge: that is more than `max_bytes`.
    """
    return _Counted(max_bytes).plain(value, 0)


class _Counted:
    def __init__(self, left: int) -> None:
        self._left = left

    def plain(self, value: Any, depth: int) -> Any:
        """Returns the value without iterators, as far as it was looked into."""
        self._take(len(value) + 2 if isinstance(value, (str, bytes, bytearray)) else 1)
        if depth > MAX_DEPTH:
            return value
        if isinstance(value, dict):
            kept = [self._item(item, depth) for item in value.values()]
            same = all(map(is_, kept, value.values()))
            return value if same else dict(zip(value, kept, strict=True))
        if isinstance(value, (list, tuple, set, frozenset)):
            kept = [self._item(item, depth) for item in value]
            return value if all(map(is_, kept, value)) else kept
        if isinstance(value, Iterator):
            return [self._item(item, depth) for item in value]
        return self._result(value, depth) if isinstance(value, ToolResult) else value

    def _result(self, value: ToolResult, depth: int) -> ToolResult:
        for block in value.blocks:
            said = block.text if isinstance(block, Text) else getattr(block, "data", None)
            self._take(len(said or ""))
        return replace(value, value=self.plain(value.value, depth), display=self.plain(value.display, depth))

    def _item(self, item: Any, depth: int) -> Any:
        self._take(1)  # a comma
        return self.plain(item, depth + 1)

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLarge
