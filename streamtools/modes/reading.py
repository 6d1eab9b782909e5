"""Reads payloads out of the text of a model without tool calling: as calls, text and reasoning, while they stream.

    {"tool": "get_weather", "arguments": {"city": "Paris"}, "scratchpad": "Look it up."}
    {"answer": "Sunny.", "scratchpad": "That was easy."}
    {"scratchpad": "Where to begin?"}

`PayloadStage` makes events of a payload, wherever it stands in the text. A call in it is treated like a native one:
accumulated, validated, dispatched, observed. Without a stream, `check` decides whether a payload's call may run, and
words the problems for the model; a `RetryBudget` bounds how often it may try again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from ..errors import InvalidArguments, UnknownTool
from ..events import ReasoningDelta, ReasoningEnd, ReasoningStart, StreamEnd, StreamWarning, TextStart, ToolCallFragment
from ..limits import Limits
from ..stages import DEFAULT, StageList
from ..stages.arguments import Validate, arguments_of
from ..stages.preview import PartialJSON
from ..stages.text import TextRecipe
from ..stages.text.parts import TextStage
from ..stages.text.reader import Markers, NotACall, Parsing, Reader, TextOver
from ..text import SurrogateJoiner
from ..tools import AnyTool, Binder, Exported, Tool, Toolset
from ..tools.callables import reserved_names

WRAPPER = "response"
"""The key of an object that contains nothing but the payload: a strict schema must not be a union at its root."""

_OPENERS = Markers(["{", "```"])
_FENCE = Markers(["```"])
_FIRST_CHARACTERS = frozenset("{`")
_LABELS = frozenset({"", "json", "tool_call", "tool_code"})
_MAX_LABEL = 16  # characters of a fence's label
# Characters of a key; ours have ten, but an object that is not a payload has to be read to its end, too.
_MAX_KEY = 4096
# Characters of white space around a payload that are dropped: JSON mode may run into an endless sequence of them.
_MAX_BLANK = 4096
_STRING_STOPS = Markers('"\\')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_VALUE_BEGINS = frozenset('"{[-0123456789tf')  # the first characters of any JSON value but null


# -- the grammar of payloads -------------------------------------------------------------------------------------------

# A payload may stand anywhere in the text, in a code fence, and inside `{"response": ...}`. Its keys are in any order;
# one with the value `null` counts as absent.


class Sink(Protocol):
    """Receives the parts of a text as they are read."""

    def text(self, text: str) -> None:
        """Receives text outside the payload."""
        ...

    def call(self, name: str) -> None:
        """Receives the name of the tool that the payload calls."""
        ...

    def arguments(self, text: str) -> None:
        """Receives more of the call's arguments, as JSON."""
        ...

    def call_over(self, *, whole: bool) -> None:
        """Ends the payload with the call; if not `whole`, it will never end, and the call must not run."""
        ...

    def begin(self, key: str, *, is_string: bool) -> None:
        """Begins an answer or a scratchpad. Other JSON than a string is passed on as it is written."""
        ...

    def add(self, text: str) -> None:
        """Receives more of the answer or scratchpad."""
        ...

    def end(self) -> None:
        """Ends the answer or scratchpad."""
        ...


