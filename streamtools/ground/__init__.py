"""Holds small functions that every room uses: for a peer's text, for copies, and for names loaded on demand.

text       well-formed for every encoder, printable on one line, short where it is quoted; objects without secrets own
copies of values for code that may change them on_demand  names of a package that are loaded when they are first used
extras     the message for a package that is not installed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .on_demand import names

if TYPE_CHECKING:
    from .extras import missing
    from .text import (
        SurrogateJoiner,
        class_name,
        cut,
        deeper_than,
        excerpt,
        one_line,
        printable,
        shown_by,
        stand_in,
        type_name,
        well_formed,
        well_formed_tree,
    )
else:
    __getattr__ = names(
        __name__,
        {
            "extras": "missing",
            "text": "SurrogateJoiner class_name cut deeper_than excerpt one_line printable shown_by stand_in type_name "
            "well_formed well_formed_tree",
        },
    )

__all__ = [
    "SurrogateJoiner", "class_name", "cut", "deeper_than", "excerpt", "missing", "names", "one_line", "printable",
    "shown_by", "stand_in", "type_name", "well_formed", "well_formed_tree",
]  # fmt: skip
