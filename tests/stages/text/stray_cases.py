"""Texts in the dialects that few servers read: their own forms, and those that their models write now and then."""

from __future__ import annotations

from served_cases import NOON, ODD, PARIS, Called, Case, broken, cut

__all__ = ["STRAYS"]

TWO_DAYS = Called("get_weather", {"city": "Paris", "days": 2})

# -- tags --------------------------------------------------------------------------------------------------------------

K3_TOOLS, K3_END = "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"
K3_CITY = '<|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>'
K3_PARIS = f'<|open|>call tool="get_weather" index="1"<|sep|>{K3_CITY}<|close|>call<|sep|>'
K3_NOON = '<|open|>call tool="get_time" index="2"<|sep|><|close|>call<|sep|>'

KIMI_K3 = [
    Case("two calls in a section", f"{K3_TOOLS}{K3_PARIS}{K3_NOON}{K3_END}", "", (PARIS, NOON)),
    Case("without a section", f"so {K3_PARIS}{K3_END}", "so ", (PARIS,)),
    Case(
        "no type: the schema decides",
        f'{K3_TOOLS}<|open|>call tool="get_weather"<|sep|><|open|>argument key="city"<|sep|>12<|close|>argument<|sep|>'
        f'<|open|>argument key="days"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|>{K3_END}',
        "",
        (Called("get_weather", {"city": "12", "days": 2}),),
    ),
    Case(
        "entities in an attribute",
        f'{K3_TOOLS}<|open|>call tool="rm"<|sep|><|open|>argument key="a &quot;&amp;quot;" type="string"<|sep|>&amp;'
        f"<|close|>argument<|sep|><|close|>call<|sep|>{K3_END}",
        "",
        (Called("rm", {'a "&quot;': "&amp;"}),),
    ),
    Case(
        "the response in tags",
        f"<|open|>response<|sep|>Yes.<|close|>response<|sep|>{K3_TOOLS}{K3_NOON}{K3_END}",
        "Yes.",
        (NOON,),
    ),
    Case(
        "a call in a thought is none",
        f"<|open|>think<|sep|>Maybe {K3_PARIS}.<|close|>think<|sep|>No.{K3_TOOLS}{K3_NOON}{K3_END}",
        "No.",
        (NOON,),
    ),
    Case(
        "the closing tag is missing before the next call",
        f"{K3_TOOLS}{K3_PARIS.removesuffix('<|close|>call<|sep|>')}{K3_NOON}{K3_END} so",
        " so",
        (cut(PARIS), NOON),
    ),
    Case(
        "the closing tag is missing before the section's",
        f"{K3_TOOLS}{K3_PARIS.removesuffix('<|close|>call<|sep|>')}{K3_END} so",
        " so",
        (cut(PARIS),),
    ),
    Case(
        "a value that quotes a tag",
        f"{K3_TOOLS}{K3_PARIS.replace('Paris', '<|open|>x<|sep|>')}{K3_END} so",
        " so",
        (cut(PARIS),),
    ),
    Case("another tag", "<|open|>image<|sep|> so", "<|open|>image<|sep|> so"),
    Case("a call without a tool", '<|open|>call index="1"<|sep|> so', '<|open|>call index="1"<|sep|> so'),
    Case(
        "the end of the message",
        f"<|open|>response<|sep|>Yes.<|close|>response<|sep|>{K3_TOOLS}{K3_NOON}{K3_END}<|close|>message<|sep|><|end_of_msg|>",
        "Yes.",
        (NOON,),
    ),
    Case(
        "the end of a message in a value, as text",
        f"{K3_TOOLS}{K3_PARIS.replace('Paris', '<|end_of_msg|>')}{K3_END}",
        "",
        (Called("get_weather", {"city": "<|end_of_msg|>"}),),
    ),
]

N = "]<]minimax[>["
M3_PARIS = f'{N}<invoke name="get_weather">{N}<city>Paris{N}</city>{N}</invoke>'
M3_NOON = f'{N}<invoke name="get_time">{N}</invoke>'


def m3(inside: str) -> str:
    """A section of MiniMax M3; each ``N`` before a tag stands for its mark."""
    return f"{N}<tool_call>{inside.replace('N<', f'{N}<')}{N}</tool_call>"


