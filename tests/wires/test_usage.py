"""Token counts mean the same on every wire."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from profiles import every
from streams import chat_chunk, sse

from streamtools import StreamDecoder, Usage, parse
from streamtools.events import UnknownPayload
from streamtools.wires import find
from streamtools.wires.reading import Derived, UsageMap, total


def read(counts: UsageMap, *usages: object) -> Usage | None:
    newest: dict[str, int] = {}
    for usage in usages:
        counts.read(usage, newest)
    return counts.usage(newest)


# -- what servers send last --------------------------------------------------------------------------------------------


def counts(prompt: int, completion: int, total: int | None = None, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}


def reasoned(tokens: int) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": tokens}}


LAST_CHUNKS: dict[str, tuple[dict[str, Any], Usage]] = {
    # docs.x.ai: "reasoning token consumption will be counted separately from completion_tokens, but will be counted in
    # the total_tokens" (vercel/ai#12425)
    "xAI": (
        counts(32, 9, 135, prompt_tokens_details={"cached_tokens": 6}, **reasoned(94)),
        Usage(input_tokens=32, output_tokens=103, cached_input_tokens=6, reasoning_tokens=94),
    ),
    "xAI, Grok 4.20 (Wei-Shaw/sub2api#5771)": (
        counts(10120, 1499, 14428, prompt_tokens_details={"cached_tokens": 128}, **reasoned(2809)),
        Usage(input_tokens=10120, output_tokens=4308, cached_input_tokens=128, reasoning_tokens=2809),
    ),
    "OpenAI": (counts(32, 103, 135, **reasoned(94)), Usage(input_tokens=32, output_tokens=103, reasoning_tokens=94)),
    "no total, which alone could tell": (
        counts(32, 9, **reasoned(94)), Usage(input_tokens=32, output_tokens=9, reasoning_tokens=94),
    ),
    "a total that tells something else": (
        counts(32, 9, 140, **reasoned(94)), Usage(input_tokens=32, output_tokens=9, reasoning_tokens=94),
    ),
    "Moonshot": (
        counts(19, 13, 32, cached_tokens=12), Usage(input_tokens=19, output_tokens=13, cached_input_tokens=12),
    ),
    "DashScope, whose cache was written": (
        counts(2600, 9, 2609, prompt_tokens_details={
            "cached_tokens": 0, "cache_creation_input_tokens": 2000, "cache_type": "ephemeral",
            "cache_creation": {"ephemeral_5m_input_tokens": 2000},
        }),
        Usage(input_tokens=2600, output_tokens=9, cached_input_tokens=0, cache_write_input_tokens=2000),
    ),
    "LiteLLM, with Claude": (
        counts(2600, 9, 2609, cache_creation_input_tokens=400, cache_read_input_tokens=2000,
               prompt_tokens_details={"cached_tokens": 2000}),
        Usage(input_tokens=2600, output_tokens=9, cached_input_tokens=2000, cache_write_input_tokens=400),
    ),
    "LiteLLM, without details": (
        counts(2600, 9, 2609, cache_creation_input_tokens=0, cache_read_input_tokens=2000),
        Usage(input_tokens=2600, output_tokens=9, cached_input_tokens=2000, cache_write_input_tokens=0),
    ),
    "DeepSeek": (
        counts(2600, 9, 2609, prompt_cache_hit_tokens=2560, prompt_cache_miss_tokens=40),
        Usage(input_tokens=2600, output_tokens=9, cached_input_tokens=2560),
    ),
}  # fmt: skip


@every("server", LAST_CHUNKS)
def test_the_counts_of_a_server_are_read_as_it_means_them(server: str) -> None:
    raw, usage = LAST_CHUNKS[server]
    beside: dict[str, Any] = chat_chunk({}, "stop") | {"usage": raw}
    inside = chat_chunk({}, "stop")
    inside["choices"][0]["usage"] = raw  # as Moonshot has it
    said = {**chat_chunk({"content": "Hi"}), "usage": None}
    for wire in ("openai.chat_completions", "mistral.chat"):
        for last in ([beside], [inside], [inside, {**chat_chunk({}), "choices": [], "usage": raw}]):
            for body in ([said, *last], sse([said, *last])):
                turn = parse(body, wire=wire)
                assert turn.usage == (usage if wire != "mistral.chat" else replace(usage, **mistral_cached(raw)))
                assert turn.usage_raw == raw


def mistral_cached(raw: dict[str, Any]) -> dict[str, Any]:
    """Mistral has names of its own for what came out of the cache."""
    return {"cached_input_tokens": raw.get("prompt_tokens_details", {}).get("cached_tokens")}


METRICS = {"inputTokenCount": 4187, "outputTokenCount": 20, "invocationLatency": 900, "firstByteLatency": 300}
INVOKED = {
    "openai.chat_completions": [chat_chunk({"content": "Hi"}), chat_chunk({}, "stop")],
    "cohere.chat": [
        {"event_type": "stream-start", "is_finished": False, "generation_id": "g"},
        {"event_type": "text-generation", "is_finished": False, "text": "Hi"},
        {"event_type": "stream-end", "is_finished": True, "finish_reason": "COMPLETE", "response": {"text": "Hi"}},
    ],
    "anthropic.messages": [
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 3}}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ],
}  # fmt: skip


@every("wire", INVOKED)
def test_counts_that_bedrock_has_beside_the_last_payload_stand_in_for_a_missing_usage(wire: str) -> None:
    """InvokeModel counts for each model; some bodies (OpenAI's gpt-oss, Kimi, Qwen, Cohere) have no other counts."""

    def counted() -> Usage | None:
        *first, last = INVOKED[wire]
        payloads = [*first, {**last, "amazon-bedrock-invocationMetrics": METRICS}]
        turns = [
            parse([{"chunk": {"bytes": json.dumps(payload).encode()}} for payload in payloads], wire=wire),
            parse(payloads, wire=wire),
        ]
        decoder = StreamDecoder(wire=wire)
        events = [event for payload in payloads for event in decoder.feed(payload)]
        assert [event.raw for event in events if isinstance(event, UnknownPayload)] == []
        assert turns[0].usage == turns[1].usage
        return turns[0].usage

    if wire == "anthropic.messages":
        assert counted() == Usage(input_tokens=3, output_tokens=2), "its own counts count"
    else:
        assert counted() == Usage(input_tokens=4187, output_tokens=20)
    if wire == "openai.chat_completions":
        last = {**chat_chunk({}), "choices": [], "amazon-bedrock-invocationMetrics": METRICS}
        turn = parse([*INVOKED[wire], last | {"usage": counts(9, 2, 11)}])
        assert turn.usage == Usage(input_tokens=9, output_tokens=2)
        alone = parse([*INVOKED[wire], {"amazon-bedrock-invocationMetrics": METRICS}])
        assert (alone.usage, alone.warnings) == (Usage(input_tokens=4187, output_tokens=20), ())


# -- the maps ----------------------------------------------------------------------------------------------------------


USAGES = {
    "anthropic.messages": (
        {
            "input_tokens": 9,
            "cache_creation_input_tokens": 5,
            "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3},
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 4},
        },
        Usage(
            input_tokens=14,
            cache_write_input_tokens=5,
            long_cache_write_input_tokens=3,
            output_tokens=7,
            reasoning_tokens=4,
        ),
    ),
    "openai.chat_completions": (
        {
            "prompt_tokens": 9,
            "prompt_tokens_details": {"audio_tokens": 2, "cache_write_tokens": 5},
            "prompt_cache_hit_tokens": 3,
            "completion_tokens": 7,
            "completion_tokens_details": {"audio_tokens": 4},
            "reasoning_tokens": 1,
        },
        Usage(
            input_tokens=9,
            audio_input_tokens=2,
            cache_write_input_tokens=5,
            cached_input_tokens=3,
            output_tokens=7,
            audio_output_tokens=4,
            reasoning_tokens=1,
        ),
    ),
    "openai.responses": (
        {
            "input_tokens": 9,
            "input_tokens_details": {
                "cache_write_tokens": 5,
                "cache_write_tokens_details": {"ttl_30m_tokens": 3, "ttl_12h_tokens": 2},
            },
            "output_tokens": 7,
        },
        Usage(input_tokens=9, cache_write_input_tokens=5, long_cache_write_input_tokens=2, output_tokens=7),
    ),
    "gemini.generate_content": (
        {"promptTokenCount": 9, "toolUsePromptTokenCount": 3, "candidatesTokenCount": 7},
        Usage(input_tokens=9, tool_use_input_tokens=3, output_tokens=7),
    ),
}


