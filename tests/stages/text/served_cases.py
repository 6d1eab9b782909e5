"""Texts of models, by dialect: what stays text, and which calls are in it.

A call is its name and its arguments, or the code of its problem; and its id, where the dialect has one. The tools are
those of `TOOLS`; a name that is none of theirs is called all the same where a marker says that it is a call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from streamtools import tool

__all__ = ["NOON", "ODD", "PARIS", "SERVED", "TOOLS", "Called", "Case", "broken", "cut"]


@tool(effect="pure")
def get_weather(city: str, days: int = 1, hourly: bool = False) -> str:
    """The weather.

    Args:
        city: Where.
        days: How many.
        hourly: In detail.
    """
    return f"{city}: sun for {days}"


@tool(effect="pure")
def get_time(zone: str | None = None) -> str:
    """The time."""
    return f"noon in {zone}"


@tool(effect="pure")
def search(query: str, where: list[str] | None = None, options: dict[str, Any] | None = None) -> str:
    """Search."""
    return query


TOOLS = (get_weather, get_time, search)


class Called(NamedTuple):
    name: str
    arguments: dict[str, Any] | str
    """The arguments of a call that may run; of any other, the code of its problem."""
    call_id: str | None = None


class Case(NamedTuple):
    name: str
    text: str
    said: str
    """What of it stays text."""
    calls: tuple[Called, ...] = ()


PARIS = Called("get_weather", {"city": "Paris"})
NOON = Called("get_time", {})
ODD = Called("search", {"query": 'a "b" \\ {c} [d] é 😀\n'})
"""Quotes, brackets, an escape, characters outside ASCII and outside the BMP."""
ODD_JSON = r'{"query": "a \"b\" \\ {c} [d] é \ud83d\ude00\n"}'
CUT, BROKEN = "incomplete_json", "malformed_json"


def cut(called: Called) -> Called:
    return Called(called.name, CUT, called.call_id)


def broken(called: Called) -> Called:
    return Called(called.name, BROKEN, called.call_id)


HERMES = [
    Case(
        "one call", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>', "", (PARIS,)
    ),
    Case(
        "text before and after, kept to the blank",
        'Let me see. \n<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>\n\n Done. ',
        "Let me see. \n\n\n Done. ",
        (PARIS,),
    ),
    Case(
        "two calls",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>\n'
        '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>',
        "\n",
        (PARIS, NOON),
    ),
    Case("no arguments", '<tool_call>{"name": "get_time"}</tool_call>', "", (NOON,)),
    Case("odd characters", f'<tool_call>{{"name": "search", "arguments": {ODD_JSON}}}</tool_call>', "", (ODD,)),
    Case(
        "the closing marker inside a string",
        '<tool_call>{"name": "search", "arguments": {"query": "</tool_call>"}}</tool_call>.',
        ".",
        (Called("search", {"query": "</tool_call>"}),),
    ),
    Case(
        "arguments before the name",
        '<tool_call>{"arguments": {"city": "Paris"}, "name": "get_weather"}</tool_call>',
        "",
        (PARIS,),
    ),
    Case(
        "a list of calls, in the chat API's shape",
        '<tool_call>[{"type": "function", "id": "x", "function": {"name": "get_weather", "arguments":'
        ' {"city": "Paris"}}}, {"function": "get_time", "parameters": null}]</tool_call>',
        "",
        (PARIS._replace(call_id="x"), NOON),
    ),
    Case(
        "arguments in a string",
        '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}</tool_call>',
        "",
        (PARIS,),
    ),
    Case(
        "a tool that is not registered",
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
        "",
        (Called("rm", {}),),
    ),
    Case(
        "a marker that is only mentioned", "Write <tool_call> and </tool_call>.", "Write <tool_call> and </tool_call>."
    ),
    Case(
        "no name",
        '<tool_call>{"name": "", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "", "arguments": {}}</tool_call>',
    ),
    Case(
        "two names",
        '<tool_call>{"name": "a", "name": "b", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "a", "name": "b", "arguments": {}}</tool_call>',
    ),
    Case(
        "escapes in a name",
        '<tool_call>{"n\\u0061me": "get_\\u0074ime", "arguments": {}}</tool_call>',
        "",
        (NOON,),
    ),
    Case(
        "an escape that JSON has not",
        '<tool_call>{"name": "get\\_time", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "get\\_time", "arguments": {}}</tool_call>',
    ),
    Case(
        "a key of many escapes",
        '<tool_call>{"' + 40 * "\\n" + '": 1}</tool_call>',
        '<tool_call>{"' + 40 * "\\n" + '": 1}</tool_call>',
    ),
    Case("nothing for arguments", '<tool_call>{"name": "get_time", "arguments": }</tool_call>', "", (cut(NOON),)),
    Case("no JSON", "<tool_call>get_time()</tool_call>", "<tool_call>get_time()</tool_call>"),
    Case(
        "another object", '<tool_call>{"tool": "get_time"}</tool_call>', '<tool_call>{"tool": "get_time"}</tool_call>'
    ),
    Case(
        "a call after markup that is none",
        '<tool_call>nothing <tool_call>{"name": "get_time", "arguments": {}}</tool_call>',
        "<tool_call>nothing ",
        (NOON,),
    ),
    Case("the end inside the marker", "So: <tool_ca", "So: <tool_ca"),
    Case("the end before the arguments", '<tool_call>{"name": "get_time", ', '<tool_call>{"name": "get_time", '),
    Case("the end in the arguments", '<tool_call>{"name": "get_weather", "arguments": {"city": "Pa', "", (cut(PARIS),)),
    Case(
        "the end before the closing marker",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_',
        "",
        (cut(PARIS),),
    ),
    Case(
        "a line break in a string",
        '<tool_call>{"name": "search", "arguments": {"query": "a\nb </tool_call>"}}</tool_call> so',
        " so",
        (Called("search", {"query": "a\nb </tool_call>"}),),
    ),
    Case(
        "quotes as Python has them",
        "<tool_call>{'name': 'get_time', 'arguments': {}}</tool_call>",
        "<tool_call>{'name': 'get_time', 'arguments': {}}</tool_call>",
    ),
    Case(
        "a brace too few",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}</tool_call> so',
        " so",
        (cut(PARIS),),
    ),
    Case(
        "a brace too many",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}}</tool_call> so',
        " so",
        (broken(PARIS),),
    ),
    Case(
        "a bracket that closes nothing",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"]}}</tool_call> so',
        " so",
        (broken(PARIS),),
    ),
    Case(
        "an object behind a call without arguments is not taken for them",
        '<tool_call>{"name": "get_weather"} {"city": "Paris"}</tool_call> so',
        " so",
        (cut(PARIS),),
    ),
    Case(
        "arguments that the closing marker cuts, and a good call",
        '<tool_call>{"name": "get_weather", "arguments": {"days": 1</tool_call>Hi'
        '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>',
        "Hi",
        (cut(PARIS), NOON),
    ),
    Case(
        "a string that the closing marker cuts, and a good call",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Par</tool_call>Hi'
        '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>',
        "Hi",
        (cut(PARIS), NOON),
    ),
    Case(
        "a string that the closing marker cuts, and no other quote",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Par</tool_call> so',
        " so",
        (cut(PARIS),),
    ),
    Case(
        "arguments before the name that the closing marker cuts, and a good call",
        '<tool_call>{"arguments": {"city": "Par</tool_call><tool_call>{"name": "get_time"}</tool_call>',
        '<tool_call>{"arguments": {"city": "Par</tool_call>',
        (NOON,),
    ),
    Case(
        "a string that the closing marker cuts in a call behind another, as a number is",
        '<tool_call>{"name": "get_time", "arguments": 1</tool_call>\n<tool_call>{"name": "get_time"}</tool_call>',
        "\n",
        (cut(NOON), NOON),
    ),
    Case(
        "several markers inside a string, and a key behind it",
        '<tool_call>{"name": "search", "arguments": {"query": "</tool_call><tool_call>{}" , "where": []}}</tool_call>',
        "",
        (Called("search", {"query": "</tool_call><tool_call>{}", "where": []}),),
    ),
    Case(
        "arguments that the next call cuts",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}\n'
        '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>',
        "",
        (cut(PARIS), NOON),
    ),
    Case(
        "a closing tag twice",
        '<tool_call>{"name": "get_time"}</tool_call>\n</tool_call> so',
        "\n so",
        (NOON,),
    ),
    Case("a closing tag that may be prose", "so </tool_call> so", "so </tool_call> so"),
    Case(
        "a closing tag that may be prose, behind a call",
        '<tool_call>{"name": "get_time"}</tool_call> so </tool_call>',
        " so </tool_call>",
        (NOON,),
    ),
    Case(
        "arguments twice",
        '<tool_call>{"name": "get_time", "arguments": {}, "arguments": {"zone": "CET"}}</tool_call>',
        "",
        (Called("get_time", BROKEN),),
    ),
]

QWEN = [
    Case(
        "one call, in lines",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
        "",
        (PARIS,),
    ),
    Case(
        "text before and after",
        "Yes. <tool_call><function=get_weather><parameter=city>Paris</parameter></function></tool_call> Done.",
        "Yes.  Done.",
        (PARIS,),
    ),
    Case(
        "two calls",
        "<tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n</function>\n</tool_call>\n"
        "<tool_call>\n<function=get_time>\n</function>\n</tool_call>",
        "\n",
        (PARIS, NOON),
    ),
    Case(
        "values by their schema",
        "<tool_call><function=get_weather><parameter=city>12</parameter><parameter=days>\n3\n</parameter>"
        "<parameter=hourly>True</parameter></function></tool_call>",
        "",
        (Called("get_weather", {"city": "12", "days": 3, "hourly": True}),),
    ),
    Case(
        "lists and objects as JSON, null",
        '<tool_call><function=search><parameter=query>x</parameter><parameter=where>["a", "b"]</parameter>'
        '<parameter=options>{"n": 1}</parameter></function></tool_call>'
        "<tool_call><function=get_time><parameter=zone>null</parameter></function></tool_call>",
        "",
        (
            Called("search", {"query": "x", "where": ["a", "b"], "options": {"n": 1}}),
            Called("get_time", {"zone": None}),
        ),
    ),
    Case(
        "a text of several lines, with quotes and tags of another language",
        '<tool_call><function=search><parameter=query>\n<p class="x">\n\ta \\ b</p>\n\n</parameter></function>'
        "</tool_call>",
        "",
        (Called("search", {"query": '<p class="x">\n\ta \\ b</p>\n'}),),
    ),
    Case(
        "a tool that is not registered",
        "<tool_call><function=rm><parameter=n>1</parameter><parameter=s>a</parameter></function></tool_call>",
        "",
        (Called("rm", {"n": 1, "s": "a"}),),
    ),
    Case(
        "without the outer tag, if the tool is registered",
        "Sure.\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
        "Sure.\n",
        (PARIS,),
    ),
    Case(
        "without either outer tag",
        "<function=get_time></function> Done. <function=rm></function>",
        " Done. <function=rm></function>",
        (NOON,),
    ),
    Case("JSON", '<tool_call>{"name": "get_time"}</tool_call>', '<tool_call>{"name": "get_time"}</tool_call>'),
    Case("a tag that is only mentioned", "Use <function=name> here", "Use <function=name> here"),
    Case("the end in the name", "<tool_call>\n<function=get_w", "<tool_call>\n<function=get_w"),
    Case("the end before a parameter", "<tool_call>\n<function=get_time>\n", "<tool_call>\n<function=get_time>\n"),
    Case("the end in a value", "<tool_call><function=get_weather><parameter=city>Par", "", (cut(PARIS),)),
    Case("the end in another value", "<tool_call><function=get_weather><parameter=days>1", "", (cut(PARIS),)),
    Case(
        "the end after the last value",
        "<tool_call><function=get_weather><parameter=city>Paris</parameter>",
        "",
        (cut(PARIS),),
    ),
    Case(
        "a parameter that was not closed",
        "<tool_call><function=search><parameter=query>a\n<parameter=where>b</parameter></function></tool_call> so",
        " so",
        (cut(ODD),),
    ),
    Case(
        "text between parameters",
        "<tool_call><function=get_weather><parameter=days>1</parameter>}</function></tool_call> so",
        " so",
        (cut(PARIS),),
    ),
    Case(
        "the closing tag is missing before the next function",
        "<tool_call><function=get_weather><parameter=city>Paris</parameter><function=get_time></function></tool_call>",
        "",
        (cut(PARIS), NOON),
    ),
    Case(
        "Seed-OSS' outer tags",
        "<seed:tool_call><function=get_weather><parameter=city>Paris</parameter></function></seed:tool_call> so",
        " so",
        (PARIS,),
    ),
    Case(
        "a closing tag twice",
        "<tool_call><function=get_time></function></tool_call></tool_call> so",
        " so",
        (NOON,),
    ),
    Case(
        "a number that is none",
        "<tool_call><function=get_weather><parameter=city>x</parameter><parameter=days>two</parameter></function>"
        "</tool_call>",
        "",
        (Called("get_weather", "invalid_arguments"),),
    ),
]

GLM = [
    Case(
        "one call, in lines",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
        "",
        (PARIS,),
    ),
    Case(
        "one call, in one line, and text around it",
        "a <tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call> b",
        "a  b",
        (PARIS,),
    ),
    Case(
        "two calls",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>\n"
        "<tool_call>get_time\n</tool_call>",
        "\n",
        (PARIS, NOON),
    ),
    Case("no arguments", "<tool_call>get_time</tool_call>", "", (NOON,)),
    Case(
        "values by their schema",
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>12</arg_value><arg_key>days</arg_key>"
        "<arg_value>3</arg_value><arg_key>hourly</arg_key><arg_value>false</arg_value></tool_call>",
        "",
        (Called("get_weather", {"city": "12", "days": 3, "hourly": False}),),
    ),
    Case(
        "lists and objects",
        '<tool_call>search<arg_key>query</arg_key><arg_value>x</arg_value><arg_key>where</arg_key><arg_value>["a"]'
        '</arg_value><arg_key>options</arg_key><arg_value>{"a": {"b": []}}</arg_value></tool_call>',
        "",
        (Called("search", {"query": "x", "where": ["a"], "options": {"a": {"b": []}}}),),
    ),
    Case(
        "a text as it is, blanks and lines too",
        '<tool_call>search<arg_key>query</arg_key><arg_value> "a"\n{b} </arg_value></tool_call>',
        "",
        (Called("search", {"query": ' "a"\n{b} '}),),
    ),
    Case(
        "a tool that is not registered",
        "<tool_call>rm<arg_key>n</arg_key><arg_value>1.5</arg_value><arg_key>s</arg_key><arg_value>a b</arg_value>"
        "</tool_call>",
        "",
        (Called("rm", {"n": 1.5, "s": "a b"}),),
    ),
    Case("words between the markers", "<tool_call>get the time</tool_call>", "<tool_call>get the time</tool_call>"),
    Case("JSON", '<tool_call>{"name": "get_time"}</tool_call>', '<tool_call>{"name": "get_time"}</tool_call>'),
    Case("a marker that is only mentioned", "<tool_call>? <tool_call", "<tool_call>? <tool_call"),
    Case("the end in the name", "<tool_call>get_wea", "<tool_call>get_wea"),
    Case("the end in a tag", "<tool_call>get_weather\n<arg_k", "<tool_call>get_weather\n<arg_k"),
    Case(
        "the end in a value",
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_",
        "",
        (cut(PARIS),),
    ),
    Case("the end in a key", "<tool_call>get_weather<arg_key>ci", "", (cut(PARIS),)),
    Case(
        "a value that was not closed",
        "<tool_call>search<arg_key>query</arg_key><arg_value>a<arg_key>where</arg_key><arg_value>b</arg_value>"
        "</tool_call> so",
        " so",
        (cut(ODD),),
    ),
    Case(
        "the closing tag is missing before the next call",
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value><tool_call>get_time</tool_call> so",
        " so",
        (cut(PARIS), NOON),
    ),
    Case(
        "a key without a value",
        "<tool_call>search<arg_key>query</arg_key></tool_call> so",
        " so",
        (cut(ODD),),
    ),
]

MINIMAX = [
    Case(
        "one call, in lines",
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
        "",
        (PARIS,),
    ),
    Case(
        "text around it",
        'a <minimax:tool_call><invoke name="get_weather"><parameter name="city">Paris</parameter></invoke>'
        "</minimax:tool_call> b",
        "a  b",
        (PARIS,),
    ),
    Case(
        "two calls in a section",
        '<minimax:tool_call><invoke name="get_weather"><parameter name="city">Paris</parameter></invoke>\n'
        '<invoke name="get_time"></invoke></minimax:tool_call>',
        "",
        (PARIS, NOON),
    ),
    Case(
        "values by their schema",
        '<minimax:tool_call><invoke name="get_weather"><parameter name="city">12</parameter>'
        '<parameter name="days">3</parameter><parameter name="hourly">true</parameter></invoke></minimax:tool_call>',
        "",
        (Called("get_weather", {"city": "12", "days": 3, "hourly": True}),),
    ),
    Case(
        "nothing is escaped",
        '<minimax:tool_call><invoke name="search"><parameter name="query">a & b &lt; <c> "d"</parameter></invoke>'
        "</minimax:tool_call>",
        "",
        (Called("search", {"query": 'a & b &lt; <c> "d"'}),),
    ),
    Case(
        "an object",
        '<minimax:tool_call><invoke name="search"><parameter name="query"></parameter><parameter name="options">'
        '{"a": [1]}</parameter></invoke></minimax:tool_call>',
        "",
        (Called("search", {"query": "", "options": {"a": [1]}}),),
    ),
    Case(
        "a tool that is not registered",
        '<minimax:tool_call><invoke name="rm"></invoke></minimax:tool_call>',
        "",
        (Called("rm", {}),),
    ),
    Case("without a section, if the tool is registered", '<invoke name="get_time"></invoke>!', "!", (NOON,)),
    Case("without a section, and not registered", '<invoke name="rm"></invoke>', '<invoke name="rm"></invoke>'),
    Case("an empty section", "<minimax:tool_call>\n</minimax:tool_call>", "<minimax:tool_call>\n</minimax:tool_call>"),
    Case("the end in the section's marker", "<minimax:tool", "<minimax:tool"),
    Case("the end in the name", '<minimax:tool_call><invoke name="get_', '<minimax:tool_call><invoke name="get_'),
    Case(
        "the end in a value",
        '<minimax:tool_call><invoke name="get_weather"><parameter name="city">Pa',
        "",
        (cut(PARIS),),
    ),
    Case(
        "the end before the section's",
        '<minimax:tool_call><invoke name="get_time"></invoke>\n',
        "\n",
        (NOON,),
    ),
    Case(
        "a parameter that was not closed; the next call is a call",
        '<minimax:tool_call><invoke name="search"><parameter name="query">a<parameter name="where">b</parameter>'
        '</invoke><invoke name="get_time"></invoke></minimax:tool_call>',
        "",
        (cut(ODD), NOON),
    ),
    Case(
        "the closing tag of a call is missing before the next one",
        '<minimax:tool_call><invoke name="get_weather"><parameter name="city">Paris</parameter>\n<invoke name="rm">'
        "</invoke></minimax:tool_call> so",
        " so",
        (cut(PARIS), Called("rm", {})),
    ),
    Case(
        "the closing tag of a call is missing before the section's",
        '<minimax:tool_call><invoke name="get_weather"><parameter name="city">Paris</parameter></minimax:tool_call> so',
        " so",
        (cut(PARIS),),
    ),
    Case(
        "a whole call that a value quotes does not run",
        '<minimax:tool_call><invoke name="search"><parameter name="query">say <invoke name="get_time"></invoke>'
        "</parameter></invoke></minimax:tool_call> so",
        " so",
        (cut(ODD),),
    ),
    Case("a closing tag that closes nothing", "so</minimax:tool_call> so", "so so"),
    Case(
        "an attribute that nobody knows",
        '<minimax:tool_call><invoke name="search"><parameter name="query" type="x">a</parameter></invoke> so',
        " so",
        (cut(ODD),),
    ),
]

V3_BEGIN, V3_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
V3_CALL, V3_SEP, V3_CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
V3_PARIS = f'{V3_CALL}function{V3_SEP}get_weather\n```json\n{{"city": "Paris"}}\n```{V3_CALL_END}'
V31_PARIS = f'{V3_CALL}get_weather{V3_SEP}{{"city": "Paris"}}{V3_CALL_END}'
V31_NOON = f"{V3_CALL}get_time{V3_SEP}{{}}{V3_CALL_END}"
DSML = "｜DSML｜"

DEEPSEEK = [
    Case("V3: one call", f"{V3_BEGIN}{V3_PARIS}{V3_END}", "", (PARIS,)),
    Case("V3.1: one call, and text around it", f"a {V3_BEGIN}{V31_PARIS}{V3_END} b", "a  b", (PARIS,)),
    Case("V3.1: two calls", f"{V3_BEGIN}{V31_PARIS}{V31_NOON}{V3_END}", "", (PARIS, NOON)),
    Case("V3: two calls, with a line between", f"{V3_BEGIN}{V3_PARIS}\n{V31_NOON}{V3_END}", "", (PARIS, NOON)),
    Case("R1: the section's marker spelled in another way", f"<｜tool_calls_begin｜>{V3_PARIS}{V3_END}", "", (PARIS,)),
    Case("without a section", f"so {V31_PARIS}{V3_END}", "so ", (PARIS,)),
    Case(
        "odd characters",
        f"{V3_BEGIN}{V3_CALL}search{V3_SEP}{ODD_JSON}{V3_CALL_END}{V3_END}",
        "",
        (ODD,),
    ),
    Case(
        "a fence inside a string",
        f'{V3_BEGIN}{V3_CALL}function{V3_SEP}search\n```json\n{{"query": "```"}}\n```{V3_CALL_END}{V3_END}',
        "",
        (Called("search", {"query": "```"}),),
    ),
    Case(
        "a tool called function",
        f"{V3_BEGIN}{V3_CALL}function{V3_SEP}{{}}{V3_CALL_END}{V3_END}",
        "",
        (Called("function", {}),),
    ),
    Case("an empty section", f"{V3_BEGIN}{V3_END}", f"{V3_BEGIN}{V3_END}"),
    Case("no arguments at all", f"{V3_CALL}get_time{V3_SEP}{V3_CALL_END}", f"{V3_CALL}get_time{V3_SEP}{V3_CALL_END}"),
    Case("the end in the marker", V3_BEGIN[:-3], V3_BEGIN[:-3]),
    Case("the end in the name", f"{V3_BEGIN}{V3_CALL}get_we", f"{V3_BEGIN}{V3_CALL}get_we"),
    Case("the end in the arguments", f'{V3_BEGIN}{V3_CALL}get_weather{V3_SEP}{{"city"', "", (cut(PARIS),)),
    Case(
        "the end in the fence", f"{V3_BEGIN}{V3_PARIS.partition('``` ')[0][: -len(V3_CALL_END) - 1]}", "", (cut(PARIS),)
    ),
    Case("the end before the section's", f"{V3_BEGIN}{V31_PARIS}\n", "\n", (PARIS,)),
    Case("something else behind a call", f"{V3_BEGIN}{V31_PARIS} so", " so", (PARIS,)),
    Case(
        "something behind the arguments",
        f'{V3_BEGIN}{V3_CALL}get_weather{V3_SEP}{{"city": "Paris"}} or Rome{V3_CALL_END}{V3_END}',
        "",
        (broken(PARIS),),
    ),
    Case(
        "V3.2: one call",
        f'<{DSML}function_calls>\n<{DSML}invoke name="get_weather">\n<{DSML}parameter name="city" string="true">Paris'
        f"</{DSML}parameter>\n</{DSML}invoke>\n</{DSML}function_calls>",
        "",
        (PARIS,),
    ),
    Case(
        "V4: two calls, the markup says what is a string, and text around it",
        f'a<{DSML}tool_calls><{DSML}invoke name="rm"><{DSML}parameter name="a" string="true">1</{DSML}parameter>'
        f'<{DSML}parameter name="b" string="false">1</{DSML}parameter></{DSML}invoke><{DSML}invoke name="get_time">'
        f"</{DSML}invoke></{DSML}tool_calls>b",
        "ab",
        (Called("rm", {"a": "1", "b": 1}), NOON),
    ),
    Case(
        "V3.2: arguments as JSON",
        f'<{DSML}function_calls><{DSML}invoke name="get_weather">\n{{"city": "Paris"}}\n</{DSML}invoke>'
        f"</{DSML}function_calls>",
        "",
        (PARIS,),
    ),
    Case(
        "V3.2: the end in a value",
        f'<{DSML}tool_calls><{DSML}invoke name="get_weather"><{DSML}parameter name="city" string="true">Pa</｜D',
        "",
        (cut(PARIS),),
    ),
    Case(
        "V4: a call that closes itself",
        f'<{DSML}tool_calls><{DSML}invoke name="get_time"/><{DSML}invoke name="rm" /></{DSML}tool_calls> so',
        " so",
        (NOON, Called("rm", {})),
    ),
    Case(
        "V4.1: blanks behind the bars",
        f'<{DSML} calls>\n<{DSML} invoke name="get_weather">\n<{DSML} parameter name="city" string="true">Paris'
        f'</{DSML} parameter>\n<{DSML} parameter name="days" string="false">2</{DSML} parameter>\n</{DSML} invoke>\n'
        f"</{DSML} calls>",
        "",
        (Called("get_weather", {"city": "Paris", "days": 2}),),
    ),
    Case(
        "V4: no section, no attribute, other bars",
        'a<||DSML||invoke name="get_weather"><||DSML||parameter name="city">Paris</||DSML||parameter>'
        '<||DSML||parameter name="days">2</||DSML||parameter></||DSML||invoke>b',
        "ab",
        (Called("get_weather", {"city": "Paris", "days": 2}),),
    ),
    *(
        Case(
            f"V4: bars written {bars}, section {name}",
            f'<{bars}{name}><{bars}invoke name="get_time"></{bars}invoke></{bars}{name}>',
            "",
            (NOON,),
        )
        for bars, name in (("｜｜DSML｜｜", "tool_calls"), ("|DSML|", "toolcalls"), ("‖DSML‖", "tool"))
    ),
    Case(
        "V4: a parameter that the next one closes",
        f'<{DSML}tool_calls><{DSML}invoke name="get_weather"><{DSML}parameter name="city" string="true">Paris'
        f'<{DSML}parameter name="days" string="false">2</{DSML}parameter></{DSML}invoke></{DSML}tool_calls>',
        "",
        (Called("get_weather", {"city": "Paris", "days": 2}),),
    ),
    Case(
        "V4: a value that quotes a parameter of another tool",
        f'<{DSML}tool_calls><{DSML}invoke name="search"><{DSML}parameter name="query" string="true">as in '
        f'<{DSML}parameter name="city" string="true">Paris</{DSML}parameter></{DSML}invoke></{DSML}tool_calls> so',
        " so",
        (cut(ODD),),
    ),
    Case(
        "V4: the arguments in an object, as JSON",
        f'<{DSML}tool_calls><{DSML}invoke name="get_weather">{{"arguments": {{"city": "Paris"}}}}</{DSML}invoke>'
        f"</{DSML}tool_calls>",
        "",
        (PARIS,),
    ),
    Case(
        "V4: the arguments in an object, as a parameter",
        f'<{DSML}tool_calls><{DSML}invoke name="get_weather"><{DSML}parameter name="arguments" string="false">'
        f'{{"city": "Paris"}}</{DSML}parameter></{DSML}invoke></{DSML}tool_calls>',
        "",
        (PARIS,),
    ),
    Case(
        "V4: the arguments in an object, and one of them beside it",
        f'<{DSML}tool_calls><{DSML}invoke name="rm"><{DSML}parameter name="arguments" string="false">{{"n": 1}}'
        f'</{DSML}parameter><{DSML}parameter name="s" string="true">a</{DSML}parameter></{DSML}invoke>'
        f"</{DSML}tool_calls>",
        "",
        (Called("rm", {"arguments": {"n": 1}, "s": "a"}),),
    ),
    Case(
        "V4: the closing tag of a call is missing before the next one",
        f'<{DSML}tool_calls><{DSML}invoke name="get_weather"><{DSML}parameter name="city" string="true">Paris'
        f'</{DSML}parameter><{DSML}invoke name="get_time"></{DSML}invoke></{DSML}tool_calls> so',
        " so",
        (cut(PARIS), NOON),
    ),
    Case(
        "V4: JSON that its closing tag cuts",
        f'<{DSML}tool_calls><{DSML}invoke name="get_weather">{{"city": "Par</{DSML}invoke></{DSML}tool_calls> so',
        " so",
        (cut(PARIS),),
    ),
    Case("V4: closing tags that close nothing", f"so</{DSML}invoke></{DSML}tool_calls> so", "so so"),
    Case(
        "V3.1: arguments that the closing marker cuts, and a good call",
        f'{V3_BEGIN}{V3_CALL}get_weather{V3_SEP}{{"city": [{V3_CALL_END} Hi {V3_BEGIN}{V31_NOON}{V3_END}',
        " Hi ",
        (cut(PARIS), NOON),
    ),
    Case(
        "V3.1: a string that the closing marker cuts, and a good call",
        f'{V3_BEGIN}{V3_CALL}get_weather{V3_SEP}{{"city": "Par{V3_CALL_END}{V31_PARIS}{V3_END}',
        "",
        (cut(PARIS), PARIS),
    ),
    Case("V3.1: a closing marker that closes nothing", f"so {V3_CALL_END}{V3_END} so", "so  so"),
    *(
        Case(
            f"V4: a value that the section's closing tag cuts, and a good call: {value}",
            f'<{DSML}tool_calls><{DSML}invoke name="get_weather"><{DSML}parameter name="city" string={value}'
            f"</{DSML}tool_calls> Hi {V3_BEGIN}{V31_NOON}{V3_END}",
            " Hi ",
            (cut(PARIS), NOON),
        )
        for value in ('"true">Par', '"false">["Par')
    ),
]

KIMI_BEGIN, KIMI_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
KIMI_PARIS = '<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|>'
KIMI_NOON = "<|tool_call_begin|> functions.get_time:1 <|tool_call_argument_begin|> {} <|tool_call_end|>"
PARIS_0, NOON_1 = PARIS._replace(call_id="functions.get_weather:0"), NOON._replace(call_id="functions.get_time:1")

KIMI = [
    Case("one call", f"{KIMI_BEGIN}{KIMI_PARIS}{KIMI_END}", "", (PARIS_0,)),
    Case("text around it", f"a {KIMI_BEGIN}{KIMI_PARIS}{KIMI_END} b", "a  b", (PARIS_0,)),
    Case("two calls, with blanks", f"{KIMI_BEGIN}\n{KIMI_PARIS}\n{KIMI_NOON}\n{KIMI_END}", "", (PARIS_0, NOON_1)),
    Case("without a section", f"so {KIMI_PARIS}{KIMI_END}", "so ", (PARIS_0,)),
    Case("no number", KIMI_PARIS.replace("functions.", "").replace(":0", "") + KIMI_END, "", (PARIS,)),
    Case(
        "no prefix",
        KIMI_PARIS.replace("functions.", "") + KIMI_END,
        "",
        (PARIS._replace(call_id="get_weather:0"),),
    ),
    Case(
        "one id twice",
        f"{KIMI_BEGIN}{KIMI_PARIS}{KIMI_PARIS}{KIMI_END}",
        "",
        (PARIS_0,),
    ),
    Case(
        "odd characters",
        f"{KIMI_BEGIN}<|tool_call_begin|>functions.search:7<|tool_call_argument_begin|>{ODD_JSON}<|tool_call_end|>"
        f"{KIMI_END}",
        "",
        (ODD._replace(call_id="functions.search:7"),),
    ),
    Case(
        "a marker inside a string",
        KIMI_PARIS.replace("Paris", "<|tool_call_end|>") + KIMI_END,
        "",
        (Called("get_weather", {"city": "<|tool_call_end|>"}, "functions.get_weather:0"),),
    ),
    Case("an empty section", f"{KIMI_BEGIN} {KIMI_END}", f"{KIMI_BEGIN} {KIMI_END}"),
    Case(
        "a name that is none",
        "<|tool_call_begin|>get the time<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "<|tool_call_begin|>get the time<|tool_call_argument_begin|>{}<|tool_call_end|>",
    ),
    Case("the end in the marker", "<|tool_calls_sec", "<|tool_calls_sec"),
    Case(
        "the end in the name",
        f"{KIMI_BEGIN}<|tool_call_begin|>functions.g",
        f"{KIMI_BEGIN}<|tool_call_begin|>functions.g",
    ),
    Case("the end in the arguments", KIMI_PARIS.partition('ris"')[0], "", (cut(PARIS_0),)),
    Case("the end in the closing marker", KIMI_PARIS[:-2], "", (cut(PARIS_0),)),
    Case("the end before the section's", f"{KIMI_BEGIN}{KIMI_PARIS}", "", (PARIS_0,)),
    Case("something behind the arguments", KIMI_PARIS.replace("}", "}}") + " so", " so", (broken(PARIS_0),)),
    Case(
        "arguments that the closing marker cuts, and a good call",
        f"{KIMI_BEGIN}{KIMI_PARIS.replace('}', '')}{KIMI_NOON}{KIMI_END} so",
        " so",
        (cut(PARIS_0), NOON_1),
    ),
    Case(
        "a string that the closing marker cuts, and a good call",
        KIMI_PARIS.replace('"}', "") + f" so {KIMI_BEGIN}{KIMI_NOON}{KIMI_END}",
        " so ",
        (cut(PARIS_0), NOON_1),
    ),
    Case(
        "arguments that the section's marker cuts",
        f"{KIMI_BEGIN}{KIMI_PARIS.partition('}')[0]}{KIMI_END} so",
        " so",
        (cut(PARIS_0),),
    ),
    Case(
        "arguments that the next call cuts",
        f"{KIMI_BEGIN}{KIMI_PARIS.partition('}')[0]}{KIMI_NOON}{KIMI_END}",
        "",
        (cut(PARIS_0), NOON_1),
    ),
    Case("closing markers that close nothing", f"so <|tool_call_end|>{KIMI_END} so", "so  so"),
    Case(
        "a section with the other spelling of its markers",
        f"a {KIMI_PARIS.join(['<|tool_call_section_begin|>', '<|tool_call_section_end|>'])} b",
        "a  b",
        (PARIS_0,),
    ),
    Case(
        "one spelling at the beginning, the other at the end",
        f"{KIMI_BEGIN}{KIMI_PARIS}<|tool_call_section_end|>",
        "",
        (PARIS_0,),
    ),
    Case("the end of the message", f"so {KIMI_BEGIN}{KIMI_PARIS}{KIMI_END}<|im_end|>", "so ", (PARIS_0,)),
    Case(
        "the end of a message in a string, as text",
        f"{KIMI_PARIS.replace('Paris', '<|im_end|>')}{KIMI_END}",
        "",
        (Called("get_weather", {"city": "<|im_end|>"}, "functions.get_weather:0"),),
    ),
]

MISTRAL = [
    Case(
        "a list",
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]',
        "",
        (PARIS,),
    ),
    Case(
        "a list of two, and text around it",
        'a [TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_time", "arguments":'
        " {}}] b",
        "a  b",
        (PARIS, NOON),
    ),
    Case(
        "an id before the arguments",
        '[TOOL_CALLS][{"id": "a1b2c3d4e", "name": "get_weather", "arguments": {"city": "Paris"}}]',
        "",
        (PARIS._replace(call_id="a1b2c3d4e"),),
    ),
    Case(
        "an id after the arguments comes too late",
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "a1b2c3d4e"}]',
        "",
        (PARIS,),
    ),
    Case("an object", '[TOOL_CALLS]{"name": "get_weather", "arguments": {"city": "Paris"}}', "", (PARIS,)),
    Case("a name and arguments", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}', "", (PARIS,)),
    Case("without a marker before the arguments", '[TOOL_CALLS]get_weather{"city": "Paris"}', "", (PARIS,)),
    Case(
        "with an id",
        'a[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Paris"} b',
        "a b",
        (PARIS._replace(call_id="a1b2c3d4e"),),
    ),
    Case(
        "two calls",
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]get_time[ARGS]{}',
        "",
        (PARIS, NOON),
    ),
    Case("odd characters", f"[TOOL_CALLS]search[ARGS]{ODD_JSON}", "", (ODD,)),
    Case("a marker that is only mentioned", "It begins with [TOOL_CALLS].", "It begins with [TOOL_CALLS]."),
    Case("a list of something else", "[TOOL_CALLS][1, 2]", "[TOOL_CALLS][1, 2]"),
    Case("an empty list", "[TOOL_CALLS][]", "[TOOL_CALLS][]"),
    Case("the end in the marker", "[TOOL_CA", "[TOOL_CA"),
    Case("the end in the name", "[TOOL_CALLS]get_wea", "[TOOL_CALLS]get_wea"),
    Case("the end in the id", "[TOOL_CALLS]get_time[CALL_ID]a1b", "[TOOL_CALLS]get_time[CALL_ID]a1b"),
    Case("the end in the arguments", '[TOOL_CALLS]get_weather[ARGS]{"city": "Pa', "", (cut(PARIS),)),
    Case(
        "the end in the list",
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}',
        "",
        (cut(PARIS),),
    ),
    Case(
        "a bracket that closes nothing",
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"] so',
        " so",
        (cut(PARIS),),
    ),
    Case(
        "arguments that the next call cuts",
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"[TOOL_CALLS]get_time[ARGS]{}',
        "",
        (cut(PARIS), NOON),
    ),
    Case(
        "a string that the next call cuts",
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Par[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"} so',
        " so",
        (cut(PARIS), PARIS),
    ),
    Case(
        "a marker inside a string",
        '[TOOL_CALLS]search[ARGS]{"query": "[TOOL_CALLS]get_time[ARGS]{} \\" x" , "where": []}',
        "",
        (Called("search", {"query": '[TOOL_CALLS]get_time[ARGS]{} " x', "where": []}),),
    ),
    Case(
        "a list whose second is none",
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}, 5] so',
        " 5] so",
        (PARIS,),
    ),
]

LLAMA_PARIS = '{"name": "get_weather", "parameters": {"city": "Paris"}}'

LLAMA = [
    Case("one call", LLAMA_PARIS, "", (PARIS,)),
    Case("in a line of its own, and text around it", f"Sure:\n  {LLAMA_PARIS}\nok", "Sure:\n  \nok", (PARIS,)),
    Case("two calls", LLAMA_PARIS + '; {"name": "get_time", "parameters": {}}', "", (PARIS, NOON)),
    Case("two calls in lines", LLAMA_PARIS + '\n{"name": "get_time", "arguments": {}}', "\n", (PARIS, NOON)),
    Case(
        "with the type",
        '{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}',
        "",
        (PARIS,),
    ),
    Case("python tag", f"a <|python_tag|>{LLAMA_PARIS}", "a ", (PARIS,)),
    Case("python tag, not registered", '<|python_tag|>{"name": "rm", "parameters": {}}', "", (Called("rm", {}),)),
    Case(
        "python tag, one of its own tools",
        '<|python_tag|>brave_search.call(query="x")',
        "",
        (Called("brave_search", {"query": "x"}),),
    ),
    Case("python tag, another call", "<|python_tag|>rm(a=1)", "<|python_tag|>rm(a=1)"),
    Case("python tag, code", "<|python_tag|>import math\nprint(1)", "<|python_tag|>import math\nprint(1)"),
    Case("function tag", '<function=get_weather>{"city": "Paris"}</function> so', " so", (PARIS,)),
    Case("odd characters", f'{{"name": "search", "parameters": {ODD_JSON}}}', "", (ODD,)),
    Case("not registered", '{"name": "rm", "parameters": {}}', '{"name": "rm", "parameters": {}}'),
    Case("a name and no arguments", '{"name": "get_time"}', '{"name": "get_time"}'),
    Case("in the middle of a line", f"So {LLAMA_PARIS}", f"So {LLAMA_PARIS}"),
    Case("any other object", '{\n  "a": [1],\n  "name": "get_time"\n}', '{\n  "a": [1],\n  "name": "get_time"\n}'),
    Case("something behind the semicolon", f"{LLAMA_PARIS}; so", "; so", (PARIS,)),
    Case("the end before the arguments", '{"name": "get_weather", "para', '{"name": "get_weather", "para'),
    Case("the end in the arguments", LLAMA_PARIS[:-5], "", (cut(PARIS),)),
    Case("the end before the last brace", LLAMA_PARIS[:-1], "", (cut(PARIS),)),
    Case("another key behind the arguments", LLAMA_PARIS[:-1] + ', "x": 1} so', ', "x": 1} so', (cut(PARIS),)),
    Case("the end in the function tag", '<function=get_weather>{"city": "Paris"}</func', "", (cut(PARIS),)),
]

PYTHONIC = [
    Case("one call", "[get_weather(city='Paris')]", "", (PARIS,)),
    Case("two calls", '[get_weather(city="Paris"), get_time()]', "", (PARIS, NOON)),
    Case("in lines, and text around it", "So:\n [\n get_weather( city = 'Paris' , ) ,\n]\nok", "So:\n \nok", (PARIS,)),
    Case(
        "literals",
        "[rm(a=[1, -2.5e3, 12345678901234567890], b={'k': (True, None,), \"l\": {}}, c=(1), d=[], e=(), f=false)]",
        "[rm(a=[1, -2.5e3, 12345678901234567890], b={'k': (True, None,), \"l\": {}}, c=(1), d=[], e=(), f=false)]",
    ),
    Case(
        "literals between markers",
        "<|python_start|>[rm(a=[1, -2.5e3, 12345678901234567890], b={'k': (True, None,), \"l\": {}}, c=(1), d=[], "
        "e=(), f=false)]<|python_end|> so",
        " so",
        (
            Called(
                "rm",
                {
                    "a": [1, -2500.0, 12345678901234567890],
                    "b": {"k": [True, None], "l": {}},
                    "c": 1,
                    "d": [],
                    "e": [],
                    "f": False,
                },
            ),
        ),
    ),
    Case(
        "strings",
        r"""[search(query='a\'b\n\x41\u00e9\U0001F600\d"', where=["\\", '', ""])]""",
        "",
        (Called("search", {"query": "a'b\nA\u00e9\U0001f600\\d\"", "where": ["\\", "", ""]}),),
    ),
    Case(
        "strings in three quotes",
        "[search(query='''a'b''c\n\"\"\"\\''' , where=[\"\"\"\"\"\"])]'''))]",
        "[search(query='''a'b''c\n\"\"\"\\''' , where=[\"\"\"\"\"\"])]'''))]",
    ),
    Case(
        "strings in three quotes, closed",
        "[search(query='''a'b''c\n\"\"\"\\'''', where=[\"\"\"\"\"\"])]",
        "",
        (Called("search", {"query": "a'b''c\n\"\"\"'", "where": [""]}),),
    ),
    Case("LFM2's markers", "<|tool_call_start|>[get_time()]<|tool_call_end|>", "", (NOON,)),
    Case("without the closing marker", "<|python_start|>[get_time()] so", " so", (NOON,)),
    Case("not registered", "[rm(a=1)]", "[rm(a=1)]"),
    Case(
        "a link, a list, a call in a sentence",
        "[get_time](x) [1]\n[2] [get_time()]",
        "[get_time](x) [1]\n[2] [get_time()]",
    ),
    Case("a variable", "[get_weather(city=here)]", "[get_weather(city=here)]"),
    Case("an expression", "[get_weather(city='a' + 'b')]", "[get_weather(city='a' + 'b')]"),
    Case("a call inside", "[get_weather(city=get_time())]", "[get_weather(city=get_time())]"),
    Case("by position", "[get_weather('Paris')]", "[get_weather('Paris')]"),
    Case("an argument twice", "[get_weather(city='a', city='b')]", "[get_weather(city='a', city='b')]"),
    Case("a list of which one is none", "[get_time(), 5]", "[get_time(), 5]"),
    Case(
        "a line break in a string",
        "[get_weather(city='Pa\nris')]",
        "",
        (Called("get_weather", {"city": "Pa\nris"}),),
    ),
    Case(
        "LFM2's markers, with JSON",
        '<|tool_call_start|>[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_time"}]'
        "<|tool_call_end|> so",
        " so",
        (PARIS, NOON),
    ),
    Case(
        "LFM2's markers, with an object",
        '<|tool_call_start|> {"name": "get_weather", "arguments": {"city": "Paris"}} <|tool_call_end|>',
        "",
        (PARIS,),
    ),
    Case(
        "LFM2's markers, with JSON that the closing one cuts",
        '<|tool_call_start|>[{"name": "get_weather", "arguments": {"city": "Par<|tool_call_end|> so [get_time()]\n'
        "[get_time()]",
        " so [get_time()]\n",
        (cut(PARIS), NOON),
    ),
    Case(
        "a name with dots",
        "<|tool_call_start|>[clock.now(zone='a')]<|tool_call_end|>",
        "",
        (Called("clock.now", {"zone": "a"}),),
    ),
    Case("a closing marker that closes nothing", "so <|tool_call_end|><|python_end|>", "so "),
    Case("a prefix", "[get_weather(city=f'Paris')]", "[get_weather(city=f'Paris')]"),
    Case("numbers that JSON has not", "[get_weather(city='a', days=0x1)]", "[get_weather(city='a', days=0x1)]"),
    Case("escapes that nobody means", r"[get_weather(city='\101')]", r"[get_weather(city='\101')]"),
    Case("the end in the list", "[get_time(), get_weather(city='Pa", "[get_time(), get_weather(city='Pa"),
    Case("the end before the bracket", "[get_time()", "[get_time()"),
    Case("a key that is no string", "[search(query='a', options={1: 2})]", "[search(query='a', options={1: 2})]"),
    Case("half an escape", r"[get_time(zone='\u00g')]", r"[get_time(zone='\u00g')]"),
    Case("a character that is none", r"[get_time(zone='\U00110000')]", r"[get_time(zone='\U00110000')]"),
    Case("halves of a pair", r"[get_time(zone='\ud83d\ude00')]", "", (Called("get_time", {"zone": "😀"}),)),
    Case("a set", "[search(query='a', where={'b'})]", "[search(query='a', where={'b'})]"),
    Case("invalid arguments", "[get_weather(days=1)]", "", (Called("get_weather", "invalid_arguments"),)),
]

FENCED = [
    Case(
        "one call",
        '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```',
        "",
        (PARIS,),
    ),
    Case(
        "text around it",
        'Sure:\n```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```\nDone.',
        "Sure:\n\nDone.",
        (PARIS,),
    ),
    Case(
        "a list",
        '```\n[{"name": "get_weather", "parameters": {"city": "Paris"}}, {"name": "get_time", "parameters": {}}]\n```',
        "",
        (PARIS, NOON),
    ),
    Case("another label", '```tool_call\n{"name": "get_time", "arguments": {}}\n```', "", (NOON,)),
    Case(
        "two fences",
        '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```\n'
        '  ```json\n{"name": "get_time", "arguments": {}}\n```',
        "\n  ",
        (PARIS, NOON),
    ),
    Case(
        "arguments before the name",
        '```json\n{"arguments": {"city": "Paris"}, "name": "get_weather"}\n```',
        "",
        (PARIS,),
    ),
    Case(
        "a fence inside a string",
        '```json\n{"name": "search", "arguments": {"query": "\\n```\\n"}}\n```',
        "",
        (Called("search", {"query": "\n```\n"}),),
    ),
    Case(
        "not registered",
        '```json\n{"name": "rm", "arguments": {}}\n```',
        '```json\n{"name": "rm", "arguments": {}}\n```',
    ),
    Case("no arguments", '```json\n{"name": "get_time"}\n```', '```json\n{"name": "get_time"}\n```'),
    Case("other JSON", '```json\n{"a": {"name": "get_time"}}\n```', '```json\n{"a": {"name": "get_time"}}\n```'),
    Case("code", "```python\nget_time()\n```\n```\n$ ls\n```", "```python\nget_time()\n```\n```\n$ ls\n```"),
    Case(
        "in a line",
        'so ```json\n{"name": "get_time", "arguments": {}}\n```',
        'so ```json\n{"name": "get_time", "arguments": {}}\n```',
    ),
    Case("the end in the fence", "a\n``", "a\n``"),
    Case("the end before the arguments", '```json\n{"name": "get_time"', '```json\n{"name": "get_time"'),
    Case("the end in the arguments", '```json\n{"name": "get_weather", "arguments": {"ci', "", (cut(PARIS),)),
    Case(
        "the end before the closing fence",
        '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n',
        "",
        (cut(PARIS),),
    ),
    Case(
        "something behind the object",
        '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}} // so\n``` so',
        " so",
        (broken(PARIS),),
    ),
]

SERVED: dict[str, list[Case]] = {
    "hermes": HERMES,
    "qwen3_coder": QWEN,
    "llama3": LLAMA,
    "mistral": MISTRAL,
    "deepseek": DEEPSEEK,
    "kimi": KIMI,
    "glm": GLM,
    "minimax": MINIMAX,
    "pythonic": PYTHONIC,
    "json": FENCED,
}
"""The cases of the dialects that many servers read, too."""
