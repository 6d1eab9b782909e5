"""The step that calls belong to, as the dispatcher sees it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ..events import Event
from .counts import RunCounts

__all__ = ["Host"]


class Host(Protocol):
    """The step that the calls belong to."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        ...

    @property
    def number(self) -> int:
        """The step's number in its run."""
        ...

    @property
    def ended(self) -> bool:
        """Nothing more may be emitted."""
        ...

    @property
    def behind(self) -> int:
        """How many events the slowest consumer that is waited for has not taken yet."""
        ...

    @property
    def counts(self) -> RunCounts:
        """What the run has seen of its calls."""
        ...

    def emit(self, event: Event) -> None:
        """Number an event and pass it to everybody. Never waits."""
        ...

    def around_tool(self, call_id: str) -> Sequence[AbstractContextManager[object]]:
        """What observers want held while a tool's body runs."""
        ...
