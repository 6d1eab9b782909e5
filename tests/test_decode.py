"""From a body to events and a turn: what is taken, what is found, how it ends, and who calls what when."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from profiles import every
from sansio import BUILT, CHAT, WIRES, byte_by_byte, check_histories, check_turn, checked, codes, snapshot
from streams import anthropic, chat, chat_chunk, sse

from streamtools import Event, StreamDecoder, StreamEnd, StreamToolsError, parse
from streamtools.errors import LocalProtocolError, ProviderError, RemoteProtocolError, TruncatedStream
from streamtools.events import StreamStart, ToolCallStart
from streamtools.testing import feed_every_way

HELLO = chat(["Hel", "lo"], finish="stop")
BODY = b"".join(HELLO)


def payloads(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]


def failure(body: Any, **options: Any) -> tuple[str, str]:
    """Kind and text of the turn's error."""
    turn = parse(body, **options)
    check_turn(turn)
    assert turn.error is not None
    assert not turn.complete
    return turn.error.kind, str(turn.error)


# -- what is taken ---------------------------------------------------------------------------------------------------


@every(
    "body",
    [
        BODY,
        bytearray(BODY),
        memoryview(BODY),
        HELLO,
        (item for item in HELLO),
        [item.decode() for item in HELLO],
        [BODY.decode()],
        [bytearray(item) for item in HELLO],
        [memoryview(item) for item in HELLO],
        byte_by_byte(BODY),
        [b"", *HELLO, b""],
    ],
)
def test_a_body_may_be_bytes_chunks_or_text(body: Any) -> None:
    assert snapshot(parse(body)) == snapshot(parse(BODY))


@every("wire", BUILT)
def test_a_body_may_be_its_parsed_payloads(wire: str) -> None:
    body = b"".join((chat if wire == CHAT else anthropic)(["Hi"], [("a", "f", '{"a":1}')]))
    parsed = [MappingProxyType(payload) for payload in payloads(body)]
    assert snapshot(parse(parsed)) == snapshot(parse(body))
    assert snapshot(parse(parsed)) == snapshot(parse(parsed, wire=wire))


def test_a_payload_that_is_nested_without_end_is_an_error_of_the_stream() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"content": deep}
    loose = b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
    nested = b'{"a":' * 1000 + b"1" + b"}" * 1000
    call = b'{"index":0,"id":"a","function":{"name":"f","arguments":"{}"},"extra_content":' + nested + b"}"
    frame = b'data: {"choices":[{"delta":{"tool_calls":[' + call + b"]}}]}\n\n"
    bodies: list[Any] = [
        [deep],
        [chat_chunk(deep)],
        [chat_chunk({}), {"error": {"message": deep}}],
        [frame],
        [loose, frame],
    ]
    bodies += [[{"type": "content_block_start", "index": 0, "content_block": {"type": "x"} | deep}]]
    for body in bodies:
        for wire in WIRES:
            checked(parse(body, wire=wire))


def test_what_is_kept_for_the_history_can_be_written_even_if_it_was_no_json() -> None:
    call = b'{"index":0,"id":"a","function":{"name":"f","arguments":"{}"},"extra_content":{"a":[NaN,1e999,-Infinity]}}'
    turn = parse(
        b'data: {"choices":[{"delta":{"tool_calls":[' + call + b'],"content":"x"},"finish_reason":"stop"}]}\n\n'
    )
    check_histories(turn)
    assert (turn.text, turn.complete) == ("x", True)


@every("item", [None, 1, ["data: x"], object()])
def test_anything_else_is_a_mistake_of_the_caller(item: Any) -> None:
    with pytest.raises(TypeError, match="bytes, str or mappings"):
        parse([item])
    with pytest.raises(TypeError, match="bytes, str or mappings"):
        StreamDecoder().feed(item)


# -- how it is cut never matters ---------------------------------------------------------------------------------------


@every("wire", BUILT)
def test_events_are_the_same_however_the_bytes_are_cut(wire: str) -> None:
    body = b"".join((chat if wire == CHAT else anthropic)(["Hé", "llo"], [("a", "f", '{"a":"é"}')]))
    events = feed_every_way(StreamDecoder, body, trailing=b"data: {}\n\n")
    assert isinstance(events[0], StreamStart)
    assert isinstance(events[-1], StreamEnd)


