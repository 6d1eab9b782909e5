"""Finds the calls in a text in the dialect of the model that writes it, which the stream names at its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...events import Event, StreamStart
from .calls import TextCalls
from .models import dialect_of

__all__ = ["AutoCalls"]


class AutoCalls:
    """Turns the calls in the text into `ToolCallFragment`s, as `TextCalls` does; all is text if the model is not known.

    Args:
        make: makes the stage of a dialect, by its name.
    """

    handles = TextCalls.handles | {StreamStart}

    def __init__(self, make: Callable[[str], TextCalls]) -> None:
        self._make = make
        self._stage: TextCalls | None = None
        self.feed: Callable[[Event], Iterable[Event]] = self._begin
        """Takes one event."""

    def finish(self) -> Iterable[Event]:
        """Ends the stream; returns the events still held."""
        return () if self._stage is None else self._stage.finish()

    def _begin(self, event: Event) -> Iterable[Event]:
        if isinstance(event, StreamStart) and (dialect := dialect_of(event.model)) is not None:
            self._stage = self._make(dialect)
            self.feed = self._go_on
        return (event,)

    def _go_on(self, event: Event) -> Iterable[Event]:
        assert self._stage is not None, "the dialect is known"
        return (event,) if type(event) is StreamStart else self._stage.feed(event)
