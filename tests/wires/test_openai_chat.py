"""Chat Completions chunks: parts, fields that servers differ in, ends, and what is passed over."""

from __future__ import annotations

import json
from typing import Any

from profiles import every
from sansio import check_turn, codes
from streams import chat, chat_chunk

from streamtools import StreamDecoder, Turn, parse
from streamtools.events import UnknownPayload


def read(*deltas: dict[str, Any], finish: str | None = "stop") -> Turn:
    turn = parse([*(chat_chunk(delta) for delta in deltas), chat_chunk({}, finish)])
    check_turn(turn)
    return turn


# -- fields that servers differ in -------------------------------------------------------------------------------------


@every("block", [7, {"type": "image_url"}, {"type": "text", "text": None}, [["a"]], True])
def test_content_that_is_not_understood_is_told_and_does_not_end_the_stream(block: Any) -> None:
    decoder = StreamDecoder()
    events = decoder.feed(chat_chunk({"content": [block] if block != 7 else 7}))
    assert any(isinstance(event, UnknownPayload) for event in events)
    turn = read({"content": [block]}, {"content": "a"})
    assert (turn.text, turn.complete) == ("a", True)


@every("calls", [7, "x", [7], [None, "x"], {}, [[]]])
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


@every(("said", "text", "reasoning"), THINK)
def test_a_think_block_that_opens_the_text_is_reasoning_however_it_is_cut(said: str, text: str, reasoning: str) -> None:
    for size in (1, 2, 3, 5, 100):
        turn = read(*({"content": said[at : at + size]} for at in range(0, len(said), size)))
        assert (turn.text, turn.reasoning) == (text, reasoning)
        opened = said.lstrip().startswith("<think>")
        assert codes(turn) == (["inline_think"] if opened else [])


# -- choices -----------------------------------------------------------------------------------------------------------


def choice(index: Any, content: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {"content": content}, "finish_reason": finish}]}


def test_of_several_choices_one_is_followed() -> None:
    turn = parse([choice(0, "a"), choice(1, "x"), choice(0, "b", "stop"), choice(1, "y", "length")])
    assert (turn.text, turn.finish, codes(turn)) == ("ab", "stop", ["extra_choice"])
    both = [{"choices": [choice(0, "a")["choices"][0], choice(1, "x")["choices"][0]]}, choice(0, "b", "stop")]
    assert parse(both).text == "ab"


@every("indexes", [[3, 4, 5], [1, 2, 3], [None, 0, 0], [0, 0, 0], [7, 7, 7]])
def test_an_index_that_counts_tokens_labels_nothing(indexes: list[int | None]) -> None:
    payloads = [choice(index, text) for index, text in zip(indexes, "abc", strict=True)]
    assert parse([*payloads, {"choices": [{"index": indexes[-1], "delta": {}, "finish_reason": "stop"}]}]).text == "abc"


@every("payload", [{"choices": "x"}, {"choices": ["x"]}, {"choices": {"delta": {}}}, {"choices": [None]}])
def test_choices_of_another_shape_end_the_stream(payload: dict[str, Any]) -> None:
    turn = parse([chat_chunk({"content": "a"}), payload, chat_chunk({"content": "b"}, "stop")])
    assert (turn.error.kind, turn.text, turn.complete) == ("malformed_chunk", "a", False)


# -- ends --------------------------------------------------------------------------------------------------------------


def test_a_stop_with_calls_is_tool_calls_and_noted() -> None:
    turn = parse(chat(calls=[("a", "f", "{}")], finish="stop"))
    assert (turn.finish, turn.finish_raw, codes(turn)) == ("tool_calls", "stop", ["finish_reason_normalized"])
    assert turn.calls[0].dispatchable


@every(
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


@every("native", ["length", "max_tokens", "max_output_tokens", "MAX_TOKENS"])
def test_a_cut_that_a_gateway_masks_is_seen(native: str) -> None:
    payload = chat_chunk({"content": "a"}, "stop")
    payload["choices"][0]["native_finish_reason"] = native
    turn = parse([payload])
    assert (turn.finish, codes(turn)) == ("length", ["masked_truncation"])


@every("finish", [7, True, ["stop"], {"reason": "stop"}])
def test_a_finish_that_is_no_word_finishes_nothing(finish: Any) -> None:
    turn = parse([chat_chunk({"content": "a"}, finish)])
    assert (turn.finish, turn.complete) == (None, False)


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


# -- halves of surrogate pairs -----------------------------------------------------------------------------------------

HALVES = [
    (["a\ud83d", "\ude00b"], "a\U0001f600b"),
    (["a\ud83d", "b"], "a\ufffdb"),
    (["\ude00", "\ud83d"], "\ufffd\ufffd"),
    (["\ud83d\ude00"], "\U0001f600"),
    (["a", "b\ud83d"], "ab\ufffd"),
]


@every(("pieces", "text"), HALVES)
@every("field", ["content", "reasoning_content", "refusal"])
@every("as_bytes", [True, False])
def test_halves_of_a_character_are_joined_or_replaced(pieces: list[str], text: str, field: str, as_bytes: bool) -> None:
    payloads = [chat_chunk({field: piece}) for piece in pieces] + [chat_chunk({}, "stop")]
    body: Any = [b"data: " + ascii_json(payload) + b"\n\n" for payload in payloads] if as_bytes else payloads
    turn = parse(body)
    assert {"content": turn.text, "reasoning_content": turn.reasoning, "refusal": turn.refusal}[field] == text
    assert ("lone_surrogate" in codes(turn)) is ("\ufffd" in text)


def ascii_json(value: object) -> bytes:
    return json.dumps(value).encode()
