"""Reads payloads by their grammar: splits a text that is cut anywhere into the payload and the text around it.

    {"tool": "get_weather", "arguments": {"city": "Paris"}, "scratchpad": "Look it up."}
    {"answer": "Sunny.", "scratchpad": "That was easy."}
    {"scratchpad": "Where to begin?"}

A payload may stand anywhere in the text, in a code fence, and inside ``{"response": ...}``. Keys come in any order; a
key with the value ``null`` counts as absent. Keys of other names are skipped, unless the first key is one: then the
object is no payload, and nothing inside it is read, since it is data that the model shows.

Theory of operation. Between payloads an opener is looked for; from there a generator reads (`Reader`), and all that it
reads is held, since it may be text. The payload is *found* once a part of it was emitted: its call, its answer or its
scratchpad. Nothing can be taken back from then on. A text has one payload: the rest is text and is not searched again,
because a model that goes on by itself invents the tool's result, and the next call from that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..limits import Limits
from ..stages.preview import PartialJSON
from ..stages.text.reader import Markers, NotACall, Parsing, Reader, TextOver
from ..text import SurrogateJoiner

__all__ = ["WRAPPER", "PayloadReader", "Sink"]

WRAPPER = "response"
"""The key of an object that contains nothing but the payload: a strict schema must not be a union at its root."""

_OPENERS = Markers(["{", "```"])
_FENCE = Markers(["```"])
_FIRST_CHARACTERS = frozenset("{`")
_LABELS = frozenset({"", "json", "tool_call", "tool_code"})
_MAX_LABEL = 16  # characters of a fence's label
_MAX_KEY = 4096  # characters of a key; ours have ten, but an object that is no payload has to be read to its end, too
_MAX_BLANK = 4096  # characters of white space around a payload that are dropped; JSON mode may run into endless ones
_STRING_STOPS = Markers('"\\')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_VALUE_BEGINS = frozenset('"{[-0123456789tf')  # the first characters of any JSON value but null


class Sink(Protocol):
    """Takes the parts of a text as they are read."""

    def text(self, text: str) -> None:
        """Takes text that is no part of the payload."""
        ...

    def call(self, name: str) -> None:
        """Takes the name of the tool that the payload calls."""
        ...

    def arguments(self, text: str) -> None:
        """Takes more of the call's arguments, as JSON."""
        ...

    def call_over(self, *, whole: bool) -> None:
        """Ends the payload with the call; if not `whole`, it will never end, and the call must not run."""
        ...

    def begin(self, key: str, *, is_string: bool) -> None:
        """Begins an answer or a scratchpad. Other JSON than a string comes as it is written."""
        ...

    def add(self, text: str) -> None:
        """Takes more of the answer or scratchpad."""
        ...

    def end(self) -> None:
        """Ends the answer or scratchpad."""
        ...


