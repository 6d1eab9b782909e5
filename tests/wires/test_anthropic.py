"""Messages streams: blocks, their deltas and stops, ends, and what is passed over."""

from __future__ import annotations

import json
from typing import Any

from profiles import every
from sansio import check_histories, check_turn, codes
from streams import anthropic

from streamtools import Turn, Usage, parse

START: dict[str, Any] = {"type": "message_start", "message": {"id": "msg_1", "model": "c", "content": []}}
STOP = {"type": "message_stop"}


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


# -- blocks are found by their index, and deltas by their own type -----------------------------------------------------


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


def test_a_server_side_call_is_reported_and_never_ours_to_run() -> None:
    for kind in ("server_tool_use", "mcp_tool_use"):
        block = {"type": kind, "id": "srv_1", "name": "web_search", "input": {}}
        turn = read(begin(0, block), arguments(0, '{"query": "x"}'), stop(0), word="end_turn")
        (call,) = turn.calls
        assert (call.kind, call.arguments, call.dispatchable) == ("server", {"query": "x"}, False)
        assert turn.finish == "stop", "a server's call is no reason to answer"


@every("stops", [True, False])
@every("name", ["f", ""])
@every("kind", ["tool_use", "server_tool_use"])
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


def test_an_end_of_turn_with_calls_is_tool_calls_and_noted() -> None:
    turn = parse(anthropic(calls=[("a", "f", "{}")], stop="end_turn"))
    assert (turn.finish, codes(turn)) == ("tool_calls", ["finish_reason_normalized"])
    assert turn.calls[0].dispatchable


# -- the message -------------------------------------------------------------------------------------------------------


def test_input_tokens_include_the_newest_counts_of_what_the_cache_gave_and_took() -> None:
    """A server tool's results are input, too, and may go into the cache: the end counts them."""
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "usage": usage}}
    last = {"input_tokens": 10, "cache_creation_input_tokens": 300, "output_tokens": 7}
    turn = parse([start, reason("end_turn") | {"usage": last}, STOP])
    assert turn.usage == Usage(input_tokens=314, output_tokens=7, cached_input_tokens=4, cache_write_input_tokens=300)
    only_cached = reason("end_turn") | {"usage": {"cache_read_input_tokens": 4}}
    assert parse([only_cached, STOP]).usage == Usage(cached_input_tokens=4)


@every("as_bytes", [True, False])
def test_no_half_of_a_character_stands_in_an_error(as_bytes: bool) -> None:
    payload = {"type": "error", "error": {"type": "t\ud83d", "message": "m\ud83d", "code": "c\ud83d"}}
    body: Any = [b"data: " + json.dumps(payload).encode() + b"\n\n"] if as_bytes else [payload]
    for before in ([], [START]):
        turn = parse([*before, *body])
        assert turn.error is not None
        assert "\\ud83d" not in ascii([str(turn.error), vars(turn.error)])