MINIMAX_M3 = [
    Case("in lines", m3(f"\n{M3_PARIS}\n{M3_NOON}\n"), "", (PARIS, NOON)),
    Case("without a section", f"so {M3_PARIS} so", "so  so", (PARIS,)),
    Case("without a section, and not registered", f'{N}<invoke name="rm">so', f'{N}<invoke name="rm">so'),
    Case(
        "names that are no words",
        m3('N<invoke name="rm">N<-A>1N</-A>N<$x>aN</$x>N</invoke>'),
        "",
        (Called("rm", {"-A": 1, "$x": "a"}),),
    ),
    Case(
        "an array by the schema, whatever its tags are called",
        m3('N<invoke name="search">N<query>xN</query>N<where>N<place>aN</place>N<place>1N</place>N</where>N</invoke>'),
        "",
        (Called("search", {"query": "x", "where": ["a", "1"]}),),
    ),
    Case(
        "an array with one item",
        m3('N<invoke name="search">N<query>xN</query>N<where>N<item>aN</item>N</where>N</invoke>'),
        "",
        (Called("search", {"query": "x", "where": ["a"]}),),
    ),
    Case(
        "an array as JSON",
        m3('N<invoke name="search">N<query>xN</query>N<where>["a"]N</where>N</invoke>'),
        "",
        (Called("search", {"query": "x", "where": ["a"]}),),
    ),
    Case(
        "a tag that is repeated, and text beside tags",
        m3(
            'N<invoke name="search">N<query>xN</query>N<options>N<k>1N</k>N<k>bN</k>N<o>soN<p>trueN</p>N</o>N</options>'
            "N</invoke>"
        ),
        "",
        (Called("search", {"query": "x", "options": {"k": [1, "b"], "o": {"p": True, "$text": "so"}}}),),
    ),
    Case(
        "an empty array and an empty object",
        m3('N<invoke name="search">N<query>N</query>N<where>N</where>N<options>N</options>N</invoke>'),
        "",
        (Called("search", {"query": "", "where": [], "options": {}}),),
    ),
    Case(
        "the closing tag is missing before the next call",
        m3(f"{M3_PARIS.removesuffix(f'{N}</invoke>')}{M3_NOON}") + " so",
        " so",
        (cut(PARIS), NOON),
    ),
    Case(
        "the closing tag is missing before the section's",
        m3(M3_PARIS.removesuffix(f"{N}</invoke>")) + " so",
        " so",
        (cut(PARIS),),
    ),
    Case(
        "a value with a call inside",
        m3(f'N<invoke name="search">N<query>{M3_NOON}N</query>N</invoke>') + " so",
        f"{N}</query> so",
        (cut(ODD),),
    ),
    Case(
        "another closing tag in an object",
        m3('N<invoke name="search">N<options>N<k>1N</o>N</options>N</invoke>') + " so",
        " so",
        (cut(ODD),),
    ),
]

HUNYUAN_PARIS = "get_weather<tool_sep><arg_key>city</arg_key><arg_value>Paris</arg_value>"

HUNYUAN = [
    Case(
        "A13B: a list of call objects",
        '<tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_time"}]</tool_calls> so',
        " so",
        (PARIS, NOON),
    ),
    Case("A13B: JSON that the closing tag cuts", '<tool_calls>[{"name": "f", "arguments": {"a</tool_calls> so', " so",
         (Called("f", "incomplete_json"),)),
    Case(
        "V3: two calls in a section",
        f"<tool_calls>\n<tool_call>{HUNYUAN_PARIS}</tool_call>\n<tool_call>get_time<tool_sep></tool_call>\n</tool_calls>",
        "",
        (PARIS, NOON),
    ),
    Case("V3: no section", f"<tool_call>{HUNYUAN_PARIS}</tool_call> so", " so", (PARIS,)),
    Case("V3: no separator", "<tool_calls><tool_call>get_time</tool_call></tool_calls>", "", (NOON,)),
    Case(
        "V4: tags with a suffix",
        "<tool_calls:6124c78e><tool_call:6124c78e>get_weather<tool_sep:6124c78e><arg_key:6124c78e>city"
        "</arg_key:6124c78e><arg_value:6124c78e>Paris</arg_value:6124c78e></tool_call:6124c78e></tool_calls:6124c78e>"
        " so",
        " so",
        (PARIS,),
    ),
    Case(
        "V4: a value may contain the tags of another suffix",
        "<tool_call:a1>search<tool_sep:a1><arg_key:a1>query</arg_key:a1><arg_value:a1></arg_value></tool_call:b2>"
        "</arg_value:a1></tool_call:a1>",
        "",
        (Called("search", {"query": "</arg_value></tool_call:b2>"}),),
    ),
    Case(
        "V4: a value that was not closed",
        "<tool_call:a1>search<tool_sep:a1><arg_key:a1>query</arg_key:a1><arg_value:a1>a</tool_call:a1> so"
        "<tool_call:a1>get_time</tool_call:a1>",
        " so",
        (cut(ODD), NOON),
    ),
    Case(
        "V4: the closing tag is missing before the next call",
        "<tool_call:a1>get_time<tool_sep:a1><arg_key:a1>zone</arg_key:a1><arg_value:a1>CET</arg_value:a1>"
        "<tool_call:a1>get_time</tool_call:a1>",
        "",
        (cut(NOON), NOON),
    ),
]  # fmt: skip

