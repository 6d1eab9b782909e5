"""Whatever comes over the wire gives a turn, never an exception: any bytes, any split, any mutation of a stream."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sansio import ANTHROPIC, CHAT, QUIRKS, WIRES, body_of, check_histories, check_turn, snapshot

from streamtools import Limits, parse

quickly = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# -- bytes ---------------------------------------------------------------------------------------------------------

_SCRAPS = st.sampled_from(
    [
        b"data: ", b"data:", b"data", b"event: error", b"error: ", b": ping", b"id: 1", b"\n", b"\n\n", b"\r", b"\r\n",
        b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"[DONE]", b"{", b"}", b'"', b"null", b"[]", b"\\ud83d", b"<html>",
        b'{"choices":[{"delta":{"content":"x"}}]}', b'{"choices":[{"delta":{},"finish_reason":"stop"}]}',
        b'{"type":"message_start","message":{"id":"m"}}', b'{"type":"message_stop"}', b'{"error":{"message":"no"}}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}',
    ]
)  # fmt: skip
any_bytes = st.one_of(
    st.binary(max_size=200), st.lists(st.one_of(_SCRAPS, st.binary(max_size=4)), max_size=40).map(b"".join)
)
any_wire = st.sampled_from([*WIRES, None])


def pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(bounds)]


@quickly
@given(any_bytes, any_wire)
def test_any_bytes_give_a_turn_whose_messages_can_be_sent(body: bytes, wire: str | None) -> None:
    turn = parse(body, wire=wire)
    check_turn(turn)
    check_histories(turn)


@quickly
@given(any_bytes, any_wire, st.lists(st.integers(0, 4000), max_size=8))
def test_any_bytes_give_the_same_turn_however_they_are_cut(body: bytes, wire: str | None, cuts: list[int]) -> None:
    assert snapshot(parse(pieces(body, cuts), wire=wire)) == snapshot(parse(body, wire=wire))


@quickly
@given(any_bytes, any_wire, st.integers(1, 64))
def test_any_bytes_under_any_limit_give_a_turn(body: bytes, wire: str | None, limit: int) -> None:
    limits = Limits(
        max_event_bytes=limit * 4,
        max_stream_bytes=limit * 8,
        max_text_bytes=limit,
        max_tool_calls=1 + limit % 4,
        max_argument_bytes=limit,
        max_total_argument_bytes=limit,
        max_json_depth=1 + limit % 4,
        max_id_bytes=limit,
        max_name_bytes=limit,
        max_open_blocks=1 + limit % 4,
        max_error_excerpt=limit,
    )
    check_turn(parse(body, wire=wire, limits=limits))


# -- payloads ------------------------------------------------------------------------------------------------------

_TEXT = st.one_of(
    st.sampled_from(
        ["", " ", "x", "f", "{", "}", '{"a":1}', '{"a":"', '"}', "<think>", "</think>", "\ud83d", "\ude00", "null"]
    ),
    st.text(max_size=6),
)
_SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.just(2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXT,
)
_KEYS = ["a", "id", "index", "type", "text", "name", "content", "data", "function", "arguments", "message", "code"]
_JUNK: st.SearchStrategy[Any] = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3)),
    max_leaves=6,
)


def mostly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What the wire promises, and now and then anything."""
    return st.integers(0, 9).flatmap(lambda dice: _JUNK if dice == 9 else strategy)


def a(*values: str) -> st.SearchStrategy[Any]:
    return mostly(st.sampled_from(values))


def some(required: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional)


