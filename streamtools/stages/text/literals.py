"""Reads the calls of Gemma 4 and FunctionGemma, whose arguments are literals of their own: bare keys, raw strings.

    Gemma 4         <|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3,l:[true],o:{k:<|"|>v<|"|>}}<tool_call|>
    FunctionGemma   <start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>

The arguments are composed as JSON and emitted as they come. A raw string ends at its next quote; one that contains a
marker of a call was not closed. Strings in plain quotes and bare words are strings, too, since the models write them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .parameters import escaped
from .reader import Markers, NotACall, Parsing, Reader
from .writer import CallWriter

__all__ = ["FUNCTION_GEMMA", "GEMMA", "LiteralCalls"]

_MAX_KEY = 256  # characters of a key
_MAX_WORD = 4400  # characters of a bare value: the longest integer that is parsed has 4300 digits
_MAX_DEPTH = 100  # of brackets: two generators read each level, one inside the other, and Python's limit is a thousand
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_ESCAPES = {"'": "'", '"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_KEY_STOPS = Markers(":,{}[]<\n")
_WORD_STOPS = Markers(",}]<\n")


class LiteralCalls:
    """A dialect of such calls.

    Args:
        opener: the marker that begins a call.
        closer: the marker that ends a call.
        quote: the marker before and behind a raw string.
    """

    def __init__(self, opener: str, closer: str, quote: str) -> None:
        self.opener, self.closer = opener, closer
        self._quote = quote
        self._string_stops = Markers([quote, opener, closer])
        self._plain_stops = {plain: Markers([plain, "\\", opener, closer]) for plain in "'\""}

    def __call__(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads a call."""
        yield from reader.expect(self.opener)
        yield from reader.spaces()
        yield from reader.takes("call")
        if (yield from reader.peek()) == ":":
            reader.at += 1
        name = yield from reader.name()
        if (yield from reader.spaces()) != "{":
            raise NotACall
        calls.begin(name, close=self.closer, verbatim=False)
        yield from self._value(reader, calls, min(reader.limits.max_json_depth, _MAX_DEPTH))
        reader.hold()
        yield from reader.then(self.closer)
        calls.end()

    def _value(self, reader: Reader, calls: CallWriter, depth: int) -> Parsing[None]:
        first = yield from reader.spaces()
        if first in "{[":
            if not depth:
                raise NotACall
            reader.at += 1
            calls.add(first)
            read = self._member if first == "{" else self._value
            yield from self._items(reader, calls, "}" if first == "{" else "]", lambda: read(reader, calls, depth - 1))
        elif first in "'\"":
            reader.at += 1
            calls.add((yield from self._plain(reader, calls, first)))
        elif (yield from reader.takes(self._quote)):
            yield from self._string(reader, calls)
        else:
            calls.add((yield from _word(reader)))

    def _items(
        self, reader: Reader, calls: CallWriter, closing: str, read: Callable[[], Parsing[None]]
    ) -> Parsing[None]:
        """Reads the members or items of a container, and its closing bracket."""
        separator = ""
        while (yield from reader.spaces()) != closing:
            calls.add(separator)
            yield from read()
            separator = ", "
            if (yield from reader.then(",", closing)) == closing:
                calls.add(closing)
                return
        reader.at += 1
        calls.add(closing)

    def _member(self, reader: Reader, calls: CallWriter, depth: int) -> Parsing[None]:
        if (first := (yield from reader.spaces())) in "'\"":
            reader.at += 1
            key = yield from self._plain(reader, calls, first)
        elif (yield from reader.takes(self._quote)):
            key = f'"{escaped((yield from self._raw_key(reader)))}"'
        else:
            pieces: list[str] = []
            yield from reader.until(_KEY_STOPS, pieces.append, _MAX_KEY)
            key = f'"{escaped("".join(pieces).strip())}"'
        yield from reader.then(":")
        calls.add(f"{key}: ")
        yield from self._value(reader, calls, depth)

    def _raw_key(self, reader: Reader) -> Parsing[str]:
        pieces: list[str] = []
        if (yield from reader.until(self._string_stops, pieces.append, _MAX_KEY)) != self._quote:
            raise NotACall
        reader.at += len(self._quote)
        return "".join(pieces)

    def _string(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads a raw string from behind its first quote; emits it as it comes."""
        calls.in_value = True
        calls.add('"')
        if (yield from reader.until(self._string_stops, lambda piece: calls.add(escaped(piece)))) != self._quote:
            raise NotACall
        reader.at += len(self._quote)
        calls.add('"')
        calls.in_value = False

    def _plain(self, reader: Reader, calls: CallWriter, quote: str) -> Parsing[str]:
        """Reads a string in plain quotes from behind the first; returns it as JSON. A backslash before any other
        character than those of `_ESCAPES` is part of the string."""
        calls.in_value = True
        pieces: list[str] = []
        left = reader.limits.max_argument_bytes
        while True:
            start = len(pieces)
            stop = yield from reader.until(self._plain_stops[quote], pieces.append, left)
            left -= sum(map(len, pieces[start:])) + 1
            if stop not in (quote, "\\") or left < 0:
                raise NotACall
            reader.at += 1
            if stop == quote:
                calls.in_value = False
                return f'"{escaped("".join(pieces))}"'
            follows = yield from reader.peek()
            reader.at += follows in _ESCAPES
            pieces.append(_ESCAPES.get(follows, "\\"))


def _word(reader: Reader) -> Parsing[str]:
    """Reads a bare value; returns it as JSON."""
    pieces: list[str] = []
    yield from reader.until(_WORD_STOPS, pieces.append, _MAX_WORD)
    word = "".join(pieces).strip()
    if not word:
        raise NotACall
    return word if _NUMBER(word) else _WORDS.get(word) or f'"{escaped(word)}"'


GEMMA = LiteralCalls("<|tool_call>", "<tool_call|>", '<|"|>')
FUNCTION_GEMMA = LiteralCalls("<start_function_call>", "<end_function_call>", "<escape>")