@every("wire", USAGES)
def test_parts_of_the_counts_are_read_where_the_wire_has_them(wire: str) -> None:
    raw, usage = USAGES[wire]
    assert read(find(wire).usage, raw) == usage


def test_the_providers_own_usage_is_kept_beside_ours() -> None:
    start = {"input_tokens": 9, "server_tool_use": {"web_search_requests": 2}, "output_tokens": 1}
    body = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": start}},
        *({"type": "message_delta", "delta": {}, "usage": {"output_tokens": n, f"new{n}": n}} for n in range(99)),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 7, "inference_geo": "eu"},
        },
        {"type": "message_stop"},
    ]
    turn = parse(body)
    assert turn.usage == Usage(input_tokens=9, output_tokens=7)
    assert turn.usage_raw == start | {"output_tokens": 7, "inference_geo": "eu"}, "what came between is not kept"


def test_of_several_places_the_first_that_has_a_count_is_right() -> None:
    counts = UsageMap({"input_tokens": ("new.count", "old")})
    assert read(counts, {"old": 3, "new": {"count": 5}}) == Usage(input_tokens=5)
    for nothing in (None, 7, [], {}, {"count": None}, {"count": {}}, {"count": "5"}, {"count": True}, {"count": -1}):
        assert read(counts, {"old": 3, "new": nothing}) == Usage(input_tokens=3)


