"""What holds for calls in any text: any cut gives the same turn, nothing is lost, time is linear, all is bounded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dialect_cases import CASES, FRAMED, TOOLS, WHOLE
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples, mostly_thorough
from sansio import check_turn, snapshot
from streams import chat_chunk

from streamtools import Limits, StreamDecoder, TextDelta, Turn, parse
from streamtools.events import Event, TextEnd, TextStart
from streamtools.stages import DEFAULT, DIALECTS, Chain, StageList, text_calls
from streamtools.tools import Toolset

END = chat_chunk({}, "stop")
BITS = [
    '{"name": "get_time", "arguments": {', '{"name": "', "get_weather", "get_time", '"arguments": ', '"parameters":',
    '{"city": "Paris"', "{", "}", "[", "]", "(", ")", '"', "'", "\\", "`", ",", ";", ":", "=", "<", ">", "|", "\n",
    " ", "1", "true", "None", "city", "é", "😀", "x",
]  # fmt: skip
MARKER_LINES = """
<tool_call> </tool_call> <function= </function> <parameter=city> </parameter> <|python_tag|> <arg_key> </arg_key>
<arg_value> </arg_value> [TOOL_CALLS] [ARGS] [CALL_ID] <｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <｜tool▁sep｜>
<｜tool▁call▁end｜> <｜tool▁calls▁end｜> <｜DSML｜tool_calls> <｜DSML｜invoke </｜DSML｜parameter> </｜DSML｜invoke>
</｜DSML｜tool_calls> <|tool_calls_section_begin|> <|tool_call_begin|> <|tool_call_argument_begin|> <|tool_call_end|>
<|tool_calls_section_end|> <minimax:tool_call> <invoke <parameter </invoke> </minimax:tool_call> name="city">
string="true" <|python_start|> <|python_end|> <|tool_call_start|> ``` json
"""
MARKERS = MARKER_LINES.split()


def own_markers(dialect: str) -> list[str]:
    """All markers of a dialect, whole and without their last character."""
    known = DIALECTS[dialect]
    whole = [*known.anywhere, *known.at_line_start, *known.at_beginning, *known.closers, *known.inner, *known.drops]
    return [*whole, *(marker[:-1] for marker in whole)]


def words(dialect: str) -> st.SearchStrategy[str]:
    bits = st.sampled_from(BITS + MARKERS) | st.sampled_from(own_markers(dialect)) | st.text(max_size=4)
    return st.lists(bits, max_size=30).map("".join)


@st.composite
def damaged(draw: st.DrawFn, texts: Sequence[str], bits: Sequence[str]) -> str:
    """A text of the dialect, twice maybe, with something cut out or put in."""
    text = "".join(draw(st.lists(st.sampled_from(texts), min_size=1, max_size=2)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + draw(st.sampled_from(["", *bits])) + text[end:]
    return text


def read(dialect: str, deltas: Iterable[str], limits: Limits = Limits()) -> Turn:
    stages = DEFAULT.insert_before("accumulate", text_calls(dialect))
    payloads = [chat_chunk({"content": delta}) for delta in deltas]
    return parse([*payloads, END], tools=TOOLS, stages=stages, limits=limits)


def pieces(text: str, sizes: Sequence[int]) -> list[str]:
    """The text in pieces of these sizes, again and again."""
    found, at = [], 0
    while at < len(text):
        size = sizes[len(found) % len(sizes)]
        found.append(text[at : at + size])
        at += size
    return found


def check(dialect: str, text: str, sizes: Sequence[int]) -> None:
    whole = read(dialect, [text] if text else [])
    assert snapshot(read(dialect, pieces(text, sizes))) == snapshot(whole)
    check_turn(whole)
    has_strays = any(warning.code == "stray_marker" for warning in whole.warnings)
    if not whole.calls and dialect not in FRAMED:
        assert (whole.text == text) is not has_strays, "nothing but orphans is dropped"
    rest = iter(text)
    assert all(character in rest for character in whole.text), "all text is the model's, in its order"


@every("dialect", mostly_thorough(CASES, 8))
def test_any_words_and_markers_in_any_pieces(dialect: str) -> None:
    @settings(max_examples=examples(20), deadline=None, derandomize=True, database=None)
    @given(words(dialect), st.lists(st.integers(1, 9), min_size=1, max_size=6))
    def holds(text: str, sizes: list[int]) -> None:
        check(dialect, text.replace("<think>", ""), sizes)

    holds()


@every("dialect", mostly_thorough(CASES, 8))
def test_any_damage_to_a_call_in_any_pieces(dialect: str) -> None:
    bits = BITS + MARKERS + own_markers(dialect)

    @settings(max_examples=examples(30), deadline=None, derandomize=True, database=None)
    @given(damaged([case.text for case in CASES[dialect]], bits), st.lists(st.integers(1, 9), min_size=1, max_size=6))
    def holds(text: str, sizes: list[int]) -> None:
        check(dialect, text, sizes)

    holds()


# -- what is held back, and for how long -------------------------------------------------------------------------------


def outcomes(dialect: str, text: str) -> list[str]:
    """The text that has gone out after each character."""
    stages = DEFAULT.insert_before("accumulate", text_calls(dialect))
    stream = StreamDecoder(tools=TOOLS, stages=stages)
    stream.feed(chat_chunk({"role": "assistant", "content": ""}))
    said, after = "", []
    for character in text:
        for event in stream.feed(chat_chunk({"content": character})):
            said += event.text if isinstance(event, TextDelta) else ""
        after.append(said)
    return after


@every(
    ("dialect", "text", "held"),
    [
        ("hermes", "a <b> <tool> c", ["<", "<", "<t", "<to", "<too", "<tool"]),
        ("mistral", "[1] [TO] c", ["[", "[", "[T", "[TO"]),
        ("llama3", "{x}\n {} a {\n", ["{", "{"]),
        ("llama3", '{"a": 1}', ["{", '{"', '{"a']),
        ("pythonic", "[1] a\n[ab] [a", ["[", "[1", "[", "[a", "[ab"]),
        ("json", "``a\n```py\n", ["`", "``", "`", "``", "```", "```p", "```py"]),
        ("glm", "<tool_call>a b", ["<tool_call>"[:end] for end in range(1, 12)] + ["<tool_call>a", "<tool_call>a "]),
    ],
)
def test_only_what_may_still_become_a_call_is_held_back(dialect: str, text: str, held: list[str]) -> None:
    after = outcomes(dialect, text)
    assert [text[len(said) : end] for end, said in enumerate(after, start=1) if len(said) < end] == held


# -- cost --------------------------------------------------------------------------------------------------------------


def operations(run: Callable[[], object]) -> int:
    """How many functions were called, Python's and C's."""
    count = 0

    def tick(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tick)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def feed(dialect: str, deltas: list[str], limits: Limits = Limits()) -> int:
    """Feed a stage; how many characters came out of it, of text and of arguments."""
    stages = StageList([("text_calls", text_calls(dialect).build)])
    chain: Chain = stages.build(Toolset(TOOLS), limits)
    out: list[Event] = []
    chain.feed_all([TextStart(), *map(TextDelta, deltas), TextEnd()], out)
    return sum(len(getattr(event, "text", "") or getattr(event, "arguments", "")) for event in out)


HOSTILE = {
    "openers": {dialect: "\n" + next(iter({**d.anywhere, **d.at_line_start})) for dialect, d in DIALECTS.items()},
    "beginnings": {dialect: "\n" + WHOLE[dialect].text[:40] for dialect in DIALECTS},
    "calls": {dialect: "\n" + WHOLE[dialect].text for dialect in DIALECTS},
    "closers missing": {dialect: "\n" + WHOLE[dialect].text[:-4] for dialect in DIALECTS},
    "strings cut": {
        name: "\n" + case.text[: case.text.index("Paris") + 2] + "".join(DIALECTS[name].closers[:1])
        for name, case in WHOLE.items()
    },
    "escaped quotes": {name: '\n{"\\"' + case.text[: case.text.index("Paris")] + '\\"' for name, case in WHOLE.items()},
    "brackets": dict.fromkeys(DIALECTS, "\n{[<`"),
    "blanks": dict.fromkeys(DIALECTS, "    {"),
}


