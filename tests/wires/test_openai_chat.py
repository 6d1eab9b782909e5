"""Chat Completions chunks: parts, fields that servers differ in, ends, and what is passed over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sansio import CHAT, check_turn
from streams import chat, chat_chunk, sse

from streamtools import ReasoningDelta, StreamDecoder, StreamEnd, TextDelta, Turn, Usage, parse
from streamtools.events import (
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    StreamStart,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UnknownPayload,
)

CALL = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def read(*deltas: dict[str, Any], finish: str | None = "stop") -> Turn:
    turn = parse([*(chat_chunk(delta) for delta in deltas), chat_chunk({}, finish)])
    check_turn(turn)
    return turn


def codes(turn: Turn) -> list[str]:
    return [warning.code for warning in turn.warnings]


# -- events ------------------------------------------------------------------------------------------------------------


def test_parts_are_told_in_order_each_between_its_start_and_its_end() -> None:
    head = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    payloads = [
        chat_chunk({"role": "assistant", "content": "", "reasoning_content": "Hm"}),
        chat_chunk({"reasoning_content": "m"}),
        chat_chunk({"content": "Hi"}),
        chat_chunk({"content": " you"}),
        chat_chunk({"tool_calls": [head]}),
        chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
        chat_chunk({}, "tool_calls"),
    ]
    decoder = StreamDecoder()
    events = [e for item in [*sse(payloads), b"data: [DONE]\n\n"] for e in decoder.feed(item)] + decoder.finish()
    told = [StreamStart, ReasoningStart, ReasoningDelta, ReasoningDelta, ReasoningEnd]
    told += [TextStart, TextDelta, TextDelta, TextEnd, ToolCallStart, ToolCallDelta, ToolCallEnd, StreamEnd]
    assert [type(event) for event in events] == told


def test_text_after_calls_is_another_part() -> None:
    turn = read({"content": "a"}, {"tool_calls": [CALL]}, {"content": "b"})
    assert [part.kind for part in turn.parts] == ["text", "call", "text"]
    assert turn.text == "ab"


def test_a_refusal_is_told_apart_from_text() -> None:
    decoder = StreamDecoder()
    events = decoder.feed(chat_chunk({"refusal": "No."}))
    assert [type(event) for event in events] == [StreamStart, RefusalDelta]
    turn = read({"refusal": "No"}, {"refusal": "."})
    assert (turn.refusal, turn.text) == ("No.", "")


# -- fields that servers differ in -------------------------------------------------------------------------------------

CONTENTS: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "null": ([{"content": None}], "", ""),
    "a list of texts": ([{"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "ab", ""),
    "a list of strings": ([{"content": ["a", "b"]}], "ab", ""),
    "one block": ([{"content": {"type": "text", "text": "a"}}], "a", ""),
    "thinking blocks": (
        [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}, "a"]}],
        "a",
        "r",
    ),
    "reasoning blocks": (
        [{"content": [{"type": "reasoning", "summary": [{"text": "r"}]}]}, {"content": "a"}],
        "a",
        "r",
    ),
    "reasoning": ([{"reasoning": "r"}, {"content": "a"}], "a", "r"),
    "reasoning in both fields": ([{"reasoning": "r", "reasoning_content": "r"}, {"content": "a"}], "a", "r"),
    "reasoning in a field and in details": (
        [{"reasoning": "r", "reasoning_details": [{"type": "reasoning.text", "text": "r"}]}],
        "",
        "r",
    ),
    "reasoning in details alone": (
        [{"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": text}]} for text in "rs"],
        "",
        "rs",
    ),
    "encrypted details": ([{"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]}], "", ""),
    "details of another shape": ([{"reasoning_details": ["r", None, {"text": 7}]}, {"content": "a"}], "a", ""),
    "details that are no list": ([{"reasoning_details": {"text": "r"}}, {"content": "a"}], "a", ""),
    "reasoning that is an object": ([{"reasoning": {"text": "r"}, "content": "a"}], "a", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENTS)
def test_text_and_reasoning_are_found_where_servers_put_them(name: str) -> None:
    deltas, text, reasoning = CONTENTS[name]
    turn = read(*deltas)
    assert (turn.text, turn.reasoning) == (text, reasoning)


@pytest.mark.parametrize("block", [7, {"type": "image_url"}, {"type": "text", "text": None}, [["a"]], True])
def test_content_that_is_not_understood_is_told_and_does_not_end_the_stream(block: Any) -> None:
    decoder = StreamDecoder()
    events = decoder.feed(chat_chunk({"content": [block] if block != 7 else 7}))
    assert any(isinstance(event, UnknownPayload) for event in events)
    turn = read({"content": [block]}, {"content": "a"})
    assert (turn.text, turn.complete) == ("a", True)


def test_a_call_that_says_nothing_is_one_that_cannot_run() -> None:
    for call in ({"index": 0}, {"index": 0, "id": "a", "function": None}, {"index": 0, "function": "f"}):
        turn = read({"tool_calls": [call]}, finish="tool_calls")
        assert [(c.problem, c.dispatchable) for c in turn.calls] == [("missing_name", False)]


@pytest.mark.parametrize("calls", [7, "x", [7], [None, "x"], {}, [[]]])
def test_calls_that_are_not_understood_do_not_end_the_stream(calls: Any) -> None:
    turn = read({"tool_calls": calls}, {"content": "a"})
    assert (turn.text, turn.complete, turn.error) == ("a", True, None)


# -- <think> -----------------------------------------------------------------------------------------------------------

THINK = [
    ("<think>r</think>a", "a", "r"),
    ("<think>r</think>\n\n a", "a", "r"),
    (" \n<think>r</think>a", "a", "r"),
    ("<think>r", "", "r"),
    ("<think>r</thin", "", "r</thin"),
    ("<think>r</think>", "", "r"),
    ("<think></think>a", "a", ""),
    ("<think><think>r</think>a</think>", "a</think>", "<think>r"),
    ("<think>a<b</t</think>c", "c", "a<b</t"),
    ("a<think>r</think>", "a<think>r</think>", ""),
    ("<thinking>a", "<thinking>a", ""),
    ("<thin", "<thin", ""),
    ("<", "<", ""),
    (" <", " <", ""),
    ("  ", "  ", ""),
    ("<THINK>r</THINK>a", "<THINK>r</THINK>a", ""),
    ("</think>a", "</think>a", ""),
]


@pytest.mark.parametrize(("said", "text", "reasoning"), THINK)
def test_a_think_block_that_opens_the_text_is_reasoning_however_it_is_cut(said: str, text: str, reasoning: str) -> None:
    for size in (1, 2, 3, 5, 100):
        turn = read(*({"content": said[at : at + size]} for at in range(0, len(said), size)))
        assert (turn.text, turn.reasoning) == (text, reasoning)
        opened = said.lstrip().startswith("<think>")
        assert codes(turn) == (["inline_think"] if opened else [])


def test_text_that_might_become_a_tag_is_told_before_a_call() -> None:
    turn = read({"content": "<thi"}, {"tool_calls": [CALL]}, {"content": "nk>x"})
    assert turn.text == "<think>x"
    assert [part.kind for part in turn.parts] == ["text", "call", "text"]


# -- choices -----------------------------------------------------------------------------------------------------------


def choice(index: Any, content: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {"content": content}, "finish_reason": finish}]}


def test_of_several_choices_one_is_followed() -> None:
    turn = parse([choice(0, "a"), choice(1, "x"), choice(0, "b", "stop"), choice(1, "y", "length")])
    assert (turn.text, turn.finish, codes(turn)) == ("ab", "stop", ["extra_choice"])
    both = [{"choices": [choice(0, "a")["choices"][0], choice(1, "x")["choices"][0]]}, choice(0, "b", "stop")]
    assert parse(both).text == "ab"


@pytest.mark.parametrize("indexes", [[3, 4, 5], [1, 2, 3], [None, 0, 0], [0, 0, 0], [7, 7, 7]])
def test_an_index_that_counts_tokens_labels_nothing(indexes: list[int | None]) -> None:
    payloads = [choice(index, text) for index, text in zip(indexes, "abc", strict=True)]
    assert parse([*payloads, {"choices": [{"index": indexes[-1], "delta": {}, "finish_reason": "stop"}]}]).text == "abc"


@pytest.mark.parametrize(
    "payload", [{"choices": "x"}, {"choices": ["x"]}, {"choices": {"delta": {}}}, {"choices": [None]}]
)
def test_choices_of_another_shape_end_the_stream(payload: dict[str, Any]) -> None:
    turn = parse([chat_chunk({"content": "a"}), payload, chat_chunk({"content": "b"}, "stop")])
    assert turn.error is not None
    assert (turn.error.kind, turn.text, turn.complete) == ("malformed_chunk", "a", False)


# -- ends --------------------------------------------------------------------------------------------------------------

FINISHES = [
    *((word, "stop") for word in ("stop", "eos", "eos_token", "stop_sequence", "end_turn", "COMPLETE", "STOP")),
    *((word, "tool_calls") for word in ("tool_calls", "function_call", "tool_use")),
    *((word, "length") for word in ("length", "max_tokens", "model_length", "MAX_TOKENS")),
    ("content_filter", "content_filter"),
    ("error", "error"),
    ("bored", "other"),
]


@pytest.mark.parametrize(("word", "finish"), FINISHES)
def test_a_finish_is_ours_and_the_providers_word_is_kept(word: str, finish: str) -> None:
    turn = read({"content": "a"}, finish=word)
    assert (turn.finish, turn.finish_raw, turn.complete) == (finish, word, True)


def test_a_stop_with_calls_is_tool_calls_and_noted() -> None:
    turn = parse(chat(calls=[("a", "f", "{}")], finish="stop"))
    assert (turn.finish, turn.finish_raw, codes(turn)) == ("tool_calls", "stop", ["finish_reason_normalized"])
    assert turn.calls[0].dispatchable


@pytest.mark.parametrize(
    ("words", "finish", "warning"),
    [
        (["stop", "stop"], "stop", "repeated_finish_reason"),
        (["stop", "length"], "length", "conflicting_finish_reason"),
        (["length", "stop"], "length", "conflicting_finish_reason"),
        (["tool_calls", "content_filter"], "content_filter", "conflicting_finish_reason"),
        (["stop", "tool_calls"], "stop", "conflicting_finish_reason"),
    ],
)
def test_of_two_finishes_the_bad_news_counts(words: list[str], finish: str, warning: str) -> None:
    turn = parse([chat_chunk({"content": "a"}, words[0]), chat_chunk({}, words[1])])
    assert (turn.finish, codes(turn)) == (finish, [warning])


@pytest.mark.parametrize("native", ["length", "max_tokens", "max_output_tokens", "MAX_TOKENS"])
def test_a_cut_that_a_gateway_masks_is_seen(native: str) -> None:
    payload = chat_chunk({"content": "a"}, "stop")
    payload["choices"][0]["native_finish_reason"] = native
    turn = parse([payload])
    assert (turn.finish, codes(turn)) == ("length", ["masked_truncation"])


@pytest.mark.parametrize("finish", [7, True, ["stop"], {"reason": "stop"}])
def test_a_finish_that_is_no_word_finishes_nothing(finish: Any) -> None:
    turn = parse([chat_chunk({"content": "a"}, finish)])
    assert (turn.finish, turn.complete) == (None, False)


def test_done_without_a_finish_reason_is_no_end() -> None:
    turn = parse([*chat(["a"], finish=None), b"data: [DONE]\n\n"])
    assert turn.error is not None
    assert (turn.error.kind, turn.complete, turn.text) == ("stream_truncated", False, "a")


def test_what_comes_between_the_finish_and_done_still_counts() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    turn = parse([*chat(["a"], finish="stop")[:-1], *sse([{"choices": [], "usage": usage}]), b"data: [DONE]\n\n"])
    assert turn.usage == Usage(input_tokens=3, output_tokens=2)


# -- usage -------------------------------------------------------------------------------------------------------------

DETAILS = {"prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": {"reasoning_tokens": 2}}


USAGES: list[tuple[Any, Usage | None]] = [
    ({"prompt_tokens": 9, "completion_tokens": 5}, Usage(input_tokens=9, output_tokens=5)),
    (DETAILS, Usage(cached_input_tokens=1, reasoning_tokens=2)),
    ({"prompt_tokens": 9}, Usage(input_tokens=9)),
    ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(input_tokens=0, output_tokens=0)),
    ({"prompt_tokens": "9", "completion_tokens": -1}, None),
    ({"prompt_tokens": True, "completion_tokens": 2**60}, None),
    ({"prompt_tokens_details": [], "completion_tokens_details": None}, None),
    ({}, None),
    (None, None),
    (7, None),
]


@pytest.mark.parametrize(("usage", "wanted"), USAGES)
def test_usage_is_what_the_wire_said(usage: Any, wanted: Usage | None) -> None:
    for payload in ({"choices": [], "usage": usage}, {"choices": [], "x_groq": {"usage": usage}}):
        assert parse([chat_chunk({"content": "a"}, "stop"), payload]).usage == wanted


def test_a_later_usage_replaces_an_earlier_one() -> None:
    payloads = [chat_chunk({"content": "a"}) | {"usage": {"completion_tokens": n}} for n in (1, 2, 3)]
    assert parse([*payloads, chat_chunk({}, "stop")]).usage == Usage(output_tokens=3)


# -- freeform calls ----------------------------------------------------------------------------------------------------


def test_a_call_is_freeform_by_its_type_or_by_its_input() -> None:
    function, custom = {"function": {"name": "sh", "arguments": "ls"}}, {"custom": {"name": "sh", "input": "ls"}}
    for fields in (
        {"type": "custom", **function},
        {"type": "custom", **custom},
        {"type": "function", **custom},
        custom,
    ):
        turn = read({"tool_calls": [{"index": 0, "id": "a", **fields}]}, finish="tool_calls")
        assert [(call.kind, call.name, call.arguments_text) for call in turn.calls] == [("custom", "sh", "ls")], fields


def test_a_freeform_call_is_taken_as_text() -> None:
    pieces = ["echo ", '"{', "\n"]
    chunks = [
        chat_chunk({"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "sh", "input": ""}}]})
    ]
    chunks += [chat_chunk({"tool_calls": [{"index": 0, "custom": {"input": piece}}]}) for piece in pieces]
    turn = parse([*chunks, chat_chunk({}, "tool_calls")], wire=CHAT)
    (call,) = turn.calls
    assert (call.kind, call.arguments_text, call.arguments) == ("custom", 'echo "{\n', {"input": 'echo "{\n'})
    assert call.dispatchable
    assert call.normalizations == ()


# -- halves of surrogate pairs -----------------------------------------------------------------------------------------

HALVES = [
    (["a\ud83d", "\ude00b"], "a\U0001f600b"),
    (["a\ud83d", "b"], "a\ufffdb"),
    (["\ude00", "\ud83d"], "\ufffd\ufffd"),
    (["\ud83d\ude00"], "\U0001f600"),
    (["a", "b\ud83d"], "ab\ufffd"),
]


@pytest.mark.parametrize(("pieces", "text"), HALVES)
@pytest.mark.parametrize("field", ["content", "reasoning_content", "refusal"])
@pytest.mark.parametrize("as_bytes", [True, False])
def test_halves_of_a_character_are_joined_or_replaced(pieces: list[str], text: str, field: str, as_bytes: bool) -> None:
    payloads = [chat_chunk({field: piece}) for piece in pieces] + [chat_chunk({}, "stop")]
    body: Any = [b"data: " + ascii_json(payload) + b"\n\n" for payload in payloads] if as_bytes else payloads
    turn = parse(body)
    assert {"content": turn.text, "reasoning_content": turn.reasoning, "refusal": turn.refusal}[field] == text
    assert ("lone_surrogate" in codes(turn)) is ("\ufffd" in text)


@pytest.mark.parametrize("as_bytes", [True, False])
def test_no_half_of_a_character_leaves_the_library_anywhere(as_bytes: bool) -> None:
    call = {"index": 0, "id": "a\ud83d", "type": "function", "function": {"name": "f\ud83d", "arguments": "{}"}}
    detail = {"type": "reasoning.text", "index": 0, "text": "r\ud83d", "signature": "s\ud83d"}
    payloads: list[dict[str, Any]] = [
        chat_chunk({"content": "x"}) | {"id": "i\ud83d", "model": "m\ud83d"},
        chat_chunk({"tool_calls": [call | {"extra_content": {"k\ud83d": ["v\ud83d"]}}]}),
        chat_chunk({"reasoning_details": [detail]}),
        chat_chunk({}, "odd\ud83d"),
    ]
    body: Any = [b"data: " + ascii_json(payload) + b"\n\n" for payload in payloads] if as_bytes else payloads
    turn = parse(body)
    states = [part.provider_state for part in turn.parts] + [call.provider_state for call in turn.calls]
    names = [(call.call_id, call.name) for call in turn.calls]
    for told in (turn.model, turn.response_id, turn.finish_raw, names, states, turn.warnings, turn.messages()):
        assert "\\ud83d" not in ascii(told)


def ascii_json(value: object) -> bytes:
    return json.dumps(value).encode()
