"""Takes tool calls out of the text: emits the text around them, and `ToolCallFragment`s for the calls.

Theory of operation. Between calls the stage looks for a marker that may begin one in its dialect, and holds back only
text that may still become such a marker. From there a parser of the dialect reads (`Reader`), in one of three states:

    candidate   Nothing was emitted yet. All that was read is held; if it is no call after all, or the text ends, it
                is text again, and the search goes on behind it.
    call        The name has come and the arguments have begun, so the call was announced (`CallWriter.begin`), which
                nothing can take back. Arguments go out as they come.
    spoiled     The markup of an announced call is broken. The text that follows, up to a closing marker of the dialect
                or the next call, is added to its arguments, so that nothing is lost; the call is reported as cut, or
                its arguments are no JSON: it cannot run. Inside the raw value of a parameter only a closing marker
                ends it, since a value may quote a whole call, and a quoted one must not run.

A call ends at its closing marker, or where the list that it stands in goes on or ends. If the text ends before that,
the call was cut, and is reported as such. Where a dialect has neither marker nor list, its call ends with the response,
as calls of the chat wire do.

Which markers win: outside of the arguments' strings a closing marker of the dialect ends the call, whatever the JSON
says, and so does the marker of the next call. Inside a string they are content, if the string is closed as JSON closes
it (`Reader.value`).

An orphan, which is a closing marker with nothing to close, is dropped with the warning ``stray_marker``. A plain tag
(``</tool_call>``) may be prose, and is dropped only directly behind a call. After an opening marker that stayed text, a
closing one does, too: both are mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import ClassVar

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
from ..limits import Limits
from ..tools import Toolset
from .parts import CallWriter, Only, Parser, TextDialect
from .reader import Markers, NotACall, Parsing, Reader, TextOver
from .thoughts import THINKING, UNCLOSED, Thought

# Characters of white space around the only object: JSON mode may run into an endless sequence of them.
_MAX_BLANK = 4096
_MAX_BLANKS = 64  # characters of white space before a marker at the beginning
_is_plain_tag = re.compile(r"</\w+>").fullmatch


class TextCalls:
    """Turns the calls in the text into `ToolCallFragment`s; with `runs_thoughts` those of a last open thought, too.
    Keeps the order of parts: where something is taken out of the middle of a text, the text before it is a part of its
    own, and so is the text after it."""

    handles: ClassVar[frozenset[type[Event]]] = frozenset(
        {TextStart, TextDelta, TextEnd, StreamEnd, ToolCallFragment, *THINKING}
    )

    def __init__(self, dialect: TextDialect, tools: Toolset, limits: Limits, *, runs_thoughts: bool = False) -> None:
        self._out: list[Event] = []
        self._start: TextStart | None = None  # the wire's own start, not passed on yet
        self._open = False  # True while a part of text is open
        self._dialect = dialect
        self._inside = dialect.inside  # what the text begins with
        self._begins = dialect.begins.search
        self._lines = bool(dialect.at_line_start)
        self._reader = Reader(limits, lines=self._lines)
        self._calls = CallWriter(dialect.name, tools, self._reader, self, dialect.stops)
        self._parsing: Parsing[None] | None = None
        self._count = 0  # number of calls begun before the parser did
        self._declined = 0  # number of those that a declined model has made
        self._behind_call = False  # nothing but blanks came since the last call
        self._behind = False  # nothing but blanks came since the last call or the last thought
        self._mentioned = False  # an opening marker stayed text since the last call
        # a marker may come that counts only at the beginning
        self._is_fresh = bool(dialect.at_beginning or self._inside)
        # nothing is being read, and nothing but the text before matters to the next one
        self._is_idle = not self._is_fresh
        self._warned: set[str] = set()
        self._thought = Thought(limits)
        self._thinking = False  # a thought is open that the dialect marks
        self._runs_thoughts = runs_thoughts
        self._at_edge = dialect.alone  # nothing but white space came so far, or since the one object: it is dropped
        self._blank = ""  # that white space, until text follows it
        self._has_text = False
        self._tools, self._limits = tools, limits

    def feed(self, event: Event) -> Iterable[Event]:
        """Takes one event. Prose passes at once, since nearly every event is prose."""
        if type(event) is TextDelta and self._is_idle and self._open and not self._begins(event.text):
            if self._lines and event.text:
                if event.text.isspace():
                    self._reader.passed(event.text)
                else:
                    self._reader.before = event.text
            return (event,)
        out = self._out = []
        if type(event) is TextDelta:
            self._has_text = True
            self._reader.feed(event.text)
            self._read()
        else:
            self._other(event)
        begun = self._reader.text or self._behind or self._is_fresh or self._at_edge
        self._is_idle = self._parsing is None and not begun
        return out

    def finish(self) -> Iterable[Event]:
        self._out = []
        self._text_over()
        self._close_part()
        return self._out

    @property
    def only(self) -> Only | None:
        return self._calls.only

    # -- for the parsers --

    def say(self, text: str) -> None:
        if self._behind and text and not text.isspace():
            self._behind = self._behind_call = False
            self._thought.forget()
        self._emit_text(self._without_edge(text) if self._at_edge else text)

    def begin_text(self) -> None:
        self._close_part()
        self._out.append(self._start or TextStart())
        self._start, self._open, self._at_edge = None, True, False

    def end_text(self) -> None:
        self._close_part()
        self._begin_edge()

    def begin_thought(self) -> None:
        if not self._thinking:
            self._thinking = True
            self._tell_between(self._thought.note(ReasoningStart()))

    def think(self, text: str) -> None:
        if not text:
            return
        self.begin_thought()
        self._out.append(self._thought.note(ReasoningDelta(text)))

    def end_thought(self, *, closed: bool = True) -> None:
        if not self._thinking:
            return
        self._thinking = False
        if not closed:
            self._out.append(self._thought.note(StreamWarning(UNCLOSED)))
        self._out.append(self._thought.note(ReasoningEnd()))
        self._behind = True
        self._begin_edge()

    def tell(self, event: Event) -> None:
        self._tell_between(event)
        self._begin_edge()

    # -- parts --

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

    def _text_over(self) -> None:
        self._reader.over = True
        self._read()
        self._reader.begin_again()  # a wire may have several texts
        self._behind_call = self._mentioned = False
        self._inside, self._is_fresh = None, bool(self._dialect.at_beginning)
        blank, self._blank = self._blank, ""
        if self.only is None:
            self._emit_text(blank)

    def _other(self, event: Event) -> None:
        if type(event) in THINKING:
            if (
                self._inside is not None and type(event) is ReasoningStart
            ):  # it was the block that the prompt has opened
                self._inside, self._is_fresh = None, bool(self._dialect.at_beginning)
            self._behind = self._thought.take(event) or self._behind_call
            self._out.append(event)
        elif type(event) is ToolCallFragment:
            self._thought.forget()
            if event.disorder == "declined":
                self._declined = self._calls.count
            self._out.append(event)
        elif isinstance(event, TextStart):
            self._start = event
        elif isinstance(event, TextEnd):
            self._text_over()
            # The whole text has again what was taken out of the deltas: a call that runs already, say.
            self._end_text(event if event.whole is None else replace(event, whole=None))
        elif isinstance(event, StreamEnd):
            self._text_over()
            self._close_part()
            self._out.append(self._stream_end(event))
        else:
            self._out.append(event)

    def _stream_end(self, end: StreamEnd) -> StreamEnd:
        count = self._calls.count - self._declined
        if self._dialect.alone:
            if self._has_text and not (self.only and self.only.is_whole):
                self._warn("no_payload", "the text holds no whole payload")
        elif not count and end.ended_well and (text := self._thought.unclosed_text()):
            count = self._calls_in_thought(text)
        return replace(end, finish="tool_calls") if end.finish == "stop" and count else end

    def _calls_in_thought(self, text: str) -> int:
        inner = TextCalls(self._dialect, self._tools, self._limits)
        events = [event for item in (TextStart(), TextDelta(text), TextEnd()) for event in inner.feed(item)]
        last = [at for at, event in enumerate(events) if type(event) is TextDelta and not event.text.isspace()]
        found = [event for event in events[last[-1] + 1 if last else 0 :] if isinstance(event, ToolCallFragment)]
        names = [event.name for event in found if event.start and event.name]
        if names:
            self._warn("call_in_reasoning", ", ".join(names))
        if not self._runs_thoughts:
            return 0
        self._out.extend(found)
        return len(names)

    def _read(self) -> None:
        while self._parsing is not None or (self._begin() if self._is_fresh else self._seek()):
            assert self._parsing is not None, "one was found"
            try:
                next(self._parsing)
                return
            except StopIteration:
                self._parsing = None
                self._reader.let_go()
                self._leave()
            except NotACall:
                self._give_up()
            except TextOver:
                self._cut()

    def _begin(self) -> bool:
        reader = self._reader
        if self._inside is not None:
            if not reader.text:
                return False
            self._parse(self._inside, 0)
            self._inside, self._is_fresh = None, False
            return True
        text = reader.text.lstrip()
        at = len(reader.text) - len(text)
        if at < _MAX_BLANKS and not reader.over and any(known.startswith(text) for known in self._dialect.at_beginning):
            return False
        self._is_fresh = False
        for marker, parser in self._dialect.at_beginning.items():
            if at < _MAX_BLANKS and text.startswith(marker):
                self.say(reader.text[:at])
                self._parse(parser, at)
                return True
        return self._seek()

    def _parse(self, parser: Parser, at: int) -> None:
        self._reader.at = at
        self._reader.hold()
        self._parsing, self._count = parser(self._reader, self._calls), self._calls.count

    def _seek(self) -> bool:
        reader, dialect = self._reader, self._dialect
        text, start = reader.text, reader.at
        at = start if self.only is None else len(text)
        while found := dialect.markers.search(text, at):
            if not reader.over and dialect.markers.may_grow(text, found.start()):
                at = found.start()
                break
            at = found.end()
            if found[0] in dialect.orphans or found[0] in dialect.drops:
                self.say(text[start : found.start()])
                if found[0] in dialect.orphans:
                    self._orphan(found[0])
                start = at
                continue
            parser = dialect.anywhere.get(found[0])
            if parser is None and reader.begins_line(found.start()):
                parser = dialect.at_line_start[found[0]]
            if parser is not None:
                self.say(text[start : found.start()])
                self._parse(parser, found.start())
                return True
        reader.at = len(text) if reader.over else dialect.markers.held_from(text, at)
        self.say(text[start : reader.at])
        if reader.at == len(text):
            reader.feed("")
        return False

    def _orphan(self, marker: str) -> None:
        if not self._mentioned and (self._behind_call or not _is_plain_tag(marker)):
            self._warn("stray_marker", marker)
        else:
            self.say(marker)

    def _warn(self, code: str, detail: str) -> None:
        if code not in self._warned:
            self._warned.add(code)
            self._out.append(StreamWarning(code, detail))

    def _leave(self) -> None:
        if self._calls.count > self._count:
            self._behind = self._behind_call = True
            self._mentioned = False

    def _give_up(self) -> None:
        calls = self._calls
        rest = self._reader.take_back()
        if calls.is_open and calls.close is not None:
            closers = dict.fromkeys([*self._dialect.closers, calls.close])
            openers = () if calls.in_value else (*self._dialect.anywhere, *self._dialect.drops)
            self._parsing = _spoiled(self._reader, calls, Markers([*openers, *closers]), closers, rest)
            return
        self._parsing = None
        if calls.is_open:
            calls.end(cut=True)
            self._reader.let_go()
        self._mentioned = self._mentioned or calls.count == self._count
        self._leave()
        self.say(rest)

    def _cut(self) -> None:
        self._parsing = None
        if self._calls.is_open:
            self._calls.end(cut=True)
            self._reader.at = len(self._reader.text)  # the rest is part of a closing marker
            self._reader.let_go()
        else:
            rest = self._reader.take_back()
            self._emit_text(self._without_edge(rest) if self._at_edge else rest)

    def _begin_edge(self) -> None:
        self._at_edge, self._blank = self._dialect.alone, ""

    def _without_edge(self, text: str) -> str:
        """Returns a text at an edge without its white space, which is held until more follows."""
        self._blank, text = "", self._blank + text
        if text.isspace() and len(text) <= _MAX_BLANK:
            self._blank = text
            return ""
        self._at_edge = not text
        return text


def _spoiled(reader: Reader, calls: CallWriter, stops: Markers, closers: Collection[str], rest: str) -> Parsing[None]:
    """Reads a broken call up to one of `stops`, and takes a closing marker. `rest` was read since the arguments."""
    was_json, more = calls.is_json, False

    def take(piece: str) -> None:
        nonlocal more
        more = more or not piece.isspace()
        calls.add(piece)

    if rest:
        take(rest)
    stop = yield from reader.until(stops, take)
    if stop in closers:
        reader.at += len(stop)
    # JSON with something behind it is no JSON any more. Any other spoiled arguments might look like good ones.
    calls.end(cut=not (was_json and more))
