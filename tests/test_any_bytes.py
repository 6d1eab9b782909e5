"""Whatever comes over the wire gives a turn, never an exception: any bytes, any split, any mutation of a stream."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import pairwise
from typing import Any

import bedrock_streams
from every_wire import FRAMES, FRAMINGS, check_sendable, dumped, events_of, payloads_of, said
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import TIMES, paths, replaced, shuffled
from profiles import every, examples
from sansio import ANTHROPIC, CHAT, QUIRKS, body_of, check_turn, snapshot
from wire_cases import CASES

from streamtools import Limits, StreamError, Turn, parse
from streamtools.wires import WIRES

quickly = settings(
    max_examples=examples(100) * TIMES,
    deadline=None,
    derandomize=TIMES == 1,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

KINDS = {
    "protocol_error", "malformed_chunk", "not_event_stream", "empty_stream", "unknown_wire", "wrong_wire",
    "stream_truncated", "limit_exceeded", "provider_error", "malformed_function_call", "blocked", "legacy_schema",
    "said_again",
}  # fmt: skip


def check(turn: Turn) -> None:
    """What holds of a turn, wherever it came from."""
    assert turn.error is None or (isinstance(turn.error, StreamError) and turn.error.kind in KINDS)
    check_turn(turn)
    check_sendable(turn)


# -- bytes ---------------------------------------------------------------------------------------------------------

_SCRAPS = [
    b"data: ", b"data:", b"data", b"event: error", b"error: ", b": ping", b"id: 1", b"\n", b"\n\n", b"\r", b"\r\n",
    b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"[DONE]", b"{", b"}", b"[", b"]", b",", b'"', b"null", b"[]",
    b"\\", b"\\ud83d", b"<html>", b"\0", b"\0\0\0\x10\0\0\0\0", b'{"error":{"message":"no"}}',
]  # fmt: skip
_SAID = {wire: said(wire, text=["x"], reasoning=["y"], refusal=["z"], calls=[("a", "f", "{}")]) for wire in WIRES}
_FRAMES = [
    frame for wire in WIRES for framing in FRAMINGS[wire] for frame in FRAMES[framing](_SAID[wire])
]  # every payload of every wire, as a whole frame
_NAMES = st.sampled_from(["messageStart", "contentBlockDelta", "messageStop", "chunk", "throttlingException", "", "é"])
_AWS = st.one_of(
    st.builds(bedrock_streams.event, _NAMES, st.binary(max_size=40), kind=st.sampled_from(["event", "exception", "x"])),
    st.builds(bedrock_streams.message, st.binary(max_size=30), st.binary(max_size=30)),
)  # their checksums are right, whatever is in them
_LINES = st.sampled_from([dumped(payload) for wire in WIRES for payload in _SAID[wire]])


def _joined(*parts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(st.one_of(*parts), max_size=30).map(b"".join)


_scraps, _frames, _few = st.sampled_from(_SCRAPS), st.sampled_from(_FRAMES), st.binary(max_size=4)
any_bytes = st.one_of(
    st.binary(max_size=200),
    _joined(_scraps, _frames, _few),
    _joined(_frames),
    _joined(_AWS, st.sampled_from([frame for frame in _FRAMES if frame[:1] == b"\0"] or _FRAMES)),
    st.lists(st.one_of(_LINES, _scraps), max_size=12).map(b"\n".join),
    st.lists(st.one_of(_LINES, _scraps), max_size=12).map(lambda values: b"[" + b",".join(values) + b"]"),
)
any_wire = st.sampled_from([*WIRES, None])


def pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(bounds)]


@quickly
@given(any_bytes, any_wire)
def test_any_bytes_give_a_turn_whose_messages_can_be_sent(body: bytes, wire: str | None) -> None:
    check(parse(body, wire=wire))


@settings(quickly, max_examples=examples(100) * TIMES)
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
        max_path_depth=1 + limit % 4,
        max_array_index=1 + limit % 4,
        max_error_excerpt=limit,
    )
    check(parse(body, wire=wire, limits=limits))


# -- any value in any field ----------------------------------------------------------------------------------------


@cache
def streams(wire: str) -> tuple[tuple[list[str], list[Any]], ...]:
    """The tools and payloads of each known deviation of a wire, and of a plain response."""
    found: list[tuple[list[str], list[Any]]] = [([], _SAID[wire])]
    for quirk in QUIRKS:
        if quirk["wire"] == wire and (payloads := payloads_of(body_of(quirk))):
            found.append((quirk["tools"], payloads))
    return tuple(found)


_ODD = st.sampled_from(
    [
        None, True, False, 0, -1, 1, 7, 2**53, 2**63, 2**64, -(2**70), 10**400, 0.5, -0.0, 1e308, float("nan"),
        float("inf"), "", " ", "\n", "x", "NaN", "Infinity", "1e999", "null", "{}", "[]", '{"a":1}', '{"a":"', '"{}"',
        "\0", "\ud83d", "\ude00", "\ud83d\ude00", "\u2028", "[DONE]", "<think>", "</think>", "stop", "error", "text",
        "function", "__proto__", "x" * 300,
    ]
)  # fmt: skip
_DEEP = st.sampled_from([70, 201, 1200]).flatmap(
    lambda n: st.sampled_from(["list", "dict"]).map(lambda k: nested(n, k))
)
_FIELDS = ["", "a", "id", "index", "type", "text", "name", "content", "error", "function", "arguments", "message"]
_ANYTHING: st.SearchStrategy[Any] = st.one_of(
    _ODD,
    st.recursive(
        st.one_of(_ODD, st.text(max_size=5), st.integers(), st.floats()),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=3),
        max_leaves=5,
    ),
    _DEEP,
)


def nested(depth: int, kind: str) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


def encoded(payload: Any) -> bytes | None:
    """A payload as JSON; None if it is nested too deep for the encoder of this test."""
    try:
        return dumped(payload)
    except RecursionError:
        return None


@st.composite
def with_any_value(draw: st.DrawFn, wire: str) -> tuple[list[str], list[Any]]:
    """The payloads of a stream of this wire, with any JSON value at up to three places."""
    tools, payloads = draw(st.sampled_from(streams(wire)))
    payloads = list(payloads)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(payloads) - 1))
        path = draw(st.sampled_from(list(paths(payloads[at]))))
        payloads[at] = replaced(payloads[at], path, draw(_ANYTHING))
    return tools, payloads


@every("wire", WIRES)
def test_any_value_in_any_field_gives_a_turn_whose_messages_can_be_sent(wire: str) -> None:
    @settings(quickly, max_examples=examples(50) * TIMES)
    @given(
        with_any_value(wire), st.sampled_from(FRAMINGS[wire]), st.lists(st.integers(0, 4000), max_size=4), st.booleans()
    )
    def holds(stream: tuple[list[str], list[Any]], framing: str, cuts: list[int], told: bool) -> None:
        tools, payloads = stream
        given = wire if told or CASES[wire].detected_as else None
        check(parse([payload for payload in payloads if isinstance(payload, dict)], wire=given, tools=tools))
        if all(encoded(payload) is not None for payload in payloads):
            body = b"".join(FRAMES[framing](payloads))
            turn = parse(body, wire=given, tools=tools)
            check(turn)
            assert snapshot(parse(pieces(body, cuts), wire=given, tools=tools)) == snapshot(turn)

    holds()


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


@settings(quickly, max_examples=examples(120) * TIMES)
@given(_PAYLOADS, st.booleans(), st.booleans())
def test_payloads_of_any_shape_give_a_turn_whose_messages_can_be_sent(
    stream: tuple[str, list[Any], list[Any]], as_bytes: bool, ends: bool
) -> None:
    wire, values, end = stream
    values = [*values, *end] if ends else values
    body = [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values]
    turn = parse(body if as_bytes else [value for value in values if isinstance(value, dict)], wire=wire)
    check(turn)


# -- mutations of real deviations ----------------------------------------------------------------------------------


@cache
def deviations() -> tuple[tuple[str, list[str], list[bytes]], ...]:
    return tuple((quirk["wire"], quirk["tools"], events_of(body_of(quirk))) for quirk in QUIRKS)


@settings(quickly, max_examples=examples(150) * TIMES)
@given(st.integers(0, 2**32))
def test_a_mutated_stream_runs_nothing_that_is_not_whole(seed: int) -> None:
    dice = random.Random(seed)
    wire, tools, events = dice.choice(deviations())
    _, _, others = dice.choice([there for there in deviations() if there[0] == wire])
    mutated = shuffled(dice, events, others, dice.randint(1, 4))
    if mutated and dice.random() < 0.3:
        at = dice.randrange(len(mutated))
        mutated[at] = mutated[at][: dice.randrange(len(mutated[at]) + 1)]
    turn = parse(mutated, wire=wire, tools=tools)
    check(turn)
    assert snapshot(parse(b"".join(mutated), wire=wire, tools=tools)) == snapshot(turn)