K2_PARIS = (
    "<ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_type>string</ifm|arg_type>"
    "<ifm|arg_value>Paris</ifm|arg_value></ifm|tool_call>"
)

K2_HORIZON = [
    Case(
        "two calls in a section",
        f"<ifm|tool_calls>\n{K2_PARIS}\n<ifm|tool_call>get_time</ifm|tool_call></ifm|tool_calls>",
        "",
        (PARIS, NOON),
    ),
    Case(
        "a type that the schema does not say",
        "<ifm|tool_call>rm<ifm|arg_key>n</ifm|arg_key><ifm|arg_type>string</ifm|arg_type><ifm|arg_value>1"
        "</ifm|arg_value></ifm|tool_call>",
        "",
        (Called("rm", {"n": "1"}),),
    ),
    Case(
        "no type: the schema decides",
        "<ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_value>12</ifm|arg_value></ifm|tool_call>",
        "",
        (Called("get_weather", {"city": "12"}),),
    ),
    Case(
        "call objects",
        '<ifm|tool_calls><ifm|tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</ifm|tool_call>'
        "</ifm|tool_calls> so",
        " so",
        (PARIS,),
    ),
    Case("without a section", f"{K2_PARIS}</ifm|tool_calls> so", " so", (PARIS,)),
    Case(
        "the closing tag is missing before the next call",
        f"<ifm|tool_calls>{K2_PARIS.removesuffix('</ifm|tool_call>')}{K2_PARIS}</ifm|tool_calls> so",
        " so",
        (cut(PARIS), PARIS),
    ),
]

MINICPM = [
    Case(
        "tags run together",
        '<functionname="get_weather"><paramname="city">Paris</param></function>',
        "",
        (PARIS,),
    ),
    Case(
        "a blank as its token is spelled",
        '<functionĠname="get_weather"><paramĠname="city">Paris</param></function> so',
        " so",
        (PARIS,),
    ),
    Case(
        "a section of raw text",
        '<function name="search"><param name="query"><![CDATA[a</param> <function name="get_time"> ]] ]]></param>'
        "</function> so",
        " so",
        (Called("search", {"query": 'a</param> <function name="get_time"> ]] '}),),
    ),
    Case("nothing between the tags", '<function name="get_time"></function>', "", (NOON,)),
    Case("a call that closes itself", '<function name="get_time"/> so', " so", (NOON,)),
    Case(
        "the closing tag is missing before the next call",
        '<function name="get_weather"><param name="city">Paris</param><function name="get_time"></function>',
        "",
        (cut(PARIS), NOON),
    ),
    Case("HTML", '<function name="x">y</function>', '<function name="x">y</function>'),
]

DOTS = [
    Case(
        "a list of call objects inside",
        '<dots_function_call>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</dots_function_call> so',
        " so",
        (PARIS,),
    ),
    Case(
        "a call object inside",
        '<dots_function_call>\n{"name": "get_time", "arguments": {}}\n</dots_function_call>',
        "",
        (NOON,),
    ),
    Case("without a section, if the tool is registered", '<invoke name="get_time"></invoke>!', "!", (NOON,)),
    Case(
        "the arguments as JSON",
        '<dots_function_call><invoke name="get_weather">{"city": "Paris"}</invoke></dots_function_call>',
        "",
        (PARIS,),
    ),
    Case(
        "the closing tag is missing before the next call",
        '<dots_function_call><invoke name="get_weather"><parameter name="city">Paris</parameter>'
        '<invoke name="get_time"></invoke></dots_function_call>',
        "",
        (cut(PARIS), NOON),
    ),
]

