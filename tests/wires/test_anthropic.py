"""Messages streams: blocks, their deltas and stops, ends, and what is passed over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sansio import ANTHROPIC, check_histories, check_turn
from streams import anthropic, sse

from streamtools import ReasoningDelta, StreamDecoder, StreamEnd, TextDelta, Turn, Usage, parse
from streamtools.events import (
    ProviderItem,
    ReasoningEnd,
    ReasoningStart,
    StreamStart,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

Payloads = list[dict[str, Any]]
START: dict[str, Any] = {"type": "message_start", "message": {"id": "msg_1", "model": "c", "content": []}}
STOP = {"type": "message_stop"}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}


def delta(index: Any, kind: str, **value: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **value}}


def text(index: Any, value: str) -> dict[str, Any]:
    return delta(index, "text_delta", text=value)


def arguments(index: Any, value: str) -> dict[str, Any]:
    return delta(index, "input_json_delta", partial_json=value)


def begin(index: Any, block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def reason(word: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": word}}


def read(*payloads: dict[str, Any], word: Any = "tool_use", ends: bool = True) -> Turn:
    turn = parse([START, *payloads, *([reason(word), STOP] if ends else [])])
    check_turn(turn)
    return turn


def codes(turn: Turn) -> list[str]:
    return [warning.code for warning in turn.warnings]


def kinds(payloads: Payloads) -> list[type]:
    decoder = StreamDecoder()
    return [type(e) for item in payloads for e in decoder.feed(item)] + [type(e) for e in decoder.finish()]


# -- events ------------------------------------------------------------------------------------------------------------


def test_blocks_are_told_in_order_each_between_its_start_and_its_end() -> None:
    payloads = [
        START,
        begin(0, {"type": "thinking", "thinking": ""}),
        delta(0, "thinking_delta", thinking="Hm"),
        delta(0, "signature_delta", signature="S"),
        stop(0),
        begin(1, {"type": "text", "text": ""}),
        text(1, "H"),
        text(1, "i"),
        stop(1),
        begin(2, {"type": "redacted_thinking", "data": "x"}),
        stop(2),
        begin(3, TOOL),
        arguments(3, "{"),
        arguments(3, "}"),
        stop(3),
        {"type": "ping"},
        reason("tool_use"),
        STOP,
    ]
    told = [StreamStart, ReasoningStart, ReasoningDelta, ReasoningEnd, TextStart, TextDelta, TextDelta, TextEnd]
    told += [ProviderItem, ToolCallStart, ToolCallDelta, ToolCallDelta, ToolCallEnd, StreamEnd]
    assert kinds(payloads) == told


def test_a_call_ends_at_its_blocks_stop_while_the_message_goes_on() -> None:
    decoder = StreamDecoder()
    for payload in (START, begin(0, TOOL), arguments(0, "{}")):
        assert not any(isinstance(event, ToolCallEnd) for event in decoder.feed(payload))
    assert any(isinstance(event, ToolCallEnd) for event in decoder.feed(stop(0)))


# -- blocks are found by their index, and deltas by their own type -----------------------------------------------------


def test_blocks_may_come_in_any_order_and_interleave() -> None:
    turn = read(
        *(begin(4, TOOL), begin(1, TOOL | {"id": "toolu_2"}), arguments(1, '{"b"'), arguments(4, '{"a"')),
        *(arguments(4, ":1}"), stop(4), arguments(1, ":2}"), stop(1)),
    )
    assert [(call.call_id, call.arguments) for call in turn.calls] == [("toolu_1", {"a": 1}), ("toolu_2", {"b": 2})]
    assert turn.warnings == ()


@pytest.mark.parametrize("index", ["a", None, True, 1.5])
def test_an_index_may_be_anything_that_can_be_told_apart(index: Any) -> None:
    turn = read(begin(index, TOOL), arguments(index, '{"a":1}'), stop(index))
    assert [(call.arguments, call.status) for call in turn.calls] == [({"a": 1}, "ready")]


TEXT = {"type": "text", "text": ""}
NEW = {"type": "new_block"}

# What came, the text and the arguments that it amounts to, and the warning.
DEVIATIONS: dict[str, tuple[Payloads, str, list[Any], str]] = {
    "text on a call's block": (
        [begin(0, TOOL), text(0, "x"), arguments(0, "{}"), stop(0)],
        *("x", [{}], "mismatched_delta"),
    ),
    "arguments on a text block": (
        [begin(0, TEXT), text(0, "x"), arguments(0, "{}"), stop(0)],
        *("x", [], "mismatched_delta"),
    ),
    "text of no block": ([text(0, "x")], "x", [], "delta_without_block"),
    "arguments of no block": ([arguments(0, "{}")], "", [], "delta_without_block"),
    "a stop of no block": ([stop(3)], "", [], "stop_without_block"),
    "no stop before the next block": (
        [begin(0, TEXT), text(0, "x"), begin(0, TOOL), stop(0)],
        *("x", [{}], "missing_block_stop"),
    ),
    "no stop before the end": ([begin(0, TOOL), arguments(0, "{}")], "", [{}], "missing_block_stop"),
    "the input in the start": (
        [begin(0, TOOL | {"input": {"a": 1}}), stop(0)],
        *("", [{"a": 1}], "input_in_block_start"),
    ),
    "the input in the start, as text": (
        [begin(0, TOOL | {"input": '{"a": 1}'}), stop(0)],
        *("", [{"a": 1}], "input_in_block_start"),
    ),
    "a delta of a new type": (
        [begin(0, TEXT), delta(0, "new_delta", x=1), text(0, "x"), stop(0)],
        *("x", [], "unknown_delta_type"),
    ),
    "a block of a new type": ([begin(0, NEW), stop(0), begin(1, TOOL), stop(1)], "", [{}], "unknown_block_type"),
    "an event of a new type": ([{"type": "new_event"}], "", [], "unknown_event"),
    "an event without a type": ([{"x": 1}], "", [], "unknown_event"),
    "the message's start again": ([START, begin(0, TEXT), text(0, "x")], "x", [], "duplicate_message_start"),
    "arguments after their stop": ([begin(0, TOOL), stop(0), arguments(0, "{}")], "", [None], ""),
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_a_deviation_is_tolerated_and_noted(name: str) -> None:
    payloads, said, calls, code = DEVIATIONS[name]
    turn = read(*payloads)
    assert (turn.text, [call.arguments for call in turn.calls], turn.error) == (said, calls, None)
    assert turn.complete
    assert codes(turn), "nothing is dropped silently"
    assert not code or [found for found in codes(turn) if found != "finish_without_calls"] == [code]


def test_deltas_outweigh_the_input_of_the_start() -> None:
    turn = read(begin(0, TOOL | {"input": {"a": 1}}), arguments(0, '{"b": 2}'), stop(0))
    assert [call.arguments for call in turn.calls] == [{"b": 2}]


def test_citations_in_the_start_of_a_text_go_back_with_it_like_those_in_deltas() -> None:
    first, second = ({"type": "char_location", "cited_text": words, "document_index": 0} for words in ("a", "b"))
    begun = begin(0, {"type": "text", "text": "Hi", "citations": [first]})
    turn = read(begun, delta(0, "citations_delta", citation=second), stop(0), word="end_turn")
    assert turn.messages()[0]["content"] == [{"type": "text", "text": "Hi", "citations": [first, second]}]


def test_a_text_delta_behind_the_stop_of_its_block_is_a_text_of_its_own_and_noted() -> None:
    for block, said, expected in (
        ({"type": "text", "text": "", "citations": []}, text(0, "Hi"), [("text", "Hi"), ("text", "late")]),
        ({"type": "thinking", "thinking": ""}, delta(0, "thinking_delta", thinking="Hm"), None),
    ):
        turn = read(begin(0, block), said, stop(0), text(0, "late"), word="end_turn")
        parts = [(part.kind, part.text) for part in turn.parts]
        assert parts == (expected or [("reasoning", "Hm"), ("text", "late")])
        assert codes(turn) == (["delta_after_stop"] if expected else ["mismatched_delta"])


def test_a_text_delta_without_text_says_nothing() -> None:
    odd = [text(0, ""), delta(0, "text_delta", text=None), delta(0, "text_delta"), delta(0, "text_delta", text=["x"])]
    turn = read(begin(0, {"type": "text", "text": ""}), *odd, text(0, "x"), stop(0))
    assert (turn.text, turn.complete) == ("x", True)


def test_a_server_side_call_is_reported_and_never_ours_to_run() -> None:
    for kind in ("server_tool_use", "mcp_tool_use"):
        block = {"type": kind, "id": "srv_1", "name": "web_search", "input": {}}
        turn = read(begin(0, block), arguments(0, '{"query": "x"}'), stop(0), word="end_turn")
        (call,) = turn.calls
        assert (call.kind, call.arguments, call.dispatchable) == ("server", {"query": "x"}, False)
        assert turn.finish == "stop", "a server's call is no reason to answer"


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("name", ["f", ""])
@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use"])
def test_every_block_of_a_call_is_a_call_of_its_own(stops: bool, name: str, kind: str) -> None:
    first = {"type": kind, "id": "a", "name": "g", "input": {}}
    turn = read(
        begin(0, first), *([stop(0)] if stops else []), begin(1, {"type": "tool_use", "id": "a", "name": name}), stop(1)
    )
    assert [(call.name, call.kind) for call in turn.calls] == [
        ("g", "function" if kind == "tool_use" else "server"),
        (name, "function"),
    ]
    check_histories(turn)


# -- ends --------------------------------------------------------------------------------------------------------------

FINISHES = [
    ("end_turn", "stop"),
    ("stop_sequence", "stop"),
    ("tool_use", "tool_calls"),
    ("max_tokens", "length"),
    ("model_context_window_exceeded", "length"),
    ("pause_turn", "pause"),
    ("compaction", "pause"),
    ("refusal", "content_filter"),
    ("bored", "other"),
]


def test_a_compaction_goes_back_with_all_that_came_of_it() -> None:
    deltas = [
        {"type": "compaction_delta", "content": "So ", "encrypted_content": "QU"},
        {"type": "compaction_delta", "content": "far.", "encrypted_content": "I="},
        {"type": "compaction_delta", "tool_changes": [{"type": "tool_removal", "name": "f"}]},
        {"type": "signature_delta", "signature": "c2ln"},
    ]
    events = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    block = {"type": "compaction", "content": None, "encrypted_content": None}
    turn = read(begin(0, block), *events, stop(0), word="compaction")
    whole = {"content": "So far.", "encrypted_content": "QUI=", "signature": "c2ln"}
    changes = {"tool_changes": [{"type": "tool_removal", "name": "f"}]}
    assert turn.messages() == [{"role": "assistant", "content": [block | whole | changes]}]


@pytest.mark.parametrize(("word", "finish"), FINISHES)
def test_a_finish_is_ours_and_the_providers_word_is_kept(word: str, finish: str) -> None:
    turn = read(begin(0, {"type": "text"}), text(0, "x"), stop(0), word=word)
    assert (turn.finish, turn.finish_raw, turn.complete) == (finish, word, True)


def test_an_end_of_turn_with_calls_is_tool_calls_and_noted() -> None:
    turn = parse(anthropic(calls=[("a", "f", "{}")], stop="end_turn"))
    assert (turn.finish, codes(turn)) == ("tool_calls", ["finish_reason_normalized"])
    assert turn.calls[0].dispatchable


def test_only_the_messages_own_stop_completes_it() -> None:
    payloads = [START, begin(0, TOOL), arguments(0, "{}"), stop(0), reason("tool_use")]
    for end in ([], [b"data: [DONE]\n\n"]):
        turn = parse([*sse(payloads), *end])
        assert turn.error is not None
        assert (turn.error.kind, turn.complete, turn.finish) == ("stream_truncated", False, "tool_calls")
        assert not turn.calls[0].dispatchable


def test_a_stop_without_a_reason_completes_but_runs_nothing() -> None:
    for word in (None, "", 7):
        turn = read(begin(0, TOOL), stop(0), word=word)
        assert (turn.complete, turn.finish, turn.calls[0].dispatchable) == (True, None, False)


def test_another_message_inside_is_an_error() -> None:
    other = {"type": "message_start", "message": {"id": "msg_2"}}
    turn = read(begin(0, TOOL), arguments(0, '{"a":'), other, begin(0, TOOL | {"id": "x"}), ends=True)
    assert turn.error is not None
    assert turn.error.kind == "protocol_error"
    assert [call.status for call in turn.calls] == ["truncated"]


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "message_start", "message": None},
        {"type": "message_start", "message": []},
        begin(0, None),
        begin(0, "text"),
        begin([0], {"type": "text"}),
        begin({}, {"type": "text"}),
    ],
)
def test_a_payload_that_breaks_the_wire_ends_the_stream(payload: dict[str, Any]) -> None:
    turn = parse([payload, reason("end_turn"), STOP], wire=ANTHROPIC)
    check_turn(turn)
    assert turn.error is not None
    assert turn.error.kind == "malformed_chunk"


@pytest.mark.parametrize("odd", [None, 7, "x", [], [1]])
def test_fields_of_another_type_do_not_end_the_stream(odd: Any) -> None:
    turn = read(
        begin(0, {"type": "text", "text": odd, "citations": odd}),
        {"type": "content_block_delta", "index": 0, "delta": odd},
        {"type": "content_block_delta", "index": 0, "delta": {"type": odd}},
        *(delta(0, "thinking_delta", thinking=odd), delta(0, "signature_delta", signature=odd)),
        {"type": "message_delta", "delta": odd, "usage": odd},
        begin(1, {"type": odd}),
        {"type": "content_block_delta", "index": [1], "delta": {"type": "text_delta", "text": "x"}},
        stop({}),
        {"type": "ping", "x": odd},
    )
    assert turn.complete


# -- the message -------------------------------------------------------------------------------------------------------


def test_usage_and_identity_come_from_the_start_and_the_delta() -> None:
    usage = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "usage": usage}}
    end = reason("end_turn") | {"usage": {"output_tokens": 7, "input_tokens": None}}
    turn = parse([start, end, STOP])
    assert (turn.model, turn.response_id) == ("claude", "msg_1")
    assert turn.usage == Usage(input_tokens=13, output_tokens=7, cached_input_tokens=4)


def test_input_tokens_include_the_newest_counts_of_what_the_cache_gave_and_took() -> None:
    """A server tool's results are input, too, and may go into the cache: the end counts them."""
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "usage": usage}}
    last = {"input_tokens": 10, "cache_creation_input_tokens": 300, "output_tokens": 7}
    turn = parse([start, reason("end_turn") | {"usage": last}, STOP])
    assert turn.usage == Usage(input_tokens=314, output_tokens=7, cached_input_tokens=4, cache_write_input_tokens=300)
    only_cached = reason("end_turn") | {"usage": {"cache_read_input_tokens": 4}}
    assert parse([only_cached, STOP]).usage == Usage(cached_input_tokens=4)


