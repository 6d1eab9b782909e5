"""What fuzzing found, each by the behaviour that was wrong: for inputs like these there is no other witness."""

from __future__ import annotations

import json
from typing import Any

from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, FRAMES, FRAMINGS, GEMINI, MISTRAL, RESPONSES, framed, said
from mutations import paths, replaced
from profiles import FULL, every
from sansio import byte_by_byte, check_turn, encode, snapshot
from spoken_histories import NATIVE, Call
from streams import chat_chunk

from streamtools import Limits, history, parse, tool
from streamtools.errors import LimitExceeded, TruncatedStream
from streamtools.stages import DEFAULT, text_calls
from streamtools.text_calls import DIALECTS, split_think
from streamtools.wires import WIRES


@every("wire", WIRES)
@every("head", [b"{\n", b"{}\n", b'{"a":1}\n', b'{"a":\n', b"{]\n"])
def test_a_first_line_that_is_no_payload_makes_the_same_of_the_body_however_it_is_cut(wire: str, head: bytes) -> None:
    body = head + b"".join(FRAMES["ndjson"](said(wire, text=["Hi"], calls=[("a", "f", "{}")])))
    for told in (wire, None):
        whole = parse(body, wire=told)
        assert snapshot(parse(byte_by_byte(body), wire=told)) == snapshot(whole)
        assert snapshot(parse([head, body[len(head) :]], wire=told)) == snapshot(whole)


@every("blank", [b"\x0c", b"\x0b", b"\xef\xbb\xbf\x0c", b" \x0c\n"])
@every("wire", [*WIRES, None])
def test_a_body_of_other_blanks_than_those_of_json_is_no_stream(wire: str | None, blank: bytes) -> None:
    turn = parse(blank, wire=wire)
    assert turn.error is not None
    assert snapshot(parse(byte_by_byte(blank), wire=wire)) == snapshot(turn)


def chat_call(**call: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a", **call}]}}]}


CHAT_END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


@every("wire", [CHAT, MISTRAL])
@every("given", [{"a": 1}, [1], 0, True, {"a": 2**70}])
def test_a_custom_calls_input_that_is_no_text_does_not_raise(wire: str, given: Any) -> None:
    payloads = [chat_call(type="custom", custom={"name": "f", "input": given}), CHAT_END]
    for items in (payloads, framed(wire, payloads)):
        turn = parse(items, wire=wire)
        check_turn(turn)
        assert [call.name for call in turn.calls] == ["f"]
        encode(turn.messages())


@every("number", [float("nan"), float("inf"), float("-inf")])
def test_what_a_payload_that_somebody_else_parsed_holds_of_no_json_does_not_reach_the_history(number: float) -> None:
    state = {"a": [{"b": number}]}
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "x"}], "extra": state}
    streams: dict[str, list[dict[str, Any]]] = {
        CHAT: [chat_call(function={"name": "f", "arguments": "{}"}, extra_content=state), CHAT_END],
        MISTRAL: [{"choices": [{"index": 0, "delta": {"content": [thought]}}]}, CHAT_END],
        GEMINI: [{"candidates": [{"content": {"parts": [{"codeExecutionResult": state}]}, "finishReason": "STOP"}]}],
        COHERE: [{"type": "citation-start", "delta": {"message": {"citations": state}}}, {"type": "message-end"}],
        ANTHROPIC: [{"type": "content_block_start", "index": 0, "content_block": {"type": "new", "data": state}}],
        RESPONSES: [{"type": "response.output_item.done", "output_index": 0, "item": {"type": "new", "data": state}}],
        BEDROCK: [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"citation": state, "text": "x"}}}],
    }
    for wire, payloads in streams.items():
        encode(parse(payloads, wire=wire).messages(wire))


@every("content", [[{"functionCall": {"name": "f", "args": {"a": 1}}}], {"parts": []}, 1, "x", [[]]])
def test_gemini_content_of_any_shape_does_not_raise(content: Any) -> None:
    payload = {"candidates": [{"content": content, "finishReason": "STOP"}]}
    for framing in ("sse", "json_array"):
        turn = parse(b"".join(FRAMES[framing]([payload])), wire=GEMINI)
        check_turn(turn)
        assert all(call.arguments == {"a": 1} for call in turn.calls)


@every(("wire", "framing"), [(wire, framing) for wire in WIRES for framing in FRAMINGS[wire]])
def test_empty_chunks_change_nothing(wire: str, framing: str) -> None:
    body = b"".join(FRAMES[framing](said(wire, text=["Hi"], calls=[("a", "f", '{"a":{"b":1}}')])))
    whole = snapshot(parse(body, wire=wire))
    for cut in range(0, len(body) + 1, 1 if FULL else 15):
        assert snapshot(parse([b"", body[:cut], b"", body[cut:], b""], wire=wire)) == whole, f"cut at {cut}"
        if cut % 7 == 0 or not FULL:
            assert snapshot(parse([body[:cut], b""], wire=wire)) == snapshot(parse(body[:cut], wire=wire))