STEP3_PARIS = (
    '<steptml:invoke name="get_weather"><steptml:parameter name="city">Paris</steptml:parameter></steptml:invoke>'
)
STEP3_CALL, STEP3_CALL_END = "<｜tool_call_begin｜>function<｜tool_sep｜>", "<｜tool_call_end｜>"

STEP3 = [
    Case(
        "two calls in a section",
        f"<｜tool_calls_begin｜>\n{STEP3_CALL}{STEP3_PARIS}{STEP3_CALL_END}\n{STEP3_CALL}"
        f'<steptml:invoke name="get_time">'
        f"</steptml:invoke>{STEP3_CALL_END}\n<｜tool_calls_end｜>",
        "",
        (PARIS, NOON),
    ),
    Case("no markers around the tags", f"so {STEP3_PARIS} so", "so  so", (PARIS,)),
    Case(
        "nothing in the section but the tags",
        f"<｜tool_calls_begin｜>{STEP3_PARIS}<｜tool_calls_end｜>",
        "",
        (PARIS,),
    ),
    Case(
        "markers that stand alone",
        f"so {STEP3_PARIS}{STEP3_CALL_END}<｜tool_calls_end｜> so",
        "so  so",
        (PARIS,),
    ),
]

# -- channels ----------------------------------------------------------------------------------------------------------

GEMMA = [
    Case(
        "literals",
        '<|tool_call>call:rm{s:<|"|>a "b" {c}<|"|>,n:1,m:-2.5e3,l:[true,null,[]],o:{k:<|"|>v<|"|>,p:{}}}<tool_call|>',
        "",
        (Called("rm", {"s": 'a "b" {c}', "n": 1, "m": -2500.0, "l": [True, None, []], "o": {"k": "v", "p": {}}}),),
    ),
    Case(
        "blanks and lines",
        '<|tool_call>call:get_weather{\n city: <|"|>Paris<|"|>,\n days: 2\n}\n<tool_call|>',
        "",
        (TWO_DAYS,),
    ),
    Case(
        "strings in quotes",
        """<|tool_call>call:rm{a:"x, \\"y\\"",b:['it\\'s',"\\n"],"c":1,<|"|>d<|"|>:2}<tool_call|>""",
        "",
        (Called("rm", {"a": 'x, "y"', "b": ["it's", "\n"], "c": 1, "d": 2}),),
    ),
    Case("a bare word", "<|tool_call>call:get_weather{city:Paris,days:2}<tool_call|>", "", (TWO_DAYS,)),
    Case("without the word", '<|tool_call>:get_weather{city:<|"|>Paris<|"|>}<tool_call|>', "", (PARIS,)),
    Case(
        "FunctionGemma",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:2}<end_function_call> so",
        " so",
        (TWO_DAYS,),
    ),
    Case(
        "a thought, and a draft in it",
        "<|channel>thought\nMaybe call:get_time{}.<channel|>Yes. <|tool_call>call:get_time{}<tool_call|>",
        "Yes. ",
        (NOON,),
    ),
    Case("another channel", "<|channel>image\nso", "<|channel>image\nso"),
    Case(
        "no closing marker before the next call",
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<|tool_call>call:get_time{}<tool_call|>',
        "",
        (cut(PARIS), NOON),
    ),
    Case("no closing marker at the end", "<|tool_call>call:get_time{}", "", (cut(NOON),)),
    Case(
        "a string that the next call cuts, up to its closing marker",
        '<|tool_call>call:get_weather{city:<|"|>Par<|tool_call>call:get_time{}<tool_call|> so',
        " so",
        (cut(PARIS),),
    ),
    Case("a value that is missing", "<|tool_call>call:get_weather{city:}<tool_call|> so", " so", (cut(PARIS),)),
]

HARMONY_PARIS = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}'

