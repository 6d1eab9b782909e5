"""How a provider's history writes the result of one call, as data: its place, and the fields beside its content.

The content itself is written by a wire's `render` and read by its `read`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ResultFormat"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResultFormat:
    """Where a result stands, and what tells that it is one."""

    recognises: Callable[[Mapping[str, Any]], bool]
    """Whether a dict is such a result."""
    list_key: str | None = None
    """Results are blocks of one message of the user's, in this field; None where each is a message or an item."""
    call_id_key: str | None = None
    """The field of a message or an item that says which call it answers."""
    id_optional: bool = False
    """Results may come without ids, and are then paired by name and order."""
    raw_type: str | None = None
    """What the field ``type`` says where the call was one of raw text; None where results do not tell."""
    is_message: bool = False
    """A result is a message of its own, with the role ``tool``."""

    def as_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Results as messages that hold them."""
        return list(results) if self.list_key is None else [{"role": "user", self.list_key: list(results)}]

    def of_messages(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The results that stand in messages of nothing else: the inverse of `as_messages`."""
        if self.list_key is None:
            return list(messages)
        return [block for message in messages for block in message[self.list_key]]
