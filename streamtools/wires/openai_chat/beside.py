"""Knows the fields of a chunk that have a meaning or none, so that all others can be told."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from ..fields import ERROR, KnownFields
from ..reading import says_something
from .facts import NOISE, REPEATED

__all__ = [
    "CALL", "ENVELOPE", "ERROR_CHUNK", "KNOWN", "KNOWN_OF_CHOICE", "KNOWN_OF_GROQ", "LEGACY_CALL", "PING",
    "REASONING_FIELDS", "REPEATING_DELTA", "TEXT_BLOCK", "THOUGHT_BLOCK", "UNDERSTOOD", "Repeats", "adds",
]  # fmt: skip

KNOWN = frozenset({"choices", "error", "usage", "x_groq", *NOISE})

ENVELOPE = frozenset({"choices", "id", "object", "model", "usage", "x_groq"})
"""Fields that a chunk without choices may have; one with none of them says something that nobody knows."""

ERROR_CHUNK = KnownFields("code", "message", "type", "usage", *NOISE, error=ERROR)

PING = KnownFields("type")

REASONING_FIELDS = ("reasoning_content", "reasoning")

UNDERSTOOD = frozenset({
    *REASONING_FIELDS, "content", "function_call", "reasoning_details", "refusal", "role", "tool_calls",
})  # fmt: skip
"""Fields of a delta."""

REPEATING_DELTA = frozenset({"message", "text"})
"""Fields of a choice that have the delta's words again: Perplexity's, Together's."""

KNOWN_OF_CHOICE = REPEATING_DELTA | {"delta", "error", "finish_reason", "index", "native_finish_reason"}

KNOWN_OF_GROQ = frozenset({"error", "id", "usage"})  # the id is the request's

CALL = KnownFields(
    "extra_content", "id", "index", "type",
    custom=KnownFields("input", "name"),
    function=KnownFields("arguments", "name"),
)  # fmt: skip

LEGACY_CALL = KnownFields("arguments", "name")

TEXT_BLOCK = KnownFields("text", "type")

THOUGHT_BLOCK = KnownFields("type", thinking=TEXT_BLOCK, summary=TEXT_BLOCK, reasoning=TEXT_BLOCK)


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
