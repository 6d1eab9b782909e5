"""Reads calls written as Python: ``[get_weather(city='Paris', days=3), get_time(zone="CET")]``.

The list is read by a grammar and never evaluated: it takes keyword arguments whose values are literals, namely strings,
numbers as JSON has them, ``True False None`` (or ``true false null``), lists, tuples and dicts with string keys. A
string may contain line breaks as they are, which models write though Python does not allow them. A list
with anything else in it (a variable, an operator, a positional argument) is text as a whole. So nothing is emitted
before the list has ended, and one list has at most `max_argument_bytes`.
"""

from __future__ import annotations

import re

from .objects import call_objects, listed_objects
from .parameters import escaped
from .reader import Markers, NotACall, Parsing, Reader
from .writer import CallWriter

__all__ = ["LINES_CLOSER", "LINES_OPENER", "PYTHONIC_MARKERS", "dotted_call", "lines", "marked_list", "plain_list"]

PYTHONIC_MARKERS = {"<|python_start|>": "<|python_end|>", "<|tool_call_start|>": "<|tool_call_end|>"}
"""Opening and closing markers that some models put around the list: Llama 4, LFM2."""
LINES_OPENER, LINES_CLOSER = "<function_calls>", "</function_calls>"

_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_END = Markers(" \t\r\n,)]}:")
_MAX_NUMBER = 4400  # characters: the longest integer that is parsed has 4300 digits
_MAX_DEPTH = 100  # of brackets: two generators read each level, one inside the other, and Python's limit is a thousand
_CLOSING = {"[": "]", "(": ")"}
_QUOTES = "'\""
_STOPS = {quote: Markers([quote, "\\"]) for quote in _QUOTES}
# Python's escape → its form in a JSON string.
_ESCAPES = {
    "\n": "", "\\": "\\\\", "'": "'", '"': '\\"', "a": "\\u0007", "b": "\\b", "f": "\\f", "n": "\\n", "r": "\\r",
    "t": "\\t", "v": "\\u000b",
}  # fmt: skip
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_HEX = re.compile(r"[0-9a-fA-F]*")

_Heard = list[tuple[str, str]]  # name and arguments of each call


