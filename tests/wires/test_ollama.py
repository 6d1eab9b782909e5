"""Ollama's lines: text, thinking, whole calls, ends, errors, and the way back."""

from __future__ import annotations

import copy
from typing import Any

import orjson
from profiles import every
from sansio import checked, codes, snapshot

from streamtools import StreamDecoder, Turn, Usage, parse
from streamtools.events import ToolCallEnd, UnknownPayload
from streamtools.wires import detect

OLLAMA = "ollama.chat"
Payload = dict[str, Any]


def line(done: bool = False, **message: Any) -> Payload:
    content = {"role": "assistant", "content": ""} | message
    return {"model": "m", "created_at": "2026-11-20T10:00:00Z", "message": content, "done": done}


def call(name: Any = "f", arguments: Any = None, call_id: Any = "call_1", **more: Any) -> Payload:
    return {"id": call_id, "function": {"name": name, "arguments": {} if arguments is None else arguments, **more}}


def end(reason: Any = "stop", **more: Any) -> Payload:
    return line(True) | {"done_reason": reason, "prompt_eval_count": 9, "eval_count": 5} | more


def body(*payloads: Payload) -> bytes:
    return b"".join(orjson.dumps(payload) + b"\n" for payload in payloads)


def read(*payloads: Payload, ends: bool = True, reason: Any = "stop") -> Turn:
    """The turn of these lines, which is the same from bytes and from what was parsed already."""
    whole = [*payloads, *([end(reason)] if ends else [])]
    turn = parse(body(*whole), wire=OLLAMA)
    assert snapshot(parse(copy.deepcopy(whole), wire=OLLAMA)) == snapshot(turn)
    return checked(turn)


def told(*payloads: Payload) -> list[Any]:
    decoder = StreamDecoder()
    return [event for payload in payloads for event in decoder.feed(payload)] + decoder.finish()


# -- events ------------------------------------------------------------------------------------------------------------


def test_a_call_ends_with_its_line_while_the_response_goes_on() -> None:
    decoder = StreamDecoder()
    decoder.feed(body(line(content="Hi")))
    whole = body(line(tool_calls=[call(arguments={"a": 1})]))
    assert not decoder.feed(whole[:-1])
    assert any(isinstance(event, ToolCallEnd) for event in decoder.feed(whole[-1:]))


def test_the_line_that_is_done_ends_reading_and_gives_the_usage() -> None:
    decoder = StreamDecoder()
    decoder.feed(body(line(content="Hi"), end()))
    assert decoder.done
    turn = read(line(content="Hi"))
    assert (turn.wire, turn.model, turn.response_id) == (OLLAMA, "m", None)
    assert turn.usage == Usage(input_tokens=9, output_tokens=5)
    assert parse(body(line(content="Hi"), line(True) | {"done_reason": "stop"})).usage is None


def test_lines_are_recognised_by_what_only_ollama_sends() -> None:
    for known in (line(), end(), {"done": False, "response": ""}, {"done": True, "message": {}}):
        assert detect(known) == OLLAMA
    for other in ({"done": True}, {"message": {}}, {"done": "x", "message": {}}, {"done": True, "message": "x"}, {}):
        assert detect(other) is None


def test_completions_have_text_in_another_field() -> None:
    head = {"model": "m", "done": False}
    turn = read(head | {"response": "", "thinking": "Hm"}, head | {"response": "Hi"}, head | {"response": "!"})
    assert (turn.text, turn.reasoning, turn.finish, turn.complete) == ("Hi!", "Hm", "stop", True)


# -- calls -------------------------------------------------------------------------------------------------------------


def test_calls_are_calls_however_they_are_numbered() -> None:
    turn = read(
        line(tool_calls=[call("f", {"a": 1}, "x", index=0), call("f", {"a": 2}, "y", index=0)]),
        line(tool_calls=[call("g", {"a": 3}, "z")]),
    )
    assert [(c.call_id, c.name, c.arguments) for c in turn.calls] == [
        *(("x", "f", {"a": 1}), ("y", "f", {"a": 2}), ("z", "g", {"a": 3}))
    ]
    assert codes(turn) == []


def test_a_call_without_an_id_gets_one_that_is_always_the_same() -> None:
    for call_id in (None, "", 7):
        turn = read(line(tool_calls=[call(call_id=call_id), call(call_id=call_id)]))
        assert all(c.call_id_synthesized and c.dispatchable for c in turn.calls)
        assert turn.calls[0].call_id != turn.calls[1].call_id


def test_numbers_keep_their_digits() -> None:
    numbers = b'{"n":18446744073709551617,"f":1.10}'
    whole = body(line(tool_calls=[call(arguments={"x": 0})]), end()).replace(b'{"x":0}', numbers)
    (found,) = parse(whole).calls
    assert found.arguments == {"n": 18446744073709551617, "f": 1.1}