# -- which wire it is ------------------------------------------------------------------------------------------------

KEEP_ALIVES: list[dict[str, Any]] = [{}, {"prompt_filter_results": []}, {"usage": None}, {"id": "x"}]


@every("wire", BUILT)
def test_the_wire_is_found_by_the_first_payload_that_tells(wire: str) -> None:
    body = (chat if wire == CHAT else anthropic)(["Hi"])
    turn = parse([*sse(KEEP_ALIVES), b": ping\n\n", b"data:\n\n", *body])
    assert (turn.wire, turn.text, turn.complete) == (wire, "Hi", True)


def test_payloads_that_never_tell_their_wire_are_refused_in_time() -> None:
    kind, text = failure(sse([{"object": "thing", "number": n} for n in range(10)]))
    assert (kind, "keys number, object" in text) == ("unknown_wire", True)
    decoder = StreamDecoder()
    for number in range(100):
        decoder.feed({"number": number})
        if decoder.done:
            break
    assert number < 50, "it does not wait for ever"


@every("wire", BUILT)
def test_the_stream_start_names_wire_model_and_response_once(wire: str) -> None:
    body = chat(["Hi"], finish="stop") if wire == CHAT else anthropic(["Hi"], stop="end_turn")
    decoder = StreamDecoder()
    events = [event for item in [*body, *body] for event in decoder.feed(item)]
    (start,) = (event for event in events if isinstance(event, StreamStart))
    assert events[0] is start
    turn = parse(body)
    assert (start.wire, start.model, start.response_id) == (wire, turn.model, turn.response_id)
    assert turn.model is not None
    assert turn.response_id is not None


# -- how it ends -----------------------------------------------------------------------------------------------------


@every(
    ("body", "kind", "says"),
    [
        (b"", "empty_stream", "no event"),
        (b" \r\n\n", "empty_stream", "no event"),
        (b": ping\n\n: ping\n\n", "empty_stream", "no event"),
        (b"\xef\xbb\xbf", "empty_stream", "no event"),
        (b"<!doctype html><title>502</title>", "not_event_stream", "an HTML page"),
        (b'{"choices":[{"text":"Hi"}], "a": 1', "stream_truncated", "before its first payload"),
        (b'{"answer":{"content":"Hi"}}', "not_event_stream", "stream=True"),
        (b'{"error":{"message":"No key","type":"auth"}}', "provider_error", "No key"),
        (b'{"error":"No key"}', "provider_error", "No key"),
        (b'{"object":"error","message":"No key"}', "provider_error", "No key"),
        (b"SQLite format 3\0\x10", "not_event_stream", r"the body is binary data: SQLite format 3\x00"),
        (b"Bad Gateway", "not_event_stream", "Bad Gateway"),
        (b"data: Bad Gateway\n\n", "malformed_chunk", "Bad Gateway"),
        (b"data: [1]\n\n", "malformed_chunk", "a JSON list"),
        (b"data: 1\n\n", "malformed_chunk", "a JSON int"),
        (b"data: [DONE]\n\n", "stream_truncated", "before its first payload"),
        (b": ping\n\ndata:\n\n", "stream_truncated", "before its first payload"),
        (b'data: {"choices":[]}\n\n', "stream_truncated", "before its terminal marker"),
        (b'data: {"choices":3}\n\n', "unknown_wire", "choices"),
        (b"event: error\ndata: overloaded\n\n", "provider_error", "overloaded"),
        (b'event: error\ndata: {"message":"overloaded"}\n\n', "provider_error", "overloaded"),
        (b'error: {"message":"overloaded"}\n\n', "provider_error", "overloaded"),
    ],
)
def test_a_body_that_is_no_answer_is_an_error_that_says_what_it_is(body: bytes, kind: str, says: str) -> None:
    for chunks in (body, byte_by_byte(body)):
        got, text = failure(chunks)
        assert got == kind
        assert says in text