def test_a_stream_may_begin_with_a_block() -> None:
    turn = parse([begin(0, {"type": "text"}), text(0, "x"), stop(0), reason("end_turn"), STOP])
    assert (turn.wire, turn.text, turn.complete) == (ANTHROPIC, "x", True)


@pytest.mark.parametrize("as_bytes", [True, False])
def test_no_half_of_a_character_leaves_the_library_anywhere(as_bytes: bool) -> None:
    half = "x\ud83d"
    blocks = [
        {"type": "tool_use", "id": half, "name": half, "input": {half: half}, "caller": {half: [half]}},
        {"type": "redacted_thinking", "data": half},
        {"type": "thinking", "thinking": half, "signature": half},
        {"type": "text", "text": half, "citations": [{half: half}]},
        {"type": half, "x": half},
    ]
    payloads: Payloads = [{"type": "message_start", "message": {"id": half, "model": half}}]
    for index, block in enumerate(blocks):
        payloads += [begin(index, block), delta(index, half), stop(index)]
    payloads += [{"type": half}, reason(half), STOP]
    body: Any = [b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads] if as_bytes else payloads
    turn = parse(body)
    states = [part.provider_state for part in turn.parts] + [call.provider_state for call in turn.calls]
    calls = [(call.call_id, call.name, call.arguments_text, call.arguments) for call in turn.calls]
    for told in (turn.model, turn.response_id, turn.finish_raw, calls, states, turn.warnings, turn.messages()):
        assert "\\ud83d" not in ascii(told)
    assert (turn.text, turn.reasoning) == ("x\ufffd", "x\ufffd")


@pytest.mark.parametrize("as_bytes", [True, False])
def test_no_half_of_a_character_stands_in_an_error(as_bytes: bool) -> None:
    payload = {"type": "error", "error": {"type": "t\ud83d", "message": "m\ud83d", "code": "c\ud83d"}}
    body: Any = [b"data: " + json.dumps(payload).encode() + b"\n\n"] if as_bytes else [payload]
    for before in ([], [START]):
        turn = parse([*before, *body])
        assert turn.error is not None
        assert "\\ud83d" not in ascii([str(turn.error), vars(turn.error)])
