"""What no recording shows: found by reading the wires against their specifications."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from every_wire import said
from profiles import every
from sansio import check_histories, checked, codes
from streams import chat_chunk, sse

from streamtools import StreamDecoder, ToolCallValidated, Turn, parse, tool

Payload = dict[str, Any]


@tool(effect="pure")
def f(x: int = 1) -> int:
    """Do something harmless."""
    return x


def read(payloads: Iterable[Payload], **more: Any) -> Turn:
    return checked(parse(sse(payloads), tools=["f", "g"], **more))


# -- Messages ----------------------------------------------------------------------------------------------------------

MESSAGE: Payload = {"type": "message_start", "message": {"id": "msg_1", "model": "c", "usage": {"input_tokens": 3}}}
STOP: Payload = {"type": "message_stop"}


def begin(index: int, block: Payload) -> Payload:
    return {"type": "content_block_start", "index": index, "content_block": block}


def use(index: int, id_: str, name: str = "f", **more: Any) -> Payload:
    return begin(index, {"type": "tool_use", "id": id_, "name": name, "input": {}, **more})


def delta(index: int, kind: str, **more: Any) -> Payload:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def arguments(index: int, text: str) -> Payload:
    return delta(index, "input_json_delta", partial_json=text)


def end(index: int) -> Payload:
    return {"type": "content_block_stop", "index": index}


def reason(word: str) -> Payload:
    return {"type": "message_delta", "delta": {"stop_reason": word}, "usage": {"output_tokens": 1}}


def test_arguments_that_may_be_one_calls_or_that_of_another_which_replaced_it_run_neither() -> None:
    for before, ready in (([], [False, False]), ([arguments(0, '{"a":1}')], [True, True])):
        turn = read(
            [MESSAGE, use(0, "a"), *before, use(0, "b", "g"), arguments(0, "{}"), end(0), reason("tool_use"), STOP]
        )
        assert [(call.name, call.dispatchable) for call in turn.calls] == [("f", ready[0]), ("g", ready[1])]


def test_a_call_in_a_message_that_was_cut_before_its_arguments_is_no_call_without_arguments() -> None:
    for stop in ([end(0)], []):
        for bad in ("max_tokens", "refusal", "pause_turn"):
            turn = read([MESSAGE, use(0, "a"), *stop, reason(bad), STOP])
            assert [(call.status, call.problem) for call in turn.calls] == [("truncated", "incomplete_json")]
        turn = read([MESSAGE, use(0, "a"), *stop, reason("tool_use"), STOP])
        # Without its stop nothing says that no arguments were lost with it.
        assert [(call.arguments, call.dispatchable) for call in turn.calls] == [({}, True) if stop else (None, False)]


@every("wire", ["anthropic.messages", "bedrock.converse_stream", "cohere.chat", "openai.chat_completions"])
def test_a_call_that_is_sent_twice_under_one_id_runs_once(wire: str) -> None:
    calls = [("call_1", "f", text) for text in ('{"a":1}', '{"a":1}', '{"a":2}', '{"a":2}')]
    turn = parse(said(wire, calls=calls), wire=wire, tools=["f"])
    assert [(call.arguments, call.problem, call.dispatchable) for call in turn.calls] == [
        ({"a": 1}, None, True),
        ({"a": 2}, None, True),
    ]
    check_histories(turn)


def test_a_call_without_arguments_that_is_sent_twice_under_one_id_runs_once() -> None:
    twice = [use(0, "a"), end(0), use(1, "a"), end(1)]
    turn = read([MESSAGE, *twice, reason("tool_use"), STOP])
    assert [(call.arguments, call.dispatchable) for call in turn.calls] == [({}, True)]
    parts = [{"functionCall": {"name": "f", "id": "a"}}] * 2
    turn = parse([{"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}], tools=["f"])
    assert [(call.arguments, call.dispatchable) for call in turn.calls] == [({}, True)]


def test_a_call_without_arguments_is_not_ready_before_it_is_known_that_nothing_was_cut() -> None:
    decoder = StreamDecoder(tools=[f])
    early = [event for payload in [MESSAGE, use(0, "a"), end(0)] for event in decoder.feed(payload)]
    assert not any(isinstance(event, ToolCallValidated) for event in early)
    decoder.feed(reason("tool_use"))
    assert any(isinstance(event, ToolCallValidated) for event in [*decoder.feed(STOP), *decoder.finish()])


def test_code_that_waits_for_the_result_of_our_tool_goes_back_without_a_result_of_its_own() -> None:
    code = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    turn = read(
        [
            MESSAGE,
            begin(0, code),
            arguments(0, '{"code": "f()"}'),
            end(0),
            use(1, "a", caller=caller),
            arguments(1, "{}"),
            end(1),
            reason("tool_use"),
            STOP,
        ]
    )
    asked, answered = turn.messages()
    assert [(block["type"], block["id"]) for block in asked["content"]] == [
        ("server_tool_use", "srvtoolu_1"),
        ("tool_use", "a"),
    ]
    assert asked["content"][1]["caller"] == caller
    assert [block["tool_use_id"] for block in answered["content"]] == ["a"]


@every("caller", [None, "x", {}, {"tool_id": ["srvtoolu_1"]}, {"tool_id": "srvtoolu_2"}])
def test_a_server_call_beside_calls_of_ours_goes_back_without_its_result(caller: Any) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    turn = read([MESSAGE, begin(0, search), end(0), use(1, "a", caller=caller), end(1), reason("tool_use"), STOP])
    assert [block["type"] for block in turn.messages()[0]["content"]] == ["server_tool_use", "tool_use"]


def test_a_signature_over_thinking_that_was_told_in_pieces_does_not_go_back() -> None:
    turn = read(
        [
            MESSAGE,
            begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
            delta(0, "thinking_delta", thinking="a"),
            begin(1, {"type": "text", "text": ""}),
            delta(1, "text_delta", text="b"),
            delta(0, "thinking_delta", thinking="c"),
            delta(0, "signature_delta", signature="c2ln"),
            end(0),
            end(1),
            reason("end_turn"),
            STOP,
        ]
    )
    assert (turn.reasoning, turn.text, codes(turn)) == ("ac", "b", ["interleaved_blocks"])
    assert turn.messages() == [{"role": "assistant", "content": [{"type": "text", "text": "b"}]}]


# -- Responses ---------------------------------------------------------------------------------------------------------

ITEM: Payload = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": '{"x": 1}'}
RESPONSE: list[Payload] = [
    {"type": "response.created", "response": {"id": "resp_1", "model": "m"}},
    {"type": "response.output_item.added", "output_index": 0, "item": ITEM | {"arguments": ""}},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM | {"status": "completed"}},
]


@every(
    ("event", "finish"),
    [("failed", "error"), ("incomplete", "other"), ("cancelled", "other"), ("completed", "tool_calls")],
)
def test_nothing_runs_of_a_response_whose_last_event_says_that_it_did_not_end_well(event: str, finish: str) -> None:
    turn = read([*RESPONSE, {"type": f"response.{event}", "response": {"id": "resp_1", "status": "completed"}}])
    assert turn.finish == finish
    assert [call.dispatchable for call in turn.calls] == [event == "completed"]


# -- detection ---------------------------------------------------------------------------------------------------------

ENDED: Payload = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
STREAMS: dict[str, list[Payload]] = {
    "openai.responses": [*RESPONSE, ENDED],
    "openai.chat_completions": [chat_chunk({"content": "Hi"}), chat_chunk({}, "stop")],
    "anthropic.messages": [MESSAGE, reason("end_turn"), STOP],
}


@every("wire", STREAMS)
@every("kind", ["ping", "keepalive"])
@every("count", [1, 100])
def test_payloads_that_keep_a_connection_alive_tell_no_wire(wire: str, kind: str, count: int) -> None:
    payloads = [{"type": kind}] * count + STREAMS[wire]
    for body in (sse(payloads), [part.removeprefix(b"data: ")[:-1] for part in sse(payloads)]):
        for given in (None, wire):
            turn = parse(body, wire=given)
            assert (turn.wire, turn.complete, turn.error) == (wire, True, None)


def test_a_stream_of_nothing_but_pings_is_cut() -> None:
    turn = parse(sse([{"type": "ping"}] * 100))
    assert (turn.wire, turn.error and turn.error.kind) == (None, "stream_truncated")


# -- Chat Completions --------------------------------------------------------------------------------------------------


def call(text: str = '{"x": 1}', **more: Any) -> Payload:
    head = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": text}, **more}
    return chat_chunk({"tool_calls": [head]})


def test_a_call_that_was_cut_before_its_arguments_is_no_call_without_arguments() -> None:
    for finish in ("length", "content_filter", "error", "network_error"):
        (cut,) = read([call(""), chat_chunk({}, finish)]).calls
        assert (cut.status, cut.arguments) == ("truncated", None)
    (whole,) = read([call(""), chat_chunk({}, "stop")]).calls
    assert (whole.status, whole.arguments, whole.dispatchable) == ("ready", {}, True)


def test_free_text_of_a_call_is_only_whole_in_a_turn_that_ended_well() -> None:
    custom = chat_chunk({"tool_calls": [{"index": 0, "id": "a", "custom": {"name": "f", "input": "rm -r /tmp"}}]})
    (cut,) = read([custom, chat_chunk({}, "length")]).calls
    assert (cut.status, cut.arguments) == ("truncated", None)
    (whole,) = read([custom, chat_chunk({}, "tool_calls")]).calls
    assert whole.arguments == {"input": "rm -r /tmp"}


@every("error", [None, {}, "", False, 0, []])
def test_an_error_that_says_nothing_beside_an_answer_is_none(error: Any) -> None:
    turn = read([chat_chunk({"content": "Hi"}) | {"error": error}, chat_chunk({}, "stop") | {"error": error}])
    assert (turn.text, turn.error) == ("Hi", None)
    lines: list[Payload] = [
        {"model": "m", "message": {"role": "assistant", "content": "Hi"}, "done": False, "error": error},
        {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    ]
    assert parse(lines).error is None
    parts = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}], "error": error}
    assert parse([parts]).error is None


# -- Cohere, Bedrock ---------------------------------------------------------------------------------------------------


def cohere_call(id_: str, text: str = "") -> Payload:
    function = {"id": id_, "type": "function", "function": {"name": "f", "arguments": text}}
    return {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": function}}}


def test_a_call_of_coheres_that_never_ends_in_a_message_that_was_cut_does_not_become_one_without_arguments() -> None:
    for calls, word in (["a", "b"], "TOOL_CALL"), (["a"], "MAX_TOKENS"):
        body = [{"type": "message-start", "id": "m"}, *map(cohere_call, calls)]
        turn = read([*body, {"type": "message-end", "delta": {"finish_reason": word}}])
        assert turn.calls[0].status == "truncated"


def converse(*events: Payload, reason: str = "tool_use") -> Turn:
    usage = {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 1}}}
    return checked(
        parse([{"messageStart": {"role": "assistant"}}, *events, {"messageStop": {"stopReason": reason}}, usage])
    )


def converse_call(id_: str) -> Payload:
    return {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": id_, "name": "f"}}}}


def test_a_call_of_converse_that_is_never_stopped_in_a_message_that_was_cut_has_no_arguments() -> None:
    assert converse(converse_call("a"), reason="max_tokens").calls[0].status == "truncated"
    assert converse(converse_call("a"), converse_call("b")).calls[0].status == "truncated"


def test_a_completed_response_that_holds_an_error_has_failed() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
    error = {"code": "server_error", "message": "boom"}
    payloads = [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": call | {"arguments": ""}},
        {"type": "response.output_item.done", "output_index": 0, "item": call},
    ]
    for told, runs in ((None, True), (error, False)):
        end = {"type": "response.completed", "response": {"status": "completed", "error": told, "output": [call]}}
        turn = parse([*payloads, end], tools=["f"])
        assert [call.dispatchable for call in turn.calls] == [runs]
        assert (turn.error is None) is runs


def test_a_call_that_was_cut_and_is_sent_again_whole_runs() -> None:
    """Bedrock: a block that another one replaces before its arguments have come is cut."""
    start = {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "f"}}}}
    stop = {"contentBlockStop": {"contentBlockIndex": 0}}
    again = {
        "contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "f", "x": 1}}}
    }
    turn = read([{"messageStart": {}}, start, again, stop, {"messageStop": {"stopReason": "tool_use"}}])
    assert [(call.problem, call.dispatchable) for call in turn.calls] == [("incomplete_json", False), (None, True)]


def test_what_goes_back_with_a_call_is_bounded_and_nothing_of_it_is_dropped_silently() -> None:
    for extras, kept in ((63, 63), (64, 63), (65, 63)):  # beside them stands the block's type
        turn = read([MESSAGE, use(0, "a", **{f"k{n}": n for n in range(extras)}), end(0), reason("tool_use"), STOP])
        block = turn.messages()[0]["content"][0]
        assert sum(key.startswith("k") for key in block) == kept
        assert ("state_dropped" in [warning.code for warning in turn.warnings]) is (extras > kept)