HARMONY = [
    Case(
        "a thought, a preamble, a call",
        "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant<|channel|>commentary<|message|>"
        f"One moment.<|end|><|start|>assistant{HARMONY_PARIS}<|call|>",
        "One moment.",
        (PARIS,),
    ),
    Case(
        "the recipient before the channel",
        "<|start|>assistant to=functions.get_time<|channel|>commentary json<|message|>{}<|call|>",
        "",
        (NOON,),
    ),
    Case(
        "the recipient at the beginning of the response",
        " to=functions.get_time<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
        " ",
        (NOON,),
    ),
    Case(
        "a call in the channel of thoughts",
        "<|channel|>analysis to=functions.get_time <|constrain|>json<|message|>{}<|call|>",
        "",
        (NOON,),
    ),
    Case("the closing marker left out at the end of the response", HARMONY_PARIS, "", (PARIS,)),
    Case("another closing marker", f"{HARMONY_PARIS}<|end|>", "", (PARIS,)),
    Case(
        "the closing marker missing before the next message",
        f"{HARMONY_PARIS}<|start|>assistant<|channel|>final<|message|>Done.<|return|>",
        "Done.",
        (cut(PARIS),),
    ),
    Case("the answer", "<|channel|>final<|message|>Yes: to=functions.x.<|return|>", "Yes: to=functions.x."),
    Case("a thought that was never closed", "<|channel|>analysis<|message|>so <|e", ""),
    Case(
        "no JSON",
        "<|channel|>commentary to=python<|message|>print(1)<|call|> so",
        "<|channel|>commentary to=python<|message|>print(1) so",
    ),
    Case("words that look like a header", "to=you\nand me", "to=you\nand me"),
    Case("something behind the arguments", f"{HARMONY_PARIS} or so<|call|> so", " so", (broken(PARIS),)),
]

MUSE_NOON = '<atem:function_calls><atem:invoke name="t.get_time"></atem:invoke></atem:function_calls>'

MUSE = [
    Case(
        "a thought, text, a call in a namespace",
        "<|start|>assistant to=self<|message|>Let me see.<|eom|><|start|>assistant to=user<|message|>One moment.<|eom|>"
        f"<|start|>assistant to=t.get_time<|message|>{MUSE_NOON}<|eot|>",
        "One moment.",
        (NOON,),
    ),
    Case(
        "a call that is quoted in text is none",
        f"<|start|>assistant to=user<|message|>Write {MUSE_NOON}, so.<|eom|>",
        f"Write {MUSE_NOON}, so.",
    ),
    Case(
        "a call that is quoted in a thought is none",
        f"<|start|>assistant to=self<|message|>Write {MUSE_NOON}?<|eom|>"
        "<|start|>assistant to=user<|message|>No.<|eot|>",
        "No.",
    ),
    Case("no header", f"{MUSE_NOON}<|eom|>", "", (NOON,)),
    Case("the header's end alone", f"to=t.get_time<|message|>{MUSE_NOON}<|eot|>", "", (NOON,)),
    Case(
        "two calls",
        '<|start|>assistant to=t.get_time<|message|><atem:function_calls><atem:invoke name="t.get_time"></atem:invoke>'
        '<atem:invoke name="o.rm"></atem:invoke></atem:function_calls><|eom|>',
        "",
        (NOON, Called("o.rm", {})),
    ),
    Case("a header that never ends", "<|start|>assistant\nso", "<|start|>assistant\nso"),
    Case(
        "the end of a thought is missing before the next header",
        f" to=self<|message|>Let me see.<|start|>assistant to=t.get_time<|message|>{MUSE_NOON}",
        " ",
        (NOON,),
    ),
    Case(
        "a thought's end and the next header's marker are missing",
        f" to=self<|message|>Let me see to=it. to=t.get_time<|message|>{MUSE_NOON}",
        " ",
        (NOON,),
    ),
    Case(
        "a text's end and the next header's marker are missing",
        f"<|start|>assistant to=user<|message|>One moment. to=get_time<|message|>{MUSE_NOON}",
        "One moment.",
        (NOON,),
    ),
    Case(
        "headers without their marker behind the ends of messages",
        f" to=self<|message|>So.<|eom|> to=t.get_time<|message|>{MUSE_NOON}<|eom|> to=user<|message|>Done.<|eot|>",
        " Done.",
        (NOON,),
    ),
    Case(
        "words that look like a header, and one of an unknown recipient",
        f"<|start|>assistant to=user<|message|>Go to=x, to=rm<|message|>{MUSE_NOON} to=",
        f"Go to=x, to=rm<|message|>{MUSE_NOON} to=",
    ),
    Case(
        "the channel of the developer is a thought",
        f"<|start|>assistant to=developer<|message|>{MUSE_NOON} is due.<|eom|>"
        "<|start|>assistant to=user<|message|>Yes.<|eot|>",
        "Yes.",
    ),
    Case(
        "a message of the developer is a thought",
        f"<|start|>developer<|message|>Call {MUSE_NOON}!<|eom|><|start|>assistant to=user<|message|>Yes.<|eot|>",
        "Yes.",
    ),
    Case(
        "a value that the section's end cuts",
        '<atem:function_calls><atem:invoke name="t.get_weather"><atem:parameter name="city">Par</atem:function_calls>'
        f"<|eom|><|start|>assistant to=t.get_time<|message|>{MUSE_NOON}<|eot|>",
        "",
        (cut(PARIS), NOON),
    ),
]