@every(
    ("arguments", "value", "warning"),
    [
        ({"a": {"b": [1]}}, {"a": {"b": [1]}}, None),
        ('{"a": 1}', {"a": 1}, "arguments_text"),
        ("", {}, "arguments_text"),
        ([1], None, None),
        (7, None, None),
        (False, None, None),
    ],
)
def test_arguments_are_an_object_or_never_run(arguments: Any, value: Any, warning: str | None) -> None:
    turn = read(line(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": arguments}}]))
    (found,) = turn.calls
    assert (found.arguments, found.dispatchable, codes(turn)) == (
        value,
        value is not None,
        [warning] if warning else [],
    )


@every("function", [{"name": "f"}, {"name": "f", "arguments": None}])
def test_no_arguments_are_an_empty_object(function: Payload) -> None:
    assert [c.arguments for c in read(line(tool_calls=[{"function": function}])).calls] == [{}]


@every("calls", [["x"], [7], [[]], [{}], [{"function": None}], [{"function": "f"}], {"id": "a"}])
def test_a_call_that_is_none_ends_the_stream(calls: Any) -> None:
    turn = read(line(tool_calls=calls))
    assert (turn.error.kind, turn.complete) == ("malformed_chunk", False)


# -- ends --------------------------------------------------------------------------------------------------------------


@every("word", [None, 7])
def test_a_reason_that_is_none_is_a_stop_and_noted(word: Any) -> None:
    turn = read(line(content="x"), reason=word)
    assert (turn.finish, turn.finish_raw, turn.complete) == ("stop", None, True)
    assert codes(turn) == ["missing_done_reason"]


def test_stop_is_what_a_turn_with_calls_ends_with() -> None:
    turn = read(line(tool_calls=[call()]))
    assert (turn.finish, turn.finish_raw, turn.calls[0].dispatchable, codes(turn)) == ("tool_calls", "stop", True, [])
    turn = read(line(tool_calls=[call()]), reason="length")
    assert (turn.finish, turn.calls[0].dispatchable) == ("length", False)


def test_only_a_line_that_is_done_completes_it() -> None:
    for last in ([], [line() | {"done": "true"}], [line() | {"done_reason": "stop"}]):
        turn = read(line(tool_calls=[call()]), *last, ends=False)
        assert (turn.error.kind, turn.complete, turn.finish) == ("stream_truncated", False, None)
        assert not turn.calls[0].dispatchable
    framed = parse([b"data: " + orjson.dumps(line(content="x")) + b"\n\n", b"data: [DONE]\n\n"])
    assert (framed.wire, framed.error.kind) == (OLLAMA, "stream_truncated")


# -- errors and what is passed over ------------------------------------------------------------------------------------


def test_an_error_beside_a_message_is_an_error() -> None:
    turn = read(line(content="Hi"), line(content="x") | {"error": "cut"})
    assert (turn.text, turn.error and turn.error.kind) == ("Hi", "provider_error")
    assert read(line(content="Hi") | {"error": None}, line(content="!") | {"error": ""}).text == "Hi!"


def test_a_line_of_another_kind_is_told_as_unknown() -> None:
    events = told(line(content="Hi"), {"status": "pulling"}, line(content="!"), end())
    assert [event.raw for event in events if isinstance(event, UnknownPayload)] == [{"status": "pulling"}]
    assert codes(read(line(content="Hi"), {"status": "pulling"})) == ["unknown_event"]


@every("field", ["content", "thinking", "images", "tool_calls"])
def test_a_field_of_another_type_is_told_as_unknown(field: str) -> None:
    events = told(line(content="Hi"), line(**{field: 7}), line(content="!"), end())
    assert [event.raw for event in events if isinstance(event, UnknownPayload)] == [{field: 7}]


def test_a_message_that_is_none_ends_the_stream() -> None:
    turn = read(line(content="Hi"), {"message": "x", "done": False})
    assert (turn.error and turn.error.kind, turn.text) == ("malformed_chunk", "Hi")


# -- the way back ------------------------------------------------------------------------------------------------------


def test_a_turn_goes_back_as_it_was_with_one_result_for_each_call() -> None:
    turn = read(
        *(line(thinking="Hm"), line(content="Let me"), line(content=" look.")),
        *(line(tool_calls=[call("f", {"b": 1, "a": 2}, index=0)]), line(tool_calls=[call("f", {}, "call_2", index=1)])),
    )
    assistant, *results = turn.messages()
    assert assistant == {
        "role": "assistant",
        "content": "Let me look.",
        "thinking": "Hm",
        "tool_calls": [
            {"id": "call_1", "function": {"index": 0, "name": "f", "arguments": {"b": 1, "a": 2}}},
            {"id": "call_2", "function": {"index": 1, "name": "f", "arguments": {}}},
        ],
    }
    assert list(assistant["tool_calls"][0]["function"]["arguments"]) == ["b", "a"]
    assert [(r["role"], r["tool_name"], r["tool_call_id"]) for r in results] == [
        *(("tool", "f", "call_1"), ("tool", "f", "call_2"))
    ]


def test_what_was_never_said_does_not_go_back() -> None:
    assert read(line()).messages() == []
    assert set(read(line(content="Hi")).messages()[0]) == {"role", "content"}
    assert read(line(tool_calls=[call()])).messages()[0]["content"] == ""


def test_a_single_call_may_stand_for_a_list() -> None:
    assert [c.name for c in read(line(tool_calls=call())).calls] == ["f"]
    assert [c.name for c in read(line(tool_calls=[None, call()])).calls] == ["f"]