@every("wire", [CHAT, MISTRAL])
@every("arguments", ["", "{}", '{"a":1}'])
def test_a_call_after_the_last_finish_reason_does_not_run_unless_done_follows(wire: str, arguments: str) -> None:
    late = {"index": 1, "id": "b", "function": {"name": "g", "arguments": arguments}}
    payloads = [
        chat_call(function={"name": "f", "arguments": "{}"}),
        CHAT_END,
        {"choices": [{"index": 0, "delta": {"tool_calls": [late]}}]},
    ]
    body = framed(wire, payloads)
    assert not [call for call in parse(body, wire=wire).calls if call.dispatchable and call.name == "g"]
    for end in ([b"data: [DONE]\n\n"], framed(wire, [CHAT_END])):
        assert [call.dispatchable for call in parse([*body, *end], wire=wire).calls] == [True, True]


@every("framing", FRAMES)
def test_of_two_limits_that_a_chunk_exceeds_the_first_in_the_stream_is_named(framing: str) -> None:
    wire = {"ndjson": "ollama.chat", "aws_eventstream": BEDROCK, "json_array": GEMINI}.get(framing, CHAT)
    payloads = said(wire, text=["x" * 700, *["y" * 100] * 60])
    body = b"".join(FRAMES[framing](payloads))
    limits = Limits(max_event_bytes=600, max_stream_bytes=4000)
    for chunks in (body, [body[:100], body[100:]], byte_by_byte(body)):
        error = parse(chunks, wire=wire, limits=limits).error
        assert isinstance(error, LimitExceeded)
        assert error.setting == "max_event_bytes"


@every("place", [{}, [], {"a": []}, 0.5, "0", True, None, -1, 2**70])
def test_a_place_among_the_items_that_is_no_number_does_not_raise(place: Any) -> None:
    item = {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": "{}"}
    for kind, body in (
        ("output_item.added", {"item": item}),
        ("output_item.done", {"item": item}),
        ("output_text.delta", {"delta": "x"}),
        ("output_text.done", {"text": "x"}),
        ("function_call_arguments.delta", {"delta": "{}"}),
        ("function_call_arguments.done", {"arguments": "{}"}),
        ("custom_tool_call_input.delta", {"delta": "x"}),
        ("content_part.added", {"part": {}}),
        ("reasoning_summary_text.delta", {"delta": "x"}),
    ):
        payload = {"type": f"response.{kind}", "output_index": place, "item_id": place, **body}
        for items in ([payload, payload], framed(RESPONSES, [payload, payload])):
            check_turn(parse(items, wire=RESPONSES))


def test_parts_that_alternate_without_end_are_as_few_as_blocks_may_be() -> None:
    one = {"choices": [{"index": 0, "delta": {"reasoning_content": "x", "content": "y"}}]}
    for wire, payloads in (
        (CHAT, [one]),
        ("ollama.chat", [{"model": "m", "message": {"content": "y", "thinking": "x"}, "done": False}]),
        (GEMINI, [{"candidates": [{"content": {"parts": [{"text": "x", "thought": True}, {"text": "y"}]}}]}]),
    ):
        turn = parse(payloads * 200, wire=wire, limits=Limits(max_open_blocks=50))
        assert isinstance(turn.error, LimitExceeded)
        assert turn.error.setting == "max_open_blocks"
        assert len(turn.parts) <= 52
        json.dumps(turn.messages())


@every("wire", [CHAT, MISTRAL])
def test_half_a_surrogate_pair_in_a_think_block_does_not_reach_the_history(wire: str) -> None:
    for pieces in (["<th", "ink>", "\ude00"], ["<think>\ud83d", "</think>Hi"], ["<think>\ud83d", "\ude00</think>Hi"]):
        payloads = said(wire, text=pieces)
        for items in (payloads, framed(wire, payloads)):
            turn = parse(items, wire=wire)
            encode(turn.messages())
            assert ("\U0001f600" in turn.reasoning) is (pieces[-1][0] == "\ude00" and len(pieces) == 2)


def test_a_keep_alive_after_the_end_is_no_tolerance() -> None:
    body = [*framed(CHAT, said(CHAT, text=["Hi"])), b"data: [DONE]\n\n", b"data: : ping\n\n", b"data:\n\n"]
    for chunks in (body, [b"".join(body)], byte_by_byte(b"".join(body))):
        assert parse(chunks, wire=CHAT).warnings == ()


@every("wire", WIRES)
@every("index", [[], {}, [[]], {"a": 1}])
def test_an_index_that_is_no_number_does_not_raise(wire: str, index: Any) -> None:
    payloads = said(wire, text=["a", "b"], reasoning=["c"], calls=[("d", "f", '{"e":1}')], pieces=2)
    for at, payload in enumerate(payloads):
        for path in paths(payload):
            if path and str(path[-1]).lower().endswith("index"):
                for spoiled in ([replaced(payload, path, index)], [replaced(payload, path, index), payload]):
                    items = [*payloads[:at], *spoiled, *payloads[at + 1 :]]
                    check_turn(parse(items, wire=wire))
                    check_turn(parse(framed(wire, items), wire=wire))


def test_code_that_gemini_runs_says_the_same_as_bytes_and_as_payloads() -> None:
    part = {"executableCode": {"language": "PYTHON", "more": [{"empty": None}]}}
    payload = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
    body = b"data: " + json.dumps(payload).encode() + b"\n\n"
    (call,), (same,) = parse([payload]).calls, parse(body).calls
    assert call.arguments_text == same.arguments_text
    assert call.arguments == {"language": "PYTHON", "more": [{"empty": None}]}


def test_a_citation_after_its_blocks_stop_changes_nothing_that_was_told() -> None:
    citation = {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"a": 1}}}
    payloads = [
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "x"}},
        citation,
        {"type": "content_block_stop", "index": 0},
        citation,
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads)
    for turn in (parse(payloads), parse(body)):
        assert [part.provider_state for part in turn.parts] == [{"citations": [{"a": 1}]}]
        assert [warning.code for warning in turn.warnings] == ["delta_after_stop"]