@every("wire", BUILT)
def test_an_error_amid_a_stream_ends_it_and_keeps_what_was_said(wire: str) -> None:
    body = (chat if wire == CHAT else anthropic)(["Hi"], [("a", "f", '{"a":1}')])
    for error in (
        b'data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
        b'event: error\ndata: {"message":"Overloaded","type":"overloaded_error"}\n\n',
        b'error: {"message":"Overloaded","type":"overloaded_error"}\n\n',
    ):
        turn = parse([*body[:-2], error, *body[-2:]])
        check_turn(turn)
        assert isinstance(turn.error, ProviderError)
        assert (turn.error.message, turn.error.type) == ("Overloaded", "overloaded_error")
        assert str(turn.error) == "Overloaded (overloaded_error)"
        assert (turn.text, turn.finish, turn.complete) == ("Hi", "error", False)
        assert [(call.status, call.dispatchable) for call in turn.calls] in ([("ready", False)], [("truncated", False)])


def test_nothing_that_follows_the_end_changes_the_turn() -> None:
    for extra in (b"data: {}\n\n", sse([chat_chunk({"content": "x"})])[0], b"data: junk\n\n", b"<html>", b"\xff\xfe"):
        turn = parse([*HELLO, extra])
        assert (turn.text, turn.finish, turn.complete, turn.error) == ("Hello", "stop", True, None)
    assert codes(parse([*HELLO, b"data: {}\n\n", b"data: {}\n\n"])) == ["data_after_done"]
    assert codes(parse([*HELLO, b"data: [DONE]\n\n", b"data:\n\n"])) in ([], ["keepalive_data"])


def test_the_decoder_says_when_it_wants_no_more() -> None:
    decoder = StreamDecoder()
    for item in HELLO[:-1]:
        decoder.feed(item)
        assert not decoder.done
    decoder.feed(HELLO[-1])
    assert decoder.done


def test_a_last_event_without_its_blank_line_counts_if_it_is_whole() -> None:
    body = BODY.removesuffix(b"data: [DONE]\n\n")
    for end in (b"", b"\n", b"\n\n"):
        assert parse(body.removesuffix(b"\n\n") + end).complete
    cut = parse(body[:-10])
    assert isinstance(cut.error, TruncatedStream)
    assert (cut.text, cut.finish, cut.complete) == ("Hello", None, False)


@every("wire", BUILT)
def test_the_sources_own_error_ends_the_stream(wire: str) -> None:
    body = (chat if wire == CHAT else anthropic)(["Hi"], [("a", "f", '{"a":1}')])
    decoder = StreamDecoder()
    events: list[Event] = [event for item in body[:-2] for event in decoder.feed(item)]
    error = RemoteProtocolError("connection reset")
    end = decoder.finish(error)[-1]
    assert isinstance(end, StreamEnd)
    assert (end.error, end.complete) == (error, False)
    assert any(isinstance(event, ToolCallStart) for event in events)


def test_an_abandoned_stream_is_no_error() -> None:
    for items in ([], HELLO[:2]):
        decoder = StreamDecoder()
        for item in items:
            decoder.feed(item)
        end = decoder.finish(abandoned=True)[-1]
        assert isinstance(end, StreamEnd)
        assert (end.error, end.complete) == (None, False)
    decoder = StreamDecoder()
    for item in HELLO:
        decoder.feed(item)
    end = decoder.finish(abandoned=True)[-1]
    assert isinstance(end, StreamEnd)
    assert end.complete, "it had ended by itself"


def test_a_stream_has_one_end_and_it_comes_last() -> None:
    decoder = StreamDecoder()
    events = [event for item in HELLO for event in decoder.feed(item)] + decoder.finish()
    assert [isinstance(event, StreamEnd) for event in events].index(True) == len(events) - 1
    assert decoder.finish() == []


def test_feeding_after_the_end_is_a_mistake_of_the_caller() -> None:
    decoder = StreamDecoder()
    decoder.finish()
    with pytest.raises(LocalProtocolError, match="after finish") as raised:
        decoder.feed(b"")
    assert isinstance(raised.value, (StreamToolsError, RuntimeError))


# -- odd frames --------------------------------------------------------------------------------------------------------


@every("data", [b'"\xff\xfe"', b'"a\xc3"', b'"\xed\xa0\xbd"'])
def test_characters_that_are_no_utf8_do_not_end_the_stream(data: bytes) -> None:
    frame = b'data: {"choices":[{"index":0,"delta":{"content":' + data + b"}}]}\n\n"
    turn = parse([HELLO[0], frame, *HELLO[1:]])
    assert turn.complete
    assert turn.text.endswith("Hello")
    assert "\ufffd" in turn.text
