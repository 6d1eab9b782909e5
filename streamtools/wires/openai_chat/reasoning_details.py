"""``reasoning_details`` (OpenRouter): entries that come in pieces and must go back whole.

Source: https://openrouter.ai/docs/use-cases/reasoning-tokens (read 2026-11-20): the sequence has to be sent back as it
came. Pieces of one entry are joined; everything else in an entry stays as the provider sent it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..reading import weight

__all__ = ["ReasoningDetails"]

_GROWING = ("text", "summary", "data")
_IDENTITY = ("type", "index", "id")


class ReasoningDetails:
    """Collects the entries of one response."""

    def __init__(self) -> None:
        self.size = 0
        """How much is kept, as `weight` has it."""
        self._entries: list[tuple[dict[str, Any], dict[str, list[str]]]] = []  # an entry, and its growing texts

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, details: object) -> Iterator[str]:
        """Takes the entries of one delta; yields their new texts."""
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, dict):
                continue
            if not self._entries or any(self._entries[-1][0].get(key) != detail.get(key) for key in _IDENTITY):
                self._entries.append(({}, {}))
            entry, pieces = self._entries[-1]
            for key, value in detail.items():
                if key in _GROWING and isinstance(value, str):
                    entry.setdefault(key, "")  # keeps its place among the keys
                    if not value:
                        continue
                    self.size += len(value)
                    pieces.setdefault(key, []).append(value)
                    if key != "data":
                        yield value
                elif key not in entry or (value is not None and entry[key] != value):
                    self.size += weight(value)
                    entry[key] = value

    def joined(self) -> list[dict[str, Any]]:
        """The entries, whole."""
        return [{**entry, **{key: "".join(texts) for key, texts in pieces.items()}} for entry, pieces in self._entries]
