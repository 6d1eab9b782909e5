"""Reads calls whose parameters stand between tags: in pairs, nested, with attributes, or named by them. The rows of
`dialects` have an example of each.

White space between tags is ignored. In pairs of tags and in tags named by attributes nothing is escaped in a value, so
the first closing tag ends it; a value that contains another tag of its own dialect was not closed, and its call is
broken. Where the next call begins between two parameters, the call before it was cut; so it is where a section of tags
named by attributes ends there.

**Tags that nest** are MiniMax M3's parameters: a tag's name is a parameter's, or a member's. A value with tags inside
is an array if the tool's schema says so, or if all of them are ``item``; else it is an object, in which a name that is
repeated has an array. Text beside tags is the member ``$text``. A parameter that can only be a string is emitted as it
comes, any other when it is whole. The schema decides what a text is.

**Tags between markers**, with attributes, are Kimi K3's. Beside ``tools`` there are ``think``, which is reasoning, and
``response``, whose tags are dropped. An argument of the type ``string`` is raw text, any other is JSON; without a type
the tool's schema decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic_core import from_json

from .notation import call_objects
from .parameters import NO_STRING, STRING, Arguments, Types, as_json, resolved, types_of
from .parts import CallWriter, Form, form
from .reader import Markers, NotACall, Parsing, Reader, TextOver
from .thoughts import read_thought

_MAX_KEY = 256  # characters of a parameter's name
_MAX_SUFFIX = 16  # characters of a suffix of tags, which is a few hexadecimal digits

_TOOL_CALL, _TOOL_CALL_END = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END, _PARAMETER, _PARAMETER_END = "<function=", "</function>", "<parameter=", "</parameter>"
_WRAPPERS = {_TOOL_CALL: _TOOL_CALL_END, "<seed:tool_call>": "</seed:tool_call>"}
_QWEN_TAGS = Markers([_PARAMETER_END, _PARAMETER, _FUNCTION_END, _FUNCTION, *_WRAPPERS.values()])
_TAG_END = Markers(">")


@form(*_WRAPPERS, _FUNCTION, closers=_WRAPPERS.values(), inner=[_FUNCTION_END, _PARAMETER_END])
def qwen_coder(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads Qwen3-Coder's call. The model often omits the outer opening tag; then only a registered tool is called."""
    opener = yield from reader.expect(*_WRAPPERS, _FUNCTION)
    if opener != _FUNCTION:
        yield from reader.then(_FUNCTION)
    close = _WRAPPERS.get(opener, _FUNCTION_END)
    while (yield from _qwen_function(reader, calls, close, known_only=opener == _FUNCTION)):
        pass
    yield from reader.then(_WRAPPERS.get(opener, _TOOL_CALL_END))


def _qwen_function(reader: Reader, calls: CallWriter, close: str, *, known_only: bool) -> Parsing[bool]:
    name = yield from reader.name()
    yield from reader.expect(">")
    if known_only and not calls.knows(name):
        raise NotACall
    tag = yield from reader.then(_PARAMETER, _FUNCTION_END)
    arguments = Arguments(reader, calls, name, close=close)
    while tag == _PARAMETER:
        key = (yield from reader.text_until(_TAG_END, _MAX_KEY)).strip()
        yield from reader.expect(">")
        yield from arguments.value(key, (_PARAMETER_END,), _QWEN_TAGS, trim=True)
        tag = yield from reader.then(_PARAMETER, _FUNCTION_END, _FUNCTION)
    arguments.end(cut=tag == _FUNCTION)
    return tag == _FUNCTION


