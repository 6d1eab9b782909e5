"""Holes that the law of `test_found_again` has shown, each with the stream that fell into it."""

from __future__ import annotations

import json
from typing import Any

from every_wire import said
from profiles import every
from streams import chat_chunk
from wire_cases.names import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES

from streamtools import StreamDecoder, parse
from streamtools.events import UnknownPayload

Payload = dict[str, Any]
TEXT = ["Hello ", "dear ", "world"]


def response(wire: str, **content: Any) -> list[Payload]:
    """A response of the wire, none of whose objects stands in two places."""
    payloads: list[Payload] = json.loads(json.dumps(said(wire, **content)))
    return payloads


def unknown(wire: str, payloads: list[Payload]) -> list[tuple[Any, Any]]:
    """Place and fields of everything that is passed on as unknown."""
    decoder = StreamDecoder(wire=wire)
    events = [event for payload in payloads for event in decoder.feed(payload)] + decoder.finish()
    return [(event.place, event.raw) for event in events if isinstance(event, UnknownPayload)]


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


def test_bedrocks_padding_beside_text_says_nothing() -> None:
    payloads = response(BEDROCK, text=TEXT)
    for number, payload in enumerate(payloads):
        next(iter(payload.values()))["p"] = "abc"[:number]
    assert unknown(BEDROCK, payloads) == []


def test_ollama_tells_once_where_a_model_runs() -> None:
    remote = {"remote_model": "m", "remote_host": "https://a"}
    payloads = [payload | remote for payload in response(OLLAMA, text=TEXT)]
    assert unknown(OLLAMA, payloads) == [("", remote)]
    payloads[2] |= {"remote_host": "https://b"}
    hosts = [raw["remote_host"] for _, raw in unknown(OLLAMA, payloads)]
    assert hosts == ["https://a", "https://b", "https://a"]


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


@every("wire", [CHAT, RESPONSES, ANTHROPIC, GEMINI, MISTRAL, COHERE, OLLAMA, BEDROCK])
def test_an_errors_other_fields_are_passed_on(wire: str) -> None:
    error = {"error": {"message": "no", "param": "input[2]"}, "ticket": "req_1"}
    payloads = [*response(wire, text=TEXT, ends=False), error]
    assert unknown(wire, payloads) == [("error", {"param": "input[2]"}), ("", {"ticket": "req_1"})]
    assert str(parse(payloads, wire=wire).error) == "no"


def test_a_finish_message_of_gemini_that_is_no_error_is_passed_on() -> None:
    payloads = response(GEMINI, text=TEXT)
    payloads[-1]["candidates"][0]["finishMessage"] = "done early"
    assert unknown(GEMINI, payloads) == [("candidates[0]", {"finishMessage": "done early"})]
