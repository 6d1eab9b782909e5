"""Finds calls in a model's text that stand in what a tool has returned: a page may contain the markup of a call, and a
model that translates or sums up the page repeats it, a call that nobody wanted.

Theory of operation. Nothing is indexed and nothing copied: the run keeps the texts of its results, within a bound, and
they are looked at when a call comes. One without the longest words of the call's name and of its arguments cannot
contain the call; so much takes the search of a string. What stands around them is read by the parser of every
dialect, and as JSON objects: a call is quoted if one of them has its name and its arguments, whatever the order of
keys.
"""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from anyio.lowlevel import checkpoint

from ..content import Text
from ..errors import CallQuoted, StreamError
from ..events import Event, Observation, StreamEnd, StreamWarning, TextDelta, TextEnd, TextStart, ToolCallEnd
from ..history.calls import Messages
from ..limits import Limits
from ..parts import ToolCall
from ..seams import Allow, Ask, ReadyCall, Refuse, StepView, Verdict
from ..stages import DEFAULT, StageList, arguments_of
from ..stages.arguments import DECODER
from ..tools import Toolset
from ..wires import Prompt, Returned, Wire
from . import DIALECTS, text_calls
from .responses import read_results

_MOST_KEPT = 8 << 20  # characters of a run's results
_MOST_READ = 512 << 10  # characters that are parsed for one call; in more than that it counts as found
_MOST_AT_ONCE = 8 << 10  # of them that are read before others have their turn
_MOST_NAMES, _MOST_PLACES = 64, 3  # names in one text, and places before each where a call may begin inside a line
_BRACE = 64  # characters that a brace which begins no object counts for, beside those that were read behind it
_BEFORE = 1000  # characters between such a place and the name
_WORD = re.compile(r"[A-Za-z0-9]+")  # stands in every notation as it is, unless somebody hides it in escapes
_JSON_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_MOST_LEVELS = 3  # of JSON in strings of JSON
_ESCAPE = re.compile(r"\\+u00(2[dDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF])")  # of a character of a word or name


class KeptResults:
    """What the tools of a run have returned, as the model reads it."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, str]] = deque()
        self._chars = 0

    def add(self, step: int, text: str) -> None:
        self._kept.append((step, text))
        self._chars += len(text)
        while self._chars > _MOST_KEPT:
            self._chars -= len(self._kept.popleft()[1])

    def before(self, step: int) -> list[str]:
        return [text for made_in, text in self._kept if made_in < step]


@dataclass(eq=False)
class QuotedCalls:
    """The rule against calls that stand in a result: the request's, too, if its fields are known."""

    results: KeptResults
    tools: Toolset
    limits: Limits
    asks: bool  # a quoted call needs an approval; otherwise it is refused

    def __post_init__(self) -> None:
        self.only_refuses = not self.asks
        self._given: tuple[StepView, list[str]] | None = None  # the results in the request of the latest step

    def listeners(self, step: StepView) -> Mapping[type[Event], Callable[[Any], None]]:
        return {Observation: lambda seen: self.results.add(step.number, seen.model_content)}

    def judge(self, call: ReadyCall, step: StepView) -> Verdict | Awaitable[Verdict]:
        if call.waited or call.is_edited:
            return Allow()
        if self._given is None or self._given[0] is not step:
            self._given = step, _results_in(step)
        texts = tuple(dict.fromkeys((*self.results.before(step.number), *self._given[1])))
        return self._judged(call, texts, step) if texts else Allow()

    async def _judged(self, call: ReadyCall, texts: Sequence[str], step: StepView) -> Verdict:
        search = _Search(call.call, self.tools, self.limits)
        try:
            for text in texts:
                for is_found in search.finds(text):
                    if is_found:
                        return self._found(call, step)
                    await checkpoint()
        except _TooMuchError:  # a text that is made so that nobody looks through it
            return self._found(call, step)
        return Allow()

    def _found(self, call: ReadyCall, step: StepView) -> Verdict:
        step.warn(StreamWarning("quoted_call", call.label))
        return Ask() if self.asks else Refuse("quoted_call", CallQuoted(call.name))


def _results_in(step: StepView) -> list[str]:
    wire, request = step.wire, step.request or {}
    messages = next((request[name] for name in ("messages", "input", "contents") if request.get(name)), None)
    if not isinstance(wire, Wire) or not isinstance(messages, Sequence) or isinstance(messages, str):
        return []
    found: list[str] = []
    for entry in Messages(messages, wire).entries:
        if isinstance(entry, Returned):
            found += [result.content for result in entry.results]
        elif isinstance(entry, Prompt) and entry.role == "user":  # a text mode's results, if it is one
            texts = [block.text for block in entry.blocks if isinstance(block, Text)]
            found += [result for text in texts for result in read_results(text)]
            found += [text for text in texts if getattr(text, "is_marked", False)]  # as `provenance.Untrusted`
    return found