class PairedTags:
    """A dialect that writes a call as its name and pairs of tags, one for a parameter's name, one for its value.

    `separator` is the tag behind the call's name. If `typed`, a tag between name and value contains the value's type;
    the call may be a JSON object instead.
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
        sections, ends = ([self._section[0]], [self._section[1]]) if self._section else ([], [])
        inner = (self._value_end, self._key_end)
        self.form = Form(self._read, (*sections, self._call), (self._call_end, *ends), inner)

    @cached_property
    def _tags(self) -> Markers:
        """The tags that no name or value contains; made late, since a model may vary the suffix in every tag."""
        return Markers([self._value, self._key, self._call, *self.form.inner, *self.form.closers])

    @cached_property
    def _type_stops(self) -> Markers:
        return Markers([self._type_end])

    def _read(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        opener = yield from reader.expect(*self.form.openers)
        if self._section is None or opener != self._section[0]:
            yield from self.read_calls(reader, calls)
        else:
            yield from self.read_section(reader, calls)

    def read_section(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        assert self._section is not None, "only a dialect with sections has their tags"
        yield from reader.then(self._call)
        yield from reader.section(self._call, self._section[1:], lambda: self.read_calls(reader, calls))

    def read_calls(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        while (yield from self._one(reader, calls)):
            pass

    def _one(self, reader: Reader, calls: CallWriter) -> Parsing[bool]:
        if (yield from reader.spaces()) == "{" and self._typed:
            yield from call_objects(reader, calls, close=self._call_end)
            return False
        name = yield from reader.name()
        if self._separator is not None:
            yield from reader.spaces()
            yield from reader.takes(self._separator)
        tag = yield from reader.then(self._key, self._call_end)
        arguments = Arguments(reader, calls, name, close=self._call_end)
        while tag == self._key:
            key = (yield from reader.text_until(self._tags, _MAX_KEY)).strip()
            yield from reader.expect(self._key_end)
            types = yield from self._types(reader)
            yield from arguments.value(key, (self._value_end,), self._tags, types=types)
            tag = yield from reader.then(self._key, self._call_end, self._call)
        arguments.end(cut=tag == self._call)
        return tag == self._call

    def _types(self, reader: Reader) -> Parsing[Types | Literal["schema"]]:
        if not self._typed:
            yield from reader.then(self._value)
            return "schema"
        if (yield from reader.then(self._type, self._value)) == self._value:
            return "schema"
        said = yield from reader.text_until(self._type_stops, _MAX_KEY)
        yield from reader.expect(self._type_end)
        yield from reader.then(self._value)
        return STRING if said.strip() == "string" else NO_STRING


GLM = PairedTags().form
K2_HORIZON = PairedTags("ifm|", section="tool_calls", typed=True).form
_HUNYUAN = PairedTags(section="tool_calls", separator="tool_sep")
_HUNYUAN_CALL = "<tool_call"
_HUNYUAN_OPENERS = tuple(f"{tag}{end}" for tag in ("<tool_calls", _HUNYUAN_CALL) for end in ">:")


@form(*_HUNYUAN_OPENERS, closers=_HUNYUAN.form.closers, inner=_HUNYUAN.form.inner)
def hunyuan(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a section of Hunyuan: call objects (A13B, Jamba too), or calls of paired tags (V3), with a suffix (V4)."""
    opener, suffix = (yield from reader.expect(*_HUNYUAN_OPENERS)), ""
    if opener.endswith(":"):
        suffix = f":{(yield from reader.word(_MAX_SUFFIX))}"
        yield from reader.expect(">")
    tags = PairedTags(suffix=suffix, section="tool_calls", separator="tool_sep") if suffix else _HUNYUAN
    if opener[:-1] == _HUNYUAN_CALL:
        yield from tags.read_calls(reader, calls)
    elif (yield from reader.spaces()) in "[{":
        yield from call_objects(reader, calls, close=f"</tool_calls{suffix}>")
    else:
        yield from tags.read_section(reader, calls)


# -- tags that nest --


MARK = "]<]minimax[>["
_INVOKE, _INVOKE_END = f'{MARK}<invoke name="', f"{MARK}</invoke>"
_SECTION, _SECTION_END = f"{MARK}<tool_call>", f"{MARK}</tool_call>"
_MARKS, _NESTED_TAG_END = Markers([MARK]), Markers("><\n")
_MAX_NESTED_TAG = 256  # characters of a tag's name
_MAX_DEPTH = 100  # of tags: a generator reads each level, and Python's limit is a thousand
_is_name = re.compile(r"[^\s<>/\"][^\s<>\"]*").fullmatch


@dataclass(slots=True)
class _Node:
    text: list[str] = field(default_factory=list)
    children: list[tuple[str, _Node]] = field(default_factory=list)


