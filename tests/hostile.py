"""What an attacker puts into a stream, and every place of a payload that it can be put into."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

__all__ = ["FORGED", "LONG", "every_place", "shown"]

FORGED = "x\r\n2026-01-01 ERROR forged\x1b[2J\x1b]0;owned\x07\u202etxt\u2028\u200b\x9b31m\x00"
"""A line break and a line of log behind it, escapes that a terminal obeys, and a turned direction of writing."""

LONG = "A" * 100_000

Path = tuple[str | int, ...]


def every_place(payloads: list[Any], text: str) -> Iterator[tuple[str, list[Any]]]:
    """The payloads again and again, each time with `text` in one place: instead of a string, behind it, as a key."""
    for path in _paths(payloads):
        old = _at(payloads, path)
        name = "/".join(map(str, path))
        if isinstance(old, str):
            yield f"instead of {name}", _changed(payloads, path, text)
            yield f"behind {name}", _changed(payloads, path, old + text)
        elif isinstance(old, dict):
            yield f"as a key of {name}", _changed(payloads, path, {**old, text: text})
        else:
            yield f"instead of {name}", _changed(payloads, path, text)


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, item in entries:
        yield from _paths(item, (*path, key))


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _changed(payloads: list[Any], path: Path, new: Any) -> list[Any]:
    changed = copy.deepcopy(payloads)
    *above, last = path
    _at(changed, tuple(above))[last] = new
    return changed


def shown(text: str) -> str:
    """`text` if a terminal and a log file show it as what it is, in one line; fails otherwise."""
    assert text.isprintable(), f"not printable: {ascii(text)[:300]}"
    return text