INKLING_NOON = '<|content_invoke_tool_json|>{"name":"get_time","args":{}}<|end_message|>'

INKLING = [
    Case(
        "a thought, text, a call",
        f"<|content_thinking|>Let me see.<|end_message|><|content_text|>Yes.<|end_message|>{INKLING_NOON}",
        "Yes.",
        (NOON,),
    ),
    Case(
        "a thought whose end is missing",
        f"<|content_thinking|>Let me see.{INKLING_NOON}",
        "",
        (NOON,),
    ),
    Case("no arguments", '<|content_invoke_tool_json|>{"name": "get_time"}<|end_message|>', "", (NOON,)),
    Case(
        "no closing marker",
        '<|content_invoke_tool_json|>{"name": "get_time", "args": {}}',
        "",
        (cut(NOON),),
    ),
    Case(
        "messages with their headers",
        "<|content_thinking|>Let me see.<|end_message|><|message_model|><|content_text|>Yes.<|end_message|>"
        f"<|message_model|>get_time{INKLING_NOON}<|message_model|>{INKLING_NOON}<|content_model_end_sampling|>",
        "Yes.",
        (NOON, NOON),
    ),
    Case(
        "a thought that the next message ends",
        f"<|content_thinking|>Let me see.<|message_model|>get_time{INKLING_NOON}",
        "",
        (NOON,),
    ),
    Case("a header with nothing behind it", "<|message_model|>get_time so <|message_model|>", "get_time so "),
    Case(
        "markers in a string, as text",
        '<|content_invoke_tool_json|>{"name": "search", "args": {"query": "<|message_model|>"}}<|end_message|>',
        "",
        (Called("search", {"query": "<|message_model|>"}),),
    ),
    Case(
        "arguments that the next message cuts",
        '<|content_invoke_tool_json|>{"name": "search", "args": {"query": "a<|message_model|><|content_text|>Yes.',
        "Yes.",
        (cut(ODD),),
    ),
]

COMMAND_NOON = '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_time", "parameters": {}}]<|END_ACTION|>'

COHERE = [
    Case(
        "a thought, and a draft in it",
        f"<|START_THINKING|>{COMMAND_NOON}?<|END_THINKING|>{COMMAND_NOON}",
        "",
        (NOON,),
    ),
    Case("text between its markers", "<|START_RESPONSE|>Yes.<|END_RESPONSE|>", "Yes."),
    Case("text between Command 4's markers", "<|START_TEXT|>Yes.<|END_TEXT|>", "Yes."),
    Case(
        "two calls with numbers",
        '<|START_ACTION|>[\n{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}},\n'
        '{"tool_call_id": "1", "tool_name": "get_time", "parameters": {}}\n]<|END_ACTION|>',
        "",
        (PARIS, NOON),
    ),
    Case(
        "a list that the closing marker cuts",
        '<|START_ACTION|>[{"tool_name": "get_weather", "parameters": {"city": "Paris"}<|END_ACTION|> so',
        " so",
        (cut(PARIS),),
    ),
]

