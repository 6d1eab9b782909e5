"""Makes a peer's text safe: well-formed for every encoder, printable on one line, short where it is quoted.

Servers that escape per token cut a character outside the BMP in two (UKGovernmentBEIS/inspect_ai#3802). A half of such
a surrogate pair in a Python string makes everything that encodes UTF-8 raise, so none leaves the library: halves are
joined where they meet, and replaced where they stay alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

__all__ = [
    "MAX_PATH_CHARS",
    "PLAIN_NAME_CHARACTERS",
    "PLAIN_NAME_LENGTH",
    "SurrogateJoiner",
    "cut",
    "deeper_than",
    "dotted",
    "excerpt",
    "known_names",
    "one_line",
    "printable",
    "well_formed",
    "well_formed_tree",
]

_HALF = re.compile("[\ud800-\udfff]")
MAX_KEY_CHARS = 64  # of one key in a path: the model chose it
MAX_PATH_CHARS = 700  # of a whole path: ten long keys

PLAIN_NAME_CHARACTERS = "a-zA-Z0-9_-"
"""The characters of a name that most providers take, as the inside of a character class."""
PLAIN_NAME_LENGTH = 64
"""The most characters of such a name."""


class SurrogateJoiner:
    """Makes one text, fed in deltas, well-formed. A half at the end waits for the next delta."""

    __slots__ = ("_held", "lone")

    def __init__(self) -> None:
        self._held = ""
        self.lone = False
        """True if a lone half became U+FFFD."""

    def feed(self, text: str) -> str:
        """Takes a delta; returns the text that is certain now."""
        if not self._held and (text.isascii() or not _HALF.search(text)):
            return text
        text = self._held + text
        self._held = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return self._well_formed(text[: len(text) - len(self._held)])

    def finish(self) -> str:
        """Ends the text; returns the replacement of a half that still waits, or nothing."""
        held, self._held = self._held, ""
        return self._well_formed(held) if held else ""

    def _well_formed(self, text: str) -> str:
        joined = well_formed(text)
        if joined.count("\ufffd") > text.count("\ufffd"):
            self.lone = True
        return joined


def well_formed(text: str) -> str:
    """Joins adjacent halves of surrogate pairs, and replaces lone ones by U+FFFD."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def well_formed_tree(value: Any) -> Any:
    """Copies a JSON value so that every encoder accepts it: strings and keys well-formed, null for NaN and infinity.
    The caller bounds the depth."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed_tree(item) for item in value]
    if isinstance(value, dict):
        return {well_formed_tree(key): well_formed_tree(item) for key, item in value.items()}
    return value


def one_line(text: str, max_chars: int | None = None) -> str:
    """Escapes line breaks, control characters and invisible characters, so that `text` stays on one line.

    Args:
        text: the text to show; letters of every script stay as they are.
        max_chars: longer text is cut here and ends in ``…``. An escaped character counts as one.

    >>> one_line("ok\\nERROR forged\\x1b[2J")
    'ok\\\\nERROR forged\\\\x1b[2J'
    """
    if max_chars is not None and len(text) > max_chars:
        text = text[:max_chars] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    half = "\ud800" <= character <= "\udfff"  # of a surrogate pair: no character at all
    return "\N{REPLACEMENT CHARACTER}" if half else character.encode("unicode_escape").decode()


def printable(text: str) -> str:
    """Escapes everything in `text` that a terminal might obey or show as nothing; line feeds stay.

    Text from a model or a file must not move the cursor, change the title or reverse the direction of writing. Takes
    time linear in the text.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )


def excerpt(data: bytes | str, limit: int) -> str:
    """Returns the first characters of a peer's data, safe to show: anything beyond printable ASCII is escaped."""
    text = data[: 4 * limit].decode("utf-8", "replace") if isinstance(data, bytes) else data[:limit]
    shown = re.sub(r"[^\x20-\x7e]", lambda match: ascii(match[0])[1:-1], text.strip()[:limit])
    return shown + ("…" if len(data) > limit else "")


def cut(text: str, max_chars: int) -> str:
    """Returns `text`, or its first characters with ``...`` behind them."""
    return text if len(text) <= max_chars else text[:max_chars] + "..."


def known_names(name: str, there: Sequence[str], short: Mapping[str, str] = MappingProxyType({})) -> str:
    """Returns the end of the message about an unknown name: the names that were perhaps meant, and all there are.

    Args:
        name: the unknown name.
        there: the names that are known.
        short: other words for some of them.

    >>> known_names("anthropic", ["openai.responses", "anthropic.messages"])
    "write 'anthropic.messages'; known: openai.responses, anthropic.messages"
    """
    alike = [short[name]] if name in short else [one for one in there if one.startswith(f"{name}.")]
    meant = " or ".join(map(repr, alike or get_close_matches(name[:MAX_KEY_CHARS], there, n=1)))
    return f"{f'write {meant}; ' if meant else ''}known: {', '.join(there)}"


def dotted(path: tuple[str | int, ...]) -> str:
    """Returns a path into a JSON value as a person reads it: ``people[0].age``.

    A key that is no plain word is quoted, a long key or path is cut.
    """
    parts = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif re.fullmatch(r"[\w-]{1,64}", part):
            parts.append(f".{part}")
        else:
            parts.append(f"[{cut(part, MAX_KEY_CHARS)!r}]")
    return cut("".join(parts).removeprefix("."), MAX_PATH_CHARS)


def deeper_than(limit: int, value: object) -> bool:
    """Returns whether a JSON value is nested deeper than `limit` levels, without recursion."""
    waiting = [(value, 1)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, (dict, list)):
            if depth > limit:
                return True
            waiting.extend((child, depth + 1) for child in (node.values() if isinstance(node, dict) else node))
    return False