class PayloadReader:
    """Finds the payload in a text; `sink` receives the parts of the text. Theory of operation. In the text an opener is
    looked for; from there a generator reads (`Reader`), and holds all text that it reads, since it may be prose. The
    payload is *found* once a part of it was emitted: its call, its answer or its scratchpad. Nothing can be taken back
    from then on."""

    def __init__(self, limits: Limits, sink: Sink) -> None:
        self.found = False
        """True once a part of the payload was emitted."""
        self.whole = False
        """True once the payload has ended."""
        self._limits = limits
        self._sink = sink
        self._reader = Reader(limits, lines=False)
        self._parsing: Parsing[None] | None = None
        self._at_edge = True  # True if there was only white space so far, or since the payload
        self._blank = ""

    def is_plain(self, text: str) -> bool:
        """Returns whether this text need not be fed, since it is plain text and nothing is held."""
        # Prose without a brace or backtick is most of a text, and passes by at the price of this look.
        if self._at_edge or self._parsing is not None or self._reader.text:
            return False
        return self.found or _FIRST_CHARACTERS.isdisjoint(text)

    def feed(self, text: str) -> None:
        """Reads more text."""
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
        """Reads all text that has been fed."""
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
                # A text that ends inside an object: what is held is text if nothing of it was a payload, and the
                # punctuation of a cut payload otherwise.
                rest = self._reader.take_back()
                if self.found:
                    self._reader.at, rest = len(self._reader.text), ""
                self._give_up(rest)

    def _seek(self) -> bool:
        """Looks for an opener of the payload; emits the text before it."""
        reader = self._reader
        text, start = reader.text, reader.at
        # A text has one payload, and its rest is not searched again: a model that goes on by itself invents the result
        # of the tool, and the next call from that.
        opener = None if self.found else _OPENERS.search(text, start)
        if opener is not None:
            self.emit_text(text[start : opener.start()])
            reader.at = opener.start()
            reader.hold()
            self._parsing = self._object() if opener[0] == "{" else self._fence()
            return True
        reader.at = len(text) if self.found or reader.over else _OPENERS.held_from(text, start)
        self.emit_text(text[start : reader.at])
        reader.feed("")
        return False

    def _give_up(self, rest: str) -> None:
        """Stops reading an object that is broken, or not a payload."""
        self._parsing = None
        if self.found and not self.whole:
            self._sink.call_over(whole=False)
        self.emit_text(rest)

    def emit_text(self, text: str) -> None:
        """Emits text outside the payload, without white space at its edges."""
        if not text:
            return
        # White space is held until something follows it: at the edges of a payload, and of the text, it is dropped.
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
        # Code in some language is text to the end of its fence: an object in it is an example, not a payload.
        if (yield from reader.word(_MAX_LABEL)) not in _LABELS:
            self.emit_text(reader.take_back())
            yield from reader.until(_FENCE, self.emit_text)
            reader.hold()
            yield from reader.expect("```")
            self.emit_text(reader.take_back())
            return
        if (yield from reader.spaces()) != "{":
            raise NotACall
        yield from self._object()
        if self.found:
            yield from reader.then("```")

    def _object(self) -> Parsing[None]:
        yield from _Object(self, self._reader, self._limits, self._sink).read()


class _Object:
    """Reads one object, which may turn out to be a payload or not."""

    def __init__(self, owner: PayloadReader, reader: Reader, limits: Limits, sink: Sink) -> None:
        self.owner = owner
        self.reader = reader
        self.limits = limits
        self.sink = sink
        self.known = False  # a key of ours was seen
        self.foreign = False  # the object is not a payload
        self.tool = ""
        self.arguments: list[str] | None = None  # those that stood before the tool, or [] once they were emitted
        self.begun = False  # the call was emitted
        self.emitted: set[str] = set()
        self.members: dict[str, Callable[[str, str], Parsing[None]]] = {
            "tool": self._tool,
            "arguments": self._arguments,
            "answer": self._words,
            "scratchpad": self._words,
        }

    def read(self) -> Parsing[None]:
        """Reads the object, and emits it as a payload or as text."""
        yield from self._read(nested=False)
        if not self.foreign and self.tool and not self.begun:  # without arguments
            self._begin()
        if self.begun or self.emitted:
            self.owner.whole = True
            self.sink.call_over(whole=True)
            self.reader.hold()  # any text after the payload is plain text
        else:
            self.owner.emit_text(self.reader.take_back())

    def _read(self, *, nested: bool) -> Parsing[None]:
        reader = self.reader
        yield from reader.expect("{")
        if (yield from reader.spaces()) == "}":
            reader.at += 1
            return
        yield from reader.members(_MAX_KEY, self._member if nested else self._outer_member)

    def _outer_member(self, key: str, first: str) -> Parsing[None]:
        # Both forms are read, whichever was asked for.
        is_wrapper = key == WRAPPER and first == "{" and not (self.known or self.foreign)
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
            self.owner.emit_text(reader.take_back())
            yield from reader.value(self.owner.emit_text)
            reader.hold()
        elif self.owner.found:
            reader.let_go()
            yield from reader.value(_drop)
            reader.hold()
        else:
            yield from reader.value(_drop, self.limits.max_argument_bytes)  # held by the reader

    def _refuse(self) -> Parsing[None]:
        """Skips a value that a payload cannot have at this key: a second tool, or a number as its name."""
        if self.owner.found:  # a part of the call has been emitted: it is cut
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
        if not self.tool:  # a call has a name from its first event on, so arguments before the name are kept
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
        """Reads an answer or a scratchpad, which is emitted piece by piece."""
        if key in self.emitted:
            raise NotACall
        self.emitted.add(key)
        self.owner.commit()
        is_string = first == '"'
        self.sink.begin(key, is_string=is_string)
        try:
            yield from (_string(self.reader, self.sink.add) if is_string else self._other_words())
        finally:
            self.sink.end()
        self.reader.hold()

    def _other_words(self) -> Parsing[None]:
        """Reads a value other than a string: it is emitted as it is written, and has to be JSON."""
        # Its pieces have been emitted before its end is seen: if that is not JSON, the payload is a broken one.
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
    """Reads a JSON string, and passes it on in pieces of its decoded text."""
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
    """Reads the rest of an escape, after its backslash; returns the character."""
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


