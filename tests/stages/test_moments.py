"""Previews that were collected keep their own values, in whatever order they are read; and what that costs."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from pydantic_core import from_json
from streams import anthropic, chat

from streamtools import StreamDecoder
from streamtools.events import ToolCallDelta
from streamtools.stages.preview import EAGER_ITEMS, Moments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=5)


def fed(text: str, sizes: list[int]) -> tuple[Moments, list[int]]:
    """The moments of a text that came in pieces of these sizes, in turn, and the end of each piece."""
    moments, ends, start = Moments(), list[int](), 0
    while start < len(text):
        moments.feed(text[start : start + sizes[len(ends) % len(sizes)]])
        start = moments.length
        ends.append(start)
    return moments, ends


def alone(text: str) -> Any:
    """What a text shows that is read at once, and goes no further."""
    moments = Moments()
    moments.feed(text)
    return moments.at(len(text))


@settings(max_examples=examples(100), deadline=None)
@given(VALUES, SIZES, st.randoms(use_true_random=False))
def test_each_moment_is_its_own_in_whatever_order_they_are_read_and_kept(
    value: Any, sizes: list[int], order: Any
) -> None:
    text = json.dumps(value)
    moments, ends = fed(text, sizes)
    wanted = {end: alone(text[:end]) for end in ends}
    order.shuffle(shuffled := list(ends))
    for asked in (ends, ends[::-1], shuffled):
        moments, _ = fed(text, sizes)
        kept = {end: moments.at(end) for end in asked}
        assert repr(kept) == repr({end: wanted[end] for end in asked})
    if isinstance(value, (dict, list)):
        assert moments.at(len(text))[0] == value


@every("body", [chat, anthropic])
def test_the_previews_of_a_calls_deltas_can_be_collected(body: Any) -> None:
    deltas = []
    whole = body(calls=[("c", "f", "")])
    pieces = ['{"cities": ["Par', 'is", "Ro', 'me"], "n": 1', "2}"]
    at = next(
        n for n, item in enumerate(whole) if b'""' in item and (b"partial_json" in item or b'"arguments":""' in item)
    )
    at += body is chat  # the first chunk of a call names it
    body_of = [
        *whole[:at],
        *(whole[at].replace(b'""', json.dumps(piece).encode()) for piece in pieces),
        *whole[at + 1 :],
    ]
    decoder = StreamDecoder()
    for event in [*decoder.feed(b"".join(body_of)), *decoder.finish()]:
        if isinstance(event, ToolCallDelta):
            deltas.append(event)
    previews = [event.preview for event in deltas]
    assert previews == [
        {"cities": ["Par"]},
        {"cities": ["Paris", "Ro"]},
        {"cities": ["Paris", "Rome"], "n": 1},
        {"cities": ["Paris", "Rome"], "n": 12},
    ]
    assert [event.preview for event in deltas[::-1]] == previews[::-1]
    assert [event.preview_tentative for event in deltas] == [None, None, ("n",), None]


def test_there_is_no_moment_before_the_first_value_and_none_behind_the_end() -> None:
    moments, ends = fed('  {"a": 1}', [2])
    assert (moments.at(0), moments.at(2)) == ((None, None), (None, None))
    assert moments.at(10**9) == moments.at(ends[-1]) == ({"a": 1}, None)
    moments.feed("   ")
    assert moments.at(moments.length) == ({"a": 1}, None)
    assert moments.state() == "complete"


def test_closed_parts_are_shared_and_open_ones_are_not() -> None:
    moments = Moments()
    kept = []
    for piece in ['{"a": [1, 2], "b": [3', ", 4", "]}"]:
        moments.feed(piece)
        kept.append(moments.at(moments.length)[0])
    assert kept == [{"a": [1, 2], "b": [3]}, {"a": [1, 2], "b": [3, 4]}, {"a": [1, 2], "b": [3, 4]}]
    assert kept[0]["a"] is kept[1]["a"] is kept[2]["a"]


@every("opening", ["[", '{"rows": ['])
def test_a_long_list_is_shown_a_little_late_and_whole_at_its_end(opening: str) -> None:
    items = 40 * EAGER_ITEMS
    text = opening + ",".join(map(str, range(items))) + "]" + "}" * (opening[0] == "{")
    moments, ends = fed(text, [7])
    late, before = [], 0
    for end in ends:
        shown = moments.at(end)[0]
        rows = shown.get("rows", []) if isinstance(shown, dict) else shown
        whole = from_json(text[:end], allow_partial="trailing-strings")
        there = len(whole.get("rows", []) if isinstance(whole, dict) else whole)
        assert before <= len(rows) <= there
        late.append((there - len(rows)) / max(there, 1))
        before = len(rows)
    assert max(late) <= 0.1
    assert before == items


def copies(items: int) -> int:
    """How many items are copied for the previews of a list of so many, which are read at every delta."""
    moments, ends = fed("[" + "1," * items, [2])
    lists = {id(shown): shown for shown in [moments.at(end)[0] for end in ends]}
    return sum(map(len, lists.values()))


def test_what_is_copied_grows_with_the_text_and_not_with_its_square() -> None:
    small, large = copies(2_000), copies(16_000)
    assert large < 9 * small
