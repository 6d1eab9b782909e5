"""AWS event streams: messages to payloads in any chunks, checked and bounded; what is wrong ends the stream."""

from __future__ import annotations

import base64
import struct
from typing import Any
from zlib import crc32

import orjson
import pytest
from bedrock_streams import chunk, event, header, message
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from sansio import byte_by_byte, random_splits

from streamtools.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError, StreamError, TruncatedStream
from streamtools.framing import AWSEventStreamDecoder
from streamtools.framing.aws_eventstream import read_headers

EVENTS = [
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"delta": {"text": "é"}}),
    event("x", {}),
]
BODY = b"".join(EVENTS)


def decode(chunks: list[bytes], **options: Any) -> tuple[list[Any], StreamError | None]:
    """The payloads, and the error that the last call raised."""
    decoder = AWSEventStreamDecoder(**options)
    payloads: list[Any] = []
    try:
        for part in chunks:
            payloads += decoder.feed_payloads(part)
        assert decoder.finish() == []
    except StreamError as error:
        return payloads, error
    return payloads, None


def payloads(*messages: bytes) -> list[Any]:
    found, error = decode(list(messages))
    assert error is None, error
    return [orjson.loads(payload) for payload in found]


def refusal(body: bytes, **options: Any) -> StreamError:
    """The error of a body, the same however it is cut, and with the same payloads before it."""
    found, error = decode([body], **options)
    assert error is not None
    for chunks in (byte_by_byte(body), *random_splits(body, 8, "refusal")):
        again, other = decode(chunks, **options)
        assert again == found
        assert (type(other), str(other)) == (type(error), str(error))
    return error


# -- what a message says ---------------------------------------------------------------------------------------------


def test_an_event_is_its_payload_under_its_name() -> None:
    assert payloads(event("contentBlockStop", {"contentBlockIndex": 1})) == [
        {"contentBlockStop": {"contentBlockIndex": 1}}
    ]
    assert payloads(event('a"b\\', 1)) == [{'a"b\\': 1}]


def test_a_payload_is_passed_on_byte_for_byte() -> None:
    assert decode([event("x", b'{ "n": 18446744073709551617 }')])[0] == [b'{"x":{ "n": 18446744073709551617 }}']


def test_no_payload_is_an_empty_object() -> None:
    assert payloads(event("x", b""), event("x", b'{"a":1}'), event("x", b"")) == [{"x": {}}, {"x": {"a": 1}}, {"x": {}}]


def test_an_exception_is_told_like_an_event() -> None:
    refused = event("throttlingException", {"message": "wait"}, kind="exception")
    assert payloads(refused) == [{"throttlingException": {"message": "wait"}}]


@every("payload", [b"", b"{}", b"x"])
def test_an_error_stands_in_its_headers(payload: bytes) -> None:
    headers = {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "try again"}
    assert payloads(message(headers, payload)) == [{"error": {"code": "InternalFailure", "message": "try again"}}]
    assert payloads(message({":message-type": "error"})) == [{"error": {"code": None, "message": None}}]


def test_what_a_model_sent_is_taken_out_of_its_chunk() -> None:
    inner = {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}}
    assert payloads(chunk(inner), chunk(b' {"a":1}'), chunk(inner)) == [inner, {"a": 1}, inner]


@every(
    "body",
    [
        {"bytes": base64.b64encode(b"plain text").decode()},
        {"bytes": base64.b64encode(b'{"a":1}').decode(), "attribution": {"citations": []}},
        {"bytes": base64.b64encode(b'{"a":1}').decode(), "p": "x", "q": "y"},
        {"bytes": 7},
        {"text": "x"},
        ["bytes"],
    ],
)
def test_a_chunk_of_something_else_stays_as_it_is(body: Any) -> None:
    assert payloads(event("chunk", body)) == [{"chunk": body}]


def test_a_chunk_without_a_payload_is_an_empty_one() -> None:
    assert payloads(event("chunk", b"")) == [{"chunk": {}}]


# -- in any chunks ---------------------------------------------------------------------------------------------------


