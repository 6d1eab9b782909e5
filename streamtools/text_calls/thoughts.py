"""Reads the thoughts of models that mark or channel them, and the call in a last thought that was never closed.

**Channels.** Some models write each message in one: thoughts, text, calls. The markers around text are dropped, and a
thought is reasoning up to the marker that ends it or begins another message. A message begins with a header, which says
its recipient and its channel; a header that never ends is text.

    <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>

The marker that ends a call of gpt-oss also ends the response, where most servers leave it out: such a call ends with
the response. Muse's `` to=user<|message|>`` begins a message also where ``<|start|>`` is missing, and maybe the end of
the message before it; but only if its recipient is a registered tool or one of those that Muse has for thoughts and
text.

**The last thought.** Some models call a tool without closing their thought. While a closing tag may come, all is
reasoning: a draft in a thought must not run. Only when the response has ended well, inside a thought and with neither
text nor a call behind it, are the calls at its very end no drafts. So the last thought is kept until then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from ..events import Event, ReasoningDelta, ReasoningEnd, ReasoningStart, StreamWarning
from ..limits import Limits
from .parts import CallWriter, Form, TextDialect
from .reader import Markers, NotACall, Parsing, Reader, TextOver

THINKING: frozenset[type[Event]] = frozenset({ReasoningStart, ReasoningDelta, ReasoningEnd, StreamWarning})
UNCLOSED = "unclosed_think"  # the code of the warning that a block of reasoning was not closed
E = TypeVar("E", bound=Event)
_CLOSING_TAG = "</think>"


class Thought:
    """The last thought of a response; one that is longer than `max_text_bytes` is not kept."""

    def __init__(self, limits: Limits) -> None:
        self._left = self._limit = limits.max_text_bytes
        self._pieces: list[str] = []
        self._is_open = False
        self._warned = False

    def take(self, event: Event) -> bool:
        if type(event) is ReasoningDelta:
            self._left -= len(event.text)
            if self._left >= 0:
                self._pieces.append(event.text)
        elif type(event) is ReasoningStart:
            self.forget()
        elif type(event) is ReasoningEnd:
            self._is_open = self._left >= 0 and self._was_open(event)
        elif type(event) is StreamWarning:
            self._warned = event.code == UNCLOSED or self._warned
        return bool(self._pieces)

    def note(self, event: E) -> E:
        self.take(event)
        return event

    def forget(self) -> None:
        self._pieces, self._left = [], self._limit
        self._is_open = self._warned = False

    def unclosed_text(self) -> str:
        return "".join(self._pieces) if self._is_open else ""

    def _was_open(self, end: ReasoningEnd) -> bool:
        """Returns whether no closing tag came. Where a field of the wire contained the thought, nobody can say."""
        state = end.provider_state or {}
        inline = state.get("inline")
        return self._warned or "field" in state or (isinstance(inline, str) and _CLOSING_TAG not in inline)


# -- messages in channels --


_MAX_HEADER = 256  # characters of a header; recipient and channel take fewer than a hundred
_MESSAGE = "<|message|>"
_TO = " to="
_find_recipient = re.compile(r"\bto=([\w.\-]+)").search
_find_channel = re.compile(r"<\|channel\|>\s*(\w+)").search
_find_role = re.compile(r"<\|start\|>\s*(\w+)").search
_match_bare = re.compile(r" to=([\w.\-]+)<\|message\|>").match
_match_begun = re.compile(r"(?: (?:to?|to=[\w.\-]*(<[|\w]*)?)?)?").fullmatch


def thought(opener: str, closer: str, *, label: str = "", stops: Iterable[str] = ()) -> Form:
    """Returns the form of thoughts between `opener` and `closer`, or one of `stops`, which begin something else.
    Without `label` behind the opener, up to a line break, it is no thought."""
    ends = Markers([closer, *stops])

    def read(reader: Reader, calls: CallWriter) -> Parsing[None]:
        yield from reader.expect(opener)
        if label:
            yield from reader.expect(f"{label}\n")
        yield from read_thought(reader, calls, ends, closer)

    return Form(read, (opener,), inner=(closer,))


DEFAULT_TAGS = ("think", "thinking", "reasoning", "[THINK]")


def split(tags: Iterable[str | tuple[str, str]], *, opened: bool) -> TextDialect:
    """Returns the dialect of reasoning between tags; with `opened`, the text begins inside a block."""
    # Blocks do not nest, and a tag of another kind inside is reasoning; a closing tag outside is text.
    pairs = dict(map(tag_pair, tags))
    if not pairs:
        raise ValueError("split_think() needs at least one tag")
    every, ends = Markers([*pairs, *pairs.values()]), {tag: Markers([end]) for tag, end in pairs.items()}

    def rest(reader: Reader, calls: CallWriter) -> Parsing[str]:
        tag = yield from reader.until(every, calls.think)
        reader.at += len(tag)
        if tag in ends:  # the model has opened the block again
            tag = yield from reader.until(ends[tag], calls.think)
            reader.at += len(tag)
        return tag

    def first(reader: Reader, calls: CallWriter) -> Parsing[None]:
        yield from _thinking(reader, calls, rest(reader, calls))

    forms = [thought(opener, closer)._replace(inner=()) for opener, closer in pairs.items()]
    return TextDialect("split_think", forms, inside=first if opened else None, example="")


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
        raise ValueError(f"not a tag: {tag!r}; pass a name ('think'), an opening tag ('[THINK]') or a pair of tags")
    return tag


def read_thought(reader: Reader, calls: CallWriter, ends: Markers, closer: str) -> Parsing[None]:
    if (yield from _thinking(reader, calls, reader.until(ends, calls.think))) == closer:
        reader.at += len(closer)


def _thinking(reader: Reader, calls: CallWriter, read: Parsing[str]) -> Parsing[str]:
    reader.let_go()
    try:
        found = yield from read
    except TextOver:
        calls.think(reader.text[reader.at :])
        reader.at = len(reader.text)
        calls.end_thought(closed=False)
        raise
    calls.end_thought()
    return found


class ChannelMessages:
    """A dialect of messages with headers. `thinks` are the channels and recipients of thoughts, `quotes` the recipients
    of text that may quote calls; `bare`: the marker that begins a header may be missing; `calls_json`: a message to a
    tool has its arguments as JSON; else another marker follows, which begins a call.
    """

    def __init__(
        self,
        openers: Iterable[str],
        ends: Iterable[str],
        *,
        thinks: Iterable[str],
        quotes: Iterable[str] = (),
        bare: bool = False,
        calls_json: bool,
    ) -> None:
        self.openers, self.ends = tuple(openers), tuple(ends)
        self._header_stops = Markers([_MESSAGE, *self.ends, "\n"])
        self._stops = Markers([*self.openers, *self.ends, *([_TO] if bare else [])])
        self._thinks, self._quotes = frozenset(thinks), frozenset(quotes)
        self._known = self._thinks | self._quotes
        self._calls_json = calls_json

    def read(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        following = yield from reader.text_until(self._header_stops, _MAX_HEADER)
        yield from reader.expect(_MESSAGE)
        while following:
            following = yield from self._message(reader, calls, following)

    def ended(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads the end of a message, and the next message if its header lacks its first marker."""
        yield from reader.expect(*self.ends)
        reader.hold()
        following = yield from self._bare_header(reader, calls)
        while following:
            following = yield from self._message(reader, calls, following)

    def _message(self, reader: Reader, calls: CallWriter, header: str) -> Parsing[str]:
        recipient, channel, role = (find(header) for find in (_find_recipient, _find_channel, _find_role))
        to = recipient[1] if recipient else None
        address = recipient or channel or role
        if address and address[1] in self._thinks:
            return (yield from _thinking(reader, calls, self._text(reader, calls, calls.think)))
        if to in self._quotes or (to is None and self._quotes):
            reader.let_go()
            return (yield from self._text(reader, calls, calls.say))
        if to is not None and self._calls_json:
            yield from self._call(reader, calls, to)
        return ""

    def _text(self, reader: Reader, calls: CallWriter, take: Callable[[str], None]) -> Parsing[str]:
        while (yield from reader.until(self._stops, take)) == _TO:
            if header := (yield from self._bare_header(reader, calls)):
                return header
            take(_TO)
            reader.at += len(_TO)
        return ""

    def _bare_header(self, reader: Reader, calls: CallWriter) -> Parsing[str]:
        while True:
            rest = reader.text[reader.at : reader.at + _MAX_HEADER]
            if match := _match_bare(rest):
                to = match[1]
                if to not in self._known and not calls.knows(to) and not calls.knows(to.rpartition(".")[2]):
                    return ""
                reader.at += match.end()
                return match[0]
            begun = _match_begun(rest)
            if reader.over or len(rest) == _MAX_HEADER or not (begun and _MESSAGE.startswith(begun[1] or "")):
                return ""
            yield from reader.more()

    def _call(self, reader: Reader, calls: CallWriter, recipient: str) -> Parsing[None]:
        if (yield from reader.spaces()) != "{":
            raise NotACall
        calls.begin(recipient.removeprefix("functions."), close=self.ends[0])
        yield from reader.value(calls.add, stops=calls.stops)
        reader.hold()
        try:
            yield from reader.then(*self.ends)
        except TextOver:
            if not reader.text[reader.at :]:
                calls.leave()
            raise
        calls.end()


HARMONY = ChannelMessages(
    ["<|channel|>", "<|start|>"], ["<|call|>", "<|end|>", "<|return|>"], thinks=["analysis"], calls_json=True
)
MUSE = ChannelMessages(
    ["<|start|>"],
    ["<|eom|>", "<|eot|>"],
    thinks=["self", "developer"],
    quotes=["user", "commentary"],
    bare=True,
    calls_json=False,
)
