"""Lists the dialects in which models write calls into their text, and the models that write each.

Sources, read on 2026-11-22: the chat templates of the models named in `FAMILIES`, and the parsers of vLLM, SGLang and
llama.cpp. A model's name is that of hubs and servers (``Qwen/Qwen3-8B``, ``qwen3:8b``, ``qwen.qwen3-32b-v1:0``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from ..events import Event, StreamStart
from . import markup, notation
from .calls import TextCalls
from .notation import objects
from .parts import Form, TextDialect
from .thoughts import HARMONY, MUSE, thought

_INKLING_CALL = "<|content_invoke_tool_json|>"

_ALL = (
    TextDialect(
        "hermes",
        [objects({"<tool_call>": "</tool_call>"})],
        example='<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
        tolerates="arguments before the name; a list of calls; a wrapping `function` object; `parameters`; no "
        "arguments",
    ),
    TextDialect(
        "qwen3_coder",
        [markup.qwen_coder],
        example="<tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
        tolerates="the outer tags missing, if `f` is registered; `True`, `False`, `None`; `<seed:tool_call>`",
    ),
    TextDialect(
        "llama3",
        [notation.python_tag, notation.function_tag],
        lines=[Form(partial(notation.several_objects, known_only=True), ("{",))],
        example='<|python_tag|>{"name": "f", "parameters": {"a": 1}}',
        tolerates='no tag at the beginning of a line; `<function=f>{"a": 1}</function>`; several, separated by '
        "semicolons; `f.call(a=1)` after the tag",
    ),
    TextDialect(
        "mistral",
        [notation.mistral],
        example='[TOOL_CALLS]f[ARGS]{"a": 1}',
        tolerates="a list of call objects (before v11), or one object; `[CALL_ID]x` before `[ARGS]`; no `[ARGS]`",
    ),
    TextDialect(
        "deepseek",
        [notation.DEEPSEEK, *markup.DSML],
        example='<｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1'
        "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
        tolerates="V3 and R1: `<｜tool▁calls▁begin｜>` and similar markers, the type before the name, a code fence "
        "around the arguments, R1's spellings of the first marker; V4: other sections or none, a self-closing call, "
        "`|DSML|` and other bars, a parameter that the next one closes, arguments as JSON inside `invoke`, "
        '`{"arguments": ...}` around all; V4.1: a space after the bars',
    ),
    TextDialect(
        "kimi",
        [notation.KIMI],
        drops=("<|im_end|>",),
        example="<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
        '{"a": 1}<|tool_call_end|><|tool_calls_section_end|>',
        tolerates="no section; `<|tool_call_section_begin|>`; no prefix; no number (`functions.f:0` is the call's id); "
        "`<|im_end|>` is dropped",
    ),
    TextDialect(
        "kimi_k3",
        [markup.kimi_k3],
        drops=markup.XTML_DROPS,
        example='<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="number"'
        "<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
        tolerates="no section; no type; thoughts in `think`; the ends of response and message are dropped",
    ),
    TextDialect(
        "glm",
        [markup.GLM],
        example="<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
        tolerates="with or without line breaks",
    ),
    TextDialect(
        "minimax",
        [markup.MINIMAX],
        example='<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke></minimax:tool_call>',
        tolerates="no section, if `f` is registered",
    ),
    TextDialect(
        "minimax_m3",
        [markup.minimax_m3],
        example='N<tool_call>N<invoke name="f">N<a>1N</a>N</invoke>N</tool_call>'.replace("N", markup.MARK),
        tolerates="no section, if `f` is registered; tags inside a value: `item`, a repeated name, `$text`",
    ),
    TextDialect(
        "pythonic",
        [notation.marked_list],
        lines=[notation.plain_list],
        example="<|tool_call_start|>[f(a=1)]<|tool_call_end|>",
        tolerates="`<|python_start|>` (Llama 4); no marker at the beginning of a line; the closing marker missing; "
        "`true`, `false`, `null`; tuples; trailing commas; line breaks in strings; call objects between the markers",
    ),
    TextDialect(
        "json",
        [],
        lines=[notation.fenced],
        example='```json\n{"name": "f", "arguments": {"a": 1}}\n```',
        tolerates="a list; the labels `json`, `tool_call`, `tool_calls`, `tool_code`, or none",
    ),
    TextDialect(
        "gemma",
        [notation.GEMMA, notation.FUNCTION_GEMMA, thought("<|channel>", "<channel|>", label="thought")],
        example="<|tool_call>call:f{a:1}<tool_call|>",
        tolerates="`<start_function_call>` and `<escape>` (FunctionGemma); `\"x\"`, `'x'` and bare words for "
        '`<|"|>x<|"|>`; no `call`; thoughts in `<|channel>thought`',
    ),
    TextDialect(
        "harmony",
        [Form(HARMONY.read, HARMONY.openers, HARMONY.ends)],
        at_beginning={"to=": HARMONY.read},
        drops=HARMONY.ends,
        example='<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>',
        tolerates="the recipient before the channel; a call in `analysis`; `<|call|>` left out at the end of the "
        "response; `analysis` is reasoning, other channels are text",
    ),
    TextDialect(
        "muse",
        [Form(MUSE.read, MUSE.openers), markup.MUSE, Form(MUSE.ended, MUSE.ends, MUSE.ends)],
        at_beginning={"to=": MUSE.read},
        example='<|start|>assistant to=t.f<|message|><atem:function_calls><atem:invoke name="t.f">'
        '<atem:parameter name="a">1</atem:parameter></atem:invoke></atem:function_calls><|eom|>',
        tolerates="no header; `<|eom|>` and `<|start|>` missing before a header; `to=self` and the developer's channel "
        "are reasoning; a call quoted for `user` or `commentary` is text",
    ),
    TextDialect(
        "inkling",
        [
            objects({_INKLING_CALL: "<|end_message|>"}, header="<|message_model|>"),
            thought(
                "<|content_thinking|>",
                "<|end_message|>",
                stops=["<|message_model|>", "<|content_text|>", _INKLING_CALL],
            ),
        ],
        drops=("<|content_text|>", "<|end_message|>", "<|content_model_end_sampling|>"),
        example='<|content_invoke_tool_json|>{"name": "f", "args": {"a": 1}}<|end_message|>',
        tolerates="thoughts after `<|content_thinking|>`; the markers around text are dropped, with the name before a "
        "call",
    ),
    TextDialect(
        "cohere",
        [objects({"<|START_ACTION|>": "<|END_ACTION|>"}), thought("<|START_THINKING|>", "<|END_THINKING|>")],
        drops=tuple(f"<|{edge}_{name}|>" for name in ("RESPONSE", "TEXT") for edge in ("START", "END")),
        example='<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>',
        tolerates="thoughts in `<|START_THINKING|>`; the markers around text are dropped",
    ),
    TextDialect(
        "hunyuan",
        [markup.hunyuan],
        example="<tool_calls><tool_call>f<tool_sep><arg_key>a</arg_key><arg_value>1</arg_value></tool_call></tool_calls>",
        tolerates="call objects between the outer tags (A13B, Jamba); a suffix of all tags, as in "
        "`<tool_call:6124c78e>` (V4); no section; no `<tool_sep>`",
    ),
    TextDialect(
        "k2_horizon",
        [markup.K2_HORIZON],
        example="<ifm|tool_calls><ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type>"
        "<ifm|arg_value>1</ifm|arg_value></ifm|tool_call></ifm|tool_calls>",
        tolerates="no types; call objects inside `tool_call`; no section",
    ),
    TextDialect(
        "minicpm",
        [markup.MINICPM],
        example='<function name="f"><param name="a">1</param></function>',
        tolerates="`f` must be registered; CDATA; `<functionname=`, `<functionĠname=`",
    ),
    TextDialect(
        "dots",
        [markup.DOTS],
        example='<dots_function_call><invoke name="f"><parameter name="a">1</parameter></invoke></dots_function_call>',
        tolerates="call objects inside; no section, if `f` is registered",
    ),
    TextDialect(
        "gigachat",
        [objects(dict.fromkeys(["<|function_call|>", "function call<|role_sep|>"]))],
        drops=("<|message_sep|>\n\n", "<|message_sep|>"),  # the line breaks are a part of the token
        example='<|function_call|>{"name": "f", "arguments": {"a": 1}}',
        tolerates="`function call<|role_sep|>` (3.0); `<|message_sep|>` is dropped",
    ),
    TextDialect(
        "apertus",
        [objects({"<|tools_prefix|>": "<|tools_suffix|>"}, keyed=True)],
        example='<|tools_prefix|>[{"f": {"a": 1}}]<|tools_suffix|>',
        tolerates="several tools in one object",
    ),
    TextDialect(
        "longcat",
        [objects({"<longcat_tool_call>": "</longcat_tool_call>"})],
        example='<longcat_tool_call>{"name": "f", "arguments": {"a": 1}}</longcat_tool_call>',
        tolerates="a list; `parameters`",
    ),
    TextDialect(
        "olmo3",
        [notation.lines],
        example="<function_calls>f(a=1)</function_calls>",
        tolerates="several, one per line; `true`, `false`, `null`",
    ),
)

DIALECTS: Mapping[str, TextDialect] = MappingProxyType({known.name: known for known in _ALL})
"""Every dialect by its name."""


class AutoCalls:
    """Does as `TextCalls` in the dialect of the stream's model, which `make` makes; without one all is text."""

    handles = TextCalls.handles | {StreamStart}

    def __init__(self, make: Callable[[str], TextCalls]) -> None:
        self._make = make
        self._stage: TextCalls | None = None
        self.feed: Callable[[Event], Iterable[Event]] = self._begin

    def finish(self) -> Iterable[Event]:
        return () if self._stage is None else self._stage.finish()

    def _begin(self, event: Event) -> Iterable[Event]:
        if isinstance(event, StreamStart) and (dialect := dialect_of(event.model)) is not None:
            self._stage = self._make(dialect)
            self.feed = self._go_on
        return (event,)

    def _go_on(self, event: Event) -> Iterable[Event]:
        assert self._stage is not None, "the dialect is known"
        return (event,) if type(event) is StreamStart else self._stage.feed(event)


