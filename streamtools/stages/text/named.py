"""Reads calls whose name stands in the markup, before the arguments as JSON.

DeepSeek V3, R1   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
                  ```json
                  {"city": "Paris"}
                  ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
DeepSeek V3.1     <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": ...
Kimi K2           <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>
                  {"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>
Mistral (v11 on)  [TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Paris"}    (older: see `objects`)
Llama 3.1         <function=get_weather>{"city": "Paris"}</function>
"""

from __future__ import annotations

import re

from .calls import CallWriter
from .markers import Markers
from .objects import call_objects
from .reader import NotACall, Parsing, Reader

__all__ = ["DEEPSEEK_OPENERS", "FUNCTION_OPENER", "KIMI_OPENERS", "MISTRAL_OPENER", "deepseek", "function_tag", "kimi"]
__all__ += ["mistral"]

_DEEPSEEK_CALL, _DEEPSEEK_NAME_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"
_DEEPSEEK_CALL_END, _DEEPSEEK_END = "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"
# R1 spells the first marker in several ways.
_DEEPSEEK_SECTIONS = ("<｜tool▁calls▁begin｜>", "<｜tool_calls_begin｜>", "<｜tool calls begin｜>", "<｜tool▁calls｜>")
DEEPSEEK_OPENERS = (*_DEEPSEEK_SECTIONS, _DEEPSEEK_CALL)

_KIMI_SECTION, _KIMI_CALL = "<|tool_calls_section_begin|>", "<|tool_call_begin|>"
_KIMI_ARGUMENTS, _KIMI_CALL_END = "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_KIMI_END = "<|tool_calls_section_end|>"
KIMI_OPENERS = (_KIMI_SECTION, _KIMI_CALL)
_KIMI_ID_END = Markers([_KIMI_ARGUMENTS])
_KIMI_ID = re.compile(r"(?:functions\.)?([\w.\-]+?)(:\d+)?")

_MAX_LABEL = 16  # characters of a fence's label, such as "json"

MISTRAL_OPENER = "[TOOL_CALLS]"
FUNCTION_OPENER = "<function="


def deepseek(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a section of calls: DeepSeek V3, V3.1 and R1."""
    if (yield from reader.expect(*DEEPSEEK_OPENERS)) != _DEEPSEEK_CALL:
        yield from reader.spaces()
        yield from reader.expect(_DEEPSEEK_CALL)
    while True:
        yield from _deepseek_call(reader, calls)
        yield from reader.spaces()
        if (yield from reader.expect(_DEEPSEEK_CALL, _DEEPSEEK_END)) == _DEEPSEEK_END:
            return


def _deepseek_call(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.spaces()
    name = yield from reader.name()
    yield from reader.spaces()
    yield from reader.expect(_DEEPSEEK_NAME_END)
    if (yield from reader.spaces()) not in "{`":  # so that was the type, and the name comes now
        name = yield from reader.name()
    fence = ""
    if (yield from reader.spaces()) == "`":
        fence = yield from reader.expect("```")
        yield from reader.word(_MAX_LABEL)
    yield from _json_arguments(reader, calls, name, close=_DEEPSEEK_CALL_END)
    if fence:
        yield from reader.spaces()
        yield from reader.expect(fence)
    yield from reader.spaces()
    yield from reader.expect(_DEEPSEEK_CALL_END)
    calls.end()


def kimi(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a section of calls of Kimi K2, each with an id that contains the name."""
    if (yield from reader.expect(*KIMI_OPENERS)) == _KIMI_SECTION:
        yield from reader.spaces()
        yield from reader.expect(_KIMI_CALL)
    while True:
        pieces: list[str] = []
        yield from reader.until(_KIMI_ID_END, pieces.append, reader.limits.max_name_bytes)
        yield from reader.expect(_KIMI_ARGUMENTS)
        call_id = "".join(pieces).strip()
        match = _KIMI_ID.fullmatch(call_id)
        if match is None:
            raise NotACall
        yield from _json_arguments(reader, calls, match[1], call_id if match[2] else None, close=_KIMI_CALL_END)
        yield from reader.spaces()
        yield from reader.expect(_KIMI_CALL_END)
        calls.end()
        yield from reader.spaces()
        if (yield from reader.expect(_KIMI_CALL, _KIMI_END)) == _KIMI_END:
            return


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
        yield from reader.spaces()
        yield from reader.expect("[ARGS]")
    yield from _json_arguments(reader, calls, name, call_id, close=None)
    calls.leave()


def function_tag(reader: Reader, calls: CallWriter) -> Parsing[None]:
    """Reads a call in Llama 3.1's format for custom tools."""
    yield from reader.expect(FUNCTION_OPENER)
    name = yield from reader.name()
    yield from reader.expect(">")
    yield from _json_arguments(reader, calls, name, close="</function>")
    yield from reader.spaces()
    yield from reader.expect("</function>")
    calls.end()


def _json_arguments(
    reader: Reader, calls: CallWriter, name: str, call_id: str | None = None, *, close: str | None
) -> Parsing[None]:
    """Announces the call if an object begins here, and reads the object."""
    if (yield from reader.spaces()) != "{":
        raise NotACall
    calls.begin(name, call_id, close=close)
    yield from reader.value(calls.add)
    reader.hold()
