"""Defines the input of a keyword's maker, and the maker's entry in the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from .document import Document, Place
from .patterns import Pattern
from .reading import escaped
from .run import Check, Rule
from .values import KINDS, OTHER

__all__ = ["ANY", "ARRAY", "NUMBER", "OBJECT", "TEXT", "Compiling", "Maker", "Making"]

ANY: tuple[type, ...] = (*KINDS, OTHER)
OBJECT: tuple[type, ...] = (dict,)
ARRAY: tuple[type, ...] = (list,)
TEXT: tuple[type, ...] = (str,)
NUMBER: tuple[type, ...] = (int, float)


class Compiling(Protocol):
    """The compiler, as makers use it."""

    @property
    def document(self) -> Document:
        """The document that is compiled."""
        ...

    def check(self, place: Place) -> Check:
        """Returns the check of a schema that the present one contains."""
        ...

    def reference(self, place: Place) -> Check:
        """Returns the check of a schema anywhere, possibly one that is not made yet."""
        ...

    def pattern(self, pattern: str, place: Place, step: str) -> Pattern | None:
        """Returns a compiled pattern; None for one that cannot be enforced."""
        ...

    @property
    def memory(self) -> dict[Any, Any]:
        """Objects that makers want to make only once in a document."""
        ...


class Making:
    """One schema while its keywords become checks."""

    __slots__ = ("compiler", "keywords", "place")

    def __init__(self, place: Place, compiler: Compiling) -> None:
        self.place = place
        self.compiler = compiler
        self.keywords: dict[str, Any] = place.keywords

    def rule(self, keyword: str, message: str, *names: str) -> Rule:
        """Returns a rule of a keyword; `names` lead on from the keyword to the place that is meant."""
        return Rule(keyword, message, self.place, "".join(f"/{escaped(name)}" for name in (keyword, *names)))

    def one(self, keyword: str) -> Check | None:
        """Returns the check of the one schema under a keyword."""
        held = self.place.children.get(keyword)
        return None if held is None else self.compiler.check(held[0])

    def many(self, keyword: str) -> list[Check]:
        """Returns the checks of the schemas in the list under a keyword."""
        return [self.compiler.check(place) for place in self.place.children.get(keyword, {}).values()]

    def named(self, keyword: str) -> dict[str, Check]:
        """Returns the checks of the schemas under a keyword, by name."""
        held = self.place.children.get(keyword, {})
        return {str(name): self.compiler.check(place) for name, place in held.items()}


class Maker(NamedTuple):
    """Makes a check of keywords."""

    keywords: tuple[str, ...]
    """The keywords, any of which makes the check; several that work together make one."""
    kinds: tuple[type, ...]
    """The Python types of values that the check concerns."""
    make: Callable[[Making], Check | None]
    """Makes the check; returns None if the keywords demand nothing."""
