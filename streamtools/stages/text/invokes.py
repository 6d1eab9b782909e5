"""Reads calls in ``invoke`` and ``parameter`` tags, which have the names as attributes.

    MiniMax M2    <minimax:tool_call><invoke name="get_weather"><parameter name="city">Paris</parameter></invoke>...
    DeepSeek V3.2 <｜DSML｜function_calls><｜DSML｜invoke name="get_weather">
                  <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>...
    DeepSeek V4.1 <｜DSML｜ calls><｜DSML｜ invoke name="get_weather">...
    MiniCPM5      <function name="get_weather"><param name="city">Paris</param></function>
    dots          <dots_function_call><invoke name="get_weather">...
    Muse          <atem:function_calls><atem:invoke name="t.get_weather"><atem:parameter name="city">Paris...
    Step3         <｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f">...

White space between tags is ignored. Nothing is escaped in a value, so the first closing tag ends it; a value that
contains another tag of its own dialect was not closed, and its call is broken. Where the next call or the section's end
comes between two parameters, the call before it was cut. A self-closing ``invoke`` is a call without arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic_core import from_json

from .objects import call_objects
from .parameters import NO_STRING, STRING, Arguments, Types
from .reader import Markers, NotACall, Parsing, Reader, TextOver
from .tagged import parameter_key
from .writer import CallWriter

__all__ = ["DOTS", "DSML", "MINICPM", "MINIMAX", "MUSE", "STEP3", "Invokes"]

_QUOTE = Markers('"')
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_CDATA_STOPS = Markers([_CDATA_END])
_WRAPPED = "arguments"


class Invokes:
    """A dialect of ``invoke`` and ``parameter`` tags, inside a section.

    Args:
        sections: the opening tags of sections, with the closing tag of each.
        prefixes: the beginnings of the name of each other tag.
        invoke: the name of the tag of a call.
        parameter: the name of the tag of a parameter.
        blanks: the characters that may stand between a tag's name and its attribute.
        noise: markers that say nothing, between the other tags.
        objects: a section may contain call objects instead.
        strays: reads the forms that DeepSeek V4 sometimes writes: a parameter that the next one closes, if the tool has
            that one; ``{"arguments": {...}}`` around all arguments.
        cdata: a value may stand in a CDATA section, which may contain tags.
        spaces: a name has the tool's namespace before it, which is no part of a registered tool's name.
    """

    def __init__(
        self,
        sections: dict[str, str],
        *,
        prefixes: Iterable[str] = ("",),
        invoke: str = "invoke",
        parameter: str = "parameter",
        blanks: Iterable[str] = (" ",),
        noise: Iterable[str] = (),
        objects: bool = False,
        strays: bool = False,
        cdata: bool = False,
        spaces: bool = False,
    ) -> None:
        prefixes, blanks = [*prefixes], [*blanks]
        self._sections, self._ends, self._noise = sections, tuple(dict.fromkeys(sections.values())), tuple(noise)
        self._invokes = tuple(f'<{prefix}{invoke}{blank}name="' for prefix in prefixes for blank in blanks)
        self._invoke_ends = tuple(f"</{prefix}{invoke}>" for prefix in prefixes)
        self._parameters = tuple(f'<{prefix}{parameter}{blank}name="' for prefix in prefixes for blank in blanks)
        self._parameter_ends = tuple(f"</{prefix}{parameter}>" for prefix in prefixes)
        self._tags = Markers([*self._invokes, *self._invoke_ends, *self._parameters, *self._parameter_ends])
        self._after_value = (*self._parameters, *self._invoke_ends, *self._invokes, *self._ends)
        self._objects, self._strays, self._cdata, self._spaces = objects, strays, cdata, spaces
        self.openers = (*sections, *self._invokes)
        """The tags that begin a call: a section, or an ``invoke`` without one, which can call only registered tools."""
        self.closers = (*self._invoke_ends, *self._ends)
        """The tags that end a call or a section."""
        self.inner = (*self._parameter_ends, *self._noise)
        """The closing tags inside a call, and the noise."""

    def __call__(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads a section, or a call without one."""
        opener = yield from reader.expect(*self.openers)
        in_section = opener in self._sections
        if in_section:
            if (yield from reader.spaces()) in "[{" and self._objects:
                yield from call_objects(reader, calls, close=self._sections[opener], known_only=False)
                return
            yield from self._then(reader, *self._invokes)
        while True:
            tag = yield from self._invoke(reader, calls, known_only=not in_section)
            if in_section and tag in self._invoke_ends:
                tag = yield from self._then(reader, *self._invokes, *self._ends)
            if tag not in self._invokes:
                return

    def _then(self, reader: Reader, *literals: str) -> Parsing[str]:
        """Takes white space and noise, then one of `literals`; returns the one found."""
        while (found := (yield from reader.then(*literals, *self._noise))) in self._noise:
            yield from reader.takes("function")  # the type, which Step3 writes between two of them
        return found

    def _invoke(self, reader: Reader, calls: CallWriter, *, known_only: bool) -> Parsing[str]:
        """Reads a call from behind the beginning of its tag; returns the tag that ended it, its own or another."""
        name = yield from reader.name()
        if self._spaces and not calls.knows(name) and calls.knows(name.rpartition(".")[2]):
            name = name.rpartition(".")[2]
        yield from reader.expect('"')
        if known_only and not calls.knows(name):
            raise NotACall
        if (yield from reader.then(">", "/>")) == "/>":
            Arguments(reader, calls, name, close=self._invoke_ends[0]).end()
            return self._invoke_ends[0]
        if (yield from reader.spaces()) == "{":
            return (yield from self._json(reader, calls, name))
        tag = yield from reader.expect(*self._parameters, *self._invoke_ends)
        arguments = Arguments(reader, calls, name, close=self._invoke_ends[0])
        while tag in self._parameters:
            key = yield from parameter_key(reader, _QUOTE)
            yield from reader.expect('"')
            tag = yield from self._parameter(reader, arguments, key)
        if tag in self._invoke_ends:
            arguments.end()
        else:
            arguments.cut()
        return tag

    def _parameter(self, reader: Reader, arguments: Arguments, key: str) -> Parsing[str]:
        """Reads a parameter from behind its name; returns the tag after it."""
        following: list[str] = []

        def unclosed(stop: str) -> Parsing[bool]:
            if stop not in self._parameters:
                return False
            reader.at += len(stop)
            following.append((yield from parameter_key(reader, _QUOTE)))
            yield from reader.expect('"')
            return following[0] in arguments.types and following[0] not in arguments.given

        while True:
            types = yield from _types(reader)
            if self._strays and key == _WRAPPED and not arguments.given and key not in arguments.types:
                return (yield from self._wrapped(reader, arguments))
            if self._cdata and (yield from reader.takes(_CDATA)):
                yield from arguments.value(key, (_CDATA_END,), _CDATA_STOPS, types=types)
                yield from reader.then(*self._parameter_ends)
            else:
                reads = unclosed if self._strays else None
                yield from arguments.value(key, self._parameter_ends, self._tags, types=types, unclosed=reads)
            if not following:
                return (yield from self._then(reader, *self._after_value))
            key = following.pop()

    def _wrapped(self, reader: Reader, arguments: Arguments) -> Parsing[str]:
        """Reads a parameter that may be all arguments; returns the tag after it."""
        pieces: list[str] = []
        try:
            yield from arguments.raw(pieces.append, self._parameter_ends, self._tags)
            tag = yield from self._then(reader, *self._after_value)
        except (NotACall, TextOver):
            arguments.give_up(pieces)
            raise
        text = "".join(pieces).strip()
        if tag in self._invoke_ends and isinstance(_parsed(text), dict):
            arguments.whole(text)
        else:
            arguments.put(_WRAPPED, text)
            if tag in self._parameters:
                key = yield from parameter_key(reader, _QUOTE)
                yield from reader.expect('"')
                tag = yield from self._parameter(reader, arguments, key)
        return tag

    def _json(self, reader: Reader, calls: CallWriter, name: str) -> Parsing[str]:
        """Reads the arguments as JSON, which DeepSeek also writes, and the closing tag."""
        calls.begin(name, close=self._invoke_ends[0])
        if not self._strays:
            yield from reader.value(calls.add, stops=calls.stops)
        else:
            yield from self._json_in_one(reader, calls)
        reader.hold()
        tag = yield from self._then(reader, *self._invoke_ends)
        calls.end()
        return tag

    def _json_in_one(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads JSON arguments whole, since others may be wrapped in them."""
        pieces: list[str] = []
        try:
            yield from reader.value(pieces.append, reader.limits.max_argument_bytes, stops=calls.stops)
        finally:
            calls.add(_unwrapped("".join(pieces)))


def _types(reader: Reader) -> Parsing[Types | Literal["schema"]]:
    """Reads the rest of a parameter's tag; returns the types that its ``string`` attribute allows, if it has one."""
    if (yield from reader.spaces()) == ">":
        reader.at += 1
        return "schema"
    is_string = (yield from reader.expect('string="true"', 'string="false"')) == 'string="true"'
    yield from reader.then(">")
    return STRING if is_string else NO_STRING


def _parsed(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None


def _unwrapped(text: str) -> str:
    """Returns arguments without the object that some of DeepSeek's are wrapped in."""
    value = _parsed(text)
    if isinstance(value, dict) and [*value] == [_WRAPPED] and isinstance(value[_WRAPPED], dict):
        return text[text.index("{", 1) : text.rindex("}")].rstrip()
    return text


_BARS = ("｜DSML｜", "|DSML|", "||DSML||", "｜｜DSML｜｜", "‖DSML‖")
_SECTIONS = ("function_calls", "tool_calls", "toolcalls", "tool", "calls")


def _dsml(bars: str) -> Invokes:
    """Returns the dialect with these bars: V4.1 writes a blank behind them."""
    prefixes = (bars, f"{bars} ")
    sections = {f"<{prefix}{name}>": f"</{prefix}{name}>" for prefix in prefixes for name in _SECTIONS}
    return Invokes(sections, prefixes=prefixes, strays=True)


DSML = tuple(map(_dsml, _BARS))
"""DeepSeek V3.2 to V4.1, by the bars around the word; V4 writes odd ones now and then."""
MINIMAX = Invokes({"<minimax:tool_call>": "</minimax:tool_call>"})
MINICPM = Invokes({}, invoke="function", parameter="param", blanks=(" ", "", "Ġ"), cdata=True)
MUSE = Invokes({"<atem:function_calls>": "</atem:function_calls>"}, prefixes=["atem:"], spaces=True)
DOTS = Invokes({"<dots_function_call>": "</dots_function_call>"}, objects=True)
STEP3 = Invokes(
    {"<｜tool_calls_begin｜>": "<｜tool_calls_end｜>"},
    prefixes=["steptml:"],
    noise=["<｜tool_call_begin｜>", "<｜tool_sep｜>", "<｜tool_call_end｜>"],
)