def test_half_a_surrogate_pair_in_arguments_that_come_again_is_replaced_as_anywhere() -> None:
    head = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    again = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a":"\ud83d"}'}}
    turn = parse(
        [chat_chunk({"tool_calls": [head]}), chat_chunk({"tool_calls": [again]}), chat_chunk({}, "tool_calls")]
    )
    check_turn(turn)
    assert not any(call.dispatchable for call in turn.calls)
    assert "lone_surrogate" in [warning.code for warning in turn.warnings]


def test_a_call_that_was_made_before_a_checkpoint_and_not_again_is_in_no_history() -> None:
    call = {"type": "function_call", "id": "k1", "name": "f", "arguments": {}}
    turn = parse(
        [
            {"event_type": "interaction.created", "interaction": {"id": "v1_a", "status": "in_progress"}},
            {"event_type": "interaction.status_update", "interaction_id": "v1_a", "continuation_token": "t1"},
            {"event_type": "step.start", "index": 0, "step": call},
            {"event_type": "step.delta", "index": 0, "delta": {"type": "arguments_delta", "arguments": '{"a":1}'}},
            {"event_type": "interaction.created", "interaction": {"id": "v1_b", "status": "in_progress"}},
            {"event_type": "interaction.completed", "interaction": {"id": "v1_b", "status": "completed"}},
        ]
    )
    assert [(one.status, one.dispatchable) for one in turn.calls] == [("truncated", False)]
    assert turn.messages() == []


def test_half_a_surrogate_pair_in_a_transcript_after_its_turn_is_replaced_as_anywhere() -> None:
    sound = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "QUJD"}}
    turn = parse(
        [
            {"serverContent": {"modelTurn": {"parts": [sound]}}},
            {"serverContent": {"outputTranscription": {"text": "It is"}}},
            {"serverContent": {"turnComplete": True}},
            {"serverContent": {"outputTranscription": {"text": "\ud83d"}}},
        ]
    )
    assert turn.text == "It is\ufffd"
    encode(turn.messages())


def test_an_id_that_begins_with_a_null_character_is_mended_as_a_missing_one_is() -> None:
    wrong = []
    for wire, native in NATIVE.items():
        calls = [Call("\0call_1", "f", "{}"), Call("call_1", "f", "{}")]
        for messages in (native.said("So.", calls), [*native.said("So.", calls), *native.came(calls)]):
            mended = history.repair(messages, wire, last=True)
            wrong += [f"{wire}: {left}" for left in history.lint(mended, wire, last=True)]
    assert wrong == []


@every("wire", ["openai.responses", "openai.realtime", "gemini.interactions"])
def test_a_payload_that_is_null_is_malformed_on_a_wire_whose_events_have_cursors(wire: str) -> None:
    body = b"".join(b"data: %s\n\n" % json.dumps(payload).encode() for payload in [*said(wire, text=["a"])[:1], None])
    error = parse(body, wire=wire).error
    assert error.kind == "malformed_chunk"


def test_calls_in_text_that_exceed_two_limits_as_the_stream_is_cut_do_not_raise() -> None:
    @tool
    def search(query: str) -> str:
        """Search."""
        return query

    pieces = ["[TOOL_C", "ALLS]se", "arch[AR", 'GS]{"qu', 'ery":"<']
    with_think = DEFAULT.insert_before("accumulate", split_think())
    for dialect in DIALECTS:
        turn = parse(
            [b"".join(framed(CHAT, [chat_chunk({"content": piece}) for piece in pieces]))],
            wire=CHAT,
            stages=with_think.insert_before("accumulate", text_calls(dialect)),
            limits=Limits(max_tool_calls=2, max_id_bytes=4),
            tools=[search],
        )
        assert isinstance(turn.error, LimitExceeded | TruncatedStream), dialect
        assert not turn.observations
