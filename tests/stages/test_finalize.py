"""A call's text in, its arguments out: verbatim, losslessly normalised, or not at all. Through `parse`."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every
from sansio import ANTHROPIC, CHAT, checked, strict_json
from streams import anthropic, chat, chat_chunk, sse

from streamtools import Limits, StreamDecoder, ToolCall, parse
from streamtools.errors import CallTruncated, InvalidArguments
from streamtools.events import ToolCallEnd
from streamtools.stages.arguments import arguments_of

BODIES = ((CHAT, chat), (ANTHROPIC, anthropic))


def call_of(text: str, **options: Any) -> ToolCall:
    turn = checked(parse(chat(calls=[("a", "f", text)]), **options))
    (call,) = turn.calls
    assert call.arguments_text == text
    return call


def one_call(arguments: str) -> dict[str, Any]:
    """A whole response in one payload."""
    return chat_chunk({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": arguments}}]}, "tool_calls")


# -- verbatim --------------------------------------------------------------------------------------------------------

VERBATIM = [
    "{}",
    ' { "a" : [ 1 , 2.5e-3 , true , null , "\\u00e9\\n" ] } \n',
    '{"a": {"b": {"c": []}}}',
    '{"": ""}',
    '{"a": 1, "a": 2}',
    '{"a": "\\ud83d\\ude00"}',
    '{"a": "\\\\ud83d"}',
    '{"é": "\U0001f600"}',
    '{"a": "\x7f"}',
]


@every("text", VERBATIM)
def test_an_object_is_taken_verbatim(text: str) -> None:
    call = call_of(text)
    assert (call.status, call.arguments, call.normalizations) == ("ready", json.loads(text), ())
    for wire, body in BODIES:
        turn = parse(body(calls=[("a", "f", text)]))
        assert turn.messages(CHAT)[0]["tool_calls"][0]["function"]["arguments"] == text
        assert turn.messages(ANTHROPIC)[0]["content"][0]["input"] == json.loads(text)
        assert turn.wire == wire


@settings(deadline=None, derandomize=True, database=None)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_every_json_object_is_taken_as_it_is(value: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    (call,) = parse([one_call(text)]).calls
    assert call.arguments == value
    assert call.arguments_text == text


@every("number", [2**53 + 1, 2**63, 2**64, -(2**64) - 1, 10**100 + 1])
def test_large_integers_keep_every_digit_also_where_the_wire_sends_an_object(number: int) -> None:
    value = {"id": number, "deep": [{"id": [number]}], "text": "x"}
    texts = [(wire, body(calls=[("a", "f", json.dumps(value))])) for wire, body in BODIES]
    for wire, body in (*argument_objects(value), *texts):
        (call,) = parse(body, wire=wire).calls
        assert call.arguments == value
        assert str(number) in call.arguments_text
        assert type(call.arguments["id"]) is int


def argument_objects(value: Any) -> Iterator[tuple[str, Any]]:
    """A response of each wire whose one call's arguments are an object: as its payloads, and as bytes."""
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": value}}
    block = {"type": "tool_use", "id": "a", "name": "f", "input": value}
    streams: dict[str, list[dict[str, Any]]] = {
        CHAT: [chat_chunk({"tool_calls": [call]}, "tool_calls")],
        ANTHROPIC: [
            {"type": "message_start", "message": {"id": "m"}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        ],
    }
    for wire, payloads in streams.items():
        yield wire, payloads
        try:
            yield wire, [b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads]
        except RecursionError:  # deeper than Python writes
            continue


@every("number", [float("nan"), float("inf"), float("-inf")])
def test_an_object_with_a_number_that_json_does_not_have_never_runs(number: float) -> None:
    for wire, body in argument_objects({"a": [number]}):
        turn = checked(parse(body, wire=wire))
        assert [(call.status, call.dispatchable, call.arguments) for call in turn.calls] == [("invalid", False, None)]


@every("depth", [60, 64, 65, 190, 300, 900, 5000])
def test_an_object_may_be_nested_as_deep_as_the_limit_and_no_deeper(depth: int) -> None:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    for limit in (64, 10_000):
        for wire, body in argument_objects(value):
            turn = checked(parse(body, wire=wire, limits=Limits(max_json_depth=limit)))
            if depth <= min(limit, 190):
                assert [call.dispatchable for call in turn.calls] == [True]
            else:
                assert not any(call.dispatchable for call in turn.calls)
                assert turn.error is not None or [call.status for call in turn.calls] == ["invalid"]


# -- losslessly normalised -------------------------------------------------------------------------------------------


def test_an_escaped_line_break_is_not_counted_against_the_limit() -> None:
    text = '{"a": "' + "\n" * 100 + '"}'
    assert call_of(text, limits=Limits(max_argument_bytes=len(text))).arguments == {"a": "\n" * 100}
    turn = parse(chat(calls=[("a", "f", text)]), limits=Limits(max_argument_bytes=len(text) - 1))
    assert not any(call.dispatchable for call in turn.calls)


def test_a_line_break_in_a_string_is_not_taken_where_a_call_is_cut_or_in_disorder() -> None:
    text = '{"a": "x\ny"}'
    started = anthropic([], [("c1", "f", text)])
    cut = parse([chunk for chunk in started if b"_stop" not in chunk], wire=ANTHROPIC)
    start, *pieces = (chunk for chunk in started if b"content_block_" in chunk)
    early = [chunk for chunk in started if chunk not in (start, *pieces)]
    early[1:1] = [*pieces[:-1], start, pieces[-1]]
    for turn, problem in ((cut, "incomplete_json"), (parse(early, wire=ANTHROPIC), "incomplete_json")):
        assert [(call.status, call.problem, call.arguments) for call in turn.calls] == [("truncated", problem, None)]
    whole = [chunk.replace(b"x\\ny", b"x y") for chunk in early]
    assert [call.arguments for call in parse(whole, wire=ANTHROPIC).calls] == [{"a": "x y"}]


# -- refused ---------------------------------------------------------------------------------------------------------

REFUSED = {
    "incomplete_json": [
        *("{", '{"a"', '{"a":', '{"a": 1', '{"a": 1,', '{"a": tru', '{"a": "x\\', '{"a": [1, {"b": "c"}'),
        *("nul", '"{', "[", "-"),
    ],
    "malformed_json": [
        *("{]", "{'a': 1}", '{"a": 1,}', '{"a": 01}', "{a: 1}", "True", "x", "/* */ {}", '{"a": "\\x"}'),
        *(
            '{"a": "\n", b}',
            '{"a": "\n",}',
            '{"a": "\n"}}',
            '{"a": "\\\n"}',
            '{"a": "\x00\n"}',
            '{"a": "\x0b"}',
            '{"a": \x0c1}',
        ),
        *('{"a": "\n', '{"a": "x" "\n"}', "{'a': '\n'}"),
        *('{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', "NaN", '{"a": nan}'),
        *('{"a": 1}x', '{"a": 1}\x00', '{"a": 1}```', 'json{"a": 1}', "```json\n{'a': 1}\n```", "```json\n```"),
    ],
    "concatenated_json": ['{"a": 1}{"a": 1}', "{} {}", "{}[]", '{"a": 1}\n{"b":', "null{}"],
    "non_object_arguments": ["[]", "12", "true", '"x"', '"[1]"', '"12"', "[{}]", '"null"'],
    "number_out_of_range": [
        *('{"a": 1e999}', '{"a": [{"b": -1E+400}]}', '{"a": ' + "9" * 400 + ".5}"),
        *('"{\\"a\\": 1e999}"', '"{\\"a\\": 1\\u0065999}"', '```{"a": 1e999}```'),
    ],
}


@every(("problem", "text"), [(problem, text) for problem, texts in REFUSED.items() for text in texts])
def test_a_text_that_is_no_object_never_runs(problem: str, text: str) -> None:
    call = call_of(text)
    assert (call.arguments, call.dispatchable, call.problem) == (None, False, problem)
    assert call.status == ("truncated" if problem == "incomplete_json" else "invalid")


def test_the_longest_integers_that_python_reads_are_taken() -> None:
    assert call_of('{"a": ' + "9" * 4000 + "}").status == "ready"
    assert call_of('{"a": ' + "9" * 5000 + "}").status == "invalid"


@settings(deadline=None, derandomize=True, database=None)
@given(st.text(alphabet='{}[]",:\\ \n`json123eEu0dD8\ud83d\ude00NaInfity+-.', max_size=24))
def test_whatever_runs_is_json_of_an_object_that_can_be_written(text: str) -> None:
    turn = checked(
        parse([chat_chunk({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": text}}]}, "tool_calls")])
    )
    for call in turn.calls:
        if call.arguments is not None:
            json.dumps(call.arguments, allow_nan=False, ensure_ascii=False).encode()


# -- cost ------------------------------------------------------------------------------------------------------------


@contextmanager
def cpu_seconds(limit: float) -> Iterator[None]:
    """Fails what computes for longer; a hundred times what is needed, so that the machine's load does not matter."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("this platform cannot limit computing time")

    def stop(*_: object) -> None:
        raise TimeoutError(f"computed for more than {limit} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


N = 100_000
HOSTILE = {
    "a fence that never closes": "```" + " " * N + "x",
    "fences": "```" * N,
    "a fence of white space": "```json" + "\n" * N + "```",
    "a label and white space": "json" + " " * N + "x",
    "white space and no JSON": " " * N + "x",
    "white space within": '{"a":' + " " * N + "x",
    "quotes": '"' * N,
    "backslashes": '"' + "\\" * N,
    "escaped quotes": '"' + '\\"' * N,
    "half escapes": '{"a": "' + "\\ud83d" * N + '"}',
    "broken escapes": '{"a": "' + "\\ud83" * N + '"}',
    "opening brackets": "[" * N,
    "brackets": "[]" * N,
    "closing brackets": "}" * N,
    "objects in a row": "{}" * N,
    "commas": "{" + "," * N,
    "byte order marks": "\ufeff" * N,
    "a double-encoded text": json.dumps(json.dumps({"a": "\\" * N})),
    "line breaks": '{"a": "' + "\n" * N + '"}',
    "line breaks in a string that is never closed": '{"a": "' + '\\"\n' * N,
    "digits": '{"a":' + "1" * N + "}",
}


@every("name", HOSTILE)
def test_no_text_takes_long_to_judge(name: str) -> None:
    body = sse([one_call(HOSTILE[name])])
    with cpu_seconds(3):
        turn = parse(body, limits=Limits())
        turn.messages(ANTHROPIC)
    assert len(turn.calls) == 1


# -- each text -------------------------------------------------------------------------------------------------------

LARGEST = "9" * 308
# The arguments and the steps that led to them, or the problem; nested three deep at most, with five brackets.
READINGS: dict[str, tuple[dict[str, Any], tuple[str, ...]] | str] = {
    "": ({}, ("empty_arguments",)),
    "  \n": ({}, ("empty_arguments",)),
    "{}": ({}, ()),
    "null": ({}, ("empty_arguments",)),
    " null ": ({}, ("empty_arguments",)),
    "[1]": "non_object_arguments",
    "7": "non_object_arguments",
    '"x"': "non_object_arguments",
    "true": "non_object_arguments",
    '{"a":1}': ({"a": 1}, ()),
    '{"a":1': "incomplete_json",
    '{"a":1}}': "malformed_json",
    '{"a":1}{"b":2}': "concatenated_json",
    '{"a":1} x': "malformed_json",
    '{"a":1} [': "concatenated_json",
    "x": "malformed_json",
    "nope {": "malformed_json",
    '{"a":NaN}': "malformed_json",
    '{"a":Infinity}': "malformed_json",
    '{"a":1e999}': "number_out_of_range",
    '{"a":-1E999}': "number_out_of_range",
    '{"a":[{"b":1e400}]}': "number_out_of_range",
    '{"a":1e3}': ({"a": 1000.0}, ()),
    '{"E":1}': ({"E": 1}, ()),
    '\ufeff{"a":1}': ({"a": 1}, ("bom",)),
    "\ufeff": "malformed_json",
    "\ufeffnull": ({}, ("bom", "empty_arguments")),
    '\ufeff```json\n{"a":1}\n```': ({"a": 1}, ("bom", "fenced_arguments")),
    '```json\n{"a":1}\n```': ({"a": 1}, ("fenced_arguments",)),
    '```{"a":1}```': ({"a": 1}, ("fenced_arguments",)),
    '```\n{"a":"\n"}```': ({"a": "\n"}, ("fenced_arguments", "raw_line_break")),
    "``````": "malformed_json",
    "```a```": "malformed_json",
    "`````": "malformed_json",
    "```json": "malformed_json",
    "```python\n[1]```": "non_object_arguments",
    'json {"a":1}': ({"a": 1}, ("fenced_arguments",)),
    'json\n{"a":1}': ({"a": 1}, ("fenced_arguments",)),
    'json{"a":1}': "malformed_json",
    'jsonx {"a":1}': "malformed_json",
    ' json {"a":1}': ({"a": 1}, ("fenced_arguments",)),
    "json": "malformed_json",
    '"{\\"a\\":1}"': ({"a": 1}, ("double_encoded",)),
    '"{\\"a\\":"': "non_object_arguments",
    '"[1]"': "non_object_arguments",
    '"\\"{}\\""': "non_object_arguments",
    '"{\\"a\\":\\"x\\ny\\"}"': ({"a": "x\ny"}, ("double_encoded", "raw_line_break")),
    '"{\\"a\\":1e999}"': "number_out_of_range",
    '"{\\"a\\": \\"\n\\"}"': ({"a": "\n"}, ("raw_line_break", "double_encoded", "raw_line_break")),
    '"null"': "non_object_arguments",
    '{"a":"x\ny"}': ({"a": "x\ny"}, ("raw_line_break",)),
    '{"a":"x\ty\rz"}': ({"a": "x\ty\rz"}, ("raw_line_break",)),
    '{"a":"x\\\ny"}': "malformed_json",
    '{"a":"\\"\n"}': ({"a": '"\n'}, ("raw_line_break",)),
    '{"a":\n1}': ({"a": 1}, ()),
    '{"a":"x\x00y"}': "malformed_json",
    '{"a":"x\ny': "malformed_json",
    '{"a\nb":1}': ({"a\nb": 1}, ("raw_line_break",)),
    '{"a":"\\ud83d"}': ({"a": "\ufffd"}, ("lone_surrogate",)),
    '{"a":"\\ud83d\\ude00"}': ({"a": "\U0001f600"}, ()),
    '{"a":"\\ude00"}': ({"a": "\ufffd"}, ("lone_surrogate",)),
    '{"a":"\\\\ud83d"}': ({"a": "\\ud83d"}, ()),
    '{"a":"\\ud83d\n"}': ({"a": "\ufffd\n"}, ("lone_surrogate", "raw_line_break")),
    '{"a":"\\uDBFFx\\uDFFF"}': ({"a": "\ufffdx\ufffd"}, ("lone_surrogate",)),
    '{"a":"\\ud83d"': "incomplete_json",
    '\ufeff{"a":"\\ud83d"}': ({"a": "\ufffd"}, ("bom", "lone_surrogate")),
    '```{"a":"\\ud83d"}```': "malformed_json",
    " \n\t": ({}, ("empty_arguments",)),
    '"{}"': ({}, ("double_encoded",)),
    '```\n{"a": 1}\n```': ({"a": 1}, ("fenced_arguments",)),
    ' ```JSON {"a": 1} ``` \n': ({"a": 1}, ("fenced_arguments",)),
    '```json\n"{\\"a\\": 1}"\n```': ({"a": 1}, ("fenced_arguments", "double_encoded")),
    '{"a": "\\ude00\\ud83d"}': ({"a": "��"}, ("lone_surrogate",)),
    '{"a\\udc00": "\\\\ud83d\\ud83d\\ude00\\uD83Dx"}': ({"a�": "\\ud83d😀�x"}, ("lone_surrogate",)),
    '{"a": "\r\n\t"}': ({"a": "\r\n\t"}, ("raw_line_break",)),
    '{\n\t"a": "x\ny"\r\n}\n': ({"a": "x\ny"}, ("raw_line_break",)),
    '{\n\t"a":\r\n1\n}\n': ({"a": 1}, ()),
    '{"a": "x\\ny\\t"}': ({"a": "x\ny\t"}, ()),
    '{"a": "x\\n\ny", "b": "\\"\n\\\\"}': ({"a": "x\n\ny", "b": '"\n\\'}, ("raw_line_break",)),
    '{"a\tb": {"\n": ["\n", 1]}}': ({"a\tb": {"\n": ["\n", 1]}}, ("raw_line_break",)),
    '{"a": "{\n\t}", "b": "```\n"}': ({"a": "{\n\t}", "b": "```\n"}, ("raw_line_break",)),
    '\ufeff{"a": "x\ny"}': ({"a": "x\ny"}, ("bom", "raw_line_break")),
    '```json\n{"a": "x\ny"}\n```': ({"a": "x\ny"}, ("fenced_arguments", "raw_line_break")),
    '"{\\"a\\":\n\\"x\\\\ny\\"}"': ({"a": "x\ny"}, ("raw_line_break", "double_encoded")),
    '"{\\"a\\": \\"x\ny\\"}"': ({"a": "x\ny"}, ("raw_line_break", "double_encoded", "raw_line_break")),
    '{"a":{"b":[1]}}': ({"a": {"b": [1]}}, ()),
    "[[[[1]]]]": "too_deep",
    '{"a":{"b":{"c":{}}}}': "too_deep",
    '{"a":[[[1]]]}': "too_deep",
    '{"a":"[[[[[["}': ({"a": "[[[[[["}, ()),
    '{"a":"\\"[[[[["}': ({"a": '"[[[[['}, ()),
    '{"a":"\\\\","b":[[[1]]]}': "too_deep",
    '{"a":[[[1': "too_deep",
    '{"a":[],"b":[],"c":[]}': ({"a": [], "b": [], "c": []}, ()),
    '{"a":[],"b":[],"c":[],"d":[]}': ({"a": [], "b": [], "c": [], "d": []}, ()),
    '{"a":[],"b":[],"c":[],"d":[],"e":[]}': "argument_too_large",
    "[]]]]]]": "malformed_json",
    '"{\\"a\\":[[[1]]]}"': "too_deep",
    "]]]]][": "malformed_json",
    "]][[[[[": "malformed_json",
    "][[[[[": "too_deep",
    "{}[][][][]": "malformed_json",
    f'{{"a":{LARGEST}}}': ({"a": int(LARGEST)}, ()),
    f'{{"a":{LARGEST}9}}': ({"a": int(LARGEST + "9")}, ()),
    f'{{"a":{LARGEST}9.0}}': "number_out_of_range",
    f'{{"a":[{{"b":{LARGEST}9.0}}]}}': "number_out_of_range",
}
CUT = "the arguments were cut off: the JSON text is incomplete"
WORDS = {
    "incomplete_json": CUT,
    "malformed_json": "the arguments are not valid JSON",
    "concatenated_json": "the arguments hold more than one JSON value; it is unclear which one is meant",
    "non_object_arguments": "the arguments are not a JSON object",
    "number_out_of_range": "the arguments hold a number that is too large for a float",
    "argument_too_large": "the arguments hold more objects and arrays than max_argument_containers=5",
    "too_deep": "the arguments are nested deeper than max_json_depth=3",
}


def ended(body: list[bytes], limits: Limits = Limits()) -> ToolCallEnd:
    """The end of the one call of a body."""
    decoder = StreamDecoder(limits=limits)
    events = [event for chunk in body for event in decoder.feed(chunk)]
    (found,) = [event for event in (*events, *decoder.finish()) if isinstance(event, ToolCallEnd)]
    return found


def test_each_text_is_read_in_one_way_and_each_problem_has_its_words() -> None:
    limits = Limits(max_json_depth=3, max_argument_containers=5)
    for text, expected in READINGS.items():
        assert arguments_of(text, limits) == expected, text
        body = chat(calls=[("a", "f", text)], finish="tool_calls")
        end = ended(body, limits)
        turn = checked(parse(body, limits=limits))
        if isinstance(expected, str):
            status, kind = (
                ("truncated", CallTruncated) if expected == "incomplete_json" else ("invalid", InvalidArguments)
            )
            assert (end.call.status, end.call.problem, end.call.arguments) == (status, expected, None), text
            assert (type(end.error), str(end.error)) == (kind, WORDS[expected]), text
        else:
            assert (end.call.status, end.call.arguments, end.call.normalizations) == ("ready", *expected), text
            assert strict_json(turn.messages()[0]["tool_calls"][0]["function"]["arguments"]) == expected[0], text
            warnings = [warning.code for warning in turn.warnings]
            assert warnings == [step for step in dict.fromkeys(expected[1]) if step != "empty_arguments"], text


def test_a_call_that_did_not_end_is_cut_and_says_so_if_it_was_broken_before() -> None:
    broken = "the call did not end, and its arguments are not valid JSON"
    no_end = "the arguments may be complete, but the end of the call never came"
    for text, words in {"": CUT, '{"a"': CUT, '{"a":1}': no_end, "x": broken, "{}{}": broken}.items():
        body = anthropic(calls=[("a", "f", text)])
        cut = next(at for at, chunk in enumerate(body) if b"content_block_stop" in chunk)
        end = ended(body[:cut])
        assert (end.call.status, str(end.error)) == ("truncated", words), text
