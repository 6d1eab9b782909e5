"""Reads values of an MCP server, from the SDK's objects of either generation or from plain dicts.

The Python SDK wrote ``inputSchema`` until 1.x and writes ``input_schema`` since 2.0; JSON always has the former. The
values may be of any type, and are untrusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..text import cut, well_formed

__all__ = ["excerpt", "peek", "plain", "weighed"]


def peek(value: Any, *names: str) -> Any:
    """Returns the first of the named keys or attributes that is there and not None."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def plain(value: Any) -> dict[str, Any]:
    """Returns an SDK object as its JSON object; a mapping as it is; anything else as an empty object."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    dumped = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else None
    return dumped if isinstance(dumped, dict) else {}


def excerpt(text: str, max_chars: int) -> str:
    """Returns a peer's text for a message: on one line, bounded, and with codes (``\\u202e``) for characters that are
    invisible or move visible ones."""
    shown = well_formed(text[: max_chars + 1])
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in shown)
    return cut(shown, max_chars)


class Weighed(NamedTuple):
    """The size of a JSON value, as far as it was measured."""

    values: int
    chars: int
    """Characters of its texts and keys."""
    is_whole: bool
    """True if it has no more values than allowed; all were counted unless there are too many characters."""


def weighed(value: Any, max_values: int, max_chars: int) -> Weighed:
    """Measures a JSON value until it exceeds a bound. Writing it is one step that holds up every thread, so it is
    measured first."""
    waiting = [value]
    count = chars = 0
    while waiting and chars <= max_chars:
        held = waiting.pop()
        count += 1
        if isinstance(held, str):
            chars += len(held)
        elif isinstance(held, (Mapping, list, tuple)):
            if count + len(waiting) + len(held) > max_values:
                return Weighed(count, chars, False)
            if isinstance(held, Mapping):
                chars += sum(len(key) for key in held if isinstance(key, str))
                held = held.values()
            waiting.extend(held)
    return Weighed(count, chars, True)
