"""Whose is this piece of a call? Ids and names, through `parse`; whose piece it is show the odd streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every
from sansio import check_turn, codes
from streams import chat_chunk, sse

from streamtools import Limits, StreamDecoder, Turn, parse
from streamtools.events import (
    Event,
    StreamEnd,
    StreamWarning,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallStart,
)
from streamtools.stages.accumulate import Accumulate

TOOLS = ["get_weather", "get_time", "search"]
END = chat_chunk({}, "tool_calls")


def piece(**call: Any) -> dict[str, Any]:
    """A chunk with one fragment of a call; `name` and `arguments` go where the wire has them."""
    function = {key: call.pop(key) for key in ("name", "arguments") if key in call}
    return chat_chunk({"tool_calls": [call | ({"function": function} if function else {})]})


def read(*pieces: dict[str, Any], tools: Iterable[str] = TOOLS) -> Turn:
    turn = parse([*pieces, END], tools=tools)
    check_turn(turn)
    return turn


# -- ids -------------------------------------------------------------------------------------------------------------


def ids(*pieces: dict[str, Any]) -> list[str]:
    return [call.call_id for call in read(*pieces).calls]


def test_synthesized_ids_are_unique_and_the_same_for_the_same_stream() -> None:
    pieces = [piece(name="search", arguments="{}")] * 20
    assert len(set(ids(*pieces))) == 20
    assert ids(*pieces) == ids(*pieces)
    body = b"".join(sse([*pieces, END]))
    for chunks in (body, [body[at : at + 1] for at in range(len(body))]):
        assert [call.call_id for call in parse(chunks).calls] == ids(*pieces)


def test_synthesized_ids_differ_from_response_to_response() -> None:
    one, other = (piece(name="search") | {"id": response} for response in ("resp_1", "resp_2"))
    assert set(ids(one)).isdisjoint(ids(other))
    assert set(ids(one)).isdisjoint(ids(one | {"model": "another"}))


@every("wire_first", [True, False])
def test_an_id_that_looks_synthesized_is_never_taken_twice(wire_first: bool) -> None:
    """A server knows all that a synthesized id is made of."""
    anonymous = [piece(index=n, name="search", arguments="{}") for n in range(3)]
    for taken in ids(*anonymous):
        wired = piece(index=9, id=taken, name="get_time", arguments="{}")
        turn = read(wired, *anonymous) if wire_first else read(*anonymous, wired)
        assert len(turn.calls) == 4


@settings(deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, None]),
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["", "search", "sea", "rch"]),
            st.sampled_from(["", "{", "}", '{"a":1}']),
        ),
        max_size=8,
    )
)
def test_no_piece_is_lost_or_told_twice(pieces: list[tuple[int | None, str, str, str]]) -> None:
    items = [piece(index=index, id=id_, name=name, arguments=text) for index, id_, name, text in pieces]
    decoder = StreamDecoder(tools=TOOLS)
    events = [event for item in [*items, END] for event in decoder.feed(item)] + decoder.finish()
    starts = [event.call_id for event in events if isinstance(event, ToolCallStart)]
    ends = {event.call_id: event.call for event in events if isinstance(event, ToolCallEnd)}
    assert sorted(starts) == sorted(ends)
    for call_id, call in ends.items():
        deltas = [event.delta for event in events if isinstance(event, ToolCallDelta) and event.call_id == call_id]
        assert "".join(deltas) == call.arguments_text
    given = Counter("".join(text for *_, text in pieces))
    found = Counter("".join(call.arguments_text for call in ends.values()))
    said = {event.code for event in events if isinstance(event, StreamWarning)}
    assert found == given or (not said.isdisjoint({"arguments_lost", "call_resent"}) and found < given)


# -- names -----------------------------------------------------------------------------------------------------------

NAMES = {
    "whole": (["search"], "search", []),
    "in pieces": (["get_", "wea", "ther"], "get_weather", ["name_split"]),
    "in pieces, and unknown": (["foo_", "bar"], "foo_bar", ["name_split"]),
    "repeated": (["search", "search"], "search", ["name_repeated"]),
    "with a prefix": (["functions.search"], "search", ["name_normalized"]),
    "with a token": (["search<|channel|>commentary"], "search", ["name_normalized"]),
    "with a prefix that is not known to be one": (["function.search"], "function.search", []),
    "with a prefix before a name that is not registered": (["functions.other"], "functions.other", []),
    "in another case": (["Search"], "Search", []),
    "with white space": (["search "], "search ", []),
    "with a suffix": (["search_1"], "search_1", []),
}


@every("name", NAMES)
def test_a_name_is_taken_as_it_came_and_never_guessed(name: str) -> None:
    names, wanted, warnings = NAMES[name]
    turn = read(*(piece(index=0, id="a", name=part) for part in names), piece(index=0, arguments="{}"))
    assert [(call.name, call.status) for call in turn.calls] == [(wanted, "ready")]
    assert codes(turn) == warnings


# -- halves of surrogate pairs -----------------------------------------------------------------------------------------


@every("as_bytes", [True, False])
def test_halves_that_meet_are_joined_and_lone_ones_replaced(as_bytes: bool) -> None:
    texts = ['{"a":"\ud83d', '\ude00 \ud83d', '", "b\udc00', '": 1}']  # fmt: skip
    pieces: list[Any] = [
        piece(index=0, id="a", name="search"),
        *(piece(index=0, arguments=text) for text in texts),
        END,
    ]
    body = [b"data: " + __import__("json").dumps(item).encode() + b"\n\n" for item in pieces] if as_bytes else pieces
    turn = parse(body, tools=TOOLS)
    (call,) = turn.calls
    assert call.arguments == {"a": "\U0001f600 \ufffd", "b\ufffd": 1}
    assert "lone_surrogate" in codes(turn)
    call.arguments_text.encode()


# -- fragments of a wire of somebody's own ----------------------------------------------------------------------------


def fed(*fragments: ToolCallFragment) -> list[Event]:
    """What the stage makes of fragments, in a response that ends well."""
    stage = Accumulate(TOOLS, Limits())
    return [event for given in (*fragments, StreamEnd("tool_calls")) for event in stage.feed(given)]


def test_what_is_no_text_in_a_fragment_is_left_out_or_makes_the_call_invalid() -> None:
    junk: Any = {"no": "text"}
    cases: list[tuple[dict[str, Any], str, str, str | None]] = [
        ({"arguments": junk}, "search", "", "a piece of the arguments is not a text"),
        ({"arguments": junk, "problem": "too_deep"}, "search", "", "max_json_depth"),
        ({"arguments": "{}", "whole": junk}, "search", "{}", None),
        ({"arguments": "{}", "id": junk}, "search", "{}", None),
        ({"arguments": "{}", "index": junk}, "search", "{}", None),
        ({"arguments": "{}", "name": junk}, "", "{}", "without a tool name"),
    ]
    for fields, name, text, words in cases:
        first = ToolCallFragment(**{"index": 0, "id": "a", "name": "search", "start": True, "end": True, **fields})
        (end,) = [event for event in fed(first) if isinstance(event, ToolCallEnd)]
        assert (end.call.name, end.call.arguments_text) == (name, text), fields
        assert (end.error is None) == (words is None), fields
        assert words is None or words in str(end.error), fields


def test_a_call_grows_without_the_stage_only_by_pieces_that_say_nothing_more() -> None:
    stage = Accumulate(TOOLS, Limits(max_argument_bytes=20, max_total_argument_bytes=30))
    for index in (0, 1):
        list(stage.feed(ToolCallFragment(index, f"c{index}", "search", '{"a":"', start=True)))
    plain = ToolCallFragment(0, "c0")
    more: dict[str, Any] = {
        "start": True, "end": True, "cut": True, "name": "search", "problem": "too_deep", "whole": "{}",
        "provider_state": {}, "namespace": "n", "caller": "code", "disorder": "late",
    }  # fmt: skip
    assert stage.grower(plain) is not None
    for field, value in more.items():
        assert stage.grower(replace(plain, **{field: value})) is None, field
    for other in (ToolCallFragment(2), ToolCallFragment(0, "c1"), ToolCallFragment(None, "c1")):
        assert stage.grower(other) is None, other
    latest = stage.grower(ToolCallFragment())
    assert latest is not None
    assert latest("b") == ToolCallDelta("c1", "b")
    assert latest("x" * 14) is None
    assert (latest(""), latest(7)) == (None, None)
    first = stage.grower(plain)
    assert first is not None
    assert first("x" * 14) is not None
    assert latest("x" * 4) is None
    assert latest("x" * 3) is not None