class _TooMuchError(Exception):
    """A text that has the call's words needs more work than a call is worth."""


class _Search:
    def __init__(self, call: ToolCall, tools: Toolset, limits: Limits) -> None:
        self._call, self._tools, self._limits = call, tools, limits
        strings = (one for one in _values(call.arguments) if isinstance(one, str))
        words = _WORD.findall(" ".join(strings)) or re.findall(r"\d+", call.arguments_text)
        self._words = call.name, max(words, key=len, default="")
        self._reach = 2000 + 8 * len(call.arguments_text)
        self._most_at_once = max(_MOST_AT_ONCE, 4 * self._reach)
        self._left = _MOST_READ

    def finds(self, text: str) -> Iterator[bool]:
        is_hidden = "\\u00" in text and _ESCAPE.search(text) is not None
        for part in self._windows(text) if is_hidden or self._may_have(text) else ():
            yield False
            if not self._may_have(_ESCAPE.sub(lambda found: chr(int(found[1], 16)), part) if is_hidden else part):
                continue
            for view in _views(part):
                self._left -= len(view)
                if self._left < 0:
                    raise _TooMuchError
                yield from self._reads(view)

    def _may_have(self, text: str) -> bool:
        return all(word in text for word in self._words)

    def _windows(self, text: str) -> Iterator[str]:
        """Yields a text in parts that overlap, so that the call stands whole in one of them."""
        for begin in range(0, max(1, len(text) - 2 * self._reach), self._most_at_once):
            yield text[begin : begin + self._most_at_once + 2 * self._reach]

    def _reads(self, text: str) -> Iterator[bool]:
        for dialect in DIALECTS.values():
            inside = (*dialect.at_line_start, *dialect.at_beginning)
            pieces = {text[at : at + self._reach] for at in self._places(text, inside)} if inside else set[str]()
            if dialect.markers.search(text, 0):
                pieces.add(text)
            yield False
            for piece in pieces:
                yield self._reads_call(dialect.name, piece)
        for value in _objects(text, self._reach):
            yield self._is_object(value)

    def _places(self, text: str, markers: Sequence[str]) -> Iterator[int]:
        for name in islice(re.finditer(re.escape(self._call.name), text), _MOST_NAMES):
            for marker in markers:
                at = name.start()
                for _ in range(_MOST_PLACES):
                    at = text.rfind(marker, max(0, name.start() - _BEFORE), at)
                    if at < 0:
                        break
                    yield at

    def _reads_call(self, dialect: str, text: str) -> bool:
        chain = _stages(dialect).build(self._tools, self._limits)
        events: tuple[Event, ...] = TextStart(), TextDelta(text), TextEnd(), StreamEnd(finish="stop", complete=True)
        found: list[Event] = []
        try:
            chain.feed_all(events, found)
        except StreamError as error:  # more calls than there may be, or longer ones
            raise _TooMuchError from error
        return any(isinstance(event, ToolCallEnd) and self._is_it(event.call) for event in found)

    def _is_it(self, found: ToolCall) -> bool:
        call = self._call
        if found.name != call.name:
            return False
        return found.arguments_text == call.arguments_text or (
            found.arguments is not None and found.arguments == call.arguments
        )

    def _is_object(self, value: dict[str, Any]) -> bool:
        name = self._call.name
        is_named = any(one == name for one in value.values())
        return any(self._are_arguments(one) for one in (value.values() if is_named else (value.get(name),)))

    def _are_arguments(self, value: Any) -> bool:
        if isinstance(value, str) and value:
            read = arguments_of(value)
            value = None if isinstance(read, str) else read[0]
        return value is not None and bool(value == self._call.arguments)


def _views(text: str) -> Iterator[str]:
    """Yields a text as it is, and as a model may write it again: without the escapes of HTML, or of JSON, in which a
    result may hold JSON that has the text in a string."""
    yield text
    if "&" in text:
        yield html.unescape(text)
    for _ in range(_MOST_LEVELS):
        if "\\" not in text:
            break
        text = _JSON_ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        yield text


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2])


@cache
def _stages(dialect: str) -> StageList:
    return DEFAULT.without("validate").insert_before("accumulate", text_calls(dialect))


def _objects(text: str, reach: int) -> Iterator[dict[str, Any]]:
    at, left = text.find("{"), _MOST_READ
    while at >= 0:
        try:
            # A piece at a time: the decoder's error counts the lines before it, and the whole text has many of them.
            value, end = DECODER.raw_decode(text[at : at + reach])
            end += at
        except ValueError as error:
            value, end = None, at + 1
            left -= _BRACE + getattr(error, "pos", reach)
        except RecursionError as error:
            raise _TooMuchError from error
        if left < 0:
            raise _TooMuchError
        yield from (one for one in _values(value) if isinstance(one, dict))
        at = text.find("{", end)


def _values(value: Any) -> Iterator[Any]:
    inner = [value]
    while inner:
        one = inner.pop()
        yield one
        inner += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
