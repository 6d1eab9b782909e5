"""Lists the dialects in which models write calls into their text.

A dialect is a row: the markers that begin a call, with the parser that reads from there, and the markers that end one.
Sources, read on 2026-11-21: the chat templates of the models named, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import invokes, json_calls, pythonic, tagged
from .calls import TextDialect

__all__ = ["DIALECTS"]


_ALL = (
    TextDialect(name="hermes", anywhere={"<tool_call>": json_calls.hermes}, closers=("</tool_call>",)),
    TextDialect(
        name="qwen3_coder",
        anywhere=dict.fromkeys(tagged.QWEN_OPENERS, tagged.qwen_coder),
        closers=("</tool_call>", "</seed:tool_call>"),
        inner=("</function>", "</parameter>"),
    ),
    TextDialect(
        name="llama3",
        anywhere={json_calls.PYTHON_TAG: json_calls.python_tag, json_calls.FUNCTION_OPENER: json_calls.function_tag},
        at_line_start={"{": json_calls.bare_objects},
        closers=("</function>",),
    ),
    TextDialect(name="mistral", anywhere={json_calls.MISTRAL_OPENER: json_calls.mistral}),
    TextDialect(
        name="deepseek",
        anywhere={
            **dict.fromkeys(json_calls.DEEPSEEK_OPENERS, json_calls.deepseek),
            **{opener: dsml for dsml in invokes.DSML for opener in dsml.openers},
        },
        closers=(*json_calls.DEEPSEEK_CLOSERS, *(closer for dsml in invokes.DSML for closer in dsml.closers)),
        inner=tuple(closer for dsml in invokes.DSML for closer in dsml.inner),
    ),
    TextDialect(
        name="kimi",
        anywhere=dict.fromkeys(json_calls.KIMI_OPENERS, json_calls.kimi),
        closers=json_calls.KIMI_CLOSERS,
    ),
    TextDialect(
        name="glm",
        anywhere=dict.fromkeys(tagged.GLM.openers, tagged.GLM),
        closers=tagged.GLM.closers,
        inner=tagged.GLM.inner,
    ),
    TextDialect(
        name="minimax",
        anywhere=dict.fromkeys(invokes.MINIMAX.openers, invokes.MINIMAX),
        closers=invokes.MINIMAX.closers,
        inner=invokes.MINIMAX.inner,
    ),
    TextDialect(
        name="pythonic",
        anywhere=dict.fromkeys(pythonic.PYTHONIC_MARKERS, pythonic.marked_list),
        at_line_start={"[": pythonic.plain_list},
        closers=tuple(pythonic.PYTHONIC_MARKERS.values()),
    ),
    TextDialect(
        name="json", anywhere={}, at_line_start={json_calls.FENCE: json_calls.fenced}, closers=(json_calls.FENCE,)
    ),
)

DIALECTS: Mapping[str, TextDialect] = MappingProxyType({known.name: known for known in _ALL})
"""Every dialect by its name."""
