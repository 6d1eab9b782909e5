"""Reads calls whose parameters stand in tags of their own, as raw text.

    Qwen3-Coder   <tool_call><function=get_weather><parameter=city>Paris</parameter></function></tool_call>
    GLM 4.5       <tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>
    MiniMax M2    <minimax:tool_call><invoke name="get_weather"><parameter name="city">Paris</parameter></invoke>...
    DeepSeek V3.2 <｜DSML｜function_calls><｜DSML｜invoke name="get_weather">
                  <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>...

White space between tags is ignored. The arguments are composed as a JSON object: a parameter that can only be a string
is emitted as it comes, any other when it is whole. Nothing is escaped in a value, so the first closing tag ends it; a
value that contains another tag of its own dialect was not closed, and its call is broken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic_core import from_json

from ...tools import Toolset
from .calls import CallWriter
from .reader import Markers, NotACall, Parsing, Reader, TextOver

__all__ = [
    "DSML",
    "Invokes",
    "MINIMAX",
    "NO_STRING",
    "STRING",
    "Types",
    "as_json",
    "escaped",
    "glm",
    "parameter_types",
    "qwen_coder",
]

Types: TypeAlias = "frozenset[str] | None"
"""The JSON types that a parameter takes; None if they are not known."""

STRING: Types = frozenset({"string"})
NO_STRING: Types = frozenset({"number", "integer", "boolean", "null", "array", "object"})
_ALL = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_MAX_STEPS = 8  # references and branches followed; a schema nested deeper counts as unknown
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_TYPE_OF: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object"
}  # fmt: skip


def parameter_types(tools: Toolset, name: str) -> Mapping[str, Types]:
    """Returns the types that each parameter of a tool takes; empty if the tool's schema is not known."""
    tool = tools.get(name.removeprefix("functions."))
    if tool is None:
        return {}
    schema = tool.schema
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {parameter: _types(inner, schema, _MAX_STEPS) for parameter, inner in properties.items()}


def as_json(text: str, types: Types) -> str:
    """Returns the raw text of a parameter as JSON."""
    bare = text.strip()
    if types is not None and "string" in types:
        return bare if bare == "null" and "null" in types else f'"{escaped(text)}"'
    bare = _PYTHON.get(bare, bare)
    try:
        value = from_json(bare, allow_inf_nan=False)
    except ValueError:
        return f'"{escaped(text)}"'
    return f'"{escaped(text)}"' if isinstance(value, str) else bare


def escaped(text: str) -> str:
    """Returns `text` as it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _types(schema: Any, root: Mapping[str, Any], steps: int) -> Types:
    """Returns the JSON types that a schema takes; None where it does not say."""
    if not isinstance(schema, Mapping) or steps <= 0:
        return None
    if isinstance(reference := schema.get("$ref"), str):
        return _types(_referenced(reference, root), root, steps - 1)
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if isinstance(declared, list):
        return frozenset(name for name in declared if isinstance(name, str))
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return frozenset(_TYPE_OF.get(type(value), "string") for value in values)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(keyword), list):
            found = [_types(branch, root, steps - 1) for branch in branches]
            return frozenset().union(*(_ALL if types is None else types for types in found))
    branches = schema.get("allOf")
    if isinstance(branches, list):
        return next((types for branch in branches if (types := _types(branch, root, steps - 1)) is not None), None)
    return None


def _referenced(reference: str, root: Mapping[str, Any]) -> Any:
    node: Any = root
    for key in reference.removeprefix("#").split("/")[1:]:
        if not isinstance(node, Mapping):
            return None
        node = node.get(key.replace("~1", "/").replace("~0", "~"))
    return node


_MAX_KEY = 256  # characters of a parameter's name

_TOOL_CALL, _TOOL_CALL_END = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END, _PARAMETER, _PARAMETER_END = "<function=", "</function>", "<parameter=", "</parameter>"
_QWEN_TAGS = Markers([_PARAMETER_END, _PARAMETER, _FUNCTION_END, _FUNCTION, _TOOL_CALL_END])
_KEY, _KEY_END, _VALUE, _VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"
_GLM_TAGS = Markers([_VALUE_END, _VALUE, _KEY, _KEY_END, _TOOL_CALL, _TOOL_CALL_END])
_TAG_END, _QUOTE = Markers(">"), Markers('"')


def qwen_coder(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads Qwen3-Coder's call. The model often omits the outer opening tag; then only a registered tool is called."""
    wrapped = (yield from reader.expect(_TOOL_CALL, _FUNCTION)) == _TOOL_CALL
    if wrapped:
        yield from reader.then(_FUNCTION)
    name = yield from reader.name()
    yield from reader.expect(">")
    if not wrapped and not calls.knows(name):
        raise NotACall
    tag = yield from reader.then(_PARAMETER, _FUNCTION_END)
    arguments = _Arguments(reader, calls, name, close=_TOOL_CALL_END if wrapped else _FUNCTION_END)
    while tag == _PARAMETER:
        key = yield from _key(reader, _TAG_END)
        yield from reader.expect(">")
        yield from arguments.value(key, _PARAMETER_END, _QWEN_TAGS, trim=True)
        tag = yield from reader.then(_PARAMETER, _FUNCTION_END)
    arguments.end()
    yield from reader.then(_TOOL_CALL_END)