# -- objects -----------------------------------------------------------------------------------------------------------

OBJECT = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
NOON_OBJECT = '{"name": "get_time", "arguments": {}}'

GIGACHAT = [
    Case("3.0", f"function call<|role_sep|>\n{OBJECT}", "", (PARIS,)),
    Case("3.0, text before it", f"Yes.\nfunction call<|role_sep|>\n{OBJECT}\nso", "Yes.\n\nso", (PARIS,)),
    Case("words of its marker", "a function call is", "a function call is"),
    Case("the end in the object", f"<|function_call|>{OBJECT[:-1]}", "", (cut(PARIS),)),
    Case(
        "arguments that the next call cuts",
        f"<|function_call|>{OBJECT[:-2]}<|function_call|>{NOON_OBJECT}",
        "",
        (cut(PARIS), NOON),
    ),
    Case(
        "3.0, the ends of the messages",
        f"Yes.<|message_sep|>\n\nfunction call<|role_sep|>\n{OBJECT}<|message_sep|>\n\n",
        "Yes.",
        (PARIS,),
    ),
    Case(
        "the ends of the messages",
        f"Yes.<|message_sep|>\n\n<|function_call|>{OBJECT}<|message_sep|>",
        "Yes.",
        (PARIS,),
    ),
    Case(
        "the end of a message, and one line break", "Yes.<|message_sep|>\nNo.<|message_sep|", "Yes.\nNo.<|message_sep|"
    ),
    Case(
        "the end of a message in a string, as text",
        f"<|function_call|>{OBJECT.replace('Paris', '<|message_sep|>')}",
        "",
        (Called("get_weather", {"city": "<|message_sep|>"}),),
    ),
    Case(
        "arguments that the end of the message cuts",
        f"<|function_call|>{OBJECT[:-3]}<|message_sep|>\n\n<|function_call|>{NOON_OBJECT}",
        "",
        (cut(PARIS), NOON),
    ),
]

APERTUS = [
    Case(
        "two calls",
        '<|tools_prefix|>[{"get_weather": {"city": "Paris"}}, {"get_time": {}}]<|tools_suffix|>',
        "",
        (PARIS, NOON),
    ),
    Case(
        "two calls in an object",
        '<|tools_prefix|>[{"get_weather": {"city": "Paris"}, "get_time": {}}]<|tools_suffix|>',
        "",
        (PARIS, NOON),
    ),
    Case("an object without a call", "<|tools_prefix|>[{}] so", "<|tools_prefix|>[{}] so"),
    Case("arguments that are none", '<|tools_prefix|>[{"f": 1}] so', '<|tools_prefix|>[{"f": 1}] so'),
    Case(
        "a second that is none",
        '<|tools_prefix|>[{"get_time": {}, "f": 1}]<|tools_suffix|> so',
        " so",
        (Called("get_time", "malformed_json"),),
    ),
]

INTERNLM = [
    Case(
        "a blank between the markers",
        '<|action_start|> <|plugin|>\n{"name": "get_weather", "parameters": {"city": "Paris"}}\n<|action_end|>\nso',
        "\nso",
        (PARIS,),
    ),
    Case(
        "code",
        "<|action_start|><|interpreter|>\nprint(1)<|action_end|>",
        "<|action_start|><|interpreter|>\nprint(1)<|action_end|>",
    ),
    Case("arguments", f"<|action_start|><|plugin|>{OBJECT}<|action_end|>", "", (PARIS,)),
    Case("the end before the closing marker", f"<|action_start|><|plugin|>{OBJECT}", "", (cut(PARIS),)),
]

PHI = [
    Case("two calls", f"functools[{OBJECT}, {NOON_OBJECT}]", "", (PARIS, NOON)),
    Case("a module", "from functools import wraps; functools[0]", "from functools import wraps; functools[0]"),
    Case("text behind it", f"functools[{OBJECT}] so", " so", (PARIS,)),
    Case("the end before the bracket", f"functools[{OBJECT}", "", (cut(PARIS),)),
    Case(
        "arguments that the next call cuts", f"functools[{OBJECT[:-2]}functools[{NOON_OBJECT}]", "", (cut(PARIS), NOON)
    ),
]