# -- the dialect of a model, by its name --


class Family(NamedTuple):
    models: str
    dialect: str
    pattern: str  # a regular expression that is found in their names


FAMILIES = (  # all families; the first one whose pattern is found in a name counts
    Family("DeepSeek V3 to V4.1, R1", "deepseek", r"deepseek"),
    Family("Kimi K3", "kimi_k3", r"kimi-?k3"),
    Family("Kimi K2", "kimi", r"kimi"),
    Family("Hermes 2 to 4", "hermes", r"hermes"),
    Family("ToolACE", "pythonic", r"toolace"),
    Family("Qwen3-Coder, Qwen 3.5 and later", "qwen3_coder", r"qwen-?3-coder|qwen-?3\.[5-9]|qwen-?[4-9]\b"),
    Family("Nemotron 3", "qwen3_coder", r"nemotron-?3"),
    Family("Step 3.5 and later", "qwen3_coder", r"step-?(3\.[5-9]|[4-9])"),
    Family("MiMo", "qwen3_coder", r"mimo"),
    Family("Seed-OSS", "qwen3_coder", r"seed-?oss"),
    Family("Qwen 2.5 and 3, QwQ", "hermes", r"qwen|qwq"),
    Family("Granite 4", "hermes", r"granite-?[4-9]"),
    Family("ERNIE 4.5", "hermes", r"ernie"),
    Family("GLM 4.5 and later", "glm", r"glm-?(4\.[5-9]|[5-9])"),
    Family("Ling 3", "glm", r"ling-?3"),
    Family("Laguna", "glm", r"laguna"),
    Family("MiniMax M3", "minimax_m3", r"minimax-?m3"),
    Family("MiniMax M2", "minimax", r"minimax"),
    Family("Gemma 4, FunctionGemma", "gemma", r"gemma-?4|function-?gemma"),
    Family("gpt-oss", "harmony", r"gpt-?oss"),
    Family("Llama 3.2 and 4", "pythonic", r"llama-?(3[.-]2|4)\b"),
    Family("LFM2, LFM2.5", "pythonic", r"lfm-?2"),
    Family("Llama 3.1, 3.3", "llama3", r"llama-?3"),
    Family(
        "Mistral, Ministral, Devstral, Magistral", "mistral", r"mistral|ministral|devstral|magistral|codestral|mixtral"
    ),
    Family("Command R to 4", "cohere", r"command-|c4ai"),
    Family("Hunyuan A13B, HY V3 and V4", "hunyuan", r"hunyuan|^hy-?v?[34]"),
    Family("Jamba", "hunyuan", r"jamba"),
    Family("MiniCPM5", "minicpm", r"minicpm-?5"),
    Family("dots", "dots", r"^dots\b"),
    Family("GigaChat 3", "gigachat", r"gigachat-?3"),
    Family("Apertus", "apertus", r"apertus"),
    Family("LongCat", "longcat", r"longcat"),
    Family("OLMo 3", "olmo3", r"olmo-?3"),
    Family("Inkling", "inkling", r"inkling"),
    Family("Muse, Glimmer", "muse", r"^muse\b|glimmer"),
    Family("K2 Horizon", "k2_horizon", r"k2-horizon"),
)

_PATTERNS = tuple((re.compile(family.pattern), family.dialect) for family in FAMILIES)


def dialect_of(model: str | None) -> str | None:
    """Returns the name of the dialect in which a model writes calls; None if the model is not known.

    >>> dialect_of("Qwen/Qwen3-Coder-480B-A35B-Instruct"), dialect_of("llama3.1:8b"), dialect_of("gpt-5")
    ('qwen3_coder', 'llama3', None)
    """
    if model is None:
        return None
    name = re.sub(r"[\s_]+", "-", model.rpartition("/")[2].partition(":")[0].lower())
    return next((dialect for pattern, dialect in _PATTERNS if pattern.search(name)), None)
