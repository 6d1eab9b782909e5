"""Reads calls whose arguments are written in a notation: as JSON, as Python, or as literals of the model's own.
The rows of `dialects` have an example of each.

**JSON behind markup**, which has the name; or **call objects**, alone or in a list, which have the name and the
arguments. ``parameters`` or ``args`` may stand for ``arguments``. ``type``, ``id`` and a wrapping ``function`` object
are accepted as in the chat API; an object with any other key is no call. Arguments that come after the name are emitted
as they come; those before the name wait for it.

**Python**: ``[get_weather(city='Paris', days=3), get_time(zone="CET")]``. The list is read by a grammar and never
evaluated: it takes keyword arguments whose values are literals, namely strings, numbers as JSON has them, ``True False
None`` (or ``true false null``), lists, tuples and dicts with string keys. A string may contain line breaks as they are,
which models write though Python does not allow them. A list with anything else in it (a variable, an operator, a
positional argument) is text as a whole. So nothing is emitted before the list has ended, and one list has at most
`max_argument_bytes`.

**Literals** of Gemma 4 and FunctionGemma have bare keys and raw strings. The arguments are composed as JSON and emitted
as they come. A raw string ends at its next quote; one that contains a marker of a call was not closed. Strings in plain
quotes and bare words are strings, too, since the models write them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from .parameters import escaped
from .parts import CallWriter, Form, Parser, form
from .reader import Markers, NotACall, Parsing, Reader

_DEEPSEEK_NAME_END, _DEEPSEEK_CALL_END = "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_KIMI_ARGUMENTS, _KIMI_CALL_END = "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_KIMI_ID_END = Markers([_KIMI_ARGUMENTS])
_KIMI_ID = re.compile(r"(?:functions\.)?([\w.\-]+?)(:\d+)?")

_MAX_LABEL = 16  # characters of a fence's label, such as "json"

FENCE = "```"
_LABELS = frozenset({"", "json", "tool_call", "tool_calls", "tool_code"})
_PYTHON_TAG, _FUNCTION, _FUNCTION_END, _MISTRAL = "<|python_tag|>", "<function=", "</function>", "[TOOL_CALLS]"


def _in_sections(read_one: Parser, sections: Iterable[str], call: str, call_end: str, ends: Iterable[str]) -> Form:
    sections, ends = tuple(sections), tuple(ends)

    def read(reader: Reader, calls: CallWriter) -> Parsing[None]:
        if (yield from reader.expect(*sections, call)) != call:
            yield from reader.then(call)
        yield from reader.section(call, ends, lambda: read_one(reader, calls))

    return Form(read, (*sections, call), (call_end, *ends))


def _deepseek_call(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.spaces()
    name = yield from reader.name()
    yield from reader.then(_DEEPSEEK_NAME_END)
    if (yield from reader.spaces()) not in "{`":  # so that was the type, and the name comes now
        name = yield from reader.name()
    fence = ""
    if (yield from reader.spaces()) == "`":
        fence = yield from reader.expect("```")
        yield from reader.word(_MAX_LABEL)
    yield from _json_arguments(reader, calls, name, close=_DEEPSEEK_CALL_END, fence=fence)


DEEPSEEK = _in_sections(
    _deepseek_call,
    # R1 spells the first marker in several ways.
    ["<｜tool▁calls▁begin｜>", "<｜tool_calls_begin｜>", "<｜tool calls begin｜>", "<｜tool▁calls｜>"],
    "<｜tool▁call▁begin｜>",
    _DEEPSEEK_CALL_END,
    ["<｜tool▁calls▁end｜>"],
)


def _kimi_call(reader: Reader, calls: CallWriter) -> Parsing[None]:
    call_id = (yield from reader.text_until(_KIMI_ID_END, reader.limits.max_name_bytes)).strip()
    yield from reader.expect(_KIMI_ARGUMENTS)
    match = _KIMI_ID.fullmatch(call_id)
    if match is None:
        raise NotACall
    yield from _json_arguments(reader, calls, match[1], call_id if match[2] else None, close=_KIMI_CALL_END)


KIMI = _in_sections(
    _kimi_call,
    ["<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"],
    "<|tool_call_begin|>",
    _KIMI_CALL_END,
    ["<|tool_calls_section_end|>", "<|tool_call_section_end|>"],
)


@form(_MISTRAL)
def mistral(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads Mistral's calls: a name and arguments, which end with the response, or a list of call objects."""
    yield from reader.expect(_MISTRAL)
    if (yield from reader.spaces()) in "[{":
        yield from call_objects(reader, calls, close=None)
        return
    name, call_id = (yield from reader.name()), None
    if (yield from reader.spaces()) == "[" and (yield from reader.expect("[CALL_ID]", "[ARGS]")) == "[CALL_ID]":
        yield from reader.spaces()
        call_id = yield from reader.word(reader.limits.max_id_bytes)
        yield from reader.then("[ARGS]")
    yield from _json_arguments(reader, calls, name, call_id, close=None)


