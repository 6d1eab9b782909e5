"""Knows the fields of a chunk that have a meaning or none, so that all others can be told."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from ..reading import says_something
from .facts import NOISE, REPEATED

__all__ = ["KNOWN", "KNOWN_OF_CHOICE", "KNOWN_OF_GROQ", "REPEATING_DELTA", "Repeats", "adds"]

KNOWN = frozenset({"choices", "error", "usage", "x_groq", *NOISE})

REPEATING_DELTA = frozenset({"message", "text"})
"""Fields of a choice that have the delta's words again: Perplexity's, Together's."""

KNOWN_OF_CHOICE = REPEATING_DELTA | {"delta", "error", "finish_reason", "index", "native_finish_reason"}

KNOWN_OF_GROQ = frozenset({"error", "id", "usage"})  # the id is the request's


class Repeats:
    """The fields that repeat what stands, as they stood last."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Any] = {}

    def known(self, found: Mapping[str, Any], known: AbstractSet[str], place: str) -> AbstractSet[str]:
        """Returns the known fields of an object, with those that have not changed."""
        if found.keys() <= known:
            return known
        return known | {key for key in REPEATED.keys() & found.keys() if not self._is_news(place, key, found[key])}

    def _is_news(self, place: str, key: str, value: object) -> bool:
        before = self._last.get((place, key))
        self._last[place, key] = value
        return value != before


def adds(found: Mapping[str, Any], known: AbstractSet[str]) -> bool:
    """Returns whether a field that is not known says something that does not only repeat what stands."""
    return any(says_something(found[key]) for key in found.keys() - known - REPEATED.keys())
