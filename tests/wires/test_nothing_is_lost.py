"""Holes that the law of `test_found_again` has shown, each with the stream that fell into it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from every_wire import said
from streams import chat_chunk
from wire_cases.names import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES

from streamtools import StreamDecoder, parse
from streamtools.events import UnknownPayload

Payload = dict[str, Any]
TEXT = ["Hello ", "dear ", "world"]
CALLS = [("c1", "look", '{"at": 1}')]


def response(wire: str, **content: Any) -> list[Payload]:
    """A response of the wire, none of whose objects stands in two places."""
    payloads: list[Payload] = json.loads(json.dumps(said(wire, **content)))
    return payloads


def unknown(wire: str, payloads: list[Payload]) -> list[tuple[Any, Any]]:
    """Place and fields of everything that is passed on as unknown."""
    decoder = StreamDecoder(wire=wire)
    events = [event for payload in payloads for event in decoder.feed(payload)] + decoder.finish()
    return [(event.place, event.raw) for event in events if isinstance(event, UnknownPayload)]


def test_an_error_before_the_wire_is_known_passes_on_its_other_fields() -> None:
    decoder = StreamDecoder()
    events = decoder.feed(b'event: error\ndata: {"error": {"message": "no", "hint": "later"}}\n\n')
    assert [(event.place, event.raw) for event in events if isinstance(event, UnknownPayload)] == [
        ("error", {"hint": "later"})
    ]


def test_a_payload_after_the_end_is_passed_on_with_its_warning() -> None:
    payloads = [*response(ANTHROPIC, text=TEXT), {"type": "late", "why": "x"}]
    assert unknown(ANTHROPIC, payloads) == [(None, {"type": "late", "why": "x"})]
    turn = parse(payloads)
    assert (turn.text, turn.complete, [warning.code for warning in turn.warnings]) == (
        "Hello dear world",
        True,
        ["data_after_done"],
    )


def test_counts_that_a_later_usage_leaves_out_are_passed_on() -> None:
    usages: list[Payload] = [{"prompt_tokens": 1}, {"prompt_tokens": 1, "queue": "fast"}, {"prompt_tokens": 2}]
    payloads = [chat_chunk({"content": "a"}) | {"usage": usage} for usage in usages]
    assert unknown(CHAT, [*payloads, chat_chunk({}, "stop")]) == [("usage", {"queue": "fast"})]


def test_words_of_a_usage_that_a_later_one_replaces_are_passed_on_and_totals_are_not() -> None:
    usages: list[Payload] = [{"prompt_tokens": n, "total_tokens": n, "tier": word} for n, word in ((1, "a"), (2, "b"))]
    payloads = [chat_chunk({"content": "a"}) | {"usage": usage} for usage in usages]
    assert unknown(CHAT, [*payloads, chat_chunk({}, "stop")]) == [("usage", {"tier": "a"})]
    usage_raw = parse([*payloads, chat_chunk({}, "stop")]).usage_raw
    assert usage_raw == {"prompt_tokens": 2, "total_tokens": 2, "tier": "b"}


def test_anthropics_events_blocks_and_deltas_pass_on_new_fields() -> None:
    payloads = response(ANTHROPIC, text=TEXT, calls=CALLS)
    payloads[0]["message"]["region"] = "r"
    payloads[1]["content_block"]["hint"] = "h"
    payloads[3]["delta"]["logprobs"] = [1]
    payloads[4] |= {"at": "now"}
    payloads[7]["delta"]["piece"] = "p"
    assert unknown(ANTHROPIC, payloads) == [
        ("message", {"region": "r"}),
        ("content_block", {"hint": "h"}),
        ("delta", {"logprobs": [1]}),
        ("", {"at": "now"}),
        ("delta", {"piece": "p"}),
    ]
    assert parse(payloads).text == "Hello dear world"


def test_anthropics_unknown_delta_is_passed_on() -> None:
    payloads = response(ANTHROPIC, text=TEXT)
    strange = {"type": "style_delta", "style": "bold"}
    payloads.insert(3, {"type": "content_block_delta", "index": 0, "delta": strange})
    assert unknown(ANTHROPIC, payloads) == [(None, strange)]


def test_bedrocks_events_pass_on_new_fields_also_beside_text() -> None:
    payloads = response(BEDROCK, text=TEXT, calls=CALLS)
    payloads[0]["messageStart"]["region"] = "r"
    payloads[2]["contentBlockDelta"]["at"] = "now"
    payloads[3]["later"] = "l"
    payloads[5]["contentBlockStart"]["start"]["hint"] = "h"
    payloads[6]["contentBlockDelta"]["delta"]["toolUse"]["piece"] = "p"
    assert unknown(BEDROCK, payloads) == [
        ("messageStart", {"region": "r"}),
        ("contentBlockDelta", {"at": "now"}),
        ("", {"later": "l"}),
        ("contentBlockStart.start", {"hint": "h"}),
        ("contentBlockDelta.delta.toolUse", {"piece": "p"}),
    ]


def test_bedrocks_padding_beside_text_says_nothing() -> None:
    payloads = response(BEDROCK, text=TEXT)
    for number, payload in enumerate(payloads):
        next(iter(payload.values()))["p"] = "abc"[:number]
    assert unknown(BEDROCK, payloads) == []


def test_ollamas_lines_of_text_pass_on_new_fields() -> None:
    payloads = response(OLLAMA, text=TEXT)
    payloads[1]["logprobs"] = [{"token": "d"}]
    payloads[2]["message"]["tool_name"] = "t"
    payloads[3]["worker"] = "w"
    assert unknown(OLLAMA, payloads) == [
        ("", {"logprobs": [{"token": "d"}]}),
        ("message", {"tool_name": "t"}),
        ("", {"worker": "w"}),
    ]


def test_ollama_tells_once_where_a_model_runs() -> None:
    remote = {"remote_model": "m", "remote_host": "https://a"}
    payloads = [payload | remote for payload in response(OLLAMA, text=TEXT)]
    assert unknown(OLLAMA, payloads) == [("", remote)]
    payloads[2] |= {"remote_host": "https://b"}
    hosts = [raw["remote_host"] for _, raw in unknown(OLLAMA, payloads)]
    assert hosts == ["https://a", "https://b", "https://a"]


def test_coheres_events_pass_on_new_fields_also_beside_text() -> None:
    payloads = response(COHERE, text=TEXT, calls=CALLS)
    payloads[3]["delta"]["logprobs"] = {"token_ids": [7]}
    payloads[4]["delta"]["message"]["content"]["lang"] = "en"
    payloads[6]["delta"]["message"]["tool_calls"]["function"]["version"] = "2"
    payloads[7]["index_hint"] = "i"
    assert unknown(COHERE, payloads) == [
        ("delta", {"logprobs": {"token_ids": [7]}}),
        ("delta.message.content", {"lang": "en"}),
        ("delta.message.tool_calls.function", {"version": "2"}),
        ("", {"index_hint": "i"}),
    ]


def test_what_only_the_end_of_a_v1_stream_of_cohere_has_is_passed_on() -> None:
    said_before = {"event_type": "citation-generation", "is_finished": False, "citations": [{"text": "Hi"}]}
    whole = {"text": "Hi", "citations": [{"text": "Hi"}], "documents": [{"id": "d"}], "generation_id": "g"}
    payloads: list[Payload] = [
        {"event_type": "stream-start", "is_finished": False, "generation_id": "g"},
        {"event_type": "text-generation", "is_finished": False, "text": "Hi"},
        {"event_type": "stream-end", "is_finished": True, "finish_reason": "COMPLETE", "response": whole},
    ]
    citations = {"citations": whole["citations"]}
    documents = {"documents": whole["documents"]}
    assert unknown(COHERE, payloads) == [("response", citations | documents)]
    assert unknown(COHERE, [*payloads[:2], said_before, payloads[2]]) == [("response", documents)]


def gemini_calls(*calls: Payload, finish: str = "STOP") -> list[Payload]:
    """A response with these calls, each in a payload of its own."""
    candidates: list[Payload] = [{"content": {"role": "model", "parts": [{"functionCall": call}]}} for call in calls]
    return [{"candidates": [candidate]} for candidate in [*candidates, {"finishReason": finish}]]


def test_geminis_content_and_calls_pass_on_new_fields() -> None:
    payloads = response(GEMINI, text=TEXT, calls=CALLS)
    payloads[1]["candidates"][0]["content"]["author"] = "a"
    payloads[3]["candidates"][0]["content"]["parts"][0]["functionCall"]["lane"] = "x"
    payloads[4]["promptFeedback"] = {"safetyRatings": [{"category": "c"}]}
    assert unknown(GEMINI, payloads) == [
        ("candidates[0].content", {"author": "a"}),
        ("candidates[0].content.parts[0].functionCall", {"lane": "x"}),
        ("promptFeedback", {"safetyRatings": [{"category": "c"}]}),
    ]


def test_a_finish_message_of_gemini_that_is_no_error_is_passed_on() -> None:
    payloads = response(GEMINI, text=TEXT)
    payloads[-1]["candidates"][0]["finishMessage"] = "done early"
    assert unknown(GEMINI, payloads) == [("candidates[0]", {"finishMessage": "done early"})]


def test_the_arguments_of_a_gemini_call_that_was_cut_are_passed_on() -> None:
    piece = {"jsonPath": "$.q", "stringValue": "fjord", "willContinue": True}
    calls: list[Payload] = [{"name": "find", "willContinue": True}, {"partialArgs": [piece], "willContinue": True}]
    payloads = gemini_calls(*calls, finish="MAX_TOKENS")
    assert unknown(GEMINI, payloads) == [(None, {"args": {"q": "fjord"}})]
    [call] = parse(payloads).calls
    assert (call.arguments_text, call.arguments) == ("", None)


def test_a_piece_of_a_gemini_call_that_has_no_place_is_passed_on() -> None:
    strange = {"jsonPath": "nowhere", "stringValue": "fjord"}
    payloads = gemini_calls({"name": "find", "willContinue": True}, {"partialArgs": [strange]})
    assert unknown(GEMINI, payloads) == [(None, {"partialArgs": [strange]})]
    assert parse(payloads).calls[0].problem == "bad_path"


def test_a_chunk_of_chat_with_a_new_field_instead_of_noise_is_no_plain_text() -> None:
    strange = chat_chunk({"content": "c"}) | {"footnotes": ["https://a"]}
    del strange["created"]
    payloads = [*(chat_chunk({"content": text}) for text in ("a", "b")), strange, chat_chunk({}, "stop")]
    assert unknown(CHAT, payloads) == [("", {"footnotes": ["https://a"]})]
    assert parse(payloads).text == "abc"


def test_a_chat_calls_other_fields_are_passed_on_with_their_place() -> None:
    call = {"index": 0, "id": "c1", "type": "function", "lane": "x"}
    function = {"name": "look", "arguments": "{}", "version": "2"}
    payloads = [chat_chunk({"tool_calls": [{**call, "function": function}]}), chat_chunk({}, "tool_calls")]
    place = "choices[0].delta.tool_calls[0]"
    assert unknown(CHAT, payloads) == [(f"{place}.function", {"version": "2"}), (place, {"lane": "x"})]
    assert parse(payloads).calls[0].arguments == {}


def test_a_reasoning_detail_that_is_replaced_is_passed_on() -> None:
    details = [{"type": "reasoning.text", "index": 0, "text": "a", "format": word} for word in ("old", "new")]
    payloads = [*(chat_chunk({"reasoning_details": [detail]}) for detail in details), chat_chunk({}, "stop")]
    assert unknown(CHAT, payloads) == [("choices[0].delta.reasoning_details", {"format": "old"})]


def test_a_mistral_chunk_of_thinking_keeps_the_fields_of_its_texts_and_those_that_are_replaced() -> None:
    inner = {"type": "text", "text": "a", "lang": "en"}
    chunks: list[Payload] = [{"type": "thinking", "thinking": [inner], "step": word} for word in ("one", "two")]
    payloads = [*(chat_chunk({"content": [chunk]}) for chunk in chunks), chat_chunk({}, "stop")]
    place = "choices[0].delta.content[0]"
    assert unknown(MISTRAL, payloads) == [
        (f"{place}.thinking[0]", {"lang": "en"}),
        (place, {"step": "one"}),
        (f"{place}.thinking[0]", {"lang": "en"}),
    ]


def test_responses_events_pass_on_new_fields_also_beside_text() -> None:
    payloads = response(RESPONSES, text=TEXT, calls=CALLS)
    payloads[1]["item"]["hint"] = "h"
    payloads[3]["logprobs"] = [{"token": "d"}]
    payloads[4]["confidence"] = "high"
    assert unknown(RESPONSES, payloads) == [
        ("", {"logprobs": [{"token": "d"}]}),
        ("", {"confidence": "high"}),
        ("item", {"hint": "h"}),
    ]
    assert parse(payloads).text == "Hello dear world"


def test_a_delta_of_responses_with_a_new_field_instead_of_noise_is_no_plain_text() -> None:
    payloads = response(RESPONSES, text=TEXT)
    for number, payload in enumerate(payloads):
        payload["sequence_number"] = number
    del payloads[4]["sequence_number"]
    payloads[4]["confidence"] = "high"
    assert unknown(RESPONSES, payloads) == [("", {"confidence": "high"})]


def test_a_new_field_of_a_response_is_passed_on_when_it_changes() -> None:
    payloads = response(RESPONSES, text=TEXT)
    first, last = payloads[0]["response"], payloads[-1]["response"]
    payloads.insert(1, {"type": "response.in_progress", "response": {"id": "resp_1", "conversation": {"id": "v"}}})
    first["conversation"] = {"id": "v"}
    last |= {"conversation": {"id": "w"}}
    assert unknown(RESPONSES, payloads) == [
        ("response", {"conversation": {"id": "v"}}),
        ("response", {"conversation": {"id": "w"}}),
    ]


def test_reasoning_of_responses_that_cannot_go_back_passes_on_its_other_fields() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "effort": "low"}
    payloads: list[Payload] = [
        {"type": "response.created", "response": {"id": "resp_1", "store": False}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
    ]
    assert unknown(RESPONSES, payloads) == [("item", {"effort": "low"})]


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, ANTHROPIC, GEMINI, MISTRAL, COHERE, OLLAMA, BEDROCK])
def test_an_errors_other_fields_are_passed_on(wire: str) -> None:
    error = {"error": {"message": "no", "param": "input[2]"}, "ticket": "req_1"}
    payloads = [*response(wire, text=TEXT, ends=False), error]
    assert unknown(wire, payloads) == [("error", {"param": "input[2]"}), ("", {"ticket": "req_1"})]
    assert str(parse(payloads, wire=wire).error) == "no"
