"""Fields that a wire does not read come out as one event that has their place, also if they ride on a chunk of text."""

from __future__ import annotations

from typing import Any

from profiles import every
from sansio import byte_by_byte
from streams import chat_chunk, sse

from streamtools import StreamDecoder, parse
from streamtools.events import ProviderItem, UnknownPayload
from streamtools.wires.openai_chat.facts import NOISE, REPEATED

CITATIONS = {"citations": ["https://a"], "search_results": [{"title": "A"}]}


def beside(payloads: list[dict[str, Any]], wire: str | None = None) -> list[tuple[Any, Any]]:
    """Place and fields of each event, however the stream comes; sources, which enter the turn, are ``cited``."""
    found = []
    for items in (payloads, sse(payloads), byte_by_byte(b"".join(sse(payloads)))):
        decoder = StreamDecoder(wire=wire)
        events = [event for item in items for event in decoder.feed(item)] + decoder.finish()
        kinds = (UnknownPayload, ProviderItem)
        found.append([(getattr(one, "place", "cited"), one.raw) for one in events if isinstance(one, kinds)])
    assert found[0] == found[1] == found[2]
    return found[0]


def words(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    """Chunks of text in which these take the place of the middle ones."""
    return [chat_chunk({"content": "a"}), chat_chunk({"content": "b"}), *chunks, chat_chunk({}, "stop")]


def with_choice(**fields: Any) -> dict[str, Any]:
    chunk = chat_chunk({"content": "c"})
    chunk["choices"][0] |= fields
    return chunk


TEXT = chat_chunk({"content": "c"})
CASES = [
    (TEXT | CITATIONS, "cited", CITATIONS),
    (TEXT | {"moderation": {"flagged": False}}, "", {"moderation": {"flagged": False}}),
    ({"id": "x", "choices": [], "timings": {"cache_n": 1}, "cost": 0}, "", {"timings": {"cache_n": 1}, "cost": 0}),
    (
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        "",
        {"prompt_filter_results": [{"prompt_index": 0}]},
    ),
    (TEXT | {"x_groq": {"id": "r", "seed": 7}}, "x_groq", {"seed": 7}),
    (with_choice(matched_stop=7), "choices[0]", {"matched_stop": 7}),
    (with_choice(logprobs={"content": []}), "choices[0]", {"logprobs": {"content": []}}),
    (with_choice(message={"content": "abc", "annotations": [1]}), "choices[0].message", {"annotations": [1]}),
    (chat_chunk({"content": "c", "annotations": [1]}), "choices[0].delta", {"annotations": [1]}),
]


@every(("chunk", "place", "fields"), CASES)
def test_unknown_fields_are_one_event_with_its_place(chunk: dict[str, Any], place: str, fields: dict[str, Any]) -> None:
    assert beside(words(chunk)) == [(place, fields)]
    assert parse(words(chunk)).text in ("abc", "ab")
    assert parse(words(chunk)).warnings == parse(words(TEXT)).warnings


def test_a_field_that_takes_the_place_of_another_does_not_slip_through() -> None:
    usual = [{**chunk, "usage": None} for chunk in words(TEXT, TEXT)]
    usual[3] = TEXT | {"citations": ["https://a"]}
    assert beside(usual) == [("cited", {"citations": ["https://a"]})]


@every("nothing", [None, "", [], {}])
def test_a_field_without_a_value_says_nothing(nothing: Any) -> None:
    chunks = [TEXT | {"citations": nothing, "token_ids": nothing}, with_choice(token_ids=nothing, logprobs=nothing)]
    assert beside(words(*chunks, *chunks)) == []
    assert beside(words(*chunks, TEXT | {"citations": nothing, "token_ids": [1]})) == [("", {"token_ids": [1]})]


def test_what_only_repeats_what_stands_is_told_when_it_changes_and_all_else_every_time() -> None:
    chunks = [TEXT | {"provider": "P", "citations": ["a"]}, TEXT | {"provider": "P", "citations": ["a"]}]
    chunks += [TEXT | {"provider": "P", "citations": ["a", "b"]}, TEXT | {"provider": "Q", "citations": ["a", "b"]}]
    assert beside(words(*chunks)) == [
        ("", {"provider": "P", "citations": ["a"]}),
        ("", {"citations": ["a", "b"]}),
        ("", {"provider": "Q"}),
    ]
    assert beside(words(*[with_choice(token_ids=[7])] * 3)) == [("choices[0]", {"token_ids": [7]})] * 3
    assert beside(words(*[with_choice(content_filter_results={"hate": {}})] * 3)) == [
        ("choices[0]", {"content_filter_results": {"hate": {}}})
    ]


def test_noise_is_told_by_no_event_and_has_its_reason() -> None:
    assert beside(words(TEXT | dict.fromkeys(NOISE, "x"))) == []
    assert all(reason for reason in (*NOISE.values(), *REPEATED.values()))


def test_mistrals_padding_is_noise_and_its_other_fields_are_not() -> None:
    assert beside(words(TEXT | {"p": "abc"}, TEXT | {"p": "a", "guardrails": [1]}), "mistral.chat") == [
        ("", {"guardrails": [1]})
    ]


def gemini(text: str, **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **fields}]}


def test_geminis_grounding_comes_out_also_beside_text() -> None:
    grounding = {"groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://a"}}]}}
    chunks = [
        gemini("a"),
        gemini("b"),
        gemini("c", **grounding),
        gemini("d", finishReason="STOP") | {"modelStatus": {}},
    ]
    assert beside(chunks) == [("cited", grounding)]
    assert parse(chunks).text == "abcd"
    assert beside([gemini("a"), gemini("b") | {"extra": 1}, gemini("c", finishReason="STOP")]) == [("", {"extra": 1})]


def test_anthropics_end_of_a_message_keeps_its_other_fields() -> None:
    start = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {}}}
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "container": {"id": "c", "skills": [7]}}}
    edits = {"context_management": {"applied_edits": [1]}}
    assert beside([start, delta | edits, {"type": "message_stop"}]) == [
        ("delta.container", {"skills": [7]}),
        ("", edits),
    ]
