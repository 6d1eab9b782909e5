"""Finds the texts of a message in the shape of any wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_MOST_LEVELS = 8
_HOLD_TEXT = ("text", "content", "parts")


def texts_of(message: Any, depth: int = 0) -> Iterator[str]:
    """Yields the texts of a message, of a block, or of several."""
    if isinstance(message, str):
        yield message
    elif depth < _MOST_LEVELS and isinstance(message, Mapping):
        for name in _HOLD_TEXT:
            yield from texts_of(message.get(name), depth + 1)
    elif depth < _MOST_LEVELS and isinstance(message, (list, tuple)):
        for one in message:
            yield from texts_of(one, depth + 1)