# -- whether a payload's call may run ----------------------------------------------------------------------------------


_REQUIRED = "is required but missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallValidation:
    """Says whether a call's arguments fit its tool."""

    is_valid: bool
    error_message: str | None = None
    """The problems, for the model to read, without argument values; None if there are none."""
    arguments: dict[str, Any] | None = field(default=None, repr=False)
    """The arguments in the function's types and with its defaults; None unless they are valid."""
    validated: bool = True
    """True if a schema was checked; where the mode checks none, `is_valid` says only that there are arguments."""


def check(
    payload: Mapping[str, Any] | None,
    tools_by_name: Mapping[str, AnyTool],
    shown_as: Callable[[str, Tool], Exported] | None = None,
) -> ToolCallValidation:
    """Validates a payload's call by the tool itself.

    Args:
        payload: the result of `extract_tool_call`.
        tools_by_name: the tools that may be called.
        shown_as: returns a tool as it was shown to the model, if that differs from the tool.
    """
    found = _call_of(payload, tools_by_name)
    if isinstance(found, ToolCallValidation):
        return found
    name, given, arguments = found
    # Decoded and validated as in a pipeline, where the toolset holds the exported form in the tool's place.
    tools = Toolset([given])
    (tool,) = tools.values()
    assert tool is not None, "it is a tool, not a bare name"
    if shown_as is not None:
        tools = Toolset([shown_as(name, tool)])
    try:
        bound = tool.validate(tools.decode(next(iter(tools)), arguments))
    except InvalidArguments as error:
        return _refused(error)
    return ToolCallValidation(is_valid=True, arguments=bound.by_name, validated=bound.validated)