@every("dialect", mostly_thorough(DIALECTS, 1))
@every("kind", HOSTILE)
def test_twice_the_text_costs_twice_the_operations(kind: str, dialect: str) -> None:
    unit = HOSTILE[kind][dialect]
    for deltas in (lambda text: [text], list):
        once, twice = unit * 15, unit * 30
        feed(dialect, deltas(once))  # patterns are compiled
        cost = [operations(lambda: feed(dialect, deltas(text))) for text in (once, twice)]
        assert cost[1] < 2.3 * cost[0], cost
        assert feed(dialect, deltas(twice)) <= 2 * len(twice), "nothing is told twice"


@every("dialect", mostly_thorough(DIALECTS, 6))
def test_what_begins_a_call_and_never_ends_is_given_back_in_time(dialect: str) -> None:
    """A hostile peer cannot make the stage hold more than the limits say."""
    limits = Limits(max_argument_bytes=1000, max_name_bytes=50)
    opener = "\n" + next(iter({**DIALECTS[dialect].anywhere, **DIALECTS[dialect].at_line_start}))
    for filler in ("a", " ", '{"arguments": "', "[get_time(zone='", "get_time(zone=[1,", '{"function":', "\\"):
        text = opener + filler + "y" * 5_000
        for deltas in ([text], pieces(text, [7])):
            turn = read(dialect, deltas, limits)
            assert turn.text == text or turn.calls, (filler, len(turn.text))
        assert feed(dialect, pieces(text, [7]), limits) > 0


