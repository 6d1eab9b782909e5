"""Makes a peer's text safe to show.

Text that somebody else chose goes in. What comes out can neither move a terminal's cursor nor hide from its reader.
"""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Escape everything in `text` that a terminal might obey or show as nothing; line feeds stay.

    What a model or a file says must not move the cursor, change the title or turn the direction of writing. Costs time
    linear in the text.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )
