"""The form of a dialect: its markers, and what a parser emits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from ..events import (
    Event,
    ToolCallFragment,
)
from ..tools import Toolset
from .reader import Markers, NotACall, Parsing, Reader


class Form(NamedTuple):
    read: Parser
    openers: tuple[str, ...]  # the markers that begin a call, from which it is read
    closers: tuple[str, ...] = ()  # those that end a call or a section
    inner: tuple[str, ...] = ()  # the closing markers inside a call, which are orphans outside of one


def form(*openers: str, closers: Iterable[str] = (), inner: Iterable[str] = ()) -> Callable[[Parser], Form]:
    return lambda read: Form(read, openers, tuple(closers), tuple(inner))


class TextDialect:
    """`at_beginning` are the markers of forms that begin the text, behind blanks; `lines` begin only at the start of a
    line, behind blanks; `drops` are markers that say nothing, and are dropped outside of calls."""

    def __init__(
        self,
        name: str,
        forms: Sequence[Form],
        *,
        example: str,
        tolerates: str = "",
        lines: Sequence[Form] = (),
        at_beginning: Mapping[str, Parser] = MappingProxyType({}),
        drops: tuple[str, ...] = (),
        inside: Parser | None = None,
        alone: bool = False,
    ) -> None:
        self.name = name
        self.example = example  # a call of the tool ``f`` with the argument ``a``, which is 1
        self.tolerates = tolerates  # the forms that are read beside it, for the documentation
        self.at_beginning, self.drops = at_beginning, drops
        self.inside = inside  # what the first text begins with, without a marker, if no thought comes before it
        self.alone = alone  # a response was asked for one object of it: it has no other, and no white space around that
        self.anywhere, self.at_line_start = (
            {opener: one.read for one in found for opener in one.openers} for found in (forms, lines)
        )
        all_forms = (*forms, *lines)
        self.closers = tuple(dict.fromkeys(closer for one in all_forms for closer in one.closers))
        self.inner = tuple(dict.fromkeys(closer for one in all_forms for closer in one.inner))
        begin = {**self.anywhere, **self.at_line_start}
        # The closing markers that are dropped where there is nothing to close. A fence is none: it may open one.
        self.orphans = frozenset((*self.closers, *self.inner)) - begin.keys() - frozenset(drops)
        markers = [*begin, *self.orphans, *drops]
        self.markers = Markers(markers)
        stops = [*self.anywhere, *self.closers, *drops]
        self.stops = Markers(stops) if stops else None  # the markers that end a call, whatever its arguments are
        beginnings = {re.escape(marker[:3]) for marker in markers}
        beginnings |= {re.escape(marker[:size]) + r"\Z" for marker in markers for size in (1, 2)}
        # Finds the beginning of a marker: three characters of it, or fewer at the end of a text.
        self.begins = re.compile("|".join(sorted(beginnings)))


# -- what a parser emits --


class Output(Protocol):
    def tell(self, event: Event, /) -> None: ...
    def say(self, text: str, /) -> None: ...
    def begin_text(self) -> None: ...  # one apart from the text before it
    def end_text(self) -> None: ...
    def begin_thought(self) -> None: ...  # which may stay empty
    def think(self, text: str, /) -> None: ...
    def end_thought(self, *, closed: bool = True) -> None: ...


class Only(Protocol):
    is_whole: bool


class CallWriter:
    """Emits the calls that a parser reads, of which one is open at a time. The name of the `dialect` goes into their
    labels; `stops` are the markers that end a call's arguments, whatever they are."""

    def __init__(self, dialect: str, tools: Toolset, reader: Reader, output: Output, stops: Markers | None) -> None:
        self.tools = tools
        self.say, self.think, self.end_thought = output.say, output.think, output.end_thought
        self.begin_text, self.end_text, self.begin_thought = output.begin_text, output.end_text, output.begin_thought
        self.stops = stops
        self.in_value = False  # True while the raw value of a parameter is read, which may quote any marker
        self.count = 0  # number of calls begun so far
        self.is_open = False
        self.only: Only | None = None  # the one object of a dialect that is `alone`, once a part of it was emitted
        self.close: str | None = None  # the closing marker of the open call; None if it has none
        self.is_json = False
        """True if the open call has arguments, and they are JSON that the model wrote, not composed of parts."""
        self._verbatim = True
        self._dialect = dialect
        self._reader = reader
        self._tell: Callable[[Event], None] = output.tell
        self._label = ""
        self._waits = False  # the open call ends with the response: it may come natively, too, and must not run twice

    def knows(self, name: str) -> bool:
        return name.removeprefix("functions.") in self.tools.names

    def begin(self, name: str, call_id: str | None = None, *, close: str | None, verbatim: bool = True) -> None:
        """Announces a call, which cannot be taken back; raises `NotACall` if the name is empty or too long. `close` is
        the marker that ends it; with `verbatim`, its arguments are JSON that the model wrote."""
        if not name or len(name) > self._reader.limits.max_name_bytes:
            raise NotACall
        self._reader.let_go()
        self.count += 1
        self.is_open, self.close = True, close
        self.is_json, self._verbatim, self.in_value = False, verbatim, False
        self._label = f"{self._dialect}:{self.count}"
        tool = self.tools.get(name.removeprefix("functions."))
        self._waits = tool is not None and tool.effect != "pure"
        self._tell(ToolCallFragment(self._label, call_id, name, start=True, in_text=True))

    def add(self, text: str) -> None:
        if text:
            self.is_json = self._verbatim
            self._tell(ToolCallFragment(self._label, arguments=text))

    def end(self, *, cut: bool = False) -> None:
        """Ends the open call. The text that follows is held, since it may be plain text."""
        self.is_open = False
        if cut or not self._waits:
            self._tell(ToolCallFragment(self._label, end=True, cut=cut))
        self._reader.hold()

    def leave(self) -> None:
        """Ends the open call with the response, without a marker; holds what follows, which may be text."""
        self.is_open = False
        self._reader.hold()


Parser: TypeAlias = Callable[[Reader, CallWriter], Parsing[None]]  # reads a call from the marker that begins it