class PayloadReader:
    """Finds the payload in a text.

    Args:
        limits: bounds on names and arguments.
        sink: takes the parts of the text.
    """

    def __init__(self, limits: Limits, sink: Sink) -> None:
        self.found = False
        """True once a part of the payload was emitted."""
        self.whole = False
        """True once the payload came to its end."""
        self._limits = limits
        self._sink = sink
        self._reader = Reader(limits, lines=False)
        self._parsing: Parsing[None] | None = None
        self._at_edge = True  # True if only white space has come so far, or since the payload
        self._blank = ""

    def is_plain(self, text: str) -> bool:
        """Returns whether this text need not be fed, since it is plain text and nothing is held."""
        if self._at_edge or self._parsing is not None or self._reader.text:
            return False
        return self.found or _FIRST_CHARACTERS.isdisjoint(text)

    def feed(self, text: str) -> None:
        """Takes more text."""
        self._reader.feed(text)
        self._read()

    def over(self) -> None:
        """Ends the text: emits all that is held. Another text may follow."""
        self._reader.over = True
        self._read()
        self._reader.begin_again()
        blank, self._blank = self._blank, ""
        if blank and not self.found:
            self._sink.text(blank)

    def _read(self) -> None:
        """Reads all text that has come."""
        while self._parsing is not None or self._seek():
            assert self._parsing is not None, "one was begun"
            try:
                next(self._parsing)
                return
            except StopIteration:
                self._parsing = None
                self._reader.let_go()
            except NotACall:
                self._give_up(self._reader.take_back())
            except TextOver:
                rest = self._reader.take_back()
                if self.found:  # punctuation of a cut payload
                    self._reader.at, rest = len(self._reader.text), ""
                self._give_up(rest)

    def _seek(self) -> bool:
        """Looks for an opener of the payload; emits the text before it."""
        reader = self._reader
        text, start = reader.text, reader.at
        opener = None if self.found else _OPENERS.search(text, start)
        if opener is not None:
            self.tell(text[start : opener.start()])
            reader.at = opener.start()
            reader.hold()
            self._parsing = self._object() if opener[0] == "{" else self._fence()
            return True
        reader.at = len(text) if self.found or reader.over else _OPENERS.held_from(text, start)
        self.tell(text[start : reader.at])
        reader.feed("")
        return False

    def _give_up(self, rest: str) -> None:
        """Stops reading an object that is no payload, or a broken one."""
        self._parsing = None
        if self.found and not self.whole:
            self._sink.call_over(whole=False)
        self.tell(rest)

    def tell(self, text: str) -> None:
        """Emits text that is no part of the payload, without white space at its edges."""
        if not text:
            return
        if self._at_edge:
            text = self._blank + text
            self._blank = ""
            if text.isspace() and len(text) <= _MAX_BLANK:
                self._blank = text
                return
            self._at_edge = False
        self._sink.text(text)

    def commit(self) -> None:
        """Marks the payload as found, before a part of it is emitted."""
        self._reader.let_go()
        if not self.found:
            self.found = self._at_edge = True
            self._blank = ""

    def _fence(self) -> Parsing[None]:
        reader = self._reader
        yield from reader.expect("```")
        if (yield from reader.word(_MAX_LABEL)) not in _LABELS:  # code in some language, which is text to its end
            self.tell(reader.take_back())
            yield from reader.until(_FENCE, self.tell)
            reader.hold()
            yield from reader.expect("```")
            self.tell(reader.take_back())
            return
        if (yield from reader.spaces()) != "{":
            raise NotACall
        yield from self._object()
        if self.found:
            yield from reader.then("```")

    def _object(self) -> Parsing[None]:
        yield from _Object(self, self._reader, self._limits, self._sink).read()


