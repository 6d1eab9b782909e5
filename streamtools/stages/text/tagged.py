"""Reads calls whose parameters stand in pairs of tags, as raw text.

    Qwen3-Coder   <tool_call><function=get_weather><parameter=city>Paris</parameter></function></tool_call>
    GLM 4.5       <tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>
    Hunyuan V3    <tool_calls><tool_call>get_weather<tool_sep><arg_key>city</arg_key><arg_value>Paris</arg_value>...
    K2 Horizon    <ifm|tool_calls><ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_type>string...

White space between tags is ignored. Nothing is escaped in a value, so the first closing tag ends it; a value that
contains another tag of its own dialect was not closed, and its call is broken. Where the next call begins between two
parameters, the call before it was cut.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from .objects import call_objects
from .parameters import NO_STRING, STRING, Arguments, Types
from .reader import Markers, NotACall, Parsing, Reader
from .writer import CallWriter

__all__ = [
    "GLM",
    "HUNYUAN",
    "HUNYUAN_OPENERS",
    "K2_HORIZON",
    "QWEN_OPENERS",
    "PairedTags",
    "hunyuan",
    "parameter_key",
    "qwen_coder",
]

_MAX_KEY = 256  # characters of a parameter's name
_MAX_SUFFIX = 16  # characters of a suffix of tags, which is a few hexadecimal digits

_TOOL_CALL, _TOOL_CALL_END = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END, _PARAMETER, _PARAMETER_END = "<function=", "</function>", "<parameter=", "</parameter>"
_WRAPPERS = {_TOOL_CALL: _TOOL_CALL_END, "<seed:tool_call>": "</seed:tool_call>"}
QWEN_OPENERS = (*_WRAPPERS, _FUNCTION)
"""The markers that begin a call of Qwen3-Coder or Seed-OSS."""
_QWEN_TAGS = Markers([_PARAMETER_END, _PARAMETER, _FUNCTION_END, _FUNCTION, *_WRAPPERS.values()])
_TAG_END = Markers(">")


def qwen_coder(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads Qwen3-Coder's call. The model often omits the outer opening tag; then only a registered tool is called."""
    opener = yield from reader.expect(*QWEN_OPENERS)
    if opener != _FUNCTION:
        yield from reader.then(_FUNCTION)
    close = _WRAPPERS.get(opener, _FUNCTION_END)
    while (yield from _qwen_function(reader, calls, close, known_only=opener == _FUNCTION)):
        pass
    yield from reader.then(_WRAPPERS.get(opener, _TOOL_CALL_END))


def _qwen_function(reader: Reader, calls: CallWriter, close: str, *, known_only: bool) -> Parsing[bool]:
    """Reads a function; returns whether it was cut, and another has begun."""
    name = yield from reader.name()
    yield from reader.expect(">")
    if known_only and not calls.knows(name):
        raise NotACall
    tag = yield from reader.then(_PARAMETER, _FUNCTION_END)
    arguments = Arguments(reader, calls, name, close=close)
    while tag == _PARAMETER:
        key = yield from parameter_key(reader, _TAG_END)
        yield from reader.expect(">")
        yield from arguments.value(key, (_PARAMETER_END,), _QWEN_TAGS, trim=True)
        tag = yield from reader.then(_PARAMETER, _FUNCTION_END, _FUNCTION)
    if tag == _FUNCTION:
        arguments.cut()
        return True
    arguments.end()
    return False


def parameter_key(reader: Reader, stops: Markers) -> Parsing[str]:
    """Reads a parameter's name, up to one of `stops`."""
    pieces: list[str] = []
    yield from reader.until(stops, pieces.append, _MAX_KEY)
    return "".join(pieces).strip()


