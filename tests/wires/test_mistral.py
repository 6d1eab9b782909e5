"""Mistral's chat: typed content, what goes back, ids, and how it differs from Chat Completions."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from every_wire import MISTRAL
from hypothesis import given, settings
from hypothesis import strategies as st
from mistral_streams import DONE, chunk, mistral, thinking
from profiles import examples
from sansio import ANTHROPIC, CHAT, byte_by_byte, check_histories, check_turn, snapshot
from streams import anthropic, chat, sse

from streamtools import Limits, ReasoningDelta, StreamDecoder, StreamEnd, TextDelta, Turn, parse
from streamtools.events import (
    ProviderItem,
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
from streamtools.wires import detect, find

PARIS = ("yBvJuId6u", "get_weather", '{"city": "Paris"}')
REFERENCE = {"type": "reference", "reference_ids": [0, "doc-2"]}


def read(body: list[bytes], **more: Any) -> Turn:
    turn = parse(body, wire=MISTRAL, **more)
    check_turn(turn)
    check_histories(turn)
    assert snapshot(parse(byte_by_byte(b"".join(body)), wire=MISTRAL, **more)) == snapshot(turn)
    return turn


def codes(turn: Turn) -> set[str]:
    return {warning.code for warning in turn.warnings}


def events(*payloads: dict[str, Any]) -> list[Any]:
    decoder = StreamDecoder(wire=MISTRAL)
    return [event for payload in payloads for event in decoder.feed(payload)] + decoder.finish()


# -- events ------------------------------------------------------------------------------------------------------------


def test_thinking_text_and_a_call_are_told_in_order() -> None:
    told = events(
        chunk({"role": "assistant", "content": [{"type": "thinking", "thinking": []}]}),
        chunk({"content": [thinking("Par")]}),
        chunk({"content": [thinking("is?"), {"type": "text", "text": "Let"}]}),
        chunk({"content": " me look."}),
        chunk({"tool_calls": [{"id": PARIS[0], "function": {"name": "f", "arguments": "{}"}}]}, "tool_calls"),
    )
    kinds = [StreamStart, ReasoningStart, ReasoningDelta, ReasoningDelta, ReasoningEnd, TextStart, TextDelta, TextDelta]
    assert [type(e) for e in told if type(e).__name__ != "StreamWarning"] == [
        *kinds, TextEnd, ToolCallStart, ToolCallDelta, ToolCallEnd, StreamEnd,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("error", "error"),
        ("tool_calls", "tool_calls"),
        ("content_filter", "content_filter"),
        ("boredom", "other"),
    ],
)
def test_every_finish_reason_has_its_meaning(word: str, finish: str) -> None:
    turn = read(mistral("Hi", finish=word))
    assert (turn.finish, turn.finish_raw, turn.complete) == (finish, word, True)


def test_cached_tokens_are_counted_in_either_spelling() -> None:
    for usage in ({"num_cached_tokens": 64}, {"num_cached_tokens": 0, "prompt_tokens_details": {"cached_tokens": 64}}):
        turn = parse([chunk({"content": "Hi"}, "stop", usage={"prompt_tokens": 70, **usage})], wire=MISTRAL)
        assert turn.usage is not None
        assert (turn.usage.input_tokens, turn.usage.cached_input_tokens) == (70, 64)


def test_an_error_in_the_stream_is_the_providers() -> None:
    error = {"object": "error", "message": "Service tier capacity exceeded", "type": "capacity", "code": "3505"}
    turn = read([*mistral("Hi")[:2], *sse([error])])
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.finish, turn.text) == (
        "provider_error", "Service tier capacity exceeded", "error", "Hi",
    )  # fmt: skip


# -- thinking ----------------------------------------------------------------------------------------------------------


def content_of(turn: Turn) -> Any:
    return turn.messages()[0]["content"]


def test_thinking_goes_back_as_one_chunk_with_its_signature() -> None:
    turn = read(mistral([thinking("A", closed=False)], [thinking("B")], [thinking(signature="c2ln", closed=True)], "4"))
    assert (turn.reasoning, turn.text) == ("AB", "4")
    assert content_of(turn) == [thinking("AB", signature="c2ln", closed=True), {"type": "text", "text": "4"}]


def test_what_stands_among_the_texts_of_thinking_keeps_its_place() -> None:
    tool = {"type": "tool_reference", "tool": "web_search", "title": "T"}
    pieces: list[Any] = [thinking("A"), {"type": "thinking", "thinking": [REFERENCE]}, thinking("B", "C")]
    turn = read(mistral([*pieces, {"type": "thinking", "thinking": [tool]}], "4"))
    assert turn.reasoning == "ABC"
    texts = [{"type": "text", "text": text} for text in ("A", "BC")]
    assert content_of(turn)[0] == {"type": "thinking", "thinking": [texts[0], REFERENCE, texts[1], tool]}


def test_a_signature_ends_its_thinking() -> None:
    signed = thinking("A", signature="one")
    turn = read(mistral([signed], [thinking("B")], [thinking(signature="two")], "4"))
    assert turn.reasoning == "AB"
    assert content_of(turn)[:2] == [signed, thinking("B", signature="two")]


def test_a_signature_that_every_piece_repeats_ends_nothing() -> None:
    turn = read(mistral([thinking("A", signature="s")], [thinking("B", signature="s")], [thinking(closed=True)], "4"))
    assert content_of(turn)[0] == thinking("AB", signature="s", closed=True)


def test_thinking_that_is_withheld_but_signed_goes_back() -> None:
    turn = read(mistral([thinking(signature="s")], "4"))
    assert (turn.reasoning, content_of(turn)[0]) == ("", thinking(signature="s"))


def test_thinking_alone_is_content() -> None:
    turn = read(mistral([thinking("A")], finish="length"))
    assert content_of(turn) == [thinking("A")]


@pytest.mark.parametrize(
    "empty", [thinking(), thinking(""), {"type": "thinking"}, {"type": "thinking", "thinking": None}]
)
def test_a_thinking_chunk_that_says_nothing_is_nothing(empty: dict[str, Any]) -> None:
    turn = read(mistral([empty], "4", [empty]))
    assert [part.kind for part in turn.parts] == ["text"]


def test_thinking_as_bare_text_is_thinking() -> None:
    turn = read(mistral([{"type": "thinking", "thinking": "A"}], [{"type": "thinking", "thinking": ["", 7, "B"]}], "4"))
    assert (turn.reasoning, content_of(turn)[0]) == ("AB", thinking("AB"))


def test_thinking_after_text_is_another_part() -> None:
    turn = read(mistral("a", [thinking("A")], "b", [thinking("B")]))
    assert [part.kind for part in turn.parts] == ["text", "reasoning", "text", "reasoning"]
    assert [chunk["type"] for chunk in content_of(turn)] == ["text", "thinking", "text", "thinking"]


def test_the_other_ways_of_reasoning_go_back_as_the_api_takes_them() -> None:
    field = parse([chunk({"reasoning_content": "R"}), chunk({"content": "4"}, "stop")], wire=MISTRAL)
    assert content_of(field) == [thinking("R"), {"type": "text", "text": "4"}]
    inline = read(mistral("<think>R", "</think>", "\n4"))
    assert (inline.reasoning, inline.text, content_of(inline)) == ("R", "4", "<think>R</think>\n4")
    block = read(mistral([{"type": "reasoning", "summary": [{"text": "R"}]}], "4"))
    assert (block.reasoning, content_of(block)[0]) == ("R", thinking("R"))


def test_an_inline_block_that_thinking_interrupts_goes_back_as_it_came() -> None:
    turn = read(mistral("<think>R", [thinking("A")], "4"))
    assert turn.reasoning == "RA"
    assert content_of(turn)[:2] == [{"type": "text", "text": "<think>R"}, thinking("A")]
    assert read(mistral("<thi", [thinking("A")], "4")).text == "<thi4"


def test_half_a_surrogate_pair_stays_in_no_text_and_no_signature() -> None:
    body = b"".join(mistral([thinking("A?")], [thinking("!", signature="?")], "4"))
    turn = read([body.replace(b"?", b"\\ud83d").replace(b"!", b"\\ude00")])
    assert turn.reasoning == "A\N{GRINNING FACE}"
    assert content_of(turn)[0] == thinking("A\N{GRINNING FACE}", signature="\N{REPLACEMENT CHARACTER}")


# -- other chunks ------------------------------------------------------------------------------------------------------


def test_a_reference_is_told_and_goes_back_in_its_place() -> None:
    told = events(chunk({"content": "a"}), chunk({"content": [REFERENCE]}), chunk({"content": "b"}, "stop"))
    assert [event.raw for event in told if isinstance(event, ProviderItem)] == [REFERENCE]
    turn = read(mistral("It rains", [REFERENCE], " in Paris."))
    assert turn.text == "It rains in Paris."
    text = [{"type": "text", "text": text} for text in ("It rains", " in Paris.")]
    assert content_of(turn) == [text[0], REFERENCE, text[1]]


def test_what_nobody_knows_is_kept_and_warned_of_or_told() -> None:
    turn = read(mistral([{"type": "hologram", "url": "x"}], "a"))
    assert codes(turn) == {"unknown_block_type"}
    assert content_of(turn)[0] == {"type": "hologram", "url": "x"}
    told = events(chunk({"content": [{"url": "x"}, 7]}), chunk({"content": "a"}, "stop"))
    assert [event.raw for event in told if isinstance(event, UnknownPayload)] == [{"url": "x"}, 7]


def test_what_is_nested_too_deep_does_not_go_back() -> None:
    deep: Any = "x"
    for _ in range(220):
        deep = [deep]
    turn = read(mistral([REFERENCE | {"more": deep}], [thinking("A", more=deep)], "4"))
    assert "nested_too_deep" in codes(turn)
    assert content_of(turn) == [thinking("A"), {"type": "text", "text": "4"}]


def test_kept_chunks_are_limited() -> None:
    for content in (
        [REFERENCE] * 3,
        [{"type": "thinking", "thinking": [REFERENCE] * 3}],
        [thinking("A", a=1, b=2, c=3)],
    ):
        assert parse(mistral(content, "4"), wire=MISTRAL, limits=Limits(max_open_blocks=3)).error is None
        error = parse(mistral(content, "4"), wire=MISTRAL, limits=Limits(max_open_blocks=2)).error
        assert error is not None
        assert (error.kind, "max_open_blocks=2" in str(error)) == ("limit_exceeded", True)


def test_what_is_kept_beside_the_text_counts_as_text() -> None:
    for content in ([REFERENCE | {"more": "x" * 100}], [thinking("A", signature="x" * 100)]):
        assert parse(mistral(content, "4"), wire=MISTRAL, limits=Limits(max_text_bytes=200)).error is None
        error = parse(mistral(content, "4"), wire=MISTRAL, limits=Limits(max_text_bytes=99)).error
        assert error is not None
        assert (error.kind, "max_text_bytes=99" in str(error)) == ("limit_exceeded", True)


# -- calls and their ids -----------------------------------------------------------------------------------------------


def test_calls_come_whole_in_one_chunk_with_the_finish() -> None:
    turn = read(
        mistral("On it.", calls=[PARIS, ("ihQrVBDfy", "f", "")], finish="tool_calls"), tools=["get_weather", "f"]
    )
    assert [(call.call_id, call.name, call.arguments, call.dispatchable) for call in turn.calls] == [
        ("yBvJuId6u", "get_weather", {"city": "Paris"}, True),
        ("ihQrVBDfy", "f", {}, True),
    ]


def test_the_id_null_is_none() -> None:
    calls = [{"id": "null", "function": {"name": name, "arguments": "{}"}, "index": 0} for name in ("f", "g")]
    turn = parse([chunk({"tool_calls": calls}, "tool_calls")], wire=MISTRAL)
    assert [(call.name, call.call_id_synthesized) for call in turn.calls] == [("f", True), ("g", True)]
    assert "null" not in {call.call_id for call in turn.calls}
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", call["id"]) for call in turn.messages()[0]["tool_calls"])
    check_histories(turn)


def test_ids_of_others_become_nine_letters_and_digits_always_the_same() -> None:
    rule = find(MISTRAL).call_ids
    assert rule.takes("yBvJuId6u")
    assert not any(map(rule.takes, ("call_1", "yBvJuId6", "yBvJuId6u7", "yBvJuId6-", "")))
    turn = parse(chat(calls=[("call_abc", "f", "{}"), ("yBvJuId6u", "g", "{}")]))
    first, second = turn.messages(MISTRAL)[0]["tool_calls"]
    assert re.fullmatch(r"[a-zA-Z0-9]{9}", first["id"])
    assert second["id"] == "yBvJuId6u"
    assert turn.messages(MISTRAL) == turn.messages(MISTRAL)
    assert rule.replacement("call_abc", 0) == first["id"] != rule.replacement("call_abc", 1)


# -- the way back ------------------------------------------------------------------------------------------------------


def test_a_turn_with_calls_goes_back_as_it_came() -> None:
    turn = read(mistral([thinking("P?", signature="s")], "Let me look.", calls=[PARIS], finish="tool_calls"))
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    [message, result] = turn.messages()
    assert message == {
        "role": "assistant",
        "content": [thinking("P?", signature="s"), {"type": "text", "text": "Let me look."}],
        "tool_calls": [{"id": "yBvJuId6u", "type": "function", "function": function}],
    }
    assert result.keys() == {"role", "tool_call_id", "name", "content"}
    assert (result["role"], result["tool_call_id"], result["name"]) == ("tool", "yBvJuId6u", "get_weather")


def test_calls_alone_have_empty_content_and_text_alone_is_a_string() -> None:
    assert read(mistral(calls=[PARIS], finish="tool_calls")).messages()[0]["content"] == ""
    assert read(mistral("Hel", [{"type": "text", "text": "lo"}])).messages() == [
        {"role": "assistant", "content": "Hello"}
    ]


def test_nothing_said_is_no_message() -> None:
    assert read(mistral()).messages() == []


def test_text_beyond_the_limit_ends_the_stream_and_is_not_kept() -> None:
    turn = read(mistral("abc"), limits=Limits(max_text_bytes=2))
    assert turn.error is not None
    assert (turn.error.kind, turn.text, turn.messages()) == ("limit_exceeded", "", [])


def test_what_other_wires_keep_for_themselves_stays_with_them() -> None:
    turn = parse(
        [
            *({"choices": [{"index": 0, "delta": delta}]} for delta in ({"reasoning_content": "R"}, {"content": "a"})),
            {"choices": [{"index": 0, "delta": {"refusal": "No."}, "finish_reason": "stop"}]},
        ]
    )
    assert turn.messages(MISTRAL) == [{"role": "assistant", "content": "aNo."}]
    check_histories(parse(anthropic(["a"], [("toolu_1", "f", "{}")])))
    custom = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    turn = parse([{"choices": [{"index": 0, "delta": {"tool_calls": [custom]}, "finish_reason": "tool_calls"}]}])
    [call] = turn.messages(MISTRAL)[0]["tool_calls"]
    assert (call["type"], call["function"]["arguments"]) == ("function", '{"input":"SELECT 1"}')


def test_a_turn_of_mistrals_goes_to_other_wires_without_its_chunks() -> None:
    turn = read(mistral([thinking("P?", signature="s")], "a", [REFERENCE], "b", calls=[PARIS], finish="tool_calls"))
    assert turn.messages(CHAT)[0]["content"] == "ab"
    assert [block["type"] for block in turn.messages(ANTHROPIC)[0]["content"]] == ["text", "text", "tool_use"]


# -- detection, garbage ------------------------------------------------------------------------------------------------


def test_no_payload_is_certainly_mistrals_and_chat_takes_it() -> None:
    body = mistral([thinking("P?")], "Hi", calls=[PARIS], finish="tool_calls")
    assert detect(chunk({"content": "Hi"}, p="abc")) == CHAT
    assert not find(MISTRAL).recognises(chunk({"content": "Hi"}, p="abc"))
    turn, named = parse(body), parse(body, wire=MISTRAL)
    assert (turn.wire, named.wire) == (CHAT, MISTRAL)
    assert (turn.text, turn.reasoning, turn.calls) == (named.text, named.reasoning, named.calls)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
block_keys = st.sampled_from(["type", "thinking", "text", "signature", "closed", "reference_ids"])
block_values = st.sampled_from(["thinking", "text", "reference", "s", ""]) | json_values
blocks = st.dictionaries(block_keys, block_values | st.lists(st.dictionaries(block_keys, block_values)), max_size=4)
call_keys = st.sampled_from(["id", "function", "index", "type"])
calls = st.dictionaries(call_keys, st.dictionaries(st.sampled_from(["name", "arguments"]), json_values) | json_values)
deltas = st.dictionaries(
    st.sampled_from(["content", "tool_calls", "role"]), st.lists(blocks | json_values | calls, max_size=3) | json_values
)


@given(st.lists(deltas, max_size=5), json_values, json_values)
@settings(max_examples=examples(60), deadline=None)
def test_anything_in_any_field_is_taken_without_an_exception(contents: list[Any], finish: Any, usage: Any) -> None:
    payloads = [chunk(delta) for delta in contents] + [chunk({}, finish, usage=usage)]
    try:
        body = sse(payloads)
    except orjson.JSONEncodeError:
        body = []
    for items in ([*body, DONE], payloads):
        turn = parse(items, wire=MISTRAL)
        check_turn(turn)
        check_histories(turn)


@pytest.mark.parametrize("wire", [None, "mistral.chat"])
@pytest.mark.parametrize(
    "kind", ["conversation.response.started", "message.output.delta", "function.call.delta", "tool.execution.started"]
)
def test_a_conversation_is_refused_by_its_name_and_none_of_its_calls_runs(kind: str, wire: str | None) -> None:
    event = {"type": kind, "id": "e1", "name": "f", "tool_call_id": "c1", "arguments": "{}", "output_index": 0}
    turn = parse([event, {"type": "conversation.response.done", "usage": {}}], wire=wire)
    assert turn.error is not None
    assert (turn.error.kind, turn.calls) == ("unknown_wire", ())
    assert "Mistral's conversations" in str(turn.error)
