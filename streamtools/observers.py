"""What watches a pipeline: observers see every event and change nothing."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Protocol

from .events import Event

__all__ = ["Observer"]


class Observer(Protocol):
    """Sees the events of a run as they happen. Spans, recordings and sinks are observers.

    The calls are synchronous and on the hot path: be quick, and do not block. An observer that raises is dropped for
    the rest of the step, with a `Warning` event (``observer_failed``); the stream goes on.
    """

    @property
    def event_types(self) -> Collection[type[Event]] | None:
        """The event classes to be told about; None for all. Leave the deltas out if you can: they are the many."""
        ...

    def on_event(self, event: Event) -> None:
        """An event happened; it already has its `seq`, `causes` and `time`."""
        ...

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """A context manager to be held, in the tool's own task, while the tool's body runs; or None."""
        ...
