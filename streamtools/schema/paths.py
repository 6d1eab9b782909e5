"""Writes a path into a JSON value as a person reads it."""

from __future__ import annotations

import re

from ..text import cut

__all__ = ["MAX_PATH_CHARS", "dotted"]

MAX_KEY_CHARS = 64  # one key in a path: the model chose it
MAX_PATH_CHARS = 700  # a whole path: ten long keys


def dotted(path: tuple[str | int, ...]) -> str:
    """Returns ``people[0].age``; a key that is no plain word is quoted, a long key or path is cut."""
    parts = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif re.fullmatch(r"[\w-]{1,64}", part):
            parts.append(f".{part}")
        else:
            parts.append(f"[{cut(part, MAX_KEY_CHARS)!r}]")
    return cut("".join(parts).removeprefix("."), MAX_PATH_CHARS)
