"""Words of a peer in sentences of ours: one line, and nothing in it that a terminal obeys or a log takes for its end.

In goes text that somebody else chose, out comes text that is printable throughout. Costs time linear in what is shown.
"""

from __future__ import annotations

__all__ = ["one_line"]


def one_line(text: str, max_chars: int | None = None) -> str:
    """`text` with line breaks, control characters and what cannot be seen written as their escapes.

    Args:
        text: what to show; letters of every script stay as they are.
        max_chars: cut longer text here, and say so by ``…``. Escapes are counted as what they stand for.

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
