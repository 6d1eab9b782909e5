"""Reads calls with arguments as JSON, whose name stands inside the object or in the markup before it.

DeepSeek V3, R1   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
                  ```json
                  {"city": "Paris"}
                  ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
DeepSeek V3.1     <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": ...
Kimi K2           <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>
                  {"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>
Mistral (v11 on)  [TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Paris"}
Llama 3.1         <function=get_weather>{"city": "Paris"}</function>
others            {"name": "get_weather", "arguments": {"city": "Paris"}}

The objects are read by `objects`.
"""

from __future__ import annotations

import re

from .objects import call_objects, one_call_object
from .pythonic import dotted_call
from .reader import Markers, NotACall, Parsing, Reader
from .writer import CallWriter

__all__ = [
    "DEEPSEEK_CLOSERS",
    "DEEPSEEK_OPENERS",
    "FENCE",
    "FUNCTION_OPENER",
    "KIMI_CLOSERS",
    "KIMI_OPENERS",
    "MISTRAL_OPENER",
    "PYTHON_TAG",
    "bare_list",
    "bare_objects",
    "deepseek",
    "fenced",
    "function_tag",
    "hermes",
    "kimi",
    "mistral",
    "python_tag",
]

_DEEPSEEK_CALL, _DEEPSEEK_NAME_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"
_DEEPSEEK_CALL_END, _DEEPSEEK_END = "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"
# R1 spells the first marker in several ways.
_DEEPSEEK_SECTIONS = ("<｜tool▁calls▁begin｜>", "<｜tool_calls_begin｜>", "<｜tool calls begin｜>", "<｜tool▁calls｜>")
DEEPSEEK_OPENERS = (*_DEEPSEEK_SECTIONS, _DEEPSEEK_CALL)
DEEPSEEK_CLOSERS = (_DEEPSEEK_CALL_END, _DEEPSEEK_END)

_KIMI_SECTION, _KIMI_CALL = "<|tool_calls_section_begin|>", "<|tool_call_begin|>"
_KIMI_ARGUMENTS, _KIMI_CALL_END = "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_KIMI_END = "<|tool_calls_section_end|>"
KIMI_OPENERS = (_KIMI_SECTION, _KIMI_CALL)
KIMI_CLOSERS = (_KIMI_CALL_END, _KIMI_END)
_KIMI_ID_END = Markers([_KIMI_ARGUMENTS])
_KIMI_ID = re.compile(r"(?:functions\.)?([\w.\-]+?)(:\d+)?")

_MAX_LABEL = 16  # characters of a fence's label, such as "json"

FENCE = "```"
_LABELS = frozenset({"", "json", "tool_call", "tool_calls", "tool_code"})
PYTHON_TAG = "<|python_tag|>"
MISTRAL_OPENER = "[TOOL_CALLS]"
FUNCTION_OPENER = "<function="


def deepseek(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a section of calls: DeepSeek V3, V3.1 and R1."""
    if (yield from reader.expect(*DEEPSEEK_OPENERS)) != _DEEPSEEK_CALL:
        yield from reader.then(_DEEPSEEK_CALL)
    yield from reader.section(_DEEPSEEK_CALL, _DEEPSEEK_END, lambda: _deepseek_call(reader, calls))


def _deepseek_call(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.spaces()
    name = yield from reader.name()
    yield from reader.then(_DEEPSEEK_NAME_END)
    if (yield from reader.spaces()) not in "{`":  # so that was the type, and the name comes now
        name = yield from reader.name()
    fence = ""
    if (yield from reader.spaces()) == "`":
        fence = yield from reader.expect("```")
        yield from reader.word(_MAX_LABEL)
    yield from _json_arguments(reader, calls, name, close=_DEEPSEEK_CALL_END)
    if fence:
        yield from reader.then(fence)
    yield from reader.then(_DEEPSEEK_CALL_END)
    calls.end()


def kimi(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a section of calls of Kimi K2, each with an id that contains the name."""
    if (yield from reader.expect(*KIMI_OPENERS)) == _KIMI_SECTION:
        yield from reader.then(_KIMI_CALL)
    yield from reader.section(_KIMI_CALL, _KIMI_END, lambda: _kimi_call(reader, calls))


def _kimi_call(reader: Reader, calls: CallWriter) -> Parsing[None]:
    pieces: list[str] = []
    yield from reader.until(_KIMI_ID_END, pieces.append, reader.limits.max_name_bytes)
    yield from reader.expect(_KIMI_ARGUMENTS)
    call_id = "".join(pieces).strip()
    match = _KIMI_ID.fullmatch(call_id)
    if match is None:
        raise NotACall
    yield from _json_arguments(reader, calls, match[1], call_id if match[2] else None, close=_KIMI_CALL_END)
    yield from reader.then(_KIMI_CALL_END)
    calls.end()


def mistral(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads Mistral's calls: a name and arguments, which end with the response, or a list of call objects."""
    yield from reader.expect(MISTRAL_OPENER)
    if (yield from reader.spaces()) in "[{":
        yield from call_objects(reader, calls, close=None, known_only=False)
        return
    name, call_id = (yield from reader.name()), None
    if (yield from reader.spaces()) == "[" and (yield from reader.expect("[CALL_ID]", "[ARGS]")) == "[CALL_ID]":
        yield from reader.spaces()
        call_id = yield from reader.word(reader.limits.max_id_bytes)
        yield from reader.then("[ARGS]")
    yield from _json_arguments(reader, calls, name, call_id, close=None)
    calls.leave()


def function_tag(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a call in Llama 3.1's format for custom tools."""
    yield from reader.expect(FUNCTION_OPENER)
    name = yield from reader.name()
    yield from reader.expect(">")
    yield from _json_arguments(reader, calls, name, close="</function>")
    yield from reader.then("</function>")
    calls.end()


def _json_arguments(
    reader: Reader, calls: CallWriter, name: str, call_id: str | None = None, *, close: str | None
) -> Parsing[None]:
    """Announces the call if an object begins here, and reads the object."""
    if (yield from reader.spaces()) != "{":
        raise NotACall
    calls.begin(name, call_id, close=close)
    yield from reader.value(calls.add, stops=calls.stops)
    reader.hold()


def hermes(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a call object, or a list of them, between Hermes' tags."""
    yield from reader.expect("<tool_call>")
    yield from call_objects(reader, calls, close="</tool_call>", known_only=False)


def fenced(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads call objects in a code fence, which can call only registered tools."""
    yield from reader.expect(FENCE)
    if (yield from reader.word(max(map(len, _LABELS)))) not in _LABELS:
        raise NotACall
    yield from call_objects(reader, calls, close=FENCE, known_only=True)


def bare_list(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a list of call objects without a marker, which can call only registered tools."""
    yield from call_objects(reader, calls, close=None, known_only=True)


def python_tag(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads Llama 3's calls behind its tag: objects, or a call of a built-in tool."""
    yield from reader.expect(PYTHON_TAG)
    if (yield from reader.spaces()) == "{":
        yield from _objects(reader, calls, known_only=False)
    else:
        yield from dotted_call(reader, calls)


def bare_objects(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads objects without a marker, which can call only registered tools."""
    yield from _objects(reader, calls, known_only=True)


def _objects(reader: Reader, calls: CallWriter, *, known_only: bool) -> Parsing[None]:
    """Reads objects with semicolons between them; anything behind the last is text."""
    while True:
        yield from one_call_object(reader, calls, close=None, known_only=known_only)
        calls.leave()
        yield from reader.then(";")
        yield from reader.spaces()
