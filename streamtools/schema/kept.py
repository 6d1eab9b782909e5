"""A schema that the library has read itself: shared by all who keep it, instead of copied by each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Kept"]


class Kept(Mapping[str, Any]):
    """A schema that needs no copy: plain JSON that the library has read itself, and that nobody changes.

    Whoever is given one may share what it holds (`schema`) instead of copying it.
    """

    __slots__ = ("schema",)

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def __getitem__(self, name: str) -> Any:
        return self.schema[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema)

    def __len__(self) -> int:
        return len(self.schema)