def pass_unchecked(payload: Mapping[str, Any] | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
    """Lets a payload's call pass if there is such a tool and if its arguments are an object."""
    found = _call_of(payload, tools_by_name)
    if isinstance(found, ToolCallValidation):
        return replace(found, validated=False)
    return ToolCallValidation(is_valid=True, arguments=found[2], validated=False)


def _call_of(
    payload: Mapping[str, Any] | None, tools_by_name: Mapping[str, AnyTool]
) -> tuple[str, AnyTool, dict[str, Any]] | ToolCallValidation:
    """Returns name, tool and arguments of the call, or the reason why there is none."""
    name = payload.get("tool") if payload else None
    if payload is None or not isinstance(name, str):
        return _invalid("the response has no tool call")
    if name not in tools_by_name:
        return _invalid(str(UnknownTool(name, available=sorted(tools_by_name))))
    arguments = payload.get("arguments", {})
    if isinstance(arguments, str):
        found = arguments_of(arguments)
        arguments = None if isinstance(found, str) else found[0]
    if not isinstance(arguments, Mapping):
        return _invalid("ArgValidationError: arguments\n  Input should be a valid JSON object")
    return name, tools_by_name[name], dict(arguments)


def _invalid(message: str) -> ToolCallValidation:
    return ToolCallValidation(is_valid=False, error_message=message)


def _refused(error: InvalidArguments) -> ToolCallValidation:
    """Returns an error in the form that models know from pydantic: the place, and below it the rule."""
    # Of problems, never of values: those would come back in the next request, and stand in its logs.
    problems = error.problems or (f"arguments: {error}",)
    return _invalid("ArgValidationError: " + "\n".join(map(_in_two_lines, problems)))


def _in_two_lines(problem: str) -> str:
    where, colon, rule = problem.partition(": ")
    if not colon:
        return problem
    if rule == _REQUIRED:
        rule = "Field required"
    elif rule.startswith("should "):
        rule = f"Input {rule}"
    return f"{where}\n  {rule[:1].upper()}{rule[1:]}"


# -- tools that accept any arguments, and the bound on retries ---------------------------------------------------------


def unchecked(tool: Tool) -> Tool:
    """Returns the same tool, which accepts any arguments; the record of its calls says ``validated=False``."""
    return replace(tool, boundary="advisory", _binder=_Unchecked(tool))


class _Unchecked:
    """Binds arguments unchecked, but for parameters that only the program may set."""

    validator_name: str | None = None

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._binder: Binder = tool._binder
        self.schema: dict[str, Any] = self._binder.schema
        self.injected = self._binder.injected
        self._reserved = reserved_names(tool.fn)

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        names = self.schema.get("properties", {})
        if self.schema.get("additionalProperties") is False and not names.keys() >= arguments.keys():
            raise self._refused("have a name that is not an argument of this tool")
        return dict(arguments), ()

    def arrange(self, values: dict[str, Any], injected: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            args, kwargs = self._binder.arrange(values, injected)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._refused("do not have what the function's parameters need") from None
        # A tool's `**kwargs` are one argument, an object, whose keys the model chooses: with validation they are
        # checked one by one, and without it a key could be that of a parameter for the context.
        if any(name in self._reserved and name not in values and name not in injected for name in kwargs):
            raise self._refused("set, by way of **kwargs, a parameter that only the program sets")
        return args, kwargs

    def drift(self) -> list[str]:
        return self._binder.drift()

    def _refused(self, rule: str) -> InvalidArguments:
        line = f"the arguments: {rule}"
        return InvalidArguments(f"invalid arguments for {self._tool.name}: {line}", problems=[line])


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAgain:
    """Decides to ask again: append `message` to the history."""

    message: dict[str, str]
    """The user's message that says what was wrong."""
    attempt: int
    """Number of this retry, from 1."""
    left: int
    """Number of retries that are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriesSpent:
    """Decides not to ask again: the model had all its retries."""

    attempts: int
    """Number of retries that were made."""
    error_message: str
    """The last problem."""


RetryOutcome: TypeAlias = AskAgain | RetriesSpent


class RetryBudget:
    """Counts how often a model may still correct one call.

    >>> budget = RetryBudget(1)
    >>> budget.failed("no such tool")
    AskAgain(message={'role': 'user', 'content': 'Error: no such tool. Try again.'}, attempt=1, left=0)
    >>> budget.failed("no such tool")
    RetriesSpent(attempts=1, error_message='no such tool')

    Args:
        limit: retries in a row; a call that is valid gives them back (`succeeded`).

    Raises:
        ValueError: `limit` is negative.
    """

    def __init__(self, limit: int = 2) -> None:
        if limit < 0:
            raise ValueError(f"RetryBudget: expected a limit of 0 or more, got {limit}")
        self.limit = limit
        self.used = 0
        """Retries since the last success."""

    def failed(self, error_message: str | None) -> RetryOutcome:
        """Counts a response that was not usable; returns whether to ask again.

        Args:
            error_message: the problem (`ToolCallValidation.error_message`); None where the response had no payload.
        """
        text = error_message or "the response has no JSON object of the form that was asked for"
        if self.used >= self.limit:
            return RetriesSpent(attempts=self.used, error_message=text)
        self.used += 1
        message = {"role": "user", "content": f"Error: {text}. Try again."}
        return AskAgain(message=message, attempt=self.used, left=self.limit - self.used)

    def succeeded(self) -> None:
        """Counts a usable response, and restores the whole budget."""
        self.used = 0


# -- the stage of a stream ---------------------------------------------------------------------------------------------


_LABEL = "payload"  # of the one call; wires use numbers, or names of their own


class PayloadStage(TextStage):
    """Turns the payload in the text into events, as the sink of its reader. Stands before ``accumulate``.

    {"scratchpad": "Look it up.", "tool": "get_weather", "arguments": {"city": "Pa...
     → reasoning, delta by delta   → a call, whose arguments grow
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._reader = PayloadReader(limits, self)
        self._has_text = False
        self._has_call = False
        self._key = ""

    def _is_plain(self, text: str) -> bool:
        return self._reader.is_plain(text)

    def _text(self, text: str) -> None:
        self._has_text = True
        self._reader.feed(text)

    def _text_over(self) -> None:
        self._reader.over()

    def _stream_end(self, end: StreamEnd) -> StreamEnd:
        if self._has_text and not self._reader.whole:
            self._out.append(StreamWarning("no_payload", "the text holds no whole payload"))
        # For the provider it was a text that stopped; a loop asks the finish whether there are calls to answer.
        return replace(end, finish="tool_calls") if end.finish == "stop" and self._has_call else end

    # -- the sink --

    def text(self, text: str) -> None:
        """Emits text."""
        self._emit_text(text)

    def call(self, name: str) -> None:
        """Begins a call."""
        self._has_call = True
        self._tell_between(ToolCallFragment(_LABEL, name=name, start=True))

    def arguments(self, text: str) -> None:
        """Emits more of the call's arguments."""
        self._tell_between(ToolCallFragment(_LABEL, arguments=text))

    def call_over(self, *, whole: bool) -> None:
        """Marks the call as cut if it will never end."""
        # A whole one ends with the response, as a call of chat completions does, so that one that was cut cannot run.
        if self._has_call and not whole:
            self._tell_between(ToolCallFragment(_LABEL, end=True, cut=True))

    def begin(self, key: str, *, is_string: bool) -> None:
        """Begins reasoning, or a part of text, which may stay empty."""
        self._key = key
        if key == "scratchpad":
            self._tell_between(ReasoningStart())
            return
        self._close_part()
        self._out.append(self._start or TextStart())
        self._start, self._open = None, True

    def add(self, text: str) -> None:
        """Emits more of the reasoning or the text."""
        if self._key == "scratchpad":
            self._tell_between(ReasoningDelta(text))
        else:
            self._emit_text(text)

    def end(self) -> None:
        """Ends the reasoning or the part of text."""
        if self._key == "scratchpad":
            self._tell_between(ReasoningEnd())
        else:
            self._close_part()


PAYLOADS = TextRecipe("payloads", lambda tools, limits: PayloadStage(limits), before="accumulate")
"""The recipe of the stage, to be put before ``accumulate``."""


@dataclass(frozen=True, slots=True)
class _ValidateAs:
    """Makes the stage ``validate``, with each tool as an adapter showed it to the model."""

    shown_as: Callable[[str, Tool], Exported]
    name: str = "validate"

    def build(self, tools: Toolset, limits: Limits, id_salt: str) -> Validate:
        """Makes the stage for one stream."""
        shown = Toolset(name if tool is None else self.shown_as(name, tool) for name, tool in tools.items())
        return Validate(shown, limits)


def with_payloads(shown_as: Callable[[str, Tool], Exported] | None = None) -> StageList:
    """Returns the default stages with the one for payloads. `shown_as` returns a tool as it was shown to the model
    under that name, if its arguments have to be decoded."""
    stages = DEFAULT.insert_before("accumulate", PAYLOADS)
    return stages if shown_as is None else stages.without("validate").insert_after("finalize", _ValidateAs(shown_as))