def test_a_count_that_a_later_usage_leaves_out_stays_as_it_was() -> None:
    counts = UsageMap({"input_tokens": ("in",), "output_tokens": ("out",)})
    assert read(counts, {"in": 9, "out": 1}, None, "many", {"in": None, "out": 2}) == Usage(
        input_tokens=9, output_tokens=2
    )
    assert read(counts, {"other": 1}, []) is None


def test_a_derived_count_is_made_of_the_newest_of_its_parts() -> None:
    total = Derived(("a", "b.c"), lambda counts: sum(count or 0 for count in counts))
    counts = UsageMap({"input_tokens": total})
    assert read(counts, {"a": 1, "b": {"c": 10}}, {"a": 2}) == Usage(input_tokens=12)
    assert read(UsageMap({"input_tokens": Derived(("a",), lambda _: None)}), {"a": 1}) is None


@every("wire", USAGES)
def test_a_later_count_of_nought_lowers_none(wire: str) -> None:
    usage, expected = USAGES[wire]
    counts = find(wire).usage
    assert read(counts, usage, _noughts(usage)) == expected
    assert read(counts, _noughts(usage), usage) == expected
    nought = read(counts, _noughts(usage))
    assert nought is None or set(_counts(nought)) <= {None, 0}


def test_the_last_event_of_a_stream_lowers_no_count() -> None:
    start = {"input_tokens": 9, "cache_read_input_tokens": 5, "output_tokens": 1}
    end = {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": None, "output_tokens": 7}
    message = {"id": "m", "model": "c", "content": [], "usage": start}
    turn = parse(
        [
            {"type": "message_start", "message": message},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": end},
            {"type": "message_stop"},
        ]
    )
    assert turn.usage == Usage(input_tokens=14, cached_input_tokens=5, output_tokens=7)
    refused = {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 0}}
    turn = parse([{"type": "message_start", "message": message}, refused, {"type": "message_stop"}])
    assert turn.usage == Usage(input_tokens=14, cached_input_tokens=5, output_tokens=0)
    hop = {"id": "v1", "status": "in_progress", "object": "interaction", "model": "m"}
    turn = parse(
        [
            {"event_type": "interaction.created", "interaction": hop | {"usage": {"total_input_tokens": 5}}},
            {
                "event_type": "interaction.completed",
                "interaction": hop
                | {"status": "completed", "usage": {"total_input_tokens": 0, "total_output_tokens": 1}},
            },
        ]
    )
    assert turn.usage == Usage(input_tokens=5, output_tokens=1)


def _noughts(usage: Any) -> Any:
    """The same usage object, each of its counts 0."""
    if isinstance(usage, dict):
        return {key: _noughts(value) for key, value in usage.items()}
    if isinstance(usage, list):
        return [_noughts(value) for value in usage]
    return 0 if isinstance(usage, int) else usage


def _counts(usage: Usage) -> list[int | None]:
    return [getattr(usage, field.name) for field in fields(Usage)]


def test_a_wire_of_the_users_own_has_a_map_of_its_own() -> None:
    counts = UsageMap({"input_tokens": ("in",), "output_tokens": total("out", "thought")})
    own = replace(find("openai.chat_completions"), name="example.own", usage=counts)
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}
    turn = parse([chunk | {"usage": {"in": 3, "out": 2, "thought": 5, "prompt_tokens": 9}}], wire=own)
    assert turn.usage == Usage(input_tokens=3, output_tokens=7)
