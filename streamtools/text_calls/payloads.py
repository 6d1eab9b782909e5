"""Reads the payloads that a model without tool calling writes when it is asked for them: a call, an answer, a thought.

    {"tool": "get_weather", "arguments": {"city": "Paris"}, "scratchpad": "Look it up."}
    {"answer": "Sunny.", "scratchpad": "That was easy."}

A payload may stand anywhere in the text, in a code fence, and inside ``{"response": ...}``. Its keys are in any order;
one with the value ``null`` counts as absent. A text has one payload: a model that goes on by itself invents the result
of the tool, and the next call from that. White space at the edges of the payload, and of the text, is dropped.

A call in it is treated like a native one. It ends with the response, as a call of chat completions does, so that one
that was cut cannot run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..events import TextDelta, TextEnd, TextStart
from ..ground import SurrogateJoiner
from ..limits import Limits
from ..stages import DEFAULT, StageList, arguments_of
from ..stages.arguments import DECODER, Validate, value_of
from ..tools import Exported, Tool, Toolset
from . import TextRecipe
from .calls import TextCalls
from .notation import NamedArguments
from .parts import CallWriter, Form, TextDialect
from .reader import Markers, NotACall, Parsing, Reader, TextOver

WRAPPER = "response"
"""The key of an object that contains nothing but the payload: a strict schema must not be a union at its root."""

_BRACE, _FENCE = "{", "```"
_FENCE_STOPS = Markers([_FENCE])
_LABELS = frozenset({"", "json", "tool_call", "tool_code"})
_MAX_LABEL = 16  # characters of a fence's label
# Characters of a key; ours have ten, but an object that is not a payload has to be read to its end, too.
_MAX_KEY = 4096
_STRING_STOPS = Markers('"\\')
_VALUE_BEGINS = frozenset('"{[-0123456789tf')  # the first characters of any JSON value but null


def _payload(reader: Reader, calls: CallWriter) -> Parsing[None]:
    try:
        yield from (_object if (yield from reader.peek()) == _BRACE else _fence)(reader, calls)
    except TextOver:
        if calls.only is not None:  # the text was cut inside the payload: what is held is its punctuation
            reader.let_go()
            reader.at = len(reader.text)
        raise


def _fence(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.expect(_FENCE)
    # Code in some language is text to the end of its fence: an object in it is an example, not a payload.
    if (yield from reader.word(_MAX_LABEL)) not in _LABELS:
        calls.say(reader.take_back())
        yield from reader.until(_FENCE_STOPS, calls.say)
        reader.hold()
        yield from reader.expect(_FENCE)
        calls.say(reader.take_back())
        return
    if (yield from reader.spaces()) != _BRACE:
        raise NotACall
    yield from _object(reader, calls)
    if calls.only is not None:
        yield from reader.then(_FENCE)


def _object(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from _Payload(reader, calls).parse()


class _Payload(NamedArguments):
    """One object. Once a part of it was emitted, which nothing takes back, it is the only payload of its text."""

    def __init__(self, reader: Reader, calls: CallWriter) -> None:
        super().__init__(reader, calls, None, None)
        self.is_whole = False
        self.known = False  # a key of ours was seen
        self.foreign = False  # the object is not a payload
        self.words: dict[str, tuple[bool, list[str]]] = {}  # for an answer or scratchpad: is it a string? its pieces
        self.members: dict[str, Callable[[str, str], Parsing[None]]] = {
            "tool": self._tool,
            "arguments": self._arguments,
            "answer": self._words,
            "scratchpad": self._words,
        }

    def value(self) -> dict[str, Any] | None:
        """Returns the payload as a dict; None if it is not whole, or its arguments are no JSON object."""
        if not self.is_whole:
            return None
        made = {key: "".join(given) if text else value_of("".join(given)) for key, (text, given) in self.words.items()}
        if not self.begun:
            return made
        found = arguments_of("".join(self.arguments or ()))
        if isinstance(found, str):
            return None
        made.pop("answer", None)  # with a call beside it, it is text of a turn that goes on
        return {**made, "tool": self.name, "arguments": found[0]}

    def parse(self) -> Parsing[None]:
        yield from self._read(nested=False)
        if not self.foreign and self.name and not self.begun:  # without arguments
            self.begin()
        if self.begun or self.words:
            self.is_whole = True
            self.calls.leave()  # any text after the payload is plain text
        else:
            self.calls.say(self.reader.take_back())

    def _read(self, *, nested: bool) -> Parsing[None]:
        reader = self.reader
        yield from reader.expect(_BRACE)
        if (yield from reader.spaces()) == "}":
            reader.at += 1
            return
        yield from reader.members(_MAX_KEY, self._member if nested else self._outer_member)

    def _outer_member(self, key: str, first: str) -> Parsing[None]:
        # Both forms are read, whichever was asked for.
        is_wrapper = key == WRAPPER and first == _BRACE and not (self.known or self.foreign)
        yield from self._read(nested=True) if is_wrapper else self._member(key, first)

    def _member(self, key: str, first: str) -> Parsing[None]:
        read = self.members.get(key)
        # Unknown keys are skipped, unless the first key is one: then the object is data that the model shows, and
        # nothing inside it is read.
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
        """Skips a value: it is text if the object is not a payload, and otherwise ignored."""
        reader = self.reader
        if self.foreign:
            self.calls.say(reader.take_back())
            yield from reader.value(self.calls.say)
            reader.hold()
        elif self.calls.only is not None:
            reader.let_go()
            yield from reader.value(_drop)
            reader.hold()
        else:
            yield from reader.value(_drop, reader.limits.max_argument_bytes)  # held by the reader

    def _refuse(self) -> Parsing[None]:
        if self.calls.only is not None:  # a part of the call has been emitted: it is cut
            raise NotACall
        self.foreign = True
        yield from self._pass()

    def _tool(self, key: str, first: str) -> Parsing[None]:
        if first != '"' or self.name:
            yield from self._refuse()
            return
        self.name = yield from self.reader.string(self.reader.limits.max_name_bytes)
        if self.name and self.arguments is not None:
            self.begin()
            self.reader.hold()

    def _arguments(self, key: str, first: str) -> Parsing[None]:
        if self.arguments is not None:
            yield from self._refuse()
        else:
            yield from self.read_arguments()

    def begin(self) -> None:
        self.calls.only = self
        super().begin()

    def _words(self, key: str, first: str) -> Parsing[None]:
        if key in self.words:
            raise NotACall
        is_string, pieces = first == '"', list[str]()
        self.words[key] = is_string, pieces
        calls, thinks = self.calls, key == "scratchpad"
        calls.only = self
        self.reader.let_go()
        emit, end = (calls.think, calls.end_thought) if thinks else (calls.say, calls.end_text)

        def take(piece: str) -> None:
            pieces.append(piece)
            emit(piece)

        (calls.begin_thought if thinks else calls.begin_text)()
        try:
            yield from (_string(self.reader, take) if is_string else self.reader.value(take))
        finally:
            end()
        if not is_string and value_of("".join(pieces)) is None:  # emitted as it is written, and has to be JSON
            raise NotACall
        self.reader.hold()


def _drop(text: str) -> None:
    """Ignores the text."""


def _string(reader: Reader, take: Callable[[str], object]) -> Parsing[None]:
    # By hand, not by a JSON parser: a raw line break counts as a line break, since the text is meant for people, and
    # local models write raw ones.
    yield from reader.expect('"')
    joiner = SurrogateJoiner()  # an escaped character beyond U+FFFF is two escapes, which may be in two pieces

    def emit(piece: str) -> None:
        if text := joiner.feed(piece):
            take(text)

    while True:
        stop = yield from reader.until(_STRING_STOPS, emit)
        reader.hold()  # a bad escape is text
        reader.at += 1
        if stop == '"':
            break
        emit((yield from _escaped(reader)))
        reader.let_go()
    if rest := joiner.finish():
        take(rest)


def _escaped(reader: Reader) -> Parsing[str]:
    written = "\\"
    while len(written) < (6 if written[1:2] == "u" else 2):
        written += yield from reader.peek()
        reader.at += 1
    try:
        return str(DECODER.decode(f'"{written}"'))
    except ValueError:
        raise NotACall from None


PAYLOAD = TextDialect(
    "payload",
    [Form(_payload, (_BRACE, _FENCE))],
    alone=True,
    example='{"tool": "f", "arguments": {"a": 1}}',
    tolerates="prose and a code fence around it; a wrapping `response` object; any order of keys",
)

PAYLOADS = TextRecipe("payloads", lambda tools, limits: TextCalls(PAYLOAD, tools, limits), before="accumulate")


def find_payload(text: str) -> dict[str, Any] | None:
    """Returns the payload in a text: alone, in a code fence, or with prose around it; None if it has no whole one."""
    stage = TextCalls(PAYLOAD, Toolset(()), Limits())
    for event in (TextStart(), TextDelta(text), TextEnd()):  # as a stream of one piece
        stage.feed(event)
    return stage.only.value() if isinstance(stage.only, _Payload) else None


@dataclass(frozen=True, slots=True)
class _ValidateAs:
    shown_as: Callable[[str, Tool], Exported]
    name: str = "validate"

    def build(self, tools: Toolset, limits: Limits, id_salt: str) -> Validate:
        shown = Toolset(name if tool is None else self.shown_as(name, tool) for name, tool in tools.items())
        return Validate(shown, limits)


def with_payloads(shown_as: Callable[[str, Tool], Exported] | None = None) -> StageList:
    """Returns the default stages with the one for payloads. `shown_as` returns a tool as it was shown to the model
    under that name, if its arguments have to be decoded."""
    stages = DEFAULT.insert_before("accumulate", PAYLOADS)
    return stages if shown_as is None else stages.without("validate").insert_after("finalize", _ValidateAs(shown_as))
