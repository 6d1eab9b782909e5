"""Mistral's chat: typed content, what goes back, ids, and how it differs from Chat Completions."""

from __future__ import annotations

import re
from typing import Any

from every_wire import MISTRAL
from mistral_streams import chunk, mistral, thinking
from profiles import every
from sansio import CHAT, byte_by_byte, check_histories, checked, snapshot
from streams import chat

from streamtools import StreamDecoder, Turn, parse
from streamtools.events import ProviderItem, UnknownPayload
from streamtools.wires import detect, find

PARIS = ("yBvJuId6u", "get_weather", '{"city": "Paris"}')
REFERENCE = {"type": "reference", "reference_ids": [0, "doc-2"]}


def read(body: list[bytes], **more: Any) -> Turn:
    turn = checked(parse(body, wire=MISTRAL, **more))
    assert snapshot(parse(byte_by_byte(b"".join(body)), wire=MISTRAL, **more)) == snapshot(turn)
    return turn


def codes(turn: Turn) -> set[str]:
    return {warning.code for warning in turn.warnings}


def events(*payloads: dict[str, Any]) -> list[Any]:
    decoder = StreamDecoder(wire=MISTRAL)
    return [event for payload in payloads for event in decoder.feed(payload)] + decoder.finish()


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


@every("empty", [thinking(), thinking(""), {"type": "thinking"}, {"type": "thinking", "thinking": None}])
def test_a_thinking_chunk_that_says_nothing_is_nothing(empty: dict[str, Any]) -> None:
    turn = read(mistral([empty], "4", [empty]))
    assert [part.kind for part in turn.parts] == ["text"]


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


# -- calls and their ids -----------------------------------------------------------------------------------------------


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


# -- detection --------------------------------------------------------------------------------------------------------


def test_no_payload_is_certainly_mistrals_and_chat_takes_it() -> None:
    body = mistral([thinking("P?")], "Hi", calls=[PARIS], finish="tool_calls")
    assert detect(chunk({"content": "Hi"}, p="abc")) == CHAT
    assert not find(MISTRAL).recognises(chunk({"content": "Hi"}, p="abc"))
    turn, named = parse(body), parse(body, wire=MISTRAL)
    assert (turn.wire, named.wire) == (CHAT, MISTRAL)
    assert (turn.text, turn.reasoning, turn.calls) == (named.text, named.reasoning, named.calls)


@every("wire", [None, "mistral.chat"])
@every(
    "kind", ["conversation.response.started", "message.output.delta", "function.call.delta", "tool.execution.started"]
)
def test_a_conversation_is_refused_by_its_name_and_none_of_its_calls_runs(kind: str, wire: str | None) -> None:
    event = {"type": kind, "id": "e1", "name": "f", "tool_call_id": "c1", "arguments": "{}", "output_index": 0}
    turn = parse([event, {"type": "conversation.response.done", "usage": {}}], wire=wire)
    assert (turn.error.kind, turn.calls) == ("unknown_wire", ())
    assert "Mistral's conversations" in str(turn.error)