def plain_list(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a list without a marker, which can call only registered tools."""
    heard: _Heard = []
    yield from _List(reader, calls, known_only=True).read(heard)
    _tell(heard, calls)


def marked_list(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a list between two markers, the second of which may be missing; or call objects, which LFM2 writes there if
    it is asked for JSON."""
    close = PYTHONIC_MARKERS[(yield from reader.expect(*PYTHONIC_MARKERS))]
    if (yield from reader.spaces()) == "{":
        yield from call_objects(reader, calls, close=close, known_only=False)
        return
    yield from reader.expect("[")
    if (yield from reader.spaces()) == "{":
        yield from listed_objects(reader, calls, close=close, known_only=False)
        return
    heard: _Heard = []
    yield from _List(reader, calls, known_only=False).read_items(heard)
    _tell(heard, calls)
    yield from reader.then(close)


def lines(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads OLMo 3's calls, one in a line, between its tags."""
    yield from reader.expect(LINES_OPENER)
    heard: _Heard = []
    while (yield from reader.spaces()) != "<":
        heard.append((yield from _List(reader, calls, known_only=False).call()))
    yield from reader.expect(LINES_CLOSER)
    _tell(heard, calls)


def dotted_call(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads one call without a list, as Llama 3.1 calls its built-in tools: ``brave_search.call(query="...")``."""
    name, arguments = yield from _List(reader, calls, known_only=False).call()
    if not name.endswith(".call"):
        raise NotACall
    calls.begin(name.removesuffix(".call"), close=None)
    calls.add(arguments)
    calls.leave()


def _tell(heard: _Heard, calls: CallWriter) -> None:
    for name, arguments in heard:
        calls.begin(name, close=None)
        calls.add(arguments)
        calls.end()


class _List:
    """The grammar of a list. Each method reads one part, and returns it as JSON text."""

    def __init__(self, reader: Reader, calls: CallWriter, *, known_only: bool) -> None:
        self._reader = reader
        self._calls = calls
        self._known_only = known_only
        self._left = reader.limits.max_argument_bytes
        self._depth_left = min(reader.limits.max_json_depth, _MAX_DEPTH)

    def read(self, heard: _Heard) -> Parsing[None]:
        """Reads the list of calls."""
        yield from self._reader.expect("[")
        yield from self._reader.spaces()
        yield from self.read_items(heard)

    def read_items(self, heard: _Heard) -> Parsing[None]:
        """Reads the list from behind its bracket."""
        while True:
            heard.append((yield from self.call()))
            if not (yield from self._more("]")):
                return

    def call(self) -> Parsing[tuple[str, str]]:
        """Reads one call; returns its name and its arguments."""
        reader = self._reader
        self._spend(1)
        name = yield from reader.name()
        if self._known_only and not self._calls.knows(name):
            raise NotACall
        yield from reader.then("(")
        keys: set[str] = set()
        pieces: list[str] = []
        if (yield from reader.spaces()) == ")":
            reader.at += 1
            return name, "{}"
        while True:
            key = yield from reader.name()
            if key in keys or not key.isidentifier():
                raise NotACall
            keys.add(key)
            yield from reader.then("=")
            pieces.append(f'"{escaped(key)}": {(yield from self._value())}')
            self._spend(len(key))
            if not (yield from self._more(")")):
                return name, "{" + ", ".join(pieces) + "}"

    def _more(self, closing: str) -> Parsing[bool]:
        """Reads a comma or the closing bracket, or both; returns whether another item comes before the bracket."""
        reader = self._reader
        if (yield from reader.then(",", closing)) == closing:
            return False
        if (yield from reader.spaces()) != closing:
            return True
        reader.at += 1
        return False

    def _value(self) -> Parsing[str]:
        self._spend(1)
        first = yield from self._reader.spaces()
        if first in _QUOTES:
            return (yield from self._string())
        if first in "[(":
            return (yield from self._sequence(first))
        if first == "{":
            return (yield from self._dict())
        if first.isalpha():
            word = yield from self._reader.word(len("False"))
            if word not in _WORDS:
                raise NotACall
            return _WORDS[word]
        pieces: list[str] = []
        yield from self._reader.until(_NUMBER_END, pieces.append, _MAX_NUMBER)
        number = "".join(pieces)
        if not _NUMBER.fullmatch(number):
            raise NotACall
        self._spend(len(number))
        return number

    def _sequence(self, opening: str) -> Parsing[str]:
        """Reads a list or a tuple; JSON has only lists."""
        self._enter()
        self._reader.at += 1
        items: list[str] = []
        closing = _CLOSING[opening]
        if (yield from self._reader.spaces()) == closing:
            self._reader.at += 1
        else:
            items.append((yield from self._value()))
            one = (yield from self._reader.spaces()) == closing
            if one and opening == "(":  # not a tuple: parentheses around a value
                self._reader.at += 1
                self._depth_left += 1
                return items[0]
            while (yield from self._more(closing)):
                items.append((yield from self._value()))
        self._depth_left += 1
        return f"[{', '.join(items)}]"

    def _dict(self) -> Parsing[str]:
        self._enter()
        self._reader.at += 1
        items: list[str] = []
        if (yield from self._reader.spaces()) == "}":
            self._reader.at += 1
        else:
            while True:
                if (yield from self._reader.spaces()) not in _QUOTES:
                    raise NotACall
                key = yield from self._string()
                yield from self._reader.then(":")
                items.append(f"{key}: {(yield from self._value())}")
                if not (yield from self._more("}")):
                    break
        self._depth_left += 1
        return "{" + ", ".join(items) + "}"

    def _string(self) -> Parsing[str]:
        """Reads a string in one or three quotes, without a prefix."""
        reader = self._reader
        quote = yield from reader.expect(*_QUOTES)
        quotes = 1
        while quotes < 3 and (yield from reader.peek()) == quote:
            reader.at += 1
            quotes += 1
        if quotes == 2:
            return '""'
        pieces: list[str] = []
        yield from (self._long_string if quotes == 3 else self._short_string)(quote, pieces)
        return f'"{"".join(pieces)}"'

    def _short_string(self, quote: str, pieces: list[str]) -> Parsing[None]:
        while (yield from self._run(_STOPS[quote], pieces)) != quote:
            pieces.append((yield from self._escape()))

    def _long_string(self, quote: str, pieces: list[str]) -> Parsing[None]:
        quotes = 0
        while quotes < 3:
            if (yield from self._reader.peek()) != quote:
                pieces.append(escaped(quote * quotes))
                quotes = 0
                if (yield from self._run(_STOPS[quote], pieces)) != quote:
                    pieces.append((yield from self._escape()))
                    continue
                quotes = 1
            else:
                self._reader.at += 1
                quotes += 1

    def _run(self, stops: Markers, pieces: list[str]) -> Parsing[str]:
        """Reads the inside of a string and the stop after it; returns the stop."""
        start = len(pieces)
        stop = yield from self._reader.until(stops, lambda piece: pieces.append(escaped(piece)), self._left)
        self._reader.at += 1
        self._spend(sum(map(len, pieces[start:])) + 1)
        return stop

    def _escape(self) -> Parsing[str]:
        """Reads the rest of an escape, after its backslash; returns it as JSON."""
        reader = self._reader
        character = yield from reader.peek()
        reader.at += 1
        if character in _HEX_DIGITS:
            return (yield from self._code(_HEX_DIGITS[character]))
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character.isdigit() or character == "N":  # an octal escape, which no model means, or a character's name
            raise NotACall
        return "\\\\" + escaped(character)  # Python keeps the backslash of an unknown escape

    def _code(self, digits: int) -> Parsing[str]:
        text = ""
        while len(text) < digits:
            character = yield from self._reader.peek()
            if not _HEX.fullmatch(character):
                raise NotACall
            text += character
            self._reader.at += 1
        if digits <= 4:
            return f"\\u{text:0>4}"  # half of a pair may follow the other; the arguments' parser joins them
        code = int(text, 16)
        if code > 0x10FFFF:
            raise NotACall
        return escaped(chr(code))

    def _enter(self) -> None:
        self._depth_left -= 1
        if self._depth_left < 0:
            raise NotACall

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise NotACall
