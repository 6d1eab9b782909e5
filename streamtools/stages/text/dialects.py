"""The dialects by name: what begins a call in each, and who reads it from there.

Read on 2026-11-21: the chat templates of the models named, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .calls import Calls, Dialect
from .named import (
    DEEPSEEK_OPENERS,
    FUNCTION_OPENER,
    KIMI_OPENERS,
    MISTRAL_OPENER,
    deepseek,
    function_tag,
    kimi,
    mistral,
)
from .objects import call_objects, one_call_object
from .pythonic import PYTHONIC_MARKERS, dotted_call, marked_list, plain_list
from .reader import NotACall, Parsing, Reader
from .tagged import DSML, MINIMAX, glm, qwen_coder

__all__ = ["DIALECTS", "dialect"]

_FENCE = "```"
_LABELS = frozenset({"", "json", "tool_call", "tool_calls", "tool_code"})
_PYTHON_TAG = "<|python_tag|>"


def _hermes(reader: Reader, calls: Calls) -> Parsing[None]:
    yield from reader.expect("<tool_call>")
    yield from call_objects(reader, calls, close="</tool_call>", known_only=False)


def _fenced(reader: Reader, calls: Calls) -> Parsing[None]:
    yield from reader.expect(_FENCE)
    if (yield from reader.word(max(map(len, _LABELS)))) not in _LABELS:
        raise NotACall
    yield from call_objects(reader, calls, close=_FENCE, known_only=True)


def _python_tag(reader: Reader, calls: Calls) -> Parsing[None]:
    yield from reader.expect(_PYTHON_TAG)
    if (yield from reader.spaces()) == "{":
        yield from _objects(reader, calls, known_only=False)
    else:
        yield from dotted_call(reader, calls)


def _bare_objects(reader: Reader, calls: Calls) -> Parsing[None]:
    yield from _objects(reader, calls, known_only=True)


def _objects(reader: Reader, calls: Calls, *, known_only: bool) -> Parsing[None]:
    """Objects with semicolons between them; what stands behind the last is text."""
    while True:
        yield from one_call_object(reader, calls, close=None, known_only=known_only)
        calls.leave()
        yield from reader.spaces()
        yield from reader.expect(";")
        yield from reader.spaces()


_ALL = (
    Dialect(name="hermes", anywhere={"<tool_call>": _hermes}),
    Dialect(name="qwen3_coder", anywhere={"<tool_call>": qwen_coder, "<function=": qwen_coder}),
    Dialect(
        name="llama3",
        anywhere={_PYTHON_TAG: _python_tag, FUNCTION_OPENER: function_tag},
        at_line_start={"{": _bare_objects},
    ),
    Dialect(name="mistral", anywhere={MISTRAL_OPENER: mistral}),
    Dialect(
        name="deepseek", anywhere={**dict.fromkeys(DEEPSEEK_OPENERS, deepseek), **dict.fromkeys(DSML.openers, DSML)}
    ),
    Dialect(name="kimi", anywhere=dict.fromkeys(KIMI_OPENERS, kimi)),
    Dialect(name="glm", anywhere={"<tool_call>": glm}),
    Dialect(name="minimax", anywhere=dict.fromkeys(MINIMAX.openers, MINIMAX)),
    Dialect(name="pythonic", anywhere=dict.fromkeys(PYTHONIC_MARKERS, marked_list), at_line_start={"[": plain_list}),
    Dialect(name="json", anywhere={}, at_line_start={_FENCE: _fenced}),
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType({known.name: known for known in _ALL})
"""Every dialect by its name."""


def dialect(name: str) -> Dialect:
    """The dialect of that name.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    if name not in DIALECTS:
        raise ValueError(f"no dialect called {name!r}; there are: {', '.join(DIALECTS)}")
    return DIALECTS[name]