@form(_SECTION, _INVOKE, closers=[_INVOKE_END, _SECTION_END])
def minimax_m3(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a section, or a call without one, which can call only registered tools."""
    in_section = (yield from reader.expect(_SECTION, _INVOKE)) == _SECTION
    if in_section:
        yield from reader.then(_INVOKE)
    while True:
        tag = yield from _invoke(reader, calls, known_only=not in_section)
        if in_section and tag == _INVOKE_END:
            tag = yield from reader.then(_INVOKE, _SECTION_END)
        if tag != _INVOKE:
            return


def _invoke(reader: Reader, calls: CallWriter, *, known_only: bool) -> Parsing[str]:
    """Reads a call from behind the beginning of its tag; returns the tag that ended it, its own or another."""
    name = yield from reader.name()
    yield from reader.expect('">')
    if known_only and not calls.knows(name):
        raise NotACall
    yield from reader.then(MARK)
    arguments = Arguments(reader, calls, name, close=_INVOKE_END)
    tool = calls.tools.get(name.removeprefix("functions."))
    call = _Call(reader, arguments, tool.schema if tool else {})
    while True:
        tag = yield from _nested_tag(reader)
        if tag == "/invoke":
            arguments.end()
            return _INVOKE_END
        if tag in ("/tool_call", "invoke"):
            arguments.end(cut=True)
            return _INVOKE if tag == "invoke" else _SECTION_END
        if tag.startswith("/"):
            raise NotACall
        yield from call.parameter(tag)
        yield from reader.then(MARK)


def _nested_tag(reader: Reader) -> Parsing[str]:
    """Reads a tag from behind its mark, up to the name of a tool; returns its name, with a closing one's slash."""
    yield from reader.expect("<")
    if (yield from reader.takes('invoke name="')):
        return "invoke"
    name = yield from reader.text_until(_NESTED_TAG_END, _MAX_NESTED_TAG)
    yield from reader.expect(">")
    if not _is_name(name.removeprefix("/")):
        raise NotACall
    return name


class _Call:
    def __init__(self, reader: Reader, arguments: Arguments, schema: Mapping[str, Any]) -> None:
        self._reader = reader
        self._arguments = arguments
        self._schema = schema
        self._left = reader.limits.max_argument_bytes

    def parameter(self, key: str) -> Parsing[None]:
        arguments, close = self._arguments, f"{MARK}</{key}>"
        if arguments.types.get(key) == STRING:
            yield from arguments.value(key, (close,), Markers([close, MARK]))
            return
        pieces: list[str] = []
        try:
            node = yield from arguments.within(self._node(key, pieces, _MAX_DEPTH))
        except (NotACall, TextOver):
            arguments.give_up(pieces)
            raise
        arguments.put_json(key, self._json(node, _member(self._schema, self._schema, key)))

    def _node(self, key: str, pieces: list[str], depth: int) -> Parsing[_Node]:
        """Reads a value from behind its opening tag, with its closing tag; all its text goes into `pieces`, too."""
        reader, node = self._reader, _Node()
        while True:
            if not depth:
                raise NotACall
            start = len(pieces)
            yield from reader.until(_MARKS, pieces.append, self._left)
            self._left = max(0, self._left - sum(map(len, pieces[start:])) - len(MARK))
            node.text += pieces[start:]
            reader.at += len(MARK)
            tag = yield from _nested_tag(reader)
            pieces.append(f"{MARK}<{tag}>")
            if tag == f"/{key}":
                return node
            if tag.startswith("/") or tag == "invoke":
                raise NotACall
            node.children.append((tag, (yield from self._node(tag, pieces, depth - 1))))

    def _json(self, node: _Node, schema: Any) -> str:
        text, types = "".join(node.text), types_of(schema, self._schema)
        if not node.children:
            if not text.strip() and types and "string" not in types and types & {"array", "object"}:
                return "[]" if "array" in types else "{}"
            return as_json(text, types)
        root = self._schema
        names = [name for name, _ in node.children]
        is_array = types is not None and "array" in types and "object" not in types
        if is_array or (set(names) == {"item"} and (types is None or "array" in types)):
            items = resolved(schema, root).get("items")
            return f"[{', '.join(self._json(child, items) for _, child in node.children)}]"
        return self._object(node, schema, text)

    def _object(self, node: _Node, schema: Any, text: str) -> str:
        members: dict[str, list[_Node]] = {}
        for name, child in node.children:
            members.setdefault(name, []).append(child)
        told = {name: self._repeated(nodes, _member(schema, self._schema, name)) for name, nodes in members.items()}
        if text.strip():
            told["$text"] = json.dumps(text, ensure_ascii=False)
        return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in told.items()) + "}"

    def _repeated(self, nodes: list[_Node], schema: Any) -> str:
        if len(nodes) == 1:
            return self._json(nodes[0], schema)
        items = resolved(schema, self._schema).get("items")
        return f"[{', '.join(self._json(node, items) for node in nodes)}]"


def _member(schema: Any, root: Mapping[str, Any], name: str) -> Any:
    properties = resolved(schema, root).get("properties")
    return properties.get(name) if isinstance(properties, Mapping) else None


# -- tags between markers, with attributes --


