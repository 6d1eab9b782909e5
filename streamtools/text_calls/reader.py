"""Reads text for a parser of calls: cut anywhere, as if it were whole.

A parser is a generator, and so are the reader's methods: ``yield from reader.spaces()`` returns its result when enough
text has come. So no text is ever read twice: time is linear, however the text is cut.

While a parser has not announced a call, all that it has read is kept (`hold`), since it may turn out to be text. The
parser bounds the size of the kept text, character by character, so that the outcome does not depend on the cuts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Generator, Iterable
from typing import TypeAlias, TypeVar

from pydantic_core import from_json

from ..limits import Limits


class Markers:
    """Finds the first of several strings. Of two that begin at the same place, the longer is found."""

    __slots__ = ("_beginnings", "_firsts", "_longest", "search")

    def __init__(self, markers: Iterable[str]) -> None:
        longest_first = sorted(markers, key=len, reverse=True)
        self.search = re.compile("|".join(map(re.escape, longest_first))).search
        """``search(text, start)``: the match of the first marker from `start` on, or None."""
        self._longest = len(longest_first[0])
        self._firsts = frozenset(marker[0] for marker in longest_first)
        self._beginnings = frozenset(marker[:end] for marker in longest_first for end in range(1, len(marker)))

    def held_from(self, text: str, start: int) -> int:
        """Returns where the end of a text begins that may become a marker with more text, in which `search` found none;
        the text's length if there is none. Takes time linear in the longest marker."""
        start = max(start, len(text) - self._longest + 1)
        if self._firsts.isdisjoint(text[start:]):
            return len(text)
        for at in range(start, len(text)):
            if text[at:] in self._beginnings:
                return at
        return len(text)

    def may_grow(self, text: str, at: int) -> bool:
        """Returns whether the end of a text, from `at` on, may become a longer marker with more text."""
        return len(text) - at < self._longest and text[at:] in self._beginnings


T = TypeVar("T")
Parsing: TypeAlias = Generator[None, None, T]
"""A generator that reads: it yields when it needs more text, and returns its result."""

_MAX_SPACE = 4096  # characters of white space in one place; no model writes a tenth of it
_MAX_SCALAR = 4400  # characters of a number, true, false or null: the longest integer that is parsed has 4300 digits

_match_word = re.compile(r"[\w.\-]*").match
_STRING_STOPS = Markers('"\\')
_SCALAR_END = " \t\r\n,]}<[`"  # the last three begin markers, and no scalar has them
_SCALAR_STOPS = Markers(_SCALAR_END)


class NotACall(Exception):
    """The text read since the last `Reader.hold` is no call of this dialect."""


class TextOver(Exception):
    """The text ended before the parser did."""