def glm(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a call of GLM 4.5 and later, with or without line breaks."""
    yield from reader.expect(_TOOL_CALL)
    yield from reader.spaces()
    name = yield from reader.name()
    tag = yield from reader.then(_KEY, _TOOL_CALL_END)
    arguments = _Arguments(reader, calls, name, close=_TOOL_CALL_END)
    while tag == _KEY:
        key = yield from _key(reader, _GLM_TAGS)
        yield from reader.expect(_KEY_END)
        yield from reader.then(_VALUE)
        yield from arguments.value(key, _VALUE_END, _GLM_TAGS)
        tag = yield from reader.then(_KEY, _TOOL_CALL_END)
    arguments.end()


class Invokes:
    """A dialect that writes ``invoke`` and ``parameter`` tags with names as attributes, inside a section.

    Args:
        sections: the names of the section's tags, of which any may be used.
        prefix: the beginning of the name of each other tag.
    """

    def __init__(self, *sections: str, prefix: str = "") -> None:
        self._invoke_tag, self._invoke_end = f'<{prefix}invoke name="', f"</{prefix}invoke>"
        self._parameter_tag, self._parameter_end = f'<{prefix}parameter name="', f"</{prefix}parameter>"
        self._tags = Markers([self._invoke_tag, self._invoke_end, self._parameter_tag, self._parameter_end])
        self.openers = (*(f"<{section}>" for section in sections), self._invoke_tag)
        """The tags that begin a call: a section, or an ``invoke`` without one, which can call only registered tools."""

    def __call__(self, reader: Reader, calls: CallWriter) -> Parsing[None]:
        """Reads a section."""
        invoke = self._invoke_tag
        opener = yield from reader.expect(*self.openers)
        if opener == invoke:
            yield from self._invoke(reader, calls, known_only=True)
            return
        section_end = f"</{opener[1:]}"
        yield from reader.then(invoke)
        yield from reader.section(invoke, section_end, lambda: self._invoke(reader, calls, known_only=False))

    def _invoke(self, reader: Reader, calls: CallWriter, *, known_only: bool) -> Parsing[None]:
        parameter, invoke_end = self._parameter_tag, self._invoke_end
        name = yield from reader.name()
        yield from reader.expect('">')
        if known_only and not calls.knows(name):
            raise NotACall
        if (yield from reader.spaces()) == "{":  # the arguments as JSON, which DeepSeek also writes
            calls.begin(name, close=invoke_end)
            yield from reader.value(calls.add)
            reader.hold()
            yield from reader.then(invoke_end)
            calls.end()
            return
        tag = yield from reader.expect(parameter, invoke_end)
        arguments = _Arguments(reader, calls, name, close=invoke_end)
        while tag == parameter:
            key = yield from _key(reader, _QUOTE)
            yield from reader.expect('"')
            is_string = yield from _string_attribute(reader)
            yield from arguments.value(key, self._parameter_end, self._tags, is_string=is_string)
            tag = yield from reader.then(parameter, invoke_end)
        arguments.end()


DSML = Invokes("｜DSML｜function_calls", "｜DSML｜tool_calls", prefix="｜DSML｜")
MINIMAX = Invokes("minimax:tool_call")


def _string_attribute(reader: Reader) -> Parsing[bool | None]:
    """Reads the rest of a parameter's tag; returns the value of its ``string`` attribute, None if it has none."""
    if (yield from reader.spaces()) == ">":
        reader.at += 1
        return None
    is_string = (yield from reader.expect('string="true"', 'string="false"')) == 'string="true"'
    yield from reader.then(">")
    return is_string


def _key(reader: Reader, stops: Markers) -> Parsing[str]:
    """Reads a parameter's name."""
    pieces: list[str] = []
    yield from reader.until(stops, pieces.append, _MAX_KEY)
    return "".join(pieces).strip()


class _Arguments:
    """The arguments of one call while they are read; announces the call.

    Args:
        reader: the text to read from.
        calls: takes the arguments.
        name: the tool's name.
        close: the call's closing marker.
    """

    def __init__(self, reader: Reader, calls: CallWriter, name: str, *, close: str) -> None:
        calls.begin(name, close=close, verbatim=False)
        self._reader = reader
        self._calls = calls
        self._types = parameter_types(calls.tools, name)
        self._before = "{"  # the text before the next parameter

    def value(
        self, key: str, close: str, tags: Markers, *, is_string: bool | None = None, trim: bool = False
    ) -> Parsing[None]:
        """Reads a parameter's value and its closing tag.

        Args:
            key: the parameter's name.
            close: the closing tag.
            tags: the tags that no value contains, `close` among them.
            is_string: whether the value is a string, by the markup; None if the markup does not say.
            trim: a line break at either end is not part of the value.
        """
        if trim and (yield from self._reader.peek()) == "\n":
            self._reader.at += 1
        self._calls.add(f'{self._before}"{escaped(key)}": ')
        self._before = ", "
        types = self._types.get(key) if is_string is None else STRING if is_string else NO_STRING
        value = _StringValue(self._calls, trim) if types == STRING else _OtherValue(self._calls, trim, types)
        try:
            limit = None if types == STRING else self._reader.limits.max_argument_bytes
            if (yield from self._reader.until(tags, value.take, limit)) != close:
                raise NotACall
        except (NotACall, TextOver):
            value.give_up()
            raise
        value.end()
        self._reader.at += len(close)
        self._reader.hold()

    def end(self) -> None:
        """Ends the arguments and the call: there are no more parameters."""
        self._calls.add("{}" if self._before == "{" else "}")
        self._calls.end()


class _StringValue:
    """A string parameter: emitted as it comes, except for a line break that may be its last character."""

    def __init__(self, calls: CallWriter, trim: bool) -> None:
        self._calls = calls
        self._trim = trim
        self._held = ""
        calls.add('"')

    def take(self, piece: str) -> None:
        piece = self._held + piece
        self._held = "\n" if self._trim and piece.endswith("\n") else ""
        if text := piece.removesuffix(self._held):
            self._calls.add(escaped(text))

    def end(self) -> None:
        self._calls.add('"')

    def give_up(self) -> None:
        self._calls.add(escaped(self._held))


class _OtherValue:
    """A parameter that has to be whole before its type is clear."""

    def __init__(self, calls: CallWriter, trim: bool, types: Types) -> None:
        self._calls = calls
        self._trim = trim
        self._types = types
        self._pieces: list[str] = []
        self.take = self._pieces.append

    def end(self) -> None:
        text = "".join(self._pieces)
        self._calls.add(as_json(text.removesuffix("\n") if self._trim else text, self._types))

    def give_up(self) -> None:
        for piece in self._pieces:
            self._calls.add(piece)