def test_arguments_before_their_name_are_held_up_to_the_limit() -> None:
    limits = Limits(max_argument_bytes=1000)
    for size, calls in ((900, 1), (1100, 0)):
        text = f'<tool_call>{{"arguments": {{"zone": "{"z" * size}"}}, "name": "get_time"}}</tool_call>'
        for deltas in ([text], list(text)):
            turn = read("hermes", deltas, limits)
            assert (len(turn.calls), turn.text) == (calls, "" if calls else text)


def test_a_list_is_held_up_to_the_limit() -> None:
    limits = Limits(max_argument_bytes=1000)
    for value, calls in (("'" + "z" * 900 + "'", 1), ("'" + "z" * 1100 + "'", 0), ("[" + "1," * 600 + "]", 0)):
        text = f"[search(query={value})]"
        for deltas in ([text], list(text)):
            turn = read("pythonic", deltas, limits)
            assert (len(turn.calls), turn.text) == (calls, "" if calls else text)


def test_arguments_that_nest_too_deep_are_refused() -> None:
    deep = "[" * 70 + "]" * 70
    turn = read("hermes", [f'<tool_call>{{"name": "search", "arguments": {{"query": {deep}}}}}</tool_call> so'])
    assert ([(call.status, call.problem) for call in turn.calls], turn.text) == ([("invalid", "too_deep")], " so")
    assert read("pythonic", [f"[search(query={deep})]"]).calls == ()


def test_a_page_of_blanks_where_a_call_may_begin_is_text() -> None:
    text = "<tool_call>" + " " * 5000
    assert [read("hermes", deltas).text for deltas in ([text], pieces(text, [9]))] == [text, text]


def test_a_name_that_is_too_long_is_no_call() -> None:
    name = "n" * 200
    for dialect, text in (
        ("hermes", f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>'),
        ("mistral", f"[TOOL_CALLS]{name}[ARGS]{{}}"),
        ("glm", f"<tool_call>{name}</tool_call>"),
    ):
        for deltas in ([text], list(text)):
            turn = read(dialect, deltas)
            assert (turn.text, turn.calls) == (text, ())
