"""The first bytes tell how a body is framed; what holds no payload is told for what it is."""

from __future__ import annotations

import json
from typing import Any

from profiles import every
from sansio import CHAT, byte_by_byte, snapshot
from streams import chat, chat_chunk, sse

from streamtools import Limits, parse
from streamtools.errors import LimitExceeded, ProviderError, RemoteProtocolError, WrongWire
from streamtools.framing import AWSEventStreamDecoder, JSONArrayDecoder, NDJSONDecoder, SSEDecoder, choose

CHUNKS = [chat_chunk({"content": "Hel"}), chat_chunk({"content": "lo"}), chat_chunk({}, "stop")]
LINES = b"".join(json.dumps(chunk).encode() + b"\n" for chunk in CHUNKS)
ARRAY = json.dumps(CHUNKS, indent=1).encode()
BOM = b"\xef\xbb\xbf"


def every_way(body: bytes, **options: Any) -> Any:
    """The turn, which is the same however the body is cut."""
    turn = parse(body, **options)
    for chunks in (byte_by_byte(body), [body[:1], body[1:]], [b"", body[:5], b"", body[5:]]):
        assert snapshot(parse(chunks, **options)) == snapshot(turn)
    return turn


@every(
    ("head", "framing"),
    [
        (b"{", NDJSONDecoder),
        (b"\r\n \t{", NDJSONDecoder),
        (BOM + b" {", NDJSONDecoder),
        (b"[", JSONArrayDecoder),
        (BOM + b"\n[", JSONArrayDecoder),
        (b"\0", AWSEventStreamDecoder),
        (b"data: {", SSEDecoder),
        (b"d", SSEDecoder),
        (BOM + b":", SSEDecoder),
        (b"<html>", SSEDecoder),
        (b"\n" * 1024 + b"{", SSEDecoder),
    ],
)
def test_the_first_byte_that_is_not_blank_tells_the_framing(head: bytes, framing: type) -> None:
    assert type(choose(head, 100)) is framing


@every("before", [b"", b"\n\n", BOM, BOM + b" \r\n"])
@every("wire", [CHAT, None])
def test_payloads_may_come_as_lines_or_as_an_array(before: bytes, wire: str | None) -> None:
    for body in (LINES, LINES.rstrip(), ARRAY):
        turn = every_way(before + body, wire=wire)
        assert (turn.text, turn.finish, turn.complete, turn.error) == ("Hello", "stop", True, None)
    assert "json_array_stream" in {warning.code for warning in turn.warnings}


@every(
    "whole",
    [
        {"object": "chat.completion", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]},
        {"type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"},
    ],
)
def test_a_whole_answer_is_read_on_one_line_or_many(whole: dict[str, Any]) -> None:
    for body in (json.dumps(whole).encode(), json.dumps(whole, indent=2).encode() + b"\n"):
        turn = every_way(body)
        assert (turn.text, turn.complete, turn.error) == ("Hi", True, None)


@every("wire", [CHAT, None])
@every("whole", [{"object": "list", "data": []}, {"type": "text", "text": "Hi"}, {"output": []}])
def test_an_object_that_is_no_answer_is_no_stream_on_one_line_or_many(whole: dict[str, Any], wire: str | None) -> None:
    for body in (json.dumps(whole).encode(), json.dumps(whole, indent=2).encode() + b"\n"):
        turn = every_way(body, wire=wire)
        assert turn.error.kind == "not_event_stream"
        assert "stream=True" in str(turn.error)
        assert not turn.complete


@every("indent", [None, 2])
@every("wire", [CHAT, None])
def test_a_bare_error_is_the_providers(indent: int | None, wire: str | None) -> None:
    turn = every_way(
        json.dumps({"error": {"message": "no such model", "code": 404}}, indent=indent).encode(), wire=wire
    )
    assert isinstance(turn.error, ProviderError)
    assert (turn.error.message, turn.error.code) == ("no such model", 404)


def test_a_line_that_is_no_json_after_others_ends_the_stream() -> None:
    turn = every_way(LINES[: LINES.index(b"\n") + 1] + b"oops\n" + LINES)
    assert turn.error.kind == "malformed_chunk"
    assert turn.text == "Hel"


def test_the_end_inside_the_first_payload_is_no_answer() -> None:
    event = b'event: message_start\r\nid: 1\r\n: hello\r\ndata: {"choices": [{"x": "\xc3\xa9'
    cut = [event[:size] for size in range(1, len(event) + 1)]
    for body in (ARRAY[:20], b"\0\0\0\x50\0\0", b'{"choices":[{"delta"', b"data", b'data: {"a": "b', *cut):
        assert every_way(body).error.kind == "stream_truncated", body
    for body in (b"Bad Gateway", b"data: Bad", b'data: {}data: {"a"', b'event: adata: {"a"', b"{oops"):
        assert every_way(body).error.kind == "not_event_stream", body
    assert every_way(BOM).error.kind == every_way(b"").error.kind == "empty_stream"


def test_an_object_between_the_events_is_bounded() -> None:
    first = sse([CHUNKS[0]])[0]
    for size, exceeded in ((399, False), (400, False), (401, True)):
        bare = json.dumps({"error": {"message": ""}}, indent=1).encode()
        bare = bare.replace(b'""', b'"' + b"x" * (size - len(bare)) + b'"')
        assert len(bare) == size
        error = every_way(first + bare + b"\n", limits=Limits(max_event_bytes=400)).error
        assert isinstance(error, LimitExceeded) is exceeded


def test_what_a_model_sent_through_bedrock_is_unwrapped() -> None:
    events = [
        {"type": "message_start", "message": {"id": "m", "model": "x"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    wrapped = [{"chunk": {"bytes": json.dumps(event).encode()}} for event in events]
    turn = parse(wrapped)
    assert (turn.wire, turn.text, turn.complete) == ("anthropic.messages", "Hi", True)
    assert parse([*wrapped[:2], {"chunk": {"bytes": b'{"type": '}}]).error.kind == "malformed_chunk"  # type: ignore[union-attr]
    assert parse(wrapped, limits=Limits(max_event_bytes=40)).error.kind == "limit_exceeded"  # type: ignore[union-attr]
    assert parse([{"chunk": {"bytes": b"an agent's words"}}]).error.kind == "unknown_wire"  # type: ignore[union-attr]


@every(
    ("items", "hint"),
    [
        (["data: {}", "", "data: {}", ""], "line ends"),
        (["event: a", "data: {}"], "line ends"),
        (['{"choices":[]}', '{"choices":[]}'], "as a dict"),
    ],
)
def test_lines_that_lost_their_ends_are_told_from_other_bodies(items: list[str], hint: str) -> None:
    error = parse(items).error
    assert error.kind == "not_event_stream"
    assert hint in str(error)


def test_a_stream_of_another_wire_than_the_given_one_is_told_for_what_it_looks_like() -> None:
    turn = every_way(b"".join(chat(["Hi"], finish="stop")), wire="anthropic.messages")
    assert isinstance(turn.error, WrongWire)
    assert isinstance(turn.error, ValueError)
    assert not isinstance(turn.error, RemoteProtocolError)
    assert (turn.error.kind, turn.error.looks_like) == ("wrong_wire", "openai.chat_completions")
    assert str(turn.error) == (
        "expected a stream of anthropic.messages, got one that looks like openai.chat_completions; "
        "write wire='openai.chat_completions'"
    )
    assert not turn.complete
