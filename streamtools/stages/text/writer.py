"""Emits the calls that a parser finds in a text, and the text and thoughts that it reads itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from ...events import Event, ToolCallFragment
from ...tools import Toolset
from .reader import Markers, NotACall, Parsing, Reader

__all__ = ["CallWriter", "Output", "Parser"]


class Output(Protocol):
    """Takes all that a parser finds."""

    def tell(self, event: Event, /) -> None:
        """Emits a fragment of a call."""

    def say(self, text: str, /) -> None:
        """Emits text."""

    def think(self, text: str, /) -> None:
        """Emits a piece of a thought."""

    def end_thought(self, *, closed: bool = True) -> None:
        """Ends the thought."""


class CallWriter:
    """Emits the calls that a parser reads. One call is open at a time.

    Args:
        dialect: the name of the dialect, which goes into the labels of the calls.
        tools: the tools that may be called.
        reader: the reader of the parser.
        output: emits the calls, and the text and the thoughts that a parser reads.
        stops: the markers that end a call's arguments, whatever they are; None if the dialect has none.
    """

    def __init__(self, dialect: str, tools: Toolset, reader: Reader, output: Output, stops: Markers | None) -> None:
        self.tools = tools
        self.say, self.think, self.end_thought = output.say, output.think, output.end_thought
        self.stops = stops
        self.in_value = False
        """True while the raw value of a parameter is read, which may quote any marker."""
        self.count = 0
        """Number of calls begun so far."""
        self.is_open = False
        self.close: str | None = None
        """The closing marker of the open call; None if it has none."""
        self.is_json = False
        """True if the open call has arguments, and they are JSON that the model wrote, not composed of parts."""
        self._verbatim = True
        self._dialect = dialect
        self._reader = reader
        self._tell: Callable[[Event], None] = output.tell
        self._label = ""
        self._left = ""  # label of the call that ends with the response, or with the next call

    def knows(self, name: str) -> bool:
        """Returns whether a tool of that name is registered."""
        return name.removeprefix("functions.") in self.tools.names

    def begin(self, name: str, call_id: str | None = None, *, close: str | None, verbatim: bool = True) -> None:
        """Announces a call, which cannot be taken back.

        Args:
            name: the tool's name.
            call_id: the call's id, if the dialect has one.
            close: the marker that ends it.
            verbatim: its arguments are JSON that the model wrote.

        Raises:
            NotACall: the name is empty or too long.
        """
        if not name or len(name) > self._reader.limits.max_name_bytes:
            raise NotACall
        self._reader.let_go()
        if self._left:
            self._tell(ToolCallFragment(self._left, end=True))
            self._left = ""
        self.count += 1
        self.is_open, self.close = True, close
        self.is_json, self._verbatim, self.in_value = False, verbatim, False
        self._label = f"{self._dialect}:{self.count}"
        self._tell(ToolCallFragment(self._label, call_id, name, start=True))

    def add(self, text: str) -> None:
        """Emits more of the open call's arguments."""
        if text:
            self.is_json = self._verbatim
            self._tell(ToolCallFragment(self._label, arguments=text))

    def end(self, *, cut: bool = False) -> None:
        """Ends the open call. The text that follows is held, since it may be plain text."""
        self.is_open = False
        self._tell(ToolCallFragment(self._label, end=True, cut=cut))
        self._reader.hold()

    def leave(self) -> None:
        """Ends the open call together with the next call or the response: it is whole, but has no closing marker. The
        text that follows is held, since it may be plain text."""
        self.is_open = False
        self._left = self._label
        self._reader.hold()


Parser: TypeAlias = Callable[[Reader, CallWriter], Parsing[None]]
"""Reads a call from the marker that begins it."""