@form(_FUNCTION, closers=[_FUNCTION_END])
def function_tag(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.expect(_FUNCTION)
    name = yield from reader.name()
    yield from reader.expect(">")
    yield from _json_arguments(reader, calls, name, close=_FUNCTION_END)


def _json_arguments(
    reader: Reader, calls: CallWriter, name: str, call_id: str | None = None, *, close: str | None, fence: str = ""
) -> Parsing[None]:
    if (yield from reader.spaces()) != "{":
        raise NotACall
    calls.begin(name, call_id, close=close)
    yield from reader.value(calls.add, stops=calls.stops)
    reader.hold()
    if fence:
        yield from reader.then(fence)
    yield from _ended(reader, calls, close)


def _ended(reader: Reader, calls: CallWriter, close: str | None) -> Parsing[None]:
    if close is None:
        calls.leave()
    else:
        yield from reader.then(close)
        calls.end()


@form(FENCE, closers=[FENCE])
def fenced(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.expect(FENCE)
    if (yield from reader.word(max(map(len, _LABELS)))) not in _LABELS:
        raise NotACall
    yield from call_objects(reader, calls, close=FENCE, known_only=True)


@form(_PYTHON_TAG)
def python_tag(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads Llama 3's calls behind its tag: objects, or a call of a built-in tool."""
    yield from reader.expect(_PYTHON_TAG)
    if (yield from reader.spaces()) == "{":
        yield from several_objects(reader, calls, known_only=False)
    else:
        yield from _dotted_call(reader, calls)


def several_objects(reader: Reader, calls: CallWriter, *, known_only: bool) -> Parsing[None]:
    """Reads objects with semicolons between them; anything behind the last is text."""
    while True:
        yield from one_call_object(reader, calls, close=None, known_only=known_only)
        calls.leave()
        yield from reader.then(";")
        yield from reader.spaces()


# -- call objects --


_NAMES = frozenset({"name", "function", "tool_name"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args"})
_KEYS = _NAMES | _ARGUMENTS | {"id", "type", "tool_call_id"}
_MAX_CALL_KEY = 32  # characters of a key; the longest key has twelve


def call_objects(reader: Reader, calls: CallWriter, *, close: str | None, known_only: bool = False) -> Parsing[None]:
    """Reads an object or a list of them, and the marker `close`; `known_only`: of registered tools alone."""
    read = partial(one_call_object, reader, calls, close=close, known_only=known_only)
    if (yield from reader.spaces()) == "[":
        reader.at += 1
        yield from _listed(reader, calls, close, read)
    else:
        yield from read()
        yield from _ended(reader, calls, close)


def _listed(reader: Reader, calls: CallWriter, close: str | None, read: Callable[[], Parsing[None]]) -> Parsing[None]:
    while True:
        yield from reader.spaces()
        yield from read()
        separator = yield from reader.then(",", "]")
        calls.end()
        if separator == "]":
            break
    if close is not None:
        yield from reader.then(close)


def one_call_object(reader: Reader, calls: CallWriter, *, close: str | None, known_only: bool) -> Parsing[None]:
    """Reads one object and announces its call. The caller has to end the call."""
    call = _CallObject(reader, calls, close, known_only)
    yield from call.read()
    call.check()


class NamedArguments:
    """A call in a JSON object: once its name has come, its arguments are emitted as they come; before, they wait."""

    def __init__(self, reader: Reader, calls: CallWriter, close: str | None, stops: Markers | None) -> None:
        self.reader, self.calls = reader, calls
        self.name = ""
        self.call_id: str | None = None
        self.arguments: list[str] | None = None  # their pieces
        self.begun = False  # the call was emitted
        self._close, self._stops = close, stops

    def read_arguments(self) -> Parsing[None]:
        self.arguments = []
        if self.name:
            self.begin()
            yield from self.reader.value(self._argument, stops=self._stops)
            self.reader.hold()
        else:
            limit = self.reader.limits.max_argument_bytes
            yield from self.reader.value(self.arguments.append, limit, stops=self._stops)

    def begin(self) -> None:
        self.calls.begin(self.name, self.call_id, close=self._close)
        self.begun = True
        for text in self.arguments or ():
            self.calls.add(text)

    def _argument(self, piece: str) -> None:
        assert self.arguments is not None, "the member has begun"
        self.arguments.append(piece)
        self.calls.add(piece)


class _CallObject(NamedArguments):
    def __init__(self, reader: Reader, calls: CallWriter, close: str | None, known_only: bool) -> None:
        super().__init__(reader, calls, close, calls.stops)
        self.known_only = known_only

    def read(self, *, nested: bool = False) -> Parsing[None]:
        yield from self.reader.expect("{")
        yield from self.reader.members(_MAX_CALL_KEY, self._nested_member if nested else self._member, _KEYS)

    def check(self) -> None:
        """Announces the call if the whole object did not yet, or finds that it is none."""
        if not self.begun:
            if self.known_only:  # an object without arguments may be anything that has a name
                raise NotACall
            self.begin()

    def _member(self, key: str, first: str) -> Parsing[None]:
        is_object = key == "function" and first == "{"
        yield from self.read(nested=True) if is_object else self._nested_member(key, first)

    def _nested_member(self, key: str, first: str) -> Parsing[None]:
        if key in _NAMES:
            if self.name:
                raise NotACall
            self.name = yield from self.reader.string(self.reader.limits.max_name_bytes)
            if self.known_only and not self.calls.knows(self.name):
                raise NotACall
            if self.arguments is not None:
                self.begin()
        elif key in _ARGUMENTS:
            if self.arguments is not None:
                raise NotACall
            yield from self.read_arguments()
        elif key == "id":
            self.call_id = yield from self.reader.string(self.reader.limits.max_id_bytes)
        else:  # a type, or Cohere's number of the call, which is none that a history could repeat
            yield from self.reader.string(_MAX_CALL_KEY)


def objects(
    markers: Mapping[str, str | None],
    *,
    header: str | None = None,
    keyed: bool = False,
) -> Form:
    """Returns the form of call objects between two markers; without a closing one a call ends with its list, the next
    call or the response. `header` may stand before the opening one, with the tool's name between them: neither says
    anything that the object does not. `keyed`: an object has the tool's name for a key."""
    openers = (*markers, *([header] if header else []))

    def read(reader: Reader, calls: CallWriter) -> Parsing[None]:
        opener = yield from reader.expect(*openers)
        if opener == header:
            reader.hold()
            yield from reader.word(reader.limits.max_name_bytes)
            opener = yield from reader.expect(*markers)
        yield from (_keyed_objects if keyed else call_objects)(reader, calls, close=markers[opener])

    return Form(read, openers, tuple(filter(None, markers.values())))


def _keyed_objects(reader: Reader, calls: CallWriter, *, close: str | None) -> Parsing[None]:
    """Reads a list of objects with names of tools for keys, and the closing marker; see `call_objects`."""

    def member(key: str, first: str) -> Parsing[None]:
        if first != "{":
            raise NotACall
        if calls.is_open:
            calls.end()  # where an object has several keys, the next one ends a call
        calls.begin(key, close=close)
        yield from reader.value(calls.add, stops=calls.stops)
        reader.hold()

    def one() -> Parsing[None]:
        yield from reader.expect("{")
        yield from reader.members(reader.limits.max_name_bytes, member)

    yield from reader.then("[")
    yield from _listed(reader, calls, close, one)


# -- Python --


# Llama 4's, LFM2's
_AROUND_LISTS = {"<|python_start|>": "<|python_end|>", "<|tool_call_start|>": "<|tool_call_end|>"}
_LINES, _LINES_END = "<function_calls>", "</function_calls>"

_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_is_number = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
_NUMBER_END = Markers(" \t\r\n,)]}:")
_MAX_NUMBER = 4400  # characters, also of a bare word: the longest integer that is parsed has 4300 digits
_MAX_DEPTH = 100  # of brackets: two generators read each level, one inside the other, and Python's limit is a thousand
_CLOSING = {"[": "]", "(": ")", "{": "}"}
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


@form("[")
def plain_list(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a list without a marker, which can call only registered tools."""
    heard: _Heard = []
    yield from _List(reader, calls, known_only=True).read(heard)
    _tell(heard, calls)


@form(*_AROUND_LISTS, closers=_AROUND_LISTS.values())
def marked_list(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a list between two markers, of which the second may be missing; or call objects, as JSON."""
    close = _AROUND_LISTS[(yield from reader.expect(*_AROUND_LISTS))]
    if (yield from reader.spaces()) == "{":
        yield from call_objects(reader, calls, close=close)
        return
    yield from reader.expect("[")
    if (yield from reader.spaces()) == "{":
        read = partial(one_call_object, reader, calls, close=close, known_only=False)
        yield from _listed(reader, calls, close, read)
        return
    heard: _Heard = []
    yield from _List(reader, calls, known_only=False).read_items(heard)
    _tell(heard, calls)
    yield from reader.then(close)


@form(_LINES, closers=[_LINES_END])
def lines(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.expect(_LINES)
    heard: _Heard = []
    while (yield from reader.spaces()) != "<":
        heard.append((yield from _List(reader, calls, known_only=False).call()))
    yield from reader.expect(_LINES_END)
    _tell(heard, calls)


def _dotted_call(reader: Reader, calls: CallWriter) -> Parsing[None]:
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
        yield from self._reader.expect("[")
        yield from self._reader.spaces()
        yield from self.read_items(heard)

    def read_items(self, heard: _Heard) -> Parsing[None]:
        while True:
            heard.append((yield from self.call()))
            if not (yield from self._more("]")):
                return

    def call(self) -> Parsing[tuple[str, str]]:
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
        if first in _CLOSING:
            return (yield from self._container(first))
        if first.isalpha():
            word = yield from self._reader.word(len("False"))
            if word not in _WORDS:
                raise NotACall
            return _WORDS[word]
        number = yield from self._reader.text_until(_NUMBER_END, _MAX_NUMBER)
        if not _is_number(number):
            raise NotACall
        self._spend(len(number))
        return number

    def _container(self, opening: str) -> Parsing[str]:
        reader, closing, items = self._reader, _CLOSING[opening], list[str]()
        self._depth_left -= 1
        if self._depth_left < 0:
            raise NotACall
        reader.at += 1
        is_over = (yield from reader.spaces()) == closing
        reader.at += is_over
        is_tuple = opening == "(" and not is_over
        while not is_over:
            key = ""
            if opening == "{":
                if (yield from reader.spaces()) not in _QUOTES:
                    raise NotACall
                key = f"{(yield from self._string())}: "
                yield from reader.then(":")
            items.append(f"{key}{(yield from self._value())}")
            is_tuple = is_tuple and (len(items) > 1 or (yield from reader.spaces()) != closing)
            is_over = not (yield from self._more(closing))
        self._depth_left += 1
        inner = ", ".join(items)
        if opening == "{":
            return f"{{{inner}}}"
        return f"[{inner}]" if is_tuple or opening == "[" or not items else inner  # parentheses around a value

    def _string(self) -> Parsing[str]:
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
        start = len(pieces)
        stop = yield from self._reader.until(stops, lambda piece: pieces.append(escaped(piece)), self._left)
        self._reader.at += 1
        self._spend(sum(map(len, pieces[start:])) + 1)
        return stop

    def _escape(self) -> Parsing[str]:
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

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise NotACall


# -- literals of the model's own --


_MAX_KEY = 256  # characters of a key
_QUOTED_ESCAPES = {"'": "'", '"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_KEY_STOPS = Markers(":,{}[]<\n")
_WORD_STOPS = Markers(",}]<\n")


class _LiteralCalls:
    """Such calls; `quote` stands before and behind a raw string."""

    def __init__(self, opener: str, closer: str, quote: str) -> None:
        self.form = Form(self._read, (opener,), (closer,))
        self._opener, self._closer, self._quote = opener, closer, quote
        self._string_stops = Markers([quote, opener, closer])
        self._plain_stops = {plain: Markers([plain, "\\", opener, closer]) for plain in "'\""}

    def _read(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        yield from reader.expect(self._opener)
        yield from reader.spaces()
        yield from reader.takes("call")
        if (yield from reader.peek()) == ":":
            reader.at += 1
        name = yield from reader.name()
        if (yield from reader.spaces()) != "{":
            raise NotACall
        calls.begin(name, close=self._closer, verbatim=False)
        yield from self._value(reader, calls, min(reader.limits.max_json_depth, _MAX_DEPTH))
        reader.hold()
        yield from reader.then(self._closer)
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
            key = f'"{escaped((yield from reader.text_until(self._string_stops, _MAX_KEY)))}"'
            yield from reader.expect(self._quote)
        else:
            key = f'"{escaped((yield from reader.text_until(_KEY_STOPS, _MAX_KEY)).strip())}"'
        yield from reader.then(":")
        calls.add(f"{key}: ")
        yield from self._value(reader, calls, depth)

    def _string(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        calls.in_value = True
        calls.add('"')
        yield from reader.until(self._string_stops, lambda piece: calls.add(escaped(piece)))
        yield from reader.expect(self._quote)
        calls.add('"')
        calls.in_value = False

    def _plain(self, reader: Reader, calls: CallWriter, quote: str) -> Parsing[str]:
        """Reads a string in plain quotes, as JSON. A backslash before any but `_ESCAPES` is part of it."""
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
            reader.at += follows in _QUOTED_ESCAPES
            pieces.append(_QUOTED_ESCAPES.get(follows, "\\"))


def _word(reader: Reader) -> Parsing[str]:
    word = (yield from reader.text_until(_WORD_STOPS, _MAX_NUMBER)).strip()
    if not word:
        raise NotACall
    return word if _is_number(word) else _WORDS.get(word) or f'"{escaped(word)}"'


GEMMA = _LiteralCalls("<|tool_call>", "<tool_call|>", '<|"|>').form
FUNCTION_GEMMA = _LiteralCalls("<start_function_call>", "<end_function_call>", "<escape>").form
