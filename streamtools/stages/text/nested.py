"""Reads the calls of MiniMax M3, whose parameters are tags that nest. N stands for ``]<]minimax[>[``.

    N<tool_call>N<invoke name="search">N<query>teaN</query>N<where>N<item>aN</item>N</where>N</invoke>N</tool_call>

A tag's name is a parameter's, or a member's. A value with tags inside is an array if the tool's schema says so, or if
all of them are ``item``; else it is an object, in which a name that is repeated has an array. Text beside tags is the
member ``$text``. A parameter that can only be a string is emitted as it comes, any other when it is whole. The schema
decides what a text is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .parameters import STRING, Arguments, as_json, resolved, types_of
from .reader import Markers, NotACall, Parsing, Reader, TextOver
from .writer import CallWriter

__all__ = ["CLOSERS", "INVOKE", "MARK", "OPENERS", "minimax_m3"]

MARK = "]<]minimax[>["
INVOKE, _INVOKE_END = f'{MARK}<invoke name="', f"{MARK}</invoke>"
_SECTION, _SECTION_END = f"{MARK}<tool_call>", f"{MARK}</tool_call>"
OPENERS = (_SECTION, INVOKE)
CLOSERS = (_INVOKE_END, _SECTION_END)
_MARKS, _TAG_END = Markers([MARK]), Markers("><\n")
_MAX_TAG = 256  # characters of a tag's name
_MAX_DEPTH = 100  # of tags: a generator reads each level, and Python's limit is a thousand
_is_name = re.compile(r"[^\s<>/\"][^\s<>\"]*").fullmatch


@dataclass(slots=True)
class _Node:
    """A value while it is read: its text, and the tags inside."""

    text: list[str] = field(default_factory=list)
    children: list[tuple[str, _Node]] = field(default_factory=list)


def minimax_m3(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a section, or a call without one, which can call only registered tools."""
    in_section = (yield from reader.expect(*OPENERS)) == _SECTION
    if in_section:
        yield from reader.then(INVOKE)
    while True:
        tag = yield from _invoke(reader, calls, known_only=not in_section)
        if in_section and tag == _INVOKE_END:
            tag = yield from reader.then(INVOKE, _SECTION_END)
        if tag != INVOKE:
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
        tag = yield from _tag(reader)
        if tag == "/invoke":
            arguments.end()
            return _INVOKE_END
        if tag in ("/tool_call", "invoke"):
            arguments.cut()
            return INVOKE if tag == "invoke" else _SECTION_END
        if tag.startswith("/"):
            raise NotACall
        yield from call.parameter(tag)
        yield from reader.then(MARK)


def _tag(reader: Reader) -> Parsing[str]:
    """Reads a tag from behind its mark; returns its name, with the slash of a closing one. A call's tag is taken up to
    the name of its tool."""
    yield from reader.expect("<")
    if (yield from reader.takes('invoke name="')):
        return "invoke"
    pieces: list[str] = []
    yield from reader.until(_TAG_END, pieces.append, _MAX_TAG)
    yield from reader.expect(">")
    name = "".join(pieces)
    if not _is_name(name.removeprefix("/")):
        raise NotACall
    return name


class _Call:
    """The parameters of one call while they are read."""

    def __init__(self, reader: Reader, arguments: Arguments, schema: Mapping[str, Any]) -> None:
        self._reader = reader
        self._arguments = arguments
        self._schema = schema
        self._left = reader.limits.max_argument_bytes

    def parameter(self, key: str) -> Parsing[None]:
        """Reads a parameter from behind its opening tag, with its closing tag."""
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
            tag = yield from _tag(reader)
            pieces.append(f"{MARK}<{tag}>")
            if tag == f"/{key}":
                return node
            if tag.startswith("/") or tag == "invoke":
                raise NotACall
            node.children.append((tag, (yield from self._node(tag, pieces, depth - 1))))

    def _json(self, node: _Node, schema: Any) -> str:
        """Returns a value as JSON."""
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
        """Returns the member of all tags of one name."""
        if len(nodes) == 1:
            return self._json(nodes[0], schema)
        items = resolved(schema, self._schema).get("items")
        return f"[{', '.join(self._json(node, items) for node in nodes)}]"


def _member(schema: Any, root: Mapping[str, Any], name: str) -> Any:
    """Returns the schema of an object's member; None if there is none."""
    properties = resolved(schema, root).get("properties")
    return properties.get(name) if isinstance(properties, Mapping) else None
