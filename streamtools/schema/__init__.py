"""Handles JSON Schema: validates values, and rewrites schemas for the dialects, limits and names of the providers.

validation    validates values by a schema (2020-12, draft-07) translation   rewrites a schema in a provider's dialect,
with the way back for the arguments dialects      has the providers' dialects, with the action for each keyword; `names`
and `bounds` have their limits
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["Kept"]


class Kept(Mapping[str, Any]):
    """Marks a schema that needs no copy: plain JSON that the library itself has read and that never changes."""

    # All who keep it share the one `schema`: a list of an MCP server may have megabytes of them.

    __slots__ = ("schema",)

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def __getitem__(self, name: str) -> Any:
        return self.schema[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema)

    def __len__(self) -> int:
        return len(self.schema)
