"""Asks the model: makes a step's request, and makes it again where that may help."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

from ..decode.body import as_items
from ..sources import answer_of
from ..wires import Wire

__all__ = ["Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is made when it is awaited; the result is the stream."""

    ask: Callable[[], Any]
    """Returns the stream, or an awaitable of it."""
    wire: Wire | str | None

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._made().__await__()

    async def _made(self) -> Any:
        stream = self.ask()
        if isinstance(stream, Awaitable) and not hasattr(stream, "__aiter__"):
            stream = await stream
        return as_items(answer_of(stream), self.wire)
