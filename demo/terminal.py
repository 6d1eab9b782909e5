"""The terminal that the demo writes to: its size, and what it understands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TextIO

__all__ = ["NARROWEST", "Style", "Terminal"]

NARROWEST = 56  # cells; with less, a line that is rewritten in place would take more than one row

Style = Literal["bold", "dim", "red", "green", "cyan"]

_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}
_SIGNS = {"ellipsis": ("…", "..."), "arrow": ("→", "->"), "chat": ("▒", "-"), "tool": ("█", "#")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """What can be written, and how. Without arguments: a plain page of 80 cells, as for a file."""

    width: int = 80
    height: int = 24
    live: bool = False
    """The cursor can move, so that lines may be rewritten in place."""
    colour: bool = False
    unicode: bool = True
    """Signs beyond ASCII arrive."""

    @classmethod
    def of(cls, stream: TextIO, environment: Mapping[str, str] = os.environ) -> Terminal:
        """The terminal behind `stream`. Colours need one that has them, and a user who did not set ``NO_COLOR``."""
        width, height = shutil.get_terminal_size()
        # The old Windows console shows control sequences as text; Windows Terminal sets WT_SESSION.
        obeys = environment.get("TERM") != "dumb" and (os.name != "nt" or "WT_SESSION" in environment)
        live = stream.isatty() and obeys
        return cls(
            width=max(width, NARROWEST),
            height=height,
            live=live and width >= NARROWEST,
            colour=live and not environment.get("NO_COLOR"),
            unicode=_can_write("".join(sign for sign, _ in _SIGNS.values()), stream.encoding),
        )

    def sign(self, name: Literal["ellipsis", "arrow", "chat", "tool"]) -> str:
        """A sign in the terminal's own repertoire."""
        return _SIGNS[name][0 if self.unicode else 1]

    def paint(self, style: Style, text: str) -> str:
        """`text` in a style, where there are colours. Measure it before."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and text else text


def _can_write(text: str, encoding: str | None) -> bool:
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
