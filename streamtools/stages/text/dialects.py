"""Lists the dialects by name: the markers that begin a call in each, and the parsers that read from there.

Sources, read on 2026-11-21: the chat templates of the models named, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .calls import CallWriter, TextDialect
from .json_calls import (
    DEEPSEEK_OPENERS,
    FUNCTION_OPENER,
    KIMI_OPENERS,
    MISTRAL_OPENER,
    call_objects,
    deepseek,
    function_tag,
    kimi,
    mistral,
    one_call_object,
)
from .pythonic import PYTHONIC_MARKERS, dotted_call, marked_list, plain_list
from .reader import NotACall, Parsing, Reader
from .tagged import DSML, MINIMAX, glm, qwen_coder

__all__ = ["DIALECTS", "dialect"]

_FENCE = "```"
_LABELS = frozenset({"", "json", "tool_call", "tool_calls", "tool_code"})
_PYTHON_TAG = "<|python_tag|>"


def _hermes(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.expect("<tool_call>")
    yield from call_objects(reader, calls, close="</tool_call>", known_only=False)


def _fenced(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.expect(_FENCE)
    if (yield from reader.word(max(map(len, _LABELS)))) not in _LABELS:
        raise NotACall
    yield from call_objects(reader, calls, close=_FENCE, known_only=True)


def _python_tag(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from reader.expect(_PYTHON_TAG)
    if (yield from reader.spaces()) == "{":
        yield from _objects(reader, calls, known_only=False)
    else:
        yield from dotted_call(reader, calls)


def _bare_objects(reader: Reader, calls: CallWriter) -> Parsing[None]:
    yield from _objects(reader, calls, known_only=True)


def _objects(reader: Reader, calls: CallWriter, *, known_only: bool) -> Parsing[None]:
    """Reads objects with semicolons between them; anything behind the last is text."""
    while True:
        yield from one_call_object(reader, calls, close=None, known_only=known_only)
        calls.leave()
        yield from reader.then(";")
        yield from reader.spaces()


_ALL = (
    TextDialect(name="hermes", anywhere={"<tool_call>": _hermes}),
    TextDialect(name="qwen3_coder", anywhere={"<tool_call>": qwen_coder, "<function=": qwen_coder}),
    TextDialect(
        name="llama3",
        anywhere={_PYTHON_TAG: _python_tag, FUNCTION_OPENER: function_tag},
        at_line_start={"{": _bare_objects},
    ),
    TextDialect(name="mistral", anywhere={MISTRAL_OPENER: mistral}),
    TextDialect(
        name="deepseek", anywhere={**dict.fromkeys(DEEPSEEK_OPENERS, deepseek), **dict.fromkeys(DSML.openers, DSML)}
    ),
    TextDialect(name="kimi", anywhere=dict.fromkeys(KIMI_OPENERS, kimi)),
    TextDialect(name="glm", anywhere={"<tool_call>": glm}),
    TextDialect(name="minimax", anywhere=dict.fromkeys(MINIMAX.openers, MINIMAX)),
    TextDialect(
        name="pythonic", anywhere=dict.fromkeys(PYTHONIC_MARKERS, marked_list), at_line_start={"[": plain_list}
    ),
    TextDialect(name="json", anywhere={}, at_line_start={_FENCE: _fenced}),
)

DIALECTS: Mapping[str, TextDialect] = MappingProxyType({known.name: known for known in _ALL})
"""Every dialect by its name."""


def dialect(name: str) -> TextDialect:
    """Returns the dialect of that name.

    Raises:
        ValueError: there is none; the message lists the known names.
    """
    if name not in DIALECTS:
        raise ValueError(f"no dialect called {name!r}; there are: {', '.join(DIALECTS)}")
    return DIALECTS[name]