class Reader:
    """The text that a parser reads from: the parser moves `at` past what it has taken."""

    __slots__ = ("_from", "_held", "_lines", "at", "before", "limits", "over", "text")

    def __init__(self, limits: Limits, *, lines: bool) -> None:
        self.limits = limits
        self.text = ""  # text that came and was not taken, and the text that the parser is reading
        self.at = 0
        self.over = False
        self._held: list[str] = []  # taken, and still needed if this is no call; the part before `text`
        self._from = -1  # where in `text` the rest of the held text begins; -1 if nothing is to be kept
        self._lines = lines
        self.before = "\n"  # ends in the same way as the text before `text`; the beginning of all text begins a line

    # -- for the stage --

    def feed(self, text: str) -> None:
        at = self.at
        if at:
            if self._lines:
                self.passed(self.text[:at])
            if self._from >= 0:
                self._held.append(self.text[self._from : at])
                self._from = 0
            text = self.text[at:] + text
            self.at = 0
        elif self.text:
            text = self.text + text
        self.text = text

    def begin_again(self) -> None:
        self.over = False
        self.before = "\n"

    def passed(self, text: str) -> None:
        if text.isspace():
            begins = _begins_line(text, len(text))
            if begins is not None:
                self.before = "\n" if begins else "x"
        elif text:
            self.before = text

    def begins_line(self, at: int) -> bool:
        begins = _begins_line(self.text, at)
        return bool(_begins_line(self.before, len(self.before)) if begins is None else begins)

    def hold(self) -> None:
        """Keeps the text read from here on, since it may turn out to be plain text."""
        self._held, self._from = [], self.at

    def let_go(self) -> None:
        self._held, self._from = [], -1

    def take_back(self) -> str:
        """Returns the held text, since it is plain text after all, and holds nothing."""
        if self._from < 0:
            return ""
        held = "".join([*self._held, self.text[self._from : self.at]])
        self.let_go()
        return held

    # -- for parsers --

    def more(self) -> Parsing[None]:
        if self.over:
            raise TextOver
        yield

    def peek(self) -> Parsing[str]:
        while self.at >= len(self.text):
            yield from self.more()
        return self.text[self.at]

    def spaces(self) -> Parsing[str]:
        """Takes white space; returns the character after it."""
        for _ in range(_MAX_SPACE):
            character = yield from self.peek()
            if not character.isspace():
                return character
            self.at += 1
        raise NotACall

    def expect(self, *literals: str) -> Parsing[str]:
        """Takes one of `literals`, none of which begins another; returns the one found."""
        while True:
            for literal in literals:
                if self.text.startswith(literal, self.at):
                    self.at += len(literal)
                    return literal
            rest = self.text[self.at : self.at + max(map(len, literals))]
            if not any(literal.startswith(rest) for literal in literals):
                raise NotACall
            yield from self.more()

    def takes(self, literal: str) -> Parsing[bool]:
        while not self.text.startswith(literal, self.at):
            if not literal.startswith(self.text[self.at : self.at + len(literal)]):
                return False
            yield from self.more()
        self.at += len(literal)
        return True

    def then(self, *literals: str) -> Parsing[str]:
        yield from self.spaces()
        return (yield from self.expect(*literals))

    def section(self, call: str, ends: Iterable[str], read: Callable[[], Parsing[None]]) -> Parsing[None]:
        """Takes calls up to one of the markers `ends`: `read` takes each from behind its marker `call`."""
        while True:
            yield from read()
            if (yield from self.then(call, *ends)) != call:
                return

    def members(
        self, max_key: int, read: Callable[[str, str], Parsing[None]], keys: Container[str] | None = None
    ) -> Parsing[None]:
        """Takes the members of a JSON object, of which there is one at least, and its closing brace. `read` takes a
        member's value, by its key and the value's first character; `keys` are those that such an object has, None
        any."""
        while True:
            yield from self.spaces()
            key = yield from self.string(max_key)
            if keys is not None and key not in keys:
                raise NotACall
            yield from self.then(":")
            first = yield from self.spaces()
            yield from read(key, first)
            if (yield from self.then(",", "}")) == "}":
                return

    def word(self, limit: int) -> Parsing[str]:
        """Takes letters, digits and ``_ . -``, maybe none; raises `NotACall` for more than `limit` characters."""
        pieces: list[str] = []
        left: int | None = limit
        while True:
            match = _match_word(self.text, self.at)
            assert match is not None, "it may be empty"
            left = self._take(match.end(), pieces.append, left)
            if self.at < len(self.text):
                return "".join(pieces)
            yield from self.more()

    def name(self) -> Parsing[str]:
        name = yield from self.word(self.limits.max_name_bytes)
        if not name:
            raise NotACall
        return name

    def until(self, stops: Markers, take: Callable[[str], object], limit: int | None = None) -> Parsing[str]:
        """Takes the text before the first of `stops`; returns the stop. Raises `NotACall` beyond `limit`."""
        while True:
            found = stops.search(self.text, self.at)
            limit = self._take(found.start() if found else stops.held_from(self.text, self.at), take, limit)
            if found and (self.over or not stops.may_grow(self.text, self.at)):
                return found[0]
            yield from self.more()

    def text_until(self, stops: Markers, limit: int) -> Parsing[str]:
        pieces: list[str] = []
        yield from self.until(stops, pieces.append, limit)
        return "".join(pieces)

    def _take(self, end: int, take: Callable[[str], object], limit: int | None) -> int | None:
        size = end - self.at
        piece = self.text[self.at : end if limit is None or size <= limit else self.at + limit]
        self.at += len(piece)
        if piece:
            take(piece)
        if limit is None:
            return None
        if size > limit:
            raise NotACall
        return limit - size

    def string(self, limit: int) -> Parsing[str]:
        """Takes a JSON string that is written with at most `limit` characters; returns the string's value."""
        yield from self.expect('"')
        pieces: list[str] = []
        while True:
            left = limit - sum(map(len, pieces))
            if left < 0:
                raise NotACall
            stop = yield from self.until(_STRING_STOPS, pieces.append, left)
            self.at += 1
            if stop == '"':
                break
            escaped = yield from self.peek()
            self.at += 1
            pieces.append(stop + escaped)
        try:
            value = from_json(f'"{"".join(pieces)}"')
        except ValueError:
            raise NotACall from None
        assert isinstance(value, str), "it stands in quotes"
        return value

    def value(
        self, take: Callable[[str], object], limit: int | None = None, *, stops: Markers | None = None
    ) -> Parsing[None]:
        """Takes one JSON value as it stands, in pieces. Only its end is looked for; whether it is valid is not checked.

        A stop outside of the value's strings ends it, since no JSON contains it there. Inside a string it is content if
        the string goes on as JSON does, to a quote with ``, : ] }`` behind it; else the string was cut, and the stop
        ends the value. So nothing behind a stop in a string is given out before the string has ended. Raises `NotACall`
        if the value is broken, or longer than `limit`; the reader stands before the stop, if there is one.
        """
        first = yield from self.peek()
        if first not in '{["':
            if first in _SCALAR_END:
                raise NotACall
            yield from self.until(_SCALAR_STOPS, take, _MAX_SCALAR)
            return
        extent = Extent(self.limits.max_json_depth)
        while True:
            found = stops.search(self.text, self.at) if stops else None
            region = found.start() if found else len(self.text)
            if stops and not found:
                region = stops.held_from(self.text, self.at)
            end = extent.scan(self.text, self.at, region)
            limit = self._take(end or region, take, limit)
            if extent.broken:
                raise NotACall
            if end:
                return
            if found is None:
                yield from self._more_of_value(take)
            elif not extent.in_string:
                raise NotACall
            else:
                yield from self._rest_of_string(extent, take)
                if extent.is_over:
                    return

    def _more_of_value(self, take: Callable[[str], object]) -> Parsing[None]:
        """Waits for more text; if none comes, the beginning of a marker that was held belongs to the value."""
        try:
            yield from self.more()
        except TextOver:
            self._take(len(self.text), take, None)
            raise

    def _rest_of_string(self, extent: Extent, take: Callable[[str], object]) -> Parsing[None]:
        """Takes the rest of a string from a marker on, if the marker is content."""
        pieces: list[str] = []
        left: int | None = self.limits.max_argument_bytes
        if self._from >= 0:
            self._held.append(self.text[self._from : self.at])
            self._from = self.at
        held = len(self._held)
        try:
            end = 0
            while not end:
                if self.at == len(self.text):
                    yield from self.more()
                end = extent.scan_string(self.text, self.at, len(self.text))
                left = self._take(end or len(self.text), pieces.append, left)
            while (follows := (yield from self.peek())).isspace():
                left = self._take(self.at + 1, pieces.append, left)
            if follows not in ",:]}":
                raise NotACall
        except (NotACall, TextOver):
            self._put_back(pieces, held)
            raise NotACall from None
        take("".join(pieces))

    def _put_back(self, pieces: list[str], held: int) -> None:
        """Puts text back that was taken behind the `held` pieces. A marker stands at its beginning, so no line does."""
        self.text = "".join(pieces) + self.text[self.at :]
        self.at = 0
        self.before = "x"
        if self._from >= 0:
            del self._held[held:]
            self._from = 0


