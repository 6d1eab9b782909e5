"""Splits a text into parts: the base of the stages that read text, the stage for reasoning, the form of a dialect.

Where a stage takes something out of the middle of a text, the text before it is a part of its own, and so is the text
after it. Text without anything to take out passes unchanged.

In `SplitThink` blocks do not nest, and a tag of another kind inside is reasoning; a closing tag outside is text. A
block that is never closed is reasoning to the end, with the warning ``unclosed_think``: the model was cut while it
thought, and its thoughts must not turn into an answer.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from ..events import (
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    StreamWarning,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallFragment,
)
from ..tools import Toolset
from .reader import Markers, NotACall, Parsing, Reader


class TextStage(ABC):
    """Base of the text stages: keeps the order of parts, whatever a stage takes out of a text."""

    handles: ClassVar[frozenset[type[Event]]] = frozenset({TextStart, TextDelta, TextEnd, StreamEnd})

    def __init__(self) -> None:
        self._out: list[Event] = []
        self._start: TextStart | None = None  # the wire's own start, not passed on yet
        self._open = False  # True while a part of text is open

    def feed(self, event: Event) -> Iterable[Event]:
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
        self._out = []
        self._text_over()
        self._close_part()
        return self._out

    # -- for the stages --

    @abstractmethod
    def _is_plain(self, text: str) -> bool:
        """Returns whether this text can pass unchanged: nothing is held, and nothing in it needs a look."""

    @abstractmethod
    def _text(self, text: str) -> None: ...

    @abstractmethod
    def _text_over(self) -> None: ...

    def _stream_end(self, end: StreamEnd) -> StreamEnd:
        return end

    def _emit_text(self, text: str) -> None:
        if not text:
            return
        if not self._open:
            self._out.append(self._start or TextStart())
            self._start, self._open = None, True
        self._out.append(TextDelta(text))

    def _tell_between(self, event: Event) -> None:
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
            # The whole text has again what the stage took out of the deltas: a call that runs already, say.
            self._end_text(event if event.whole is None else replace(event, whole=None))
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


DEFAULT_TAGS = ("think", "thinking", "reasoning", "[THINK]")


class Tags:
    __slots__ = ("any", "closers", "first_characters", "openers")

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self.openers = Markers(pairs)
        self.closers = {opening: Markers([closing]) for opening, closing in pairs.items()}
        """Finds the end of a block, by the tag that began it."""
        self.any = Markers([*pairs, *pairs.values()])
        """Finds the tags in a block that the prompt has opened, since the model may open it again."""
        self.first_characters = frozenset(opening[0] for opening in pairs)


class SplitThink(TextStage):
    """Turns blocks of reasoning in the text into `ReasoningStart`, `ReasoningDelta` and `ReasoningEnd`. `opened`: the
    text begins inside a block, unless reasoning came before it in another way."""

    handles = TextStage.handles | {ReasoningStart}

    def __init__(self, tags: Tags, *, opened: bool = False) -> None:
        super().__init__()
        self._tags = tags
        self._first_characters = tags.first_characters
        self._awaited = tags.any if opened else tags.openers
        self._inside = opened
        self._held = ""
        self._thinking = False  # True while a part of reasoning is open

    def _is_plain(self, text: str) -> bool:
        return not self._inside and not self._held and self._first_characters.isdisjoint(text)

    def _text(self, text: str) -> None:
        text, at = self._held + text, 0
        while found := self._awaited.search(text, at):
            self._tell(text[at : found.start()])
            at = found.end()
            closer = self._tags.closers.get(found[0])
            if closer is None:
                self._leave()
            else:
                self._inside, self._awaited = True, closer
        cut = self._awaited.held_from(text, at)
        self._tell(text[at:cut])
        self._held = text[cut:]

    def _other(self, event: Event) -> None:
        if isinstance(event, ReasoningStart) and not self._thinking:
            self._leave()  # this was the block that the prompt has opened
        super()._other(event)

    def _text_over(self) -> None:
        held, self._held = self._held, ""
        self._tell(held)
        if self._thinking:
            self._out.append(StreamWarning("unclosed_think"))
        self._leave()

    def _leave(self) -> None:
        self._inside, self._awaited = False, self._tags.openers
        if self._thinking:
            self._thinking = False
            self._out.append(ReasoningEnd())

    def _tell(self, text: str) -> None:
        if not self._inside:
            self._emit_text(text)
        elif text:
            if not self._thinking:
                self._thinking = True
                self._tell_between(ReasoningStart())
            self._out.append(ReasoningDelta(text))


def tag_pair(tag: str | tuple[str, str]) -> tuple[str, str]:
    """Returns the opening and closing tag for a name, an opening tag, or a pair.

    >>> tag_pair("think"), tag_pair("[THINK]"), tag_pair(("<|begin|>", "<|end|>"))
    (('<think>', '</think>'), ('[THINK]', '[/THINK]'), ('<|begin|>', '<|end|>'))

    Raises:
        ValueError: the two would be the same, or one is empty.
    """
    if isinstance(tag, str):
        opening = f"<{tag}>" if tag.replace("_", "").isalnum() else tag
        tag = opening, f"{opening[:1]}/{opening[1:]}"
    if not all(tag) or tag[0] == tag[1]:
        raise ValueError(f"no tags: {tag!r}; give a name ('think'), an opening tag ('[THINK]') or a pair of tags")
    return tag


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
        alone: bool = False,
    ) -> None:
        self.name = name
        self.example = example  # a call of the tool ``f`` with the argument ``a``, which is 1
        self.tolerates = tolerates  # the forms that are read beside it, for the documentation
        self.at_beginning, self.drops = at_beginning, drops
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
