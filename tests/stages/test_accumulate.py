"""Whose is this piece of a call? Identity, names and order, through `parse`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sansio import check_turn
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


def told(turn: Turn) -> list[tuple[str, str, str]]:
    """Id ("?" if made up), name and text of each call."""
    return [("?" if c.call_id_synthesized else c.call_id, c.name, c.arguments_text) for c in turn.calls]


def codes(turn: Turn) -> list[str]:
    return [warning.code for warning in turn.warnings]


# -- identity: the id, else the index, else the latest call ----------------------------------------------------------

IDENTITY = {
    "an id outranks the index": (
        [
            piece(index=0, id="a", name="search", arguments="1"),
            piece(index=1, id="b", name="search", arguments="2"),
            piece(index=1, id="a", arguments="1"),
        ],
        [("a", "search", "11"), ("b", "search", "2")],
    ),
    "an index is enough without an id": (
        [
            piece(index=0, id="a", name="search", arguments="1"),
            piece(index=1, id="b", name="search", arguments="2"),
            piece(index=0, arguments="1"),
        ],
        [("a", "search", "11"), ("b", "search", "2")],
    ),
    "without both it is the latest call's": (
        [
            piece(index=0, id="a", name="search", arguments="1"),
            piece(index=1, id="b", name="search", arguments="2"),
            piece(arguments="2"),
        ],
        [("a", "search", "1"), ("b", "search", "22")],
    ),
    "a new id with a name on a used index is a new call": (
        [piece(index=0, id="a", name="search", arguments="1"), piece(index=0, id="b", name="search", arguments="2")],
        [("a", "search", "1"), ("b", "search", "2")],
    ),
    "a new id without a name on a used index goes on": (
        [piece(index=0, id="a", name="search", arguments="1"), piece(index=0, id="b", arguments="1")],
        [("a", "search", "11")],
    ),
    "a new name on a used index is a new call": (
        [piece(index=0, name="search", arguments="{}"), piece(index=0, name="get_time", arguments="{}")],
        [("?", "search", "{}"), ("?", "get_time", "{}")],
    ),
    "one id on two indexes, with names, are two calls": (
        [piece(index=0, id="a", name="search", arguments="1"), piece(index=1, id="a", name="search", arguments="2")],
        [("a", "search", "1"), ("?", "search", "2")],
    ),
    "two calls that share an id go on by their index": (
        [
            piece(index=0, id="a", name="search", arguments="1"),
            piece(index=1, id="a", name="search", arguments="2"),
            piece(index=0, arguments="1"),
            piece(index=1, id="a", arguments="2"),
        ],
        [("a", "search", "11"), ("?", "search", "22")],
    ),
    "an index may be a text": (
        [
            piece(index="x", name="search", arguments="1"),
            piece(index="y", name="get_time"),
            piece(index="x", arguments="1"),
        ],
        [("?", "search", "11"), ("?", "get_time", "")],
    ),
    "an index of another type is none": (
        [piece(index=[0], name="search", arguments="1"), piece(index={"a": 1}, arguments="1")],
        [("?", "search", "11")],
    ),
    "an empty id is none": (
        [piece(index=0, id="", name="search", arguments="1"), piece(index=0, id="", arguments="1")],
        [("?", "search", "11")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IDENTITY)
def test_a_piece_is_given_to_the_call_it_belongs_to(name: str) -> None:
    pieces, calls = IDENTITY[name]
    assert told(read(*pieces)) == calls


def test_pieces_before_any_call_wait_for_its_name() -> None:
    assert told(read(piece(arguments='{"q'), piece(arguments='":1}'), piece(name="search"))) == [
        ("?", "search", '{"q":1}')
    ]
    assert told(read(piece(index=0, arguments='{"q":1}'), piece(index=0, name="search"))) == [
        ("?", "search", '{"q":1}')
    ]


def test_a_call_whose_name_never_came_is_reported_and_cannot_run() -> None:
    for pieces in ([piece(index=0, id="a", arguments="{}")], [piece(index=0, name="", arguments="{}")]):
        (call,) = read(*pieces).calls
        assert (call.name, call.status, call.problem, call.dispatchable) == ("", "invalid", "missing_name", False)


def test_calls_keep_the_order_in_which_they_began_however_late_their_names_come() -> None:
    turn = read(
        piece(index=0, id="a", arguments="{}"),
        piece(index=1, id="b", name="search", arguments="{}"),
        piece(index=0, name="get_time"),
    )
    assert [(call.index, call.call_id) for call in turn.calls] == [(0, "a"), (1, "b")]


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


@pytest.mark.parametrize("wire_first", [True, False])
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
    is_resent = any(isinstance(event, StreamWarning) and event.code == "call_resent" for event in events)
    assert found == given or (is_resent and found < given)


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


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_taken_as_it_came_and_never_guessed(name: str) -> None:
    names, wanted, warnings = NAMES[name]
    turn = read(*(piece(index=0, id="a", name=part) for part in names), piece(index=0, arguments="{}"))
    assert [(call.name, call.status) for call in turn.calls] == [(wanted, "ready")]
    assert codes(turn) == warnings


def test_a_registered_name_is_announced_at_once_and_another_with_its_first_argument() -> None:
    decoder = StreamDecoder(tools=TOOLS)
    assert [type(event) for event in decoder.feed(piece(index=0, id="a", name="search"))][-1] is ToolCallStart
    assert not any(isinstance(e, ToolCallStart) for e in decoder.feed(piece(index=1, id="b", name="other")))
    kinds = [type(event) for event in decoder.feed(piece(index=1, arguments="{"))]
    assert kinds == [ToolCallStart, ToolCallDelta]


def test_a_text_that_is_held_for_a_name_is_told_once_it_is_known() -> None:
    decoder = StreamDecoder(tools=TOOLS)
    held = [event for text in ("{", "}") for event in decoder.feed(piece(index=0, arguments=text))]
    assert not any(isinstance(event, (ToolCallStart, ToolCallDelta)) for event in held)
    events = decoder.feed(piece(index=0, name="search"))
    assert [event.delta for event in events if isinstance(event, ToolCallDelta)] == ["{", "}"]


# -- halves of surrogate pairs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_bytes", [True, False])
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


# -- pieces that only add more arguments take a short path -----------------------------------------------------------

A, B = ({"id": id_, "name": "search"} for id_ in "ab")
LETTERS = ['{"', *"abcdefgh", '": "', *"ijklmnop", '"}']
RUNS: dict[str, list[dict[str, Any]]] = {
    "one call": [piece(index=0, **A), *(piece(index=0, arguments=x) for x in LETTERS)],
    "calls in turn": [
        piece(index=0, **A),
        piece(index=1, **B),
        *(piece(index=0, arguments=x) for x in LETTERS[:9]),
        *(piece(index=1, arguments=x) for x in LETTERS[:9]),
        *(piece(index=0, arguments=x) for x in LETTERS[9:]),
        *(piece(index=1, arguments=x) for x in LETTERS[9:]),
    ],
    "no index": [
        piece(**A),
        *(piece(arguments=x) for x in LETTERS),
        piece(**B),
        *(piece(arguments=x) for x in LETTERS),
    ],
    "an id and no index": [piece(**A), piece(**B), *(piece(id="a", arguments=x) for x in LETTERS)],
    "an id beside the index": [piece(index=0, **A), *(piece(index=0, id="a", arguments=x) for x in LETTERS)],
    "an id that is another's": [
        piece(index=0, **A),
        piece(index=1, **B),
        *(piece(index=0, id="a", arguments=x) for x in LETTERS),
        *(piece(index=0, id="b", arguments=x) for x in LETTERS),
    ],
    "all of it again": [
        piece(index=0, **A),
        *(piece(index=0, arguments=x) for x in LETTERS),
        piece(index=0, **A),
        *(piece(index=0, arguments=x) for x in LETTERS),
    ],
    "another call on the index": [
        piece(index=0, **A),
        *(piece(index=0, arguments=x) for x in LETTERS[:9]),
        piece(index=0, **B),
        *(piece(index=0, arguments=x) for x in LETTERS),
    ],
    "more than the limit": [piece(index=0, **A), *(piece(index=0, arguments=x) for x in LETTERS * 3)],
    "no name": [piece(index=0, id="a"), *(piece(index=0, arguments=x) for x in LETTERS), piece(index=0, name="search")],
}


def grown(pieces: list[dict[str, Any]], form: str) -> list[Any]:
    limits = Limits(max_argument_bytes=len("".join(LETTERS)) + 5, max_total_argument_bytes=70)
    decoder = StreamDecoder(tools=TOOLS, limits=limits)
    items = [*pieces, END] if form == "parsed" else [b"".join(sse([*pieces, END]))]
    return [comparable(event) for fed in (*map(decoder.feed, items), decoder.finish()) for event in fed]


def comparable(event: Event) -> Any:
    if isinstance(event, ToolCallDelta):
        return event, event.preview
    if isinstance(event, (ToolCallEnd, StreamEnd)):
        return replace(event, error=None), str(event.error)
    return event


def test_arguments_that_take_the_short_path_are_those_of_the_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    short = {(name, form): grown(RUNS[name], form) for name in RUNS for form in ("parsed", "bytes")}
    monkeypatch.setattr("streamtools.wires.plain.PlainPath.learn", lambda *_: False)
    for (name, form), events in short.items():
        assert events == grown(RUNS[name], form), (name, form)


def test_at_most_so_many_calls_under_one_id_are_compared_with_the_next() -> None:
    calls = [piece(index=at, id="a", name="search", arguments=f'{{"q": {at}}}') for at in range(6)]
    turn = read(*calls, piece(index=6, id="a", name="search", arguments='{"q": 5}'))
    assert codes(turn) == ["duplicate_id", "call_resent"]
    assert [call.arguments_text for call in turn.calls] == [f'{{"q": {at}}}' for at in range(6)]
    turn = read(*calls, piece(index=6, id="a", name="search", arguments='{"q": 2}'))
    assert codes(turn) == ["duplicate_id", "call_resent"], "the second of the latest four"
    turn = read(*calls, piece(index=6, id="a", name="search", arguments='{"q": 1}'))
    assert codes(turn) == ["duplicate_id"], "it is forgotten, and runs as little as any"
    assert turn.calls[-1].problem == "repeated_call"


def test_a_made_up_id_is_the_same_for_the_same_stream() -> None:
    (call,) = read(piece(index=0, name="search", arguments="{}")).calls
    (again,) = read(piece(index=0, name="search", arguments="{}")).calls
    assert call.call_id == again.call_id
    assert len(call.call_id) == len("call_") + 24


def test_a_call_that_comes_again_piece_by_piece_under_its_name_is_one_call() -> None:
    turn = read(*RUNS["all of it again"])
    assert told(turn) == [("a", "search", "".join(LETTERS))]
    assert codes(turn) == ["name_repeated", "call_resent"]
    turn = read(*RUNS["all of it again"][:-1])
    assert codes(turn) == ["name_repeated"]
    assert not any(call.dispatchable for call in turn.calls)


def test_more_of_a_name_that_is_too_long_begins_no_other_call() -> None:
    names = ["x" * 100, "y" * 100, "z"]
    limits = Limits(max_name_bytes=64)
    pieces = [piece(index=0, id="a", name=names[0]), *(piece(index=0, name=name) for name in names[1:])]
    turn = parse([*pieces, END], tools=TOOLS, limits=limits)
    assert [(call.problem, len(call.name)) for call in turn.calls] == [("name_too_long", 64)]
    assert "index_reused" not in codes(turn)


# -- fragments of a wire of somebody's own ----------------------------------------------------------------------------


def fed(*fragments: ToolCallFragment) -> list[Event]:
    """What the stage makes of fragments, in a response that ends well."""
    stage = Accumulate(TOOLS, Limits())
    return [event for given in (*fragments, StreamEnd("tool_calls")) for event in stage.feed(given)]


def test_what_is_no_text_in_a_fragment_is_left_out_or_makes_the_call_invalid() -> None:
    junk: Any = {"no": "text"}
    cases: list[tuple[dict[str, Any], str, str, str | None]] = [
        ({"arguments": junk}, "search", "", "a piece of the arguments is no text"),
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


def test_the_whole_text_at_the_end_adds_what_is_missing_or_begins_the_arguments_again() -> None:
    cases = (
        ('{"a":', '{"a":1}', ['{"a":', "1}"], ["done_overrides_delta"]),
        ('{"a":1}', '{"a":1}', ['{"a":1}'], []),
        ("", '{"a":1}', ['{"a":1}'], []),
        ('{"b":', '{"a":1}', ['{"b":', '{"a":1}'], ["done_overrides_delta"]),
        ('{"a":1}', '{"a"', ['{"a":1}', '{"a"'], ["done_overrides_delta"]),
    )
    for grown, whole, deltas, warned in cases:
        first = ToolCallFragment(0, "a", "search", grown, start=True)
        events = fed(first, ToolCallFragment(0, "a", whole=whole, end=True))
        assert [event.delta for event in events if isinstance(event, ToolCallDelta)] == deltas, grown
        (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
        assert end.call.arguments_text == whole
        codes = [event.code for event in events if isinstance(event, StreamWarning)]
        assert [code for code in codes if code == "done_overrides_delta"] == warned, grown


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
