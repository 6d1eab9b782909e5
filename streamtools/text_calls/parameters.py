"""Composes the arguments of a call whose parameters stand in tags of their own, as raw text, into a JSON object.

The tool's schema decides what the raw text of a parameter is, where the markup does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic_core import from_json

from ..tools import Toolset
from .parts import CallWriter
from .reader import Markers, NotACall, Parsing, Reader, TextOver

T = TypeVar("T")

Types: TypeAlias = "frozenset[str] | None"  # the JSON types that a parameter takes; None if they are not known

STRING: Types = frozenset({"string"})
NO_STRING: Types = frozenset({"number", "integer", "boolean", "null", "array", "object"})
_ALL = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_MAX_STEPS = 8  # references and branches followed; a schema nested deeper counts as unknown
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_TYPE_OF: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object"
}  # fmt: skip


def parameter_types(tools: Toolset, name: str) -> Mapping[str, Types]:
    tool = tools.get(name.removeprefix("functions."))
    if tool is None:
        return {}
    schema = tool.schema
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {parameter: _types(inner, schema, _MAX_STEPS) for parameter, inner in properties.items()}


def types_of(schema: Any, root: Mapping[str, Any]) -> Types:
    return _types(schema, root, _MAX_STEPS)


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_MAX_STEPS):
        if not isinstance(schema, Mapping):
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            schema = _referenced(reference, root)
        elif isinstance(branches := schema.get("anyOf") or schema.get("oneOf"), list):
            containers = (branch for branch in branches if (types_of(branch, root) or _ALL) & {"array", "object"})
            schema = next(containers, None)
        else:
            return schema
    return {}


def as_json(text: str, types: Types) -> str:
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
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _types(schema: Any, root: Mapping[str, Any], steps: int) -> Types:
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


class Arguments:
    """The arguments of one call while they are read; announces the call. `close` is the call's closing marker."""

    def __init__(self, reader: Reader, calls: CallWriter, name: str, *, close: str) -> None:
        calls.begin(name, close=close, verbatim=False)
        self._reader = reader
        self._calls = calls
        self.types = parameter_types(calls.tools, name)
        self.given: set[str] = set()
        self._is_whole = False

    def value(
        self,
        key: str,
        closes: tuple[str, ...],
        tags: Markers,
        *,
        types: Types | Literal["schema"] = "schema",
        trim: bool = False,
        unclosed: Callable[[str], Parsing[bool]] | None = None,
    ) -> Parsing[None]:
        """Reads a parameter's value and its closing tag, which has several spellings. `tags`: those that no value
        contains; `types`: those that the markup allows, or ``"schema"`` for those of the tool's schema; `trim`: a line
        break at either end is not part of the value; `unclosed`: reads another tag, and returns whether that closes the
        value."""
        if trim and (yield from self._reader.peek()) == "\n":
            self._reader.at += 1
        self._name(key)
        known = self.types.get(key) if types == "schema" else types
        add, held, is_text = self._calls.add, list[str](), known == STRING

        def emit(piece: str) -> None:  # as it comes, except for a line break that may be its last character
            piece = "".join([*held, piece])
            held[:] = ["\n"] if trim and piece.endswith("\n") else []
            add(escaped(piece.removesuffix("\n") if held else piece))

        add('"' if is_text else "")
        try:
            yield from self.raw(emit if is_text else held.append, closes, tags, bounded=not is_text, unclosed=unclosed)
        except (NotACall, TextOver):
            self.give_up(map(escaped, held) if is_text else held)
            raise
        text = "".join(held)
        add('"' if is_text else as_json(text.removesuffix("\n") if trim else text, known))

    def raw(
        self,
        take: Callable[[str], object],
        closes: tuple[str, ...],
        tags: Markers,
        *,
        bounded: bool = True,
        unclosed: Callable[[str], Parsing[bool]] | None = None,
    ) -> Parsing[None]:
        """Reads the text of a value and its closing tag, without emitting anything. For the arguments see `value`."""
        reader, limit = self._reader, self._reader.limits.max_argument_bytes if bounded else None
        self._calls.in_value = True
        stop = yield from reader.until(tags, take, limit)
        reader.hold()
        if stop in closes:
            reader.at += len(stop)
        elif unclosed is None or not (yield from unclosed(stop)):
            raise NotACall
        self._calls.in_value = False
        reader.hold()

    def put(self, key: str, text: str) -> None:
        self.put_json(key, as_json(text, self.types.get(key)))

    def within(self, read: Parsing[T]) -> Parsing[T]:
        self._calls.in_value = True
        value = yield from read
        self._calls.in_value = False
        self._reader.hold()
        return value

    def put_json(self, key: str, value: str) -> None:
        self._name(key)
        self._calls.add(value)

    def whole(self, text: str) -> None:
        self._calls.add(text)
        self._is_whole = True

    def give_up(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            self._calls.add(piece)

    def _name(self, key: str) -> None:
        self._calls.add(f'{", " if self.given else "{"}"{escaped(key)}": ')
        self.given.add(key)

    def end(self, *, cut: bool = False) -> None:
        if not cut and not self._is_whole:
            self._calls.add("}" if self.given else "{}")
        self._calls.end(cut=cut)