class _Object:
    """One object while it is read."""

    def __init__(self, owner: PayloadReader, reader: Reader, limits: Limits, sink: Sink) -> None:
        self.owner = owner
        self.reader = reader
        self.limits = limits
        self.sink = sink
        self.known = False  # a key of ours was seen
        self.foreign = False  # the object is no payload
        self.tool = ""
        self.arguments: list[str] | None = None  # those that came before the tool, or [] once they were emitted
        self.begun = False  # the call was emitted
        self.told: set[str] = set()
        self.members: dict[str, Callable[[str, str], Parsing[None]]] = {
            "tool": self._tool,
            "arguments": self._arguments,
            "answer": self._words,
            "scratchpad": self._words,
        }

    def read(self) -> Parsing[None]:
        """Reads the object, and emits it as a payload or as text."""
        yield from self._read(nested=False)
        if not self.foreign and self.tool and not self.begun:
            self._begin()
        if self.begun or self.told:
            self.owner.whole = True
            self.sink.call_over(whole=True)
            self.reader.hold()  # any text after the payload is plain text
        else:
            self.owner.tell(self.reader.take_back())

    def _read(self, *, nested: bool) -> Parsing[None]:
        reader = self.reader
        yield from reader.expect("{")
        if (yield from reader.spaces()) == "}":
            reader.at += 1
            return
        yield from reader.members(_MAX_KEY, self._member if nested else self._outer_member)

    def _outer_member(self, key: str, first: str) -> Parsing[None]:
        is_wrapper = key == WRAPPER and first == "{" and not (self.known or self.foreign)
        yield from self._read(nested=True) if is_wrapper else self._member(key, first)

    def _member(self, key: str, first: str) -> Parsing[None]:
        read = self.members.get(key)
        if read is None or self.foreign:
            self.foreign = self.foreign or not self.known
            yield from self._pass()
            return
        self.known = True
        if first == "n":
            yield from self.reader.expect("null")
        elif first not in _VALUE_BEGINS:
            raise NotACall
        else:
            yield from read(key, first)

    def _pass(self) -> Parsing[None]:
        """Skips a value: it is text if the object is no payload, and otherwise ignored."""
        reader = self.reader
        if self.foreign:
            self.owner.tell(reader.take_back())
            yield from reader.value(self.owner.tell)
            reader.hold()
        elif self.owner.found:
            reader.let_go()
            yield from reader.value(_drop)
            reader.hold()
        else:
            yield from reader.value(_drop, self.limits.max_argument_bytes)  # held by the reader

    def _refuse(self) -> Parsing[None]:
        """Skips a value that no payload has here."""
        if self.owner.found:
            raise NotACall
        self.foreign = True
        yield from self._pass()

    def _tool(self, key: str, first: str) -> Parsing[None]:
        if first != '"' or self.tool:
            yield from self._refuse()
            return
        self.tool = yield from self.reader.string(self.limits.max_name_bytes)
        if self.tool and self.arguments is not None:
            self._begin()
            self.reader.hold()

    def _arguments(self, key: str, first: str) -> Parsing[None]:
        if self.arguments is not None:
            yield from self._refuse()
            return
        self.arguments = []
        if not self.tool:
            yield from self.reader.value(self.arguments.append, self.limits.max_argument_bytes)
            return
        self._begin()
        yield from self.reader.value(self.sink.arguments)
        self.reader.hold()

    def _begin(self) -> None:
        self.owner.commit()
        self.begun = True
        self.sink.call(self.tool)
        for text in self.arguments or ():
            self.sink.arguments(text)

    def _words(self, key: str, first: str) -> Parsing[None]:
        """Reads an answer or a scratchpad, which is emitted as it comes."""
        if key in self.told:
            raise NotACall
        self.told.add(key)
        self.owner.commit()
        is_string = first == '"'
        self.sink.begin(key, is_string=is_string)
        try:
            yield from (_string(self.reader, self.sink.add) if is_string else self._other_words())
        finally:
            self.sink.end()
        self.reader.hold()

    def _other_words(self) -> Parsing[None]:
        """Reads a value that is no string: it is emitted as it is written, and has to be JSON."""
        json = PartialJSON(max_depth=self.limits.max_json_depth)

        def take(piece: str) -> None:
            json.feed(piece)
            self.sink.add(piece)

        yield from self.reader.value(take)
        if json.state() != "complete":
            raise NotACall


def _drop(text: str) -> None:
    """Ignores the text."""


def _string(reader: Reader, take: Callable[[str], object]) -> Parsing[None]:
    """Takes a JSON string, in pieces of its decoded text. A raw line break in it counts as a line break: the text is
    meant for people, and local models write raw ones."""
    yield from reader.expect('"')
    joiner = SurrogateJoiner()

    def tell(piece: str) -> None:
        if text := joiner.feed(piece):
            take(text)

    while True:
        stop = yield from reader.until(_STRING_STOPS, tell)
        reader.hold()  # a bad escape is text
        reader.at += 1
        if stop == '"':
            break
        tell((yield from _escaped(reader)))
        reader.let_go()
    if rest := joiner.finish():
        take(rest)


def _escaped(reader: Reader) -> Parsing[str]:
    """Takes the rest of an escape, after its backslash; returns the character."""
    character = yield from reader.peek()
    reader.at += 1
    if character != "u":
        if character not in _ESCAPES:
            raise NotACall
        return _ESCAPES[character]
    digits = ""
    for _ in range(4):
        digits += yield from reader.peek()
        reader.at += 1
    if not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise NotACall
    return chr(int(digits, 16))