def test_every_cut_leaves_the_messages_before_it_and_says_that_it_was_one() -> None:
    whole, _ = decode([BODY])
    ends = [len(b"".join(EVENTS[:number])) for number in range(4)]
    for cut in range(len(BODY)):
        found, error = decode([BODY[:cut]])
        assert str(decode([BODY[:cut], b""])[1]) == str(error)
        assert found == whole[: sum(end <= cut for end in ends) - 1]
        assert isinstance(error, TruncatedStream) is (cut not in ends)
    assert str(refusal(BODY[:-7])).startswith(
        f"the body ended inside the message at byte {ends[2]} of the event stream:"
    )


def test_a_long_message_in_small_chunks_costs_linear_time() -> None:
    """Also with empty chunks in between: joining what is pending at each would take minutes."""
    body = event("x", {"text": "x" * 300_000})
    assert decode([part for byte in byte_by_byte(body) for part in (byte, b"")]) == decode([body])


# -- what is wrong ends the stream -----------------------------------------------------------------------------------


def test_no_bit_can_change_without_being_noticed() -> None:
    whole, _ = decode([BODY])
    for at in range(len(BODY)):
        for bit in range(8):
            changed = bytearray(BODY)
            changed[at] ^= 1 << bit
            found, error = decode([bytes(changed)])
            assert error.kind in ("malformed_chunk", "limit_exceeded", "stream_truncated")
            assert found == whole[: len(found)]


def test_a_wrong_checksum_is_named_with_its_place() -> None:
    lengths, whole = bytearray(BODY), bytearray(BODY)
    lengths[len(EVENTS[0]) + 9] ^= 1
    whole[-1] ^= 1
    assert str(refusal(bytes(lengths))).startswith(
        f"the message at byte {len(EVENTS[0])} of the event stream: the checksum of its lengths is 0x"
    )
    last = len(BODY) - len(EVENTS[2])
    assert str(refusal(bytes(whole))).startswith(f"the message at byte {last} of the event stream: its checksum is 0x")
    assert refusal(bytes(whole)).kind == "malformed_chunk"


def test_what_was_whole_before_it_comes_first_and_nothing_after_it() -> None:
    bad = bytearray(EVENTS[1])
    bad[-1] ^= 1
    decoder = AWSEventStreamDecoder()
    assert decoder.feed_payloads(EVENTS[0] + bytes(bad) + EVENTS[2]) == [b'{"messageStart":{"role":"assistant"}}']
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="checksum"):
            decoder.feed_payloads(EVENTS[2])
    with pytest.raises(RemoteProtocolError, match="checksum"):
        decoder.finish()
    assert decoder.finish() == []


def with_lengths(total: int, headers: int) -> bytes:
    lengths = struct.pack(">II", total, headers)
    return lengths + struct.pack(">I", crc32(lengths)) + b"\0" * 600_000


@every(("total", "headers"), [(0, 0), (15, 0), (16, 1), (100, 85), (2**20, (128 << 10) + 1)])
def test_lengths_that_cannot_be_are_refused(total: int, headers: int) -> None:
    error = decode([with_lengths(total, headers)])[1]
    assert (error.kind, "are impossible" in str(error)) == ("malformed_chunk", True)


NAMED = header(":event-type", "x")
BROKEN_HEADERS = {
    "nothing": b"",
    "no name": b"\0\7\0\1x",
    "a name that is cut": b"\x09:event",
    "a name without a value": b"\x01a",
    "a name that is no text": b"\x01\xff\0",
    "the same name twice": NAMED + NAMED,
    "a type that does not exist": b"\x01a\x0a",
    "a number that is cut": b"\x01a\4\0\0",
    "a length that is cut": b"\x01a\7\0",
    "a text that is cut": NAMED[:-1],
    "a text that is no UTF-8": b"\x01a\7\0\1\xff",
    "no type": header(":message-type", "event"),
    "a type that is no text": header(":event-type", 7),
}


@every("name", BROKEN_HEADERS)
@every("more", [b"", header("long", "x" * 2000)])
def test_headers_that_say_nothing_are_refused(name: str, more: bytes) -> None:
    body = EVENTS[0] + message(more + BROKEN_HEADERS[name], b"{}")
    error = refusal(body)
    assert (type(error), error.kind) == (RemoteProtocolError, "malformed_chunk")
    assert f"at byte {len(EVENTS[0])} " in str(error)


@every("payload", [b"{", b'{"bytes":"?"}', b'{"bytes":"QQ"}', '{"bytes":"é"}'.encode()])
def test_a_chunk_that_cannot_be_unwrapped_is_refused(payload: bytes) -> None:
    error = refusal(EVENTS[0] + event("chunk", payload))
    assert error.kind == "malformed_chunk"
    assert "its payload is not a chunk" in str(error)


