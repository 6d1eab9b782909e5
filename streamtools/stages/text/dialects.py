"""Lists the dialects in which models write calls into their text.

A dialect is a row: the markers that begin a call, with the parser that reads from there, the markers that end one, and
an example. Sources, read on 2026-11-22: the chat templates of the models named in `models`, and the parsers of vLLM,
SGLang and llama.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from . import channels, invokes, json_calls, literals, nested, objects, pythonic, tagged, xtml
from .dialect import TextDialect
from .writer import Parser

__all__ = ["DIALECTS"]


def _each(markers: Iterable[str], parser: Parser) -> dict[str, Parser]:
    return dict.fromkeys(markers, parser)


def _invokes(name: str, tags: invokes.Invokes, example: str, tolerates: str) -> TextDialect:
    return TextDialect(
        name=name,
        anywhere=_each(tags.openers, tags),
        closers=tags.closers,
        inner=tags.inner,
        example=example,
        tolerates=tolerates,
    )


def _objects(
    name: str,
    markers: Mapping[str, str | None],
    example: str,
    tolerates: str = "",
    *,
    inside: str | None = None,
    keyed: bool = False,
    others: Mapping[str, Parser] | None = None,
    inner: Iterable[str] = (),
) -> TextDialect:
    """Returns a dialect of call objects between markers. `others`: further markers; `inner`: possible orphans."""
    read = objects.MarkedObjects(markers, inside=inside, keyed=keyed)
    closers = tuple({closer: None for closer in markers.values() if closer})
    anywhere = {**_each(markers, read), **(others or {})}
    return TextDialect(
        name=name, anywhere=anywhere, closers=closers, inner=tuple(inner), example=example, tolerates=tolerates
    )


_SERVED = (
    TextDialect(
        name="hermes",
        anywhere={"<tool_call>": json_calls.hermes},
        closers=("</tool_call>",),
        example='<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
        tolerates="arguments before the name; a list of calls; a wrapping `function` object; `parameters`; "
        "no arguments",
    ),
    TextDialect(
        name="qwen3_coder",
        anywhere=_each(tagged.QWEN_OPENERS, tagged.qwen_coder),
        closers=("</tool_call>", "</seed:tool_call>"),
        inner=("</function>", "</parameter>"),
        example="<tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
        tolerates="the outer tags missing, if `f` is registered; `True`, `False`, `None`; `<seed:tool_call>`",
    ),
    TextDialect(
        name="llama3",
        anywhere={json_calls.PYTHON_TAG: json_calls.python_tag, json_calls.FUNCTION_OPENER: json_calls.function_tag},
        at_line_start={"{": json_calls.bare_objects},
        closers=("</function>",),
        example='<|python_tag|>{"name": "f", "parameters": {"a": 1}}',
        tolerates='no tag at the beginning of a line; `<function=f>{"a": 1}</function>`; several, separated by '
        "semicolons; `f.call(a=1)` after the tag",
    ),
    TextDialect(
        name="mistral",
        anywhere={json_calls.MISTRAL_OPENER: json_calls.mistral},
        example='[TOOL_CALLS]f[ARGS]{"a": 1}',
        tolerates="a list of call objects (before v11), or one object; `[CALL_ID]x` before `[ARGS]`; no `[ARGS]`",
    ),
    TextDialect(
        name="deepseek",
        anywhere={
            **_each(json_calls.DEEPSEEK_OPENERS, json_calls.deepseek),
            **{opener: dsml for dsml in invokes.DSML for opener in dsml.openers},
        },
        closers=(*json_calls.DEEPSEEK_CLOSERS, *(closer for dsml in invokes.DSML for closer in dsml.closers)),
        inner=tuple(closer for dsml in invokes.DSML for closer in dsml.inner),
        example='<｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1'
        "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
        tolerates="V3 and R1: `<｜tool▁calls▁begin｜>` and its like, the type before the name, a code fence around the "
        "arguments, R1's spellings of the first marker; V4: other sections or none, a call that closes itself, "
        "`|DSML|` and other bars, a parameter that the next one closes, arguments as JSON inside `invoke`, "
        '`{"arguments": ...}` around all; V4.1: a blank behind the bars',
    ),
    TextDialect(
        name="kimi",
        anywhere=_each(json_calls.KIMI_OPENERS, json_calls.kimi),
        closers=json_calls.KIMI_CLOSERS,
        example="<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
        '{"a": 1}<|tool_call_end|><|tool_calls_section_end|>',
        tolerates="no section; no prefix; no number (`functions.f:0` is the call's id)",
    ),
    TextDialect(
        name="kimi_k3",
        anywhere={xtml.OPENER: xtml.kimi_k3, xtml.RESPONSE_END: channels.dropped(xtml.RESPONSE_END)},
        closers=xtml.CLOSERS,
        inner=xtml.INNER,
        example='<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="number"'
        "<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
        tolerates="no section; no type; thoughts in `think`",
    ),
    TextDialect(
        name="glm",
        anywhere=_each(tagged.GLM.openers, tagged.GLM),
        closers=tagged.GLM.closers,
        inner=tagged.GLM.inner,
        example="<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
        tolerates="with or without line breaks",
    ),
    _invokes(
        "minimax",
        invokes.MINIMAX,
        '<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke></minimax:tool_call>',
        "no section, if `f` is registered",
    ),
    TextDialect(
        name="minimax_m3",
        anywhere=_each(nested.OPENERS, nested.minimax_m3),
        closers=nested.CLOSERS,
        example='N<tool_call>N<invoke name="f">N<a>1N</a>N</invoke>N</tool_call>'.replace("N", nested.MARK),
        tolerates="no section, if `f` is registered; tags inside a value: `item`, a name repeated, `$text`",
    ),
    TextDialect(
        name="pythonic",
        anywhere=_each(pythonic.PYTHONIC_MARKERS, pythonic.marked_list),
        at_line_start={"[": pythonic.plain_list},
        closers=tuple(pythonic.PYTHONIC_MARKERS.values()),
        example="<|tool_call_start|>[f(a=1)]<|tool_call_end|>",
        tolerates="`<|python_start|>` (Llama 4); no marker at the beginning of a line; the closing marker missing; "
        "`true`, `false`, `null`; tuples; trailing commas; line breaks in strings; call objects between the markers",
    ),
    TextDialect(
        name="json",
        anywhere={},
        at_line_start={json_calls.FENCE: json_calls.fenced},
        closers=(json_calls.FENCE,),
        example='```json\n{"name": "f", "arguments": {"a": 1}}\n```',
        tolerates="a list; the labels `json`, `tool_call`, `tool_calls`, `tool_code`, or none",
    ),
)

_COHERE_TEXT = tuple(f"<|{edge}_{name}|>" for name in ("RESPONSE", "TEXT") for edge in ("START", "END"))

_OTHERS = (
    TextDialect(
        name="gemma",
        anywhere={
            literals.GEMMA.opener: literals.GEMMA,
            literals.FUNCTION_GEMMA.opener: literals.FUNCTION_GEMMA,
            "<|channel>": channels.thought("<|channel>", ["<channel|>"], label="thought"),
        },
        closers=(literals.GEMMA.closer, literals.FUNCTION_GEMMA.closer),
        inner=("<channel|>",),
        example="<|tool_call>call:f{a:1}<tool_call|>",
        tolerates="`<start_function_call>` and `<escape>` (FunctionGemma); `\"x\"`, `'x'` and bare words for "
        '`<|"|>x<|"|>`; no `call`; thoughts in `<|channel>thought`',
    ),
    TextDialect(
        name="harmony",
        anywhere={
            **_each(channels.HARMONY.openers, channels.HARMONY),
            **_each(channels.HARMONY.ends, channels.dropped(*channels.HARMONY.ends)),
        },
        at_beginning={"to=": channels.HARMONY},
        closers=channels.HARMONY.ends,
        example='<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>',
        tolerates="the recipient before the channel; a call in `analysis`; `<|call|>` left out at the end of the "
        "response; `analysis` is reasoning, other channels are text",
    ),
    TextDialect(
        name="muse",
        anywhere={
            **_each(channels.MUSE_MESSAGES.openers, channels.MUSE_MESSAGES),
            **_each(channels.MUSE_MESSAGES.ends, channels.dropped(*channels.MUSE_MESSAGES.ends)),
            **_each(invokes.MUSE.openers, invokes.MUSE),
        },
        at_beginning={"to=": channels.MUSE_MESSAGES},
        closers=(*invokes.MUSE.closers, *channels.MUSE_MESSAGES.ends),
        inner=invokes.MUSE.inner,
        example='<|start|>assistant to=t.f<|message|><atem:function_calls><atem:invoke name="t.f">'
        '<atem:parameter name="a">1</atem:parameter></atem:invoke></atem:function_calls><|eom|>',
        tolerates="no header; `to=self` is reasoning; a call quoted for `user` or `commentary` is text",
    ),
    _objects(
        "inkling",
        {"<|content_invoke_tool_json|>": "<|end_message|>"},
        '<|content_invoke_tool_json|>{"name": "f", "args": {"a": 1}}<|end_message|>',
        "thoughts behind `<|content_thinking|>`; `<|content_text|>` is dropped",
        others={
            "<|content_thinking|>": channels.thought(
                "<|content_thinking|>",
                ["<|end_message|>"],
                stops=["<|content_text|>", "<|content_invoke_tool_json|>"],
            ),
            **_each(["<|content_text|>", "<|end_message|>"], channels.dropped("<|content_text|>", "<|end_message|>")),
        },
    ),
    _objects(
        "cohere",
        {"<|START_ACTION|>": "<|END_ACTION|>"},
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>',
        "thoughts in `<|START_THINKING|>`; the markers around text are dropped",
        others={
            "<|START_THINKING|>": channels.thought("<|START_THINKING|>", ["<|END_THINKING|>"]),
            **_each(_COHERE_TEXT, channels.dropped(*_COHERE_TEXT)),
        },
        inner=("<|END_THINKING|>",),
    ),
    TextDialect(
        name="hunyuan",
        anywhere=_each(tagged.HUNYUAN_OPENERS, tagged.hunyuan),
        closers=tagged.HUNYUAN.closers,
        inner=tagged.HUNYUAN.inner,
        example="<tool_calls><tool_call>f<tool_sep><arg_key>a</arg_key><arg_value>1</arg_value></tool_call></tool_calls>",
        tolerates="call objects between the outer tags (A13B, Jamba); a suffix of all tags, as in "
        "`<tool_call:6124c78e>` (V4); no section; no `<tool_sep>`",
    ),
    TextDialect(
        name="k2_horizon",
        anywhere=_each(tagged.K2_HORIZON.openers, tagged.K2_HORIZON),
        closers=tagged.K2_HORIZON.closers,
        inner=tagged.K2_HORIZON.inner,
        example="<ifm|tool_calls><ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type>"
        "<ifm|arg_value>1</ifm|arg_value></ifm|tool_call></ifm|tool_calls>",
        tolerates="no types; call objects inside `tool_call`; no section",
    ),
    _invokes(
        "minicpm",
        invokes.MINICPM,
        '<function name="f"><param name="a">1</param></function>',
        "`f` has to be registered; CDATA; `<functionname=`, `<functionĠname=`",
    ),
    _invokes(
        "dots",
        invokes.DOTS,
        '<dots_function_call><invoke name="f"><parameter name="a">1</parameter></invoke></dots_function_call>',
        "call objects inside; no section, if `f` is registered",
    ),
    _invokes(
        "step3",
        invokes.STEP3,
        '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f">'
        '<steptml:parameter name="a">1</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>',
        "no markers around the tags, if `f` is registered",
    ),
    _objects(
        "gigachat",
        dict.fromkeys(["<|function_call|>", "function call<|role_sep|>"]),
        '<|function_call|>{"name": "f", "arguments": {"a": 1}}',
        "`function call<|role_sep|>` (3.0)",
    ),
    _objects(
        "apertus",
        {"<|tools_prefix|>": "<|tools_suffix|>"},
        '<|tools_prefix|>[{"f": {"a": 1}}]<|tools_suffix|>',
        "several tools in one object",
        keyed=True,
    ),
    _objects(
        "internlm",
        {"<|action_start|>": "<|action_end|>"},
        '<|action_start|><|plugin|>{"name": "f", "parameters": {"a": 1}}<|action_end|>',
        "a blank between the markers",
        inside="<|plugin|>",
    ),
    TextDialect(
        name="phi4_mini",
        anywhere={"functools[": objects.MarkedObjects({"functools": None})},
        example='functools[{"name": "f", "arguments": {"a": 1}}]',
    ),
    TextDialect(
        name="xlam",
        anywhere={"[TOOL_CALLS]": objects.MarkedObjects({"[TOOL_CALLS]": None})},
        at_line_start={"[": json_calls.bare_list, json_calls.FENCE: json_calls.fenced},
        closers=(json_calls.FENCE,),
        example='[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]',
        tolerates="no marker at the beginning of a line; a code fence",
    ),
    _objects(
        "granite",
        dict.fromkeys(["<|tool_call|>", "<tool_call>", "<function_call>"]),
        '<|tool_call|>[{"name": "f", "arguments": {"a": 1}}]',
        "`<tool_call>`, `<function_call>` (20b); one object instead of the list; a closing tag",
        inner=("</tool_call>", "</function_call>"),
    ),
    _objects(
        "longcat",
        {"<longcat_tool_call>": "</longcat_tool_call>"},
        '<longcat_tool_call>{"name": "f", "arguments": {"a": 1}}</longcat_tool_call>',
        "a list; `parameters`",
    ),
    TextDialect(
        name="olmo3",
        anywhere={pythonic.LINES_OPENER: pythonic.lines},
        closers=(pythonic.LINES_CLOSER,),
        example="<function_calls>f(a=1)</function_calls>",
        tolerates="several, one in a line; `true`, `false`, `null`",
    ),
)

DIALECTS: Mapping[str, TextDialect] = MappingProxyType({known.name: known for known in (*_SERVED, *_OTHERS)})
"""Every dialect by its name."""
