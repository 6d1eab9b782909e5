"""Reads the calls of Kimi K3, whose tags stand between markers and have attributes.

    <|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>
    <|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>
    <|close|>call<|sep|><|close|>tools<|sep|>

Beside ``tools`` there are ``think``, which is reasoning, and ``response``, whose tags are dropped. An argument of the
type ``string`` is raw text, any other is JSON; without a type the tool's schema decides. A value that contains another
tag was not closed, and its call is broken.
"""

from __future__ import annotations

import re
from typing import Literal

from .channels import read_thought
from .parameters import NO_STRING, STRING, Arguments, Types
from .reader import Markers, NotACall, Parsing, Reader
from .writer import CallWriter

__all__ = ["CLOSERS", "INNER", "OPENER", "RESPONSE_END", "kimi_k3"]

OPENER, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"
_CALL_END, _TOOLS_END, _ARGUMENT_END, _THINK_END = (
    f"{_CLOSE}{name}{_SEP}" for name in ("call", "tools", "argument", "think")
)
RESPONSE_END = f"{_CLOSE}response{_SEP}"
CLOSERS = (_CALL_END, _TOOLS_END)
INNER = (_ARGUMENT_END, _THINK_END)
_MAX_TAG = 512  # characters of a tag with its attributes; a name and a key are the longest of them
_TAG_STOPS = Markers([_SEP, OPENER, _CLOSE])
_THINK_STOPS = Markers([_THINK_END])
_VALUE_STOPS = Markers([_ARGUMENT_END, OPENER, *CLOSERS])
_TAG = re.compile(r"""\s*(\w+)((?:\s+\w+="[^"]*")*)\s*""").fullmatch
_find_attributes = re.compile(r"""(\w+)="([^"]*)\"""").findall


def kimi_k3(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads what a tag opens: calls, a thought, or the response."""
    yield from reader.expect(OPENER)
    name, attributes = yield from _tag(reader)
    if name == "think":
        yield from read_thought(reader, calls, _THINK_STOPS, frozenset({_THINK_END}))
    elif name == "tools":
        yield from reader.then(OPENER)
        name, attributes = yield from _tag(reader)
        yield from _calls(reader, calls, name, attributes, in_section=True)
    elif name == "call":
        yield from _calls(reader, calls, name, attributes, in_section=False)
    elif name != "response":
        raise NotACall


def _calls(
    reader: Reader, calls: CallWriter, name: str, attributes: dict[str, str], *, in_section: bool
) -> Parsing[None]:
    """Reads calls, of which the first tag was read, up to the section's end."""
    while True:
        tool = attributes.get("tool", "")
        if name != "call" or not tool:
            raise NotACall
        following = yield from _call(reader, calls, tool)
        if following is None:
            if not in_section or (yield from reader.then(OPENER, _TOOLS_END)) == _TOOLS_END:
                return
            following = yield from _tag(reader)
        name, attributes = following


def _call(reader: Reader, calls: CallWriter, tool: str) -> Parsing[tuple[str, dict[str, str]] | None]:
    """Reads a call from behind its tag; returns the tag of the next one if this was not closed before it."""
    tag = yield from reader.then(OPENER, *CLOSERS)
    arguments = Arguments(reader, calls, tool, close=_CALL_END)
    while tag == OPENER:
        name, attributes = yield from _tag(reader)
        if name == "call":
            arguments.cut()
            return name, attributes
        if name != "argument" or "key" not in attributes:
            raise NotACall
        types = _types(attributes.get("type"))
        yield from arguments.value(attributes["key"], (_ARGUMENT_END,), _VALUE_STOPS, types=types)
        tag = yield from reader.then(OPENER, *CLOSERS)
    if tag == _CALL_END:
        arguments.end()
    else:
        arguments.cut()
    return None


def _tag(reader: Reader) -> Parsing[tuple[str, dict[str, str]]]:
    """Reads a tag from behind its first marker; returns its name and its attributes."""
    pieces: list[str] = []
    if (yield from reader.until(_TAG_STOPS, pieces.append, _MAX_TAG)) != _SEP:
        raise NotACall
    match = _TAG("".join(pieces))
    if match is None:
        raise NotACall
    reader.at += len(_SEP)
    return match[1], {key: _unescaped(value) for key, value in _find_attributes(match[2])}


def _unescaped(value: str) -> str:
    return value.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _types(said: str | None) -> Types | Literal["schema"]:
    return "schema" if said is None else STRING if said == "string" else NO_STRING
