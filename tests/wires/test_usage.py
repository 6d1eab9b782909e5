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