_OPEN, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"
_CALL_END, _TOOLS_END, _ARGUMENT_END, _THINK_END = (
    f"{_CLOSE}{name}{_SEP}" for name in ("call", "tools", "argument", "think")
)
XTML_DROPS = (f"{_CLOSE}response{_SEP}", f"{_CLOSE}message{_SEP}", "<|end_of_msg|>")
_XTML_CLOSERS = (_CALL_END, _TOOLS_END)
_MAX_XTML_TAG = 512  # characters of a tag with its attributes; a name and a key are the longest of them
_TAG_STOPS = Markers([_SEP, _OPEN, _CLOSE])
_THINK_STOPS = Markers([_THINK_END])
_VALUE_STOPS = Markers([_ARGUMENT_END, _OPEN, *_XTML_CLOSERS])
_TAG = re.compile(r"""\s*(\w+)((?:\s+\w+="[^"]*")*)\s*""").fullmatch
_find_attributes = re.compile(r"""(\w+)="([^"]*)\"""").findall


@form(_OPEN, closers=_XTML_CLOSERS, inner=[_ARGUMENT_END, _THINK_END])
def kimi_k3(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.expect(_OPEN)
    name, attributes = yield from _xtml_tag(reader)
    if name == "think":
        yield from read_thought(reader, calls, _THINK_STOPS, _THINK_END)
    if name in ("think", "response"):
        return
    in_section = name == "tools"
    if in_section:
        yield from reader.then(_OPEN)
        name, attributes = yield from _xtml_tag(reader)
    while True:
        tool = attributes.get("tool", "")
        if name != "call" or not tool:
            raise NotACall
        following = yield from _call(reader, calls, tool)
        if following is None:
            if not in_section or (yield from reader.then(_OPEN, _TOOLS_END)) == _TOOLS_END:
                return
            following = yield from _xtml_tag(reader)
        name, attributes = following


def _call(reader: Reader, calls: CallWriter, tool: str) -> Parsing[tuple[str, dict[str, str]] | None]:
    """Reads a call from behind its tag; returns the tag of the next one if this was not closed before it."""
    tag = yield from reader.then(_OPEN, *_XTML_CLOSERS)
    arguments = Arguments(reader, calls, tool, close=_CALL_END)
    while tag == _OPEN:
        name, attributes = yield from _xtml_tag(reader)
        if name == "call":
            arguments.end(cut=True)
            return name, attributes
        if name != "argument" or "key" not in attributes:
            raise NotACall
        types = _xtml_types(attributes.get("type"))
        yield from arguments.value(attributes["key"], (_ARGUMENT_END,), _VALUE_STOPS, types=types)
        tag = yield from reader.then(_OPEN, *_XTML_CLOSERS)
    arguments.end(cut=tag != _CALL_END)
    return None


def _xtml_tag(reader: Reader) -> Parsing[tuple[str, dict[str, str]]]:
    pieces: list[str] = []
    if (yield from reader.until(_TAG_STOPS, pieces.append, _MAX_XTML_TAG)) != _SEP:
        raise NotACall
    match = _TAG("".join(pieces))
    if match is None:
        raise NotACall
    reader.at += len(_SEP)
    return match[1], {key: _unescaped(value) for key, value in _find_attributes(match[2])}


def _unescaped(value: str) -> str:
    return value.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _xtml_types(said: str | None) -> Types | Literal["schema"]:
    return "schema" if said is None else STRING if said == "string" else NO_STRING


# -- tags named by attributes --


_QUOTE = Markers('"')
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_CDATA_STOPS = Markers([_CDATA_END])
_WRAPPED = "arguments"


class Invokes:
    """A dialect of ``invoke`` and ``parameter`` tags, inside a section.

    Args:
        blanks: the characters that may stand between a tag's name and its attribute.
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
        objects: bool = False,
        strays: bool = False,
        cdata: bool = False,
        spaces: bool = False,
    ) -> None:
        prefixes, blanks = [*prefixes], [*blanks]
        self._sections, self._ends = sections, tuple(dict.fromkeys(sections.values()))
        self._invokes = tuple(f'<{prefix}{invoke}{blank}name="' for prefix in prefixes for blank in blanks)
        self._invoke_ends = tuple(f"</{prefix}{invoke}>" for prefix in prefixes)
        self._parameters = tuple(f'<{prefix}{parameter}{blank}name="' for prefix in prefixes for blank in blanks)
        self._parameter_ends = tuple(f"</{prefix}{parameter}>" for prefix in prefixes)
        ends = (*self._invoke_ends, *self._parameter_ends, *self._ends)
        self._tags = Markers([*self._invokes, *self._parameters, *ends])
        self._after_value = (*self._parameters, *self._invoke_ends, *self._invokes, *self._ends)
        self._objects, self._strays, self._cdata, self._spaces = objects, strays, cdata, spaces
        # Without a section, an ``invoke`` can call only registered tools.
        closers = (*self._invoke_ends, *self._ends)
        self.form = Form(self._read, (*sections, *self._invokes), closers, self._parameter_ends)

    def _read(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        opener = yield from reader.expect(*self.form.openers)
        in_section = opener in self._sections
        if in_section:
            if (yield from reader.spaces()) in "[{" and self._objects:
                yield from call_objects(reader, calls, close=self._sections[opener])
                return
            yield from reader.then(*self._invokes)
        while True:
            tag = yield from self._invoke(reader, calls, known_only=not in_section)
            if in_section and tag in self._invoke_ends:
                tag = yield from reader.then(*self._invokes, *self._ends)
            if tag not in self._invokes:
                return

    def _invoke(self, reader: Reader, calls: CallWriter, *, known_only: bool) -> Parsing[str]:
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
            tag = yield from self._parameter(reader, arguments, (yield from _quoted(reader)))
        arguments.end(cut=tag not in self._invoke_ends)
        return tag

    def _parameter(self, reader: Reader, arguments: Arguments, key: str) -> Parsing[str]:
        following: list[str] = []

        def unclosed(stop: str) -> Parsing[bool]:
            if stop not in self._parameters:
                return False
            reader.at += len(stop)
            following.append((yield from _quoted(reader)))
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
                return (yield from reader.then(*self._after_value))
            key = following.pop()

    def _wrapped(self, reader: Reader, arguments: Arguments) -> Parsing[str]:
        pieces: list[str] = []
        try:
            yield from arguments.raw(pieces.append, self._parameter_ends, self._tags)
            tag = yield from reader.then(*self._after_value)
        except (NotACall, TextOver):
            arguments.give_up(pieces)
            raise
        text = "".join(pieces).strip()
        if tag in self._invoke_ends and isinstance(_parsed(text), dict):
            arguments.whole(text)
        else:
            arguments.put(_WRAPPED, text)
            if tag in self._parameters:
                tag = yield from self._parameter(reader, arguments, (yield from _quoted(reader)))
        return tag

    def _json(self, reader: Reader, calls: CallWriter, name: str) -> Parsing[str]:
        calls.begin(name, close=self._invoke_ends[0])
        if not self._strays:
            yield from reader.value(calls.add, stops=calls.stops)
        else:
            yield from self._json_in_one(reader, calls)
        reader.hold()
        tag = yield from reader.then(*self._invoke_ends)
        calls.end()
        return tag

    def _json_in_one(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads JSON arguments whole, since others may be wrapped in them."""
        pieces: list[str] = []
        try:
            yield from reader.value(pieces.append, reader.limits.max_argument_bytes, stops=calls.stops)
        finally:
            calls.add(_unwrapped("".join(pieces)))


def _quoted(reader: Reader) -> Parsing[str]:
    key = yield from reader.text_until(_QUOTE, _MAX_KEY)
    yield from reader.expect('"')
    return key.strip()


def _types(reader: Reader) -> Parsing[Types | Literal["schema"]]:
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
    value = _parsed(text)
    if isinstance(value, dict) and [*value] == [_WRAPPED] and isinstance(value[_WRAPPED], dict):
        return text[text.index("{", 1) : text.rindex("}")].rstrip()
    return text


_BARS = ("｜DSML｜", "|DSML|", "||DSML||", "｜｜DSML｜｜", "‖DSML‖")
_SECTIONS = ("function_calls", "tool_calls", "toolcalls", "tool", "calls")


def _dsml(bars: str) -> Form:
    """Returns the form with these bars: V4.1 writes a blank behind them."""
    prefixes = (bars, f"{bars} ")
    sections = {f"<{prefix}{name}>": f"</{prefix}{name}>" for prefix in prefixes for name in _SECTIONS}
    return Invokes(sections, prefixes=prefixes, strays=True).form


DSML = tuple(map(_dsml, _BARS))  # DeepSeek V3.2 to V4.1, by the bars around the word; V4 writes odd ones now and then
MINIMAX = Invokes({"<minimax:tool_call>": "</minimax:tool_call>"}).form
MINICPM = Invokes({}, invoke="function", parameter="param", blanks=(" ", "", "Ġ"), cdata=True).form
MUSE = Invokes({"<atem:function_calls>": "</atem:function_calls>"}, prefixes=["atem:"], spaces=True).form
DOTS = Invokes({"<dots_function_call>": "</dots_function_call>"}, objects=True).form
