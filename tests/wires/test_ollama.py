"""Ollama's lines: text, thinking, whole calls, ends, errors, and the way back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from sansio import byte_by_byte, check_histories, check_turn, snapshot
from streams import anthropic, chat

from streamtools import ReasoningDelta, StreamDecoder, StreamEnd, TextDelta, Turn, Usage, parse
from streamtools.errors import LimitExceeded, ProviderError
from streamtools.events import (
    ReasoningEnd,
    ReasoningStart,
    StreamStart,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UnknownPayload,
)
from streamtools.limits import Limits
from streamtools.wires import detect

OLLAMA = "ollama.chat"
Payload = dict[str, Any]


def line(done: bool = False, **message: Any) -> Payload:
    content = {"role": "assistant", "content": ""} | message
    return {"model": "m", "created_at": "2026-11-20T10:00:00Z", "message": content, "done": done}


def call(name: Any = "f", arguments: Any = None, call_id: Any = "call_1", **more: Any) -> Payload:
    return {"id": call_id, "function": {"name": name, "arguments": {} if arguments is None else arguments, **more}}


def end(reason: Any = "stop", **more: Any) -> Payload:
    return line(True) | {"done_reason": reason, "prompt_eval_count": 9, "eval_count": 5} | more


def body(*payloads: Payload) -> bytes:
    return b"".join(orjson.dumps(payload) + b"\n" for payload in payloads)


def read(*payloads: Payload, ends: bool = True, reason: Any = "stop") -> Turn:
    """The turn of these lines, which is the same from bytes and from what was parsed already."""
    whole = [*payloads, *([end(reason)] if ends else [])]
    turn = parse(body(*whole), wire=OLLAMA)
    assert snapshot(parse(copy.deepcopy(whole), wire=OLLAMA)) == snapshot(turn)
    check_turn(turn)
    check_histories(turn)
    return turn


def codes(turn: Turn) -> list[str]:
    return [warning.code for warning in turn.warnings]


def told(*payloads: Payload) -> list[Any]:
    decoder = StreamDecoder()
    return [event for payload in payloads for event in decoder.feed(payload)] + decoder.finish()


# -- events ------------------------------------------------------------------------------------------------------------


def test_thinking_text_and_calls_are_told_in_order() -> None:
    payloads = [
        *(line(thinking="H"), line(thinking="m"), line(content="Hi"), line(content="!")),
        *(line(tool_calls=[call(arguments={"a": 1}), call("g", call_id="call_2")]), end()),
    ]
    kinds = [StreamStart, ReasoningStart, ReasoningDelta, ReasoningDelta, ReasoningEnd]
    kinds += [TextStart, TextDelta, TextDelta, TextEnd, ToolCallStart, ToolCallDelta, ToolCallEnd]
    kinds += [ToolCallStart, ToolCallDelta, ToolCallEnd, StreamEnd]
    assert [type(event) for event in told(*payloads)] == kinds


def test_a_call_ends_with_its_line_while_the_response_goes_on() -> None:
    decoder = StreamDecoder()
    decoder.feed(body(line(content="Hi")))
    whole = body(line(tool_calls=[call(arguments={"a": 1})]))
    assert not decoder.feed(whole[:-1])
    assert any(isinstance(event, ToolCallEnd) for event in decoder.feed(whole[-1:]))


def test_the_chunks_make_no_difference() -> None:
    whole = body(line(thinking="Hm"), line(content="é€😀"), line(tool_calls=[call(arguments={"ü": "😀"})]), end())
    assert snapshot(parse(byte_by_byte(whole))) == snapshot(parse(whole))


def test_the_line_that_is_done_ends_reading_and_gives_the_usage() -> None:
    decoder = StreamDecoder()
    decoder.feed(body(line(content="Hi"), end()))
    assert decoder.done
    turn = read(line(content="Hi"))
    assert (turn.wire, turn.model, turn.response_id) == (OLLAMA, "m", None)
    assert turn.usage == Usage(input_tokens=9, output_tokens=5)
    assert parse(body(line(content="Hi"), line(True) | {"done_reason": "stop"})).usage is None


def test_lines_are_recognised_by_what_only_ollama_sends() -> None:
    for known in (line(), end(), {"done": False, "response": ""}, {"done": True, "message": {}}):
        assert detect(known) == OLLAMA
    for other in ({"done": True}, {"message": {}}, {"done": "x", "message": {}}, {"done": True, "message": "x"}, {}):
        assert detect(other) is None


def test_an_answer_that_was_not_streamed_is_one_line() -> None:
    turn = read(line(True, content="Hi", thinking="Hm", tool_calls=[call()]) | {"done_reason": "stop"}, ends=False)
    assert (turn.text, turn.reasoning, turn.finish, turn.complete) == ("Hi", "Hm", "tool_calls", True)


def test_completions_have_text_in_another_field() -> None:
    head = {"model": "m", "done": False}
    turn = read(head | {"response": "", "thinking": "Hm"}, head | {"response": "Hi"}, head | {"response": "!"})
    assert (turn.text, turn.reasoning, turn.finish, turn.complete) == ("Hi!", "Hm", "stop", True)


# -- calls -------------------------------------------------------------------------------------------------------------


def test_calls_are_calls_however_they_are_numbered() -> None:
    turn = read(
        line(tool_calls=[call("f", {"a": 1}, "x", index=0), call("f", {"a": 2}, "y", index=0)]),
        line(tool_calls=[call("g", {"a": 3}, "z")]),
    )
    assert [(c.call_id, c.name, c.arguments) for c in turn.calls] == [
        *(("x", "f", {"a": 1}), ("y", "f", {"a": 2}), ("z", "g", {"a": 3}))
    ]
    assert codes(turn) == []


def test_a_call_without_an_id_gets_one_that_is_always_the_same() -> None:
    for call_id in (None, "", 7):
        turn = read(line(tool_calls=[call(call_id=call_id), call(call_id=call_id)]))
        assert all(c.call_id_synthesized and c.dispatchable for c in turn.calls)
        assert turn.calls[0].call_id != turn.calls[1].call_id


def test_numbers_keep_their_digits() -> None:
    numbers = b'{"n":18446744073709551617,"f":1.10}'
    whole = body(line(tool_calls=[call(arguments={"x": 0})]), end()).replace(b'{"x":0}', numbers)
    (found,) = parse(whole).calls
    assert found.arguments == {"n": 18446744073709551617, "f": 1.1}


@pytest.mark.parametrize(
    ("arguments", "value", "warning"),
    [
        ({"a": {"b": [1]}}, {"a": {"b": [1]}}, None),
        ('{"a": 1}', {"a": 1}, "arguments_text"),
        ("", {}, "arguments_text"),
        ([1], None, None),
        (7, None, None),
        (False, None, None),
    ],
)
def test_arguments_are_an_object_or_never_run(arguments: Any, value: Any, warning: str | None) -> None:
    turn = read(line(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": arguments}}]))
    (found,) = turn.calls
    assert (found.arguments, found.dispatchable, codes(turn)) == (
        value,
        value is not None,
        [warning] if warning else [],
    )


@pytest.mark.parametrize("function", [{"name": "f"}, {"name": "f", "arguments": None}])
def test_no_arguments_are_an_empty_object(function: Payload) -> None:
    assert [c.arguments for c in read(line(tool_calls=[{"function": function}])).calls] == [{}]


@pytest.mark.parametrize("calls", [["x"], [7], [[]], [{}], [{"function": None}], [{"function": "f"}], {"id": "a"}])
def test_a_call_that_is_none_ends_the_stream(calls: Any) -> None:
    turn = read(line(tool_calls=calls))
    assert turn.error is not None
    assert (turn.error.kind, turn.complete) == ("malformed_chunk", False)


def test_a_single_call_may_stand_for_a_list() -> None:
    assert [c.name for c in read(line(tool_calls=call())).calls] == ["f"]
    assert [c.name for c in read(line(tool_calls=[None, call()])).calls] == ["f"]


# -- ends --------------------------------------------------------------------------------------------------------------

FINISHES = [
    ("stop", "stop", []),
    ("length", "length", []),
    ("tool_calls", "tool_calls", []),
    ("load", "other", []),
    ("unload", "other", []),
    ("bored", "other", []),
    (None, "stop", ["missing_done_reason"]),
    (7, "stop", ["missing_done_reason"]),
]


@pytest.mark.parametrize(("word", "finish", "warnings"), FINISHES)
def test_a_finish_is_ours_and_the_providers_word_is_kept(word: Any, finish: str, warnings: list[str]) -> None:
    turn = read(line(content="x"), reason=word)
    assert (turn.finish, turn.finish_raw, turn.complete) == (finish, word if isinstance(word, str) else None, True)
    assert codes(turn) == warnings


def test_stop_is_what_a_turn_with_calls_ends_with() -> None:
    turn = read(line(tool_calls=[call()]))
    assert (turn.finish, turn.finish_raw, turn.calls[0].dispatchable, codes(turn)) == ("tool_calls", "stop", True, [])
    turn = read(line(tool_calls=[call()]), reason="length")
    assert (turn.finish, turn.calls[0].dispatchable) == ("length", False)


def test_only_a_line_that_is_done_completes_it() -> None:
    for last in ([], [line() | {"done": "true"}], [line() | {"done_reason": "stop"}]):
        turn = read(line(tool_calls=[call()]), *last, ends=False)
        assert turn.error is not None
        assert (turn.error.kind, turn.complete, turn.finish) == ("stream_truncated", False, None)
        assert not turn.calls[0].dispatchable
    framed = parse([b"data: " + orjson.dumps(line(content="x")) + b"\n\n", b"data: [DONE]\n\n"])
    assert framed.error is not None
    assert (framed.wire, framed.error.kind) == (OLLAMA, "stream_truncated")


# -- errors and what is passed over ------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [[], [line(content="Hi"), line(tool_calls=[call()])]])
def test_an_error_is_the_providers(before: list[Payload]) -> None:
    for whole in (body(*before, {"error": "model not found"}), [*before, {"error": "model not found"}]):
        turn = parse(whole)
        assert isinstance(turn.error, ProviderError)
        assert (str(turn.error), turn.complete) == ("model not found", False)
        assert not any(c.dispatchable for c in turn.calls)


def test_an_error_beside_a_message_is_an_error() -> None:
    turn = read(line(content="Hi"), line(content="x") | {"error": "cut"})
    assert (turn.text, turn.error and turn.error.kind) == ("Hi", "provider_error")
    assert read(line(content="Hi") | {"error": None}, line(content="!") | {"error": ""}).text == "Hi!"


def test_a_line_of_another_kind_is_told_as_unknown() -> None:
    events = told(line(content="Hi"), {"status": "pulling"}, line(content="!"), end())
    assert [event.raw for event in events if isinstance(event, UnknownPayload)] == [{"status": "pulling"}]
    assert codes(read(line(content="Hi"), {"status": "pulling"})) == ["unknown_event"]


@pytest.mark.parametrize("field", ["content", "thinking", "images", "tool_calls"])
def test_a_field_of_another_type_is_told_as_unknown(field: str) -> None:
    events = told(line(content="Hi"), line(**{field: 7}), line(content="!"), end())
    assert [event.raw for event in events if isinstance(event, UnknownPayload)] == [{field: 7}]


def test_fields_that_say_nothing_are_passed_over() -> None:
    empty = line(content=None, thinking=None, tool_calls=None, images=None)
    payloads = [empty, line(thinking="", tool_calls=[], images=[]), {"model": "m", "done": False}]
    turn = read(line(content="a"), *payloads, line(content="b") | {"logprobs": []})
    assert (turn.text, len(turn.parts), codes(turn)) == ("ab", 1, [])


def test_a_message_that_is_none_ends_the_stream() -> None:
    turn = read(line(content="Hi"), {"message": "x", "done": False})
    assert (turn.error and turn.error.kind, turn.text) == ("malformed_chunk", "Hi")


def test_a_tag_in_the_text_stays_text() -> None:
    assert read(line(content="<think>Hm</think>Hi")).text == "<think>Hm</think>Hi"


# -- the way back ------------------------------------------------------------------------------------------------------


def test_a_turn_goes_back_as_it_was_with_one_result_for_each_call() -> None:
    turn = read(
        *(line(thinking="Hm"), line(content="Let me"), line(content=" look.")),
        *(line(tool_calls=[call("f", {"b": 1, "a": 2}, index=0)]), line(tool_calls=[call("f", {}, "call_2", index=1)])),
    )
    assistant, *results = turn.messages()
    assert assistant == {
        "role": "assistant",
        "content": "Let me look.",
        "thinking": "Hm",
        "tool_calls": [
            {"id": "call_1", "function": {"index": 0, "name": "f", "arguments": {"b": 1, "a": 2}}},
            {"id": "call_2", "function": {"index": 1, "name": "f", "arguments": {}}},
        ],
    }
    assert list(assistant["tool_calls"][0]["function"]["arguments"]) == ["b", "a"]
    assert [(r["role"], r["tool_name"], r["tool_call_id"]) for r in results] == [
        *(("tool", "f", "call_1"), ("tool", "f", "call_2"))
    ]


def test_what_was_never_said_does_not_go_back() -> None:
    assert read(line()).messages() == []
    assert set(read(line(content="Hi")).messages()[0]) == {"role", "content"}
    assert read(line(tool_calls=[call()])).messages()[0]["content"] == ""


def test_turns_of_other_wires_are_projected() -> None:
    for make in (chat, anthropic):
        assistant, result = parse(make(["Hi"], [("toolu_1", "f", '{"a":1}')])).messages(OLLAMA)
        assert assistant["tool_calls"] == [{"id": "toolu_1", "function": {"name": "f", "arguments": {"a": 1}}}]
        assert (result["tool_name"], result["tool_call_id"]) == ("f", "toolu_1")


def test_a_turn_goes_to_the_other_wires_without_its_thinking() -> None:
    turn = read(line(thinking="Hm"), line(content="Hi"), line(tool_calls=[call(call_id=None)]))
    for target in ("openai.chat_completions", "anthropic.messages", "bedrock.converse_stream"):
        assert "Hm" not in str(turn.messages(target))
        assert turn.calls[0].call_id in str(turn.messages(target))


# -- bounds and garbage ------------------------------------------------------------------------------------------------

LIMITED: dict[str, tuple[str, Callable[[int], list[Payload]]]] = {
    "text": ("max_text_bytes", lambda n: [line(content="x")] * n),
    "thinking": ("max_text_bytes", lambda n: [line(thinking="x" * n)]),
    "calls": ("max_tool_calls", lambda n: [line(tool_calls=[call(call_id=str(i)) for i in range(n)])]),
    "arguments": ("max_total_argument_bytes", lambda n: [line(tool_calls=[call(arguments={"a": "x" * (n - 8)})])]),
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_response_may_hold_as_much_as_the_limit_and_no_more(name: str) -> None:
    setting, make = LIMITED[name]
    for size, exceeded in ((20, False), (21, True)):
        turn = parse(body(*make(size), end()), limits=Limits(**{setting: 20}))
        check_turn(turn)
        assert isinstance(turn.error, LimitExceeded) is exceeded
        assert exceeded is (getattr(turn.error, "setting", None) == setting)


_JUNK: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-1, 2), st.floats(allow_nan=False), st.sampled_from(["", "x", "{}"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["content", "function", "name", "arguments", "id", "a"]), inner, max_size=2),
    ),
    max_leaves=5,
)
_FIELDS = [
    "model",
    "message",
    "done",
    "done_reason",
    "response",
    "thinking",
    "error",
    "prompt_eval_count",
    "eval_count",
]
_MESSAGE_FIELDS = ["role", "content", "thinking", "tool_calls", "images"]
_MESSAGE = st.one_of(_JUNK, st.dictionaries(st.sampled_from(_MESSAGE_FIELDS), _JUNK, max_size=4))
_FUNCTION = st.fixed_dictionaries({"name": _JUNK}, optional={"arguments": _JUNK, "index": _JUNK})
_CALL = st.one_of(
    *(_JUNK, st.fixed_dictionaries({"function": _JUNK})),
    st.fixed_dictionaries({"id": _JUNK, "function": _FUNCTION}),
)


@settings(max_examples=examples(200), deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.one_of(
            st.dictionaries(st.sampled_from(_FIELDS), _JUNK, max_size=4),
            st.builds(lambda message: line() | {"message": message}, _MESSAGE),
            st.builds(lambda calls: line(tool_calls=calls), st.lists(_CALL, max_size=3)),
            st.just(line(content="x")),
        ),
        max_size=5,
    ),
    st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_anything_may_stand_in_any_place(payloads: list[Payload], ends: bool, framed: bool) -> None:
    whole = [line(content="Hi"), *payloads, *([end()] if ends else [])]
    turn = parse(body(*whole) if framed else whole, wire=OLLAMA)
    check_turn(turn)
    check_histories(turn)