def _begins_line(text: str, at: int) -> bool | None:
    """Returns whether only blanks stand between `at` and the line's beginning; None if `text` has no other."""
    while at > 0 and text[at - 1] in " \t\r":
        at -= 1
    return text[at - 1] == "\n" if at else None


# -- the end of a JSON value --


_search_mark = re.compile(r'["\\{}\[\]]').search
_search_string_end = re.compile(r'["\\]').search


class Extent:
    """Finds the end of a JSON value by its brackets and quotes; at most `max_depth` containers may be open."""

    __slots__ = ("_escaped", "_expected", "_max_depth", "broken", "in_string")

    def __init__(self, max_depth: int) -> None:
        self._expected: list[str] = []  # the closing bracket of each container that is open
        self._max_depth = max_depth
        self._escaped = False
        self.in_string = False
        self.broken = False
        """True if a bracket closes one that is not open, or too many are open: no further text can mend that."""

    @property
    def is_over(self) -> bool:
        """True if no container is open, so that the value ends with the string that has just ended."""
        return not self._expected

    def scan(self, text: str, at: int, end: int) -> int:
        """Reads on up to `end`; returns where in `text` the value ends or breaks, or 0 if it goes on."""
        while at < end:
            if self.in_string:
                at = self.scan_string(text, at, end)
                if not at:
                    return 0
            else:
                match = _search_mark(text, at, end)
                if match is None:
                    return 0
                at = match.end()
                self._mark(match[0])
                if self.broken:
                    return at
            if not self._expected and not self.in_string:
                return at
        return 0

    def scan_string(self, text: str, at: int, end: int) -> int:
        while at < end:
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            match = _search_string_end(text, at, end)
            if match is None:
                return 0
            at = match.end()
            if match[0] == '"':
                self.in_string = False
                return at
            self._escaped = True
        return 0

    def _mark(self, character: str) -> None:
        expected = self._expected
        if character == '"':
            self.in_string = True
        elif character in "{[":
            expected.append("}" if character == "{" else "]")
            self.broken = len(expected) > self._max_depth
        else:
            self.broken = character == "\\" or expected.pop() != character
