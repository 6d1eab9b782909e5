"""Base of the stages that read text: passes the text on in parts, with other events between them.

A wire emits a text as ``TextStart TextDelta* TextEnd``. Where a stage takes something out of its middle, the text
before it is a part of its own, and so is the text after it. Text without anything to take out passes unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from ...events import Event, StreamEnd, TextDelta, TextEnd, TextStart

__all__ = ["TextStage"]


class TextStage(ABC):
    """Base of the text stages: keeps the order of parts, whatever a stage takes out of a text."""

    handles: ClassVar[frozenset[type[Event]]] = frozenset({TextStart, TextDelta, TextEnd, StreamEnd})

    def __init__(self) -> None:
        self._out: list[Event] = []
        self._start: TextStart | None = None  # the wire's own start, not passed on yet
        self._open = False  # True while a part of text is open

    def feed(self, event: Event) -> Iterable[Event]:
        """Takes one event."""
        if type(event) is TextDelta:
            if self._open and self._is_plain(event.text):
                return (event,)
            self._out = []
            self._text(event.text)
        else:
            self._out = []
            self._other(event)
        return self._out

    def finish(self) -> Iterable[Event]:
        """Ends the stream; returns the events still held, which are none if it had a `StreamEnd`."""
        self._out = []
        self._text_over()
        self._close_part()
        return self._out

    # -- for the stages --

    @abstractmethod
    def _is_plain(self, text: str) -> bool:
        """Returns whether this text can pass unchanged: nothing is held, and nothing in it needs a look."""

    @abstractmethod
    def _text(self, text: str) -> None:
        """Takes more text."""

    @abstractmethod
    def _text_over(self) -> None:
        """Ends the text: emits all that is held."""

    def _stream_end(self, end: StreamEnd) -> StreamEnd:
        """Returns the `StreamEnd` to pass on."""
        return end

    def _tell_text(self, text: str) -> None:
        if not text:
            return
        if not self._open:
            self._out.append(self._start or TextStart())
            self._start, self._open = None, True
        self._out.append(TextDelta(text))

    def _tell_between(self, event: Event) -> None:
        """Emits an event that stands between two parts of text."""
        self._start = None
        self._close_part()
        self._out.append(event)

    # -- events that are no text --

    def _other(self, event: Event) -> None:
        if isinstance(event, TextStart):
            self._start = event
            return
        if isinstance(event, TextEnd):
            self._text_over()
            self._end_text(event)
            return
        if isinstance(event, StreamEnd):
            self._text_over()
            self._close_part()
            event = self._stream_end(event)
        self._out.append(event)

    def _end_text(self, end: TextEnd) -> None:
        if not self._open:
            if self._start is None and end.provider_state is None:
                return  # the whole text was taken out
            # an empty text stays one, and its state needs a text to belong to
            self._out.append(self._start or TextStart())
        self._out.append(end)
        self._start, self._open = None, False

    def _close_part(self) -> None:
        if self._open:
            self._open = False
            self._out.append(TextEnd())