_INDEX = mostly(st.integers(0, 2))
_ID = a("a", "b", "", "functions.f:0", "\ud83d")
_FUNCTION = some({"name": a("f", "get", "get_weather", "", "a b", "\udc00")}, arguments=mostly(_TEXT))
_CALL = st.one_of(
    some({"index": _INDEX, "id": _ID, "function": mostly(_FUNCTION)}, extra_content=_JUNK),
    some({"index": _INDEX, "function": some({"arguments": mostly(_TEXT)})}),
    some({"index": _INDEX, "id": _ID, "type": a("custom"), "custom": mostly(some({"name": a("f"), "input": _TEXT}))}),
)
_DETAIL = some({"type": a("reasoning.text"), "index": _INDEX}, text=mostly(_TEXT), data=mostly(_TEXT), signature=_JUNK)
_TYPED = some({"type": a("text", "thinking")}, text=mostly(_TEXT), thinking=mostly(_TEXT))
_DELTA = st.one_of(
    some({"content": mostly(_TEXT)}),
    some({"content": mostly(st.lists(_TYPED, max_size=3))}),
    some({"reasoning_content": mostly(_TEXT)}, reasoning=mostly(_TEXT), content=mostly(_TEXT)),
    some({"reasoning_details": mostly(st.lists(_DETAIL, max_size=3))}),
    some({"tool_calls": mostly(st.lists(mostly(_CALL), max_size=3))}, content=mostly(_TEXT)),
    some({"tool_calls": _CALL}),
    some({"function_call": mostly(_FUNCTION)}, refusal=mostly(_TEXT)),
)
_FINISH = a("stop", "tool_calls", "length", "content_filter", "error", "")
_CHOICE = some({"delta": mostly(_DELTA)}, index=_INDEX)
_CHUNK = st.one_of(
    some({"choices": mostly(st.lists(mostly(_CHOICE), min_size=1, max_size=2))}, id=_JUNK, model=_JUNK, usage=_JUNK),
    some({"choices": st.lists(some({"delta": st.just({}), "finish_reason": _FINISH}), min_size=1, max_size=1)}),
)
_BLOCK = st.one_of(
    some({"type": st.just("text")}, text=mostly(_TEXT), citations=_JUNK),
    some({"type": st.just("thinking")}, thinking=mostly(_TEXT), signature=mostly(_TEXT)),
    some({"type": a("tool_use", "server_tool_use"), "id": _ID, "name": a("f", "")}, input=_JUNK),
    some({"type": a("redacted_thinking", "new_block")}, data=_JUNK),
    some({"type": st.just("web_search_tool_result"), "tool_use_id": _ID}, content=_JUNK),
)
_BLOCK_DELTA = st.one_of(
    some({"type": st.just("text_delta"), "text": mostly(_TEXT)}),
    some({"type": st.just("thinking_delta"), "thinking": mostly(_TEXT)}),
    some({"type": st.just("signature_delta"), "signature": mostly(_TEXT)}),
    some({"type": st.just("input_json_delta"), "partial_json": mostly(_TEXT)}),
    some({"type": a("citations_delta", "compaction_delta", "new_delta")}, citation=_JUNK, content=mostly(_TEXT)),
)
_MESSAGE = some({"id": a("m", "n")}, model=_JUNK, usage=_JUNK, content=mostly(st.lists(mostly(_BLOCK), max_size=2)))
_EVENT = st.one_of(
    some({"type": st.just("content_block_start"), "index": _INDEX, "content_block": mostly(_BLOCK)}),
    some({"type": st.just("content_block_delta"), "index": _INDEX, "delta": mostly(_BLOCK_DELTA)}),
    some({"type": st.just("content_block_delta"), "index": _INDEX, "delta": mostly(_BLOCK_DELTA)}),
    some({"type": st.just("content_block_stop"), "index": _INDEX}),
    some({"type": st.just("message_start"), "message": mostly(_MESSAGE)}),
    some(
        {
            "type": st.just("message_delta"),
            "delta": mostly(some({"stop_reason": a("end_turn", "tool_use", "pause_turn")})),
        }
    ),
    some({"type": a("message_stop", "ping", "error")}, error=_JUNK),
)
_BLOCKS = st.lists(
    st.tuples(_BLOCK, st.lists(mostly(_BLOCK_DELTA), max_size=3), st.booleans()), max_size=4
).map(
    lambda blocks: [
        event
        for index, (block, deltas, stops) in enumerate(blocks)
        for event in (
            {"type": "content_block_start", "index": index, "content_block": block},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            *([{"type": "content_block_stop", "index": index}] if stops else ()),
        )
    ]
)  # fmt: skip
_CHAT_END = [{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}]
_MESSAGE_START = [{"type": "message_start", "message": {"id": "m"}}]
_MESSAGE_END = [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
_PAYLOADS = st.one_of(
    st.tuples(st.just(CHAT), st.lists(mostly(_CHUNK), max_size=6), st.just(_CHAT_END)),
    st.tuples(
        st.just(ANTHROPIC),
        st.lists(mostly(_EVENT), max_size=8).map(lambda e: _MESSAGE_START + e),
        st.just(_MESSAGE_END),
    ),
    st.tuples(st.just(ANTHROPIC), _BLOCKS.map(lambda e: _MESSAGE_START + e), st.just(_MESSAGE_END)),
)


@settings(quickly, max_examples=400)
@given(_PAYLOADS, st.booleans(), st.booleans())
def test_payloads_of_any_shape_give_a_turn_whose_messages_can_be_sent(
    stream: tuple[str, list[Any], list[Any]], as_bytes: bool, ends: bool
) -> None:
    wire, values, end = stream
    values = [*values, *end] if ends else values
    body = [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values]
    turn = parse(body if as_bytes else [value for value in values if isinstance(value, dict)], wire=wire)
    check_turn(turn)
    check_histories(turn)


# -- mutations of real deviations ----------------------------------------------------------------------------------


@st.composite
def mutated_streams(draw: st.DrawFn) -> tuple[str, list[str], list[bytes]]:
    """The events of a deviation: some dropped, doubled, exchanged; then perhaps cut."""
    quirk = draw(st.sampled_from([quirk for quirk in QUIRKS if "body" in quirk]))
    events = [event + b"\n\n" for event in body_of(quirk).split(b"\n\n") if event]
    for _ in range(draw(st.integers(1, 4))):
        if not events:
            break
        at, other = (draw(st.integers(0, len(events) - 1)) for _ in range(2))
        match draw(st.sampled_from(["drop", "double", "exchange", "repeat later", "cut"])):
            case "drop":
                del events[at]
            case "double":
                events.insert(at, events[at])
            case "exchange":
                events[at], events[other] = events[other], events[at]
            case "repeat later":
                events.insert(other, events[at])
            case "cut":
                events[at] = events[at][: draw(st.integers(0, len(events[at])))]
    return quirk["wire"], quirk["tools"], events


@settings(quickly, max_examples=300)
@given(mutated_streams())
def test_a_mutated_stream_runs_nothing_that_is_not_whole(stream: tuple[str, list[str], list[bytes]]) -> None:
    wire, tools, events = stream
    turn = parse(events, wire=wire, tools=tools)
    check_turn(turn)
    check_histories(turn)
    assert snapshot(parse(b"".join(events), wire=wire, tools=tools)) == snapshot(turn)