XLAM = [
    Case("a list without a marker", f"[{OBJECT}, {NOON_OBJECT}]", "", (PARIS, NOON)),
    Case("a list in a fence", f"so:\n```json\n[{OBJECT}]\n```", "so:\n", (PARIS,)),
    Case("a list without a marker, not registered", '[{"name": "rm", "arguments": {}}]',
         '[{"name": "rm", "arguments": {}}]'),
    Case("a list of something else", "[1, 2]", "[1, 2]"),
    Case("an empty list", "[]", "[]"),
    Case("a list in a line", f"so [{OBJECT}]", f"so [{OBJECT}]"),
    Case("behind a thought's end", f"</think>\n[{OBJECT}]", "</think>\n", (PARIS,)),
    Case("a list in tags", f"so <tool_call>[{OBJECT}, {NOON_OBJECT}]</tool_call> so", "so  so", (PARIS, NOON)),
    Case("an object in tags", f"<tool_call>\n{OBJECT}\n</tool_call>", "", (PARIS,)),
    Case("a list in tags, cut by the closing one", f"<tool_call>[{OBJECT[:-1]}</tool_call> so", " so", (cut(PARIS),)),
    Case("tags that are only mentioned", "Write <tool_call>[...]</tool_call>.", "Write <tool_call>[...]</tool_call>."),
]  # fmt: skip

GRANITE = [
    Case("two calls", f"<|tool_call|>[{OBJECT}, {NOON_OBJECT}]", "", (PARIS, NOON)),
    Case("3.1", f"<tool_call> [{OBJECT}]", "", (PARIS,)),
    Case("20b", f"<function_call> {OBJECT}", "", (PARIS,)),
    Case("20b: two calls", f"<function_call> {OBJECT}\n<function_call> {NOON_OBJECT}", "\n", (PARIS, NOON)),
    Case("a closing tag", f"<tool_call>[{OBJECT}]</tool_call> so", " so", (PARIS,)),
    Case("the end before the bracket", f"<|tool_call|>[{OBJECT}", "", (cut(PARIS),)),
]

LONGCAT = [
    Case("in lines", f"<longcat_tool_call>\n{OBJECT}\n</longcat_tool_call>\nso", "\nso", (PARIS,)),
    Case("a list", f"<longcat_tool_call>[{OBJECT}, {NOON_OBJECT}]</longcat_tool_call>", "", (PARIS, NOON)),
    Case(
        "arguments that the closing tag cuts",
        f"<longcat_tool_call>{OBJECT[:-2]}</longcat_tool_call><longcat_tool_call>{NOON_OBJECT}</longcat_tool_call>",
        "",
        (cut(PARIS), NOON),
    ),
    Case("a brace too many", f"<longcat_tool_call>{OBJECT}}}</longcat_tool_call> so", " so", (broken(PARIS),)),
    Case("a closing tag twice", f"<longcat_tool_call>{OBJECT}</longcat_tool_call></longcat_tool_call>!", "!", (PARIS,)),
]

OLMO = [
    Case(
        "several, one in a line",
        '<function_calls>\nget_weather(city="Paris", days=2)\nget_time(zone=null)\n</function_calls>\nso',
        "\nso",
        (TWO_DAYS, Called("get_time", {"zone": None})),
    ),
    Case("nothing", "<function_calls></function_calls>!", "!"),
    Case(
        "no literal",
        "<function_calls>get_time(zone=x)</function_calls>",
        "<function_calls>get_time(zone=x)</function_calls>",
    ),
    Case("no closing tag", "<function_calls>get_time()", "<function_calls>get_time()"),
]

STRAYS: dict[str, list[Case]] = {
    "kimi_k3": KIMI_K3,
    "minimax_m3": MINIMAX_M3,
    "hunyuan": HUNYUAN,
    "k2_horizon": K2_HORIZON,
    "minicpm": MINICPM,
    "dots": DOTS,
    "step3": STEP3,
    "gemma": GEMMA,
    "harmony": HARMONY,
    "muse": MUSE,
    "inkling": INKLING,
    "cohere": COHERE,
    "gigachat": GIGACHAT,
    "apertus": APERTUS,
    "internlm": INTERNLM,
    "phi4_mini": PHI,
    "xlam": XLAM,
    "granite": GRANITE,
    "longcat": LONGCAT,
    "olmo3": OLMO,
}