class PairedTags:
    """A dialect that writes a call as its name and pairs of tags, one for a parameter's name, one for its value.

    Args:
        prefix: the beginning of the name of each tag.
        suffix: the end of the name of each tag.
        section: the name of the tag around all calls; None if there is none.
        separator: the name of the tag behind the call's name; None if there is none.
        typed: a tag between name and value contains the value's type; the call may be a JSON object instead.
    """

    def __init__(
        self,
        prefix: str = "",
        suffix: str = "",
        *,
        section: str | None = None,
        separator: str | None = None,
        typed: bool = False,
    ) -> None:
        def tags(name: str) -> tuple[str, str]:
            return f"<{prefix}{name}{suffix}>", f"</{prefix}{name}{suffix}>"

        self._call, self._call_end = tags("tool_call")
        self._section = None if section is None else tags(section)
        self._separator = None if separator is None else tags(separator)[0]
        self._key, self._key_end = tags("arg_key")
        self._value, self._value_end = tags("arg_value")
        self._type, self._type_end = tags("arg_type")
        self._typed = typed
        self.openers = (*([self._section[0]] if self._section else []), self._call)
        """The tags that begin a call."""
        self.closers = (self._call_end, *([self._section[1]] if self._section else []))
        """The tags that end a call or a section."""
        self.inner = (self._value_end, self._key_end)
        """The closing tags inside a call."""

    @cached_property
    def _tags(self) -> Markers:
        """The tags that no name or value contains. A model that varies the suffix cannot make every tag cost a pattern,
        since this is needed in announced calls only."""
        return Markers([self._value, self._key, self._call, *self.inner, *self.closers])

    @cached_property
    def _type_stops(self) -> Markers:
        return Markers([self._type_end])

    def __call__(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads a section, or a call without one."""
        opener = yield from reader.expect(*self.openers)
        if self._section is None or opener != self._section[0]:
            yield from self.read_calls(reader, calls)
        else:
            yield from self.read_section(reader, calls)

    def read_section(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads a section from behind its opening tag."""
        assert self._section is not None, "only a dialect with sections has their tags"
        yield from reader.then(self._call)
        yield from reader.section(self._call, self._section[1], lambda: self.read_calls(reader, calls))

    def read_calls(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads a call from behind its opening tag, and those before which a closing tag is missing."""
        while (yield from self._one(reader, calls)):
            pass

    def _one(self, reader: Reader, calls: CallWriter) -> Parsing[bool]:
        """Reads a call; returns whether it was cut, and another has begun."""
        if (yield from reader.spaces()) == "{" and self._typed:
            yield from call_objects(reader, calls, close=self._call_end, known_only=False)
            return False
        name = yield from reader.name()
        if self._separator is not None:
            yield from reader.spaces()
            yield from reader.takes(self._separator)
        tag = yield from reader.then(self._key, self._call_end)
        arguments = Arguments(reader, calls, name, close=self._call_end)
        while tag == self._key:
            key = yield from parameter_key(reader, self._tags)
            yield from reader.expect(self._key_end)
            types = yield from self._types(reader)
            yield from arguments.value(key, (self._value_end,), self._tags, types=types)
            tag = yield from reader.then(self._key, self._call_end, self._call)
        if tag == self._call:
            arguments.cut()
            return True
        arguments.end()
        return False

    def _types(self, reader: Reader) -> Parsing[Types | Literal["schema"]]:
        """Reads the type of a value, if the dialect writes it, and the value's opening tag."""
        if not self._typed:
            yield from reader.then(self._value)
            return "schema"
        if (yield from reader.then(self._type, self._value)) == self._value:
            return "schema"
        said: list[str] = []
        yield from reader.until(self._type_stops, said.append, _MAX_KEY)
        yield from reader.expect(self._type_end)
        yield from reader.then(self._value)
        return STRING if "".join(said).strip() == "string" else NO_STRING


GLM = PairedTags()
K2_HORIZON = PairedTags("ifm|", section="tool_calls", typed=True)
HUNYUAN = PairedTags(section="tool_calls", separator="tool_sep")
_HUNYUAN_LIST, _HUNYUAN_CALL = "<tool_calls", "<tool_call"
HUNYUAN_OPENERS = tuple(f"{tag}{end}" for tag in (_HUNYUAN_LIST, _HUNYUAN_CALL) for end in ">:")
"""The beginnings of Hunyuan's opening tags; V4's have a suffix, which its checkpoint has chosen."""


def hunyuan(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a section of Hunyuan: call objects (A13B, Jamba too), or calls of paired tags (V3), with a suffix (V4)."""
    opener, suffix = (yield from reader.expect(*HUNYUAN_OPENERS)), ""
    if opener.endswith(":"):
        suffix = f":{(yield from reader.word(_MAX_SUFFIX))}"
        yield from reader.expect(">")
    tags = PairedTags(suffix=suffix, section="tool_calls", separator="tool_sep") if suffix else HUNYUAN
    if opener[:-1] == _HUNYUAN_CALL:
        yield from tags.read_calls(reader, calls)
    elif (yield from reader.spaces()) in "[{":
        yield from call_objects(reader, calls, close=f"</tool_calls{suffix}>", known_only=False)
    else:
        yield from tags.read_section(reader, calls)
