"""Token counts mean the same on every wire."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from streamtools import Limits, Usage, parse
from streamtools.wires import WIRES, find
from streamtools.wires.usage import Derived, UsageMap, total

FIELDS = {field.name for field in fields(Usage)}


def read(counts: UsageMap, *usages: object) -> Usage | None:
    newest: dict[str, int] = {}
    for usage in usages:
        counts.read(usage, newest)
    return counts.usage(newest)


# -- the maps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
def test_a_map_names_only_counts_that_there_are(wire: str) -> None:
    assert {"input_tokens", "output_tokens"} <= find(wire).usage.counts.keys() <= FIELDS


@pytest.mark.parametrize("wire", WIRES)
def test_a_decoder_reads_the_map_of_its_wire(wire: str) -> None:
    assert find(wire).new_decoder(Limits()).usage is find(wire).usage


def test_a_wire_of_the_users_own_has_a_map_of_its_own() -> None:
    counts = UsageMap({"input_tokens": ("in",), "output_tokens": total("out", "thought")})
    own = replace(find("openai.chat_completions"), name="example.own", usage=counts)
    chunk = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}
    turn = parse([chunk | {"usage": {"in": 3, "out": 2, "thought": 5, "prompt_tokens": 9}}], wire=own)
    assert turn.usage == Usage(input_tokens=3, output_tokens=7)


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


@pytest.mark.parametrize("wire", USAGES)
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


def test_only_what_a_map_asks_for_is_kept() -> None:
    newest: dict[str, int] = {}
    counts = UsageMap({"input_tokens": ("in",)})
    for number in range(100):
        counts.read({"in": number, f"new{number}": number}, newest)
    assert newest == {"in": 99}