def test_what_is_remembered_is_not_taken_on_trust() -> None:
    """The same beginning again, with another payload and with a wrong checksum."""
    good, bad = event("x", {"a": 1}), bytearray(event("x", {"a": 2}))
    assert payloads(good, good, event("x", {"a": 2})) == [{"x": {"a": 1}}, {"x": {"a": 1}}, {"x": {"a": 2}}]
    bad[-6] ^= 1
    assert decode([good, bytes(bad)])[0] == [b'{"x":{"a":1}}']


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_a_message_may_be_as_large_as_the_limit_and_no_larger() -> None:
    for size in (len(EVENTS[1]), len(EVENTS[1]) + 1):
        assert decode([EVENTS[1]], max_event_bytes=size)[1] is None
    error = refusal(EVENTS[0] + EVENTS[1], max_event_bytes=len(EVENTS[1]) - 1)
    assert isinstance(error, LimitExceeded)
    assert (error.setting, error.limit, error.value) == ("max_event_bytes", len(EVENTS[1]) - 1, len(EVENTS[1]))


def test_the_length_is_looked_at_before_more_is_kept() -> None:
    decoder = AWSEventStreamDecoder(max_event_bytes=1000)
    assert decoder.feed_payloads(with_lengths(1001, 0)[:12]) == []
    with pytest.raises(LimitExceeded):
        decoder.feed_payloads(b"")


def test_headers_may_be_long_or_ever_different() -> None:
    long = {":event-type": "x", **{f"h{number}": "x" * 30_000 for number in range(4)}}
    assert payloads(message(long, b"1"), message(long, b"2")) == [{"x": 1}, {"x": 2}]
    many = [message({":event-type": "x", "n": number}, b"{}") for number in range(3000)]
    assert payloads(b"".join(many)) == [{"x": {}}] * 3000


# -- headers ---------------------------------------------------------------------------------------------------------

VALUES: dict[str, tuple[Any, Any]] = {
    "true": (True, True),
    "false": (False, False),
    "byte": ((2, -128), -128),
    "short": ((3, -(2**15)), -(2**15)),
    "integer": ((4, 2**31 - 1), 2**31 - 1),
    "long": ((5, -(2**63)), -(2**63)),
    "bytes": (b"\0\xff", b"\0\xff"),
    "text": ("é" * 9, "é" * 9),
    "timestamp": ((8, 1_700_000_000_000), 1_700_000_000_000),
    "uuid": ((9, bytes(range(16))), bytes(range(16))),
}


def test_headers_of_all_types_are_read() -> None:
    data = b"".join(header(name, value) for name, (value, _) in VALUES.items())
    found = read_headers(data)
    assert found == {name: value for name, (_, value) in VALUES.items()}
    assert [type(value) for value in found.values()] == [type(value) for _, value in VALUES.values()]
    assert read_headers(b"") == {}


@settings(max_examples=examples(100), deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_headers_or_refused(data: bytes) -> None:
    try:
        found = read_headers(data)
    except ValueError:
        return
    assert all(isinstance(value, (bool, int, bytes, str)) for value in found.values())


def test_botocore_reads_the_same() -> None:
    """A comparison for who has botocore installed; the project does not need it."""
    botocore = pytest.importorskip("botocore.eventstream")
    extra = b"".join(header(name, value) for name, (value, _) in VALUES.items())
    bodies = [BODY, message(extra + NAMED, b"{}"), BODY[:-5], bytes([BODY[0] ^ 1]) + BODY[1:], BODY[:-1] + b"\0"]
    for body in bodies:
        buffer = botocore.EventStreamBuffer()
        buffer.add_data(body)
        theirs: list[Any] = []
        try:
            theirs.extend({found.headers[":event-type"]: orjson.loads(found.payload)} for found in buffer)
        except botocore.ParserError:
            assert decode([body])[1] is not None
        assert [orjson.loads(payload) for payload in decode([body])[0]] == theirs


def test_nothing_is_taken_after_the_end() -> None:
    decoder = AWSEventStreamDecoder()
    decoder.finish()
    with pytest.raises(LocalProtocolError):
        decoder.feed_payloads(BODY)
