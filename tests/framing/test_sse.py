"""Event streams: the standard to the letter, in any chunks, within bounds; and the two leniencies."""

from __future__ import annotations

import base64
import tracemalloc
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from line_counts import steps
from profiles import every
from sansio import DATA, byte_by_byte, json_lines

from streamtools.errors import LimitExceeded, LocalProtocolError
from streamtools.framing import Frame, SSEDecoder
from streamtools.testing import feed_every_way

VECTORS = json_lines(DATA / "sse_vectors.jsonl")


def decode(chunks: list[bytes], **options: Any) -> list[tuple[str, str, str]]:
    decoder = SSEDecoder(**options)
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return [told(frame) for frame in (*frames, *decoder.finish())]


def told(frame: Frame) -> tuple[str, str, str]:
    return frame.event, frame.data.decode("utf-8", "replace"), frame.id


# -- the standard ----------------------------------------------------------------------------------------------------


def test_a_vector_gives_its_frames_however_it_is_cut() -> None:
    failed = {}
    for vector in VECTORS:
        frames = [told(frame) for frame in feed_every_way(SSEDecoder, base64.b64decode(vector["input_b64"]))]
        if frames != [(frame["event"], frame["data"], frame["last_event_id"]) for frame in vector["expected"]]:
            failed[vector["id"]] = frames
    assert failed == {}


def test_a_frame_comes_with_the_very_byte_that_ends_it() -> None:
    decoder = SSEDecoder()
    assert [len(decoder.feed(byte)) for byte in byte_by_byte(b"data: 1\n\ndata: 2\r\rdata: 3\r\n\r\n")].count(1) == 3
    assert decoder.feed(b"data: 4\r") == []
    assert [frame.data for frame in decoder.feed(b"\r")] == [b"4"]  # without waiting for a LF that may follow
    assert decoder.feed(b"\n") == []


def test_chunks_without_bytes_change_nothing() -> None:
    assert decode([b"", b"\xef", b"", b"\xbb\xbfdata", b"", b": 1\r", b"", b"\n\r", b"", b"\n", b""]) == [
        ("message", "1", "")
    ]


@settings(deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.sampled_from([b"data", b": ", b"event", b"id", b"\r", b"\n", b"x", b"\xef\xbb\xbf", b"\0"])),
    st.lists(st.integers(0, 90), max_size=5),
    st.booleans(),
)  # fmt: skip
def test_any_stream_gives_the_same_frames_however_it_is_cut(parts: list[bytes], cuts: list[int], lenient: bool) -> None:
    body = b"".join(parts)
    bounds = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    chunks = [body[start:end] for start, end in pairwise(bounds)]
    assert decode(chunks, lenient=lenient) == decode([body], lenient=lenient)


# -- leniency --------------------------------------------------------------------------------------------------------


def test_a_block_without_its_blank_line_is_dropped_unless_lenient() -> None:
    for body in (b"data: 1", b"data: 1\n", b"event: e\ndata: 1\r"):
        assert decode([body]) == []
        assert [data for _, data, _ in decode([body], lenient=True)] == ["1"]


def test_an_error_field_is_an_event_of_that_name_if_lenient() -> None:
    body = b'error: {"code":1}\n\n'
    assert decode([body]) == []
    assert decode([body], lenient=True) == [("error", '{"code":1}', "")]


def test_a_body_of_a_partial_byte_order_mark_is_no_data() -> None:
    for body in (b"", b"\xef", b"\xef\xbb", b"\xef\xbb\xbf"):
        assert decode([body], lenient=True) == []


# -- bounds ----------------------------------------------------------------------------------------------------------

LINES = [
    pytest.param(b"data: 1234567890", id="data"),
    pytest.param(b"data:12345678901", id="data without a space"),
    pytest.param(b": 12345678901234", id="comment"),
    pytest.param(b"event: 123456789", id="event"),
    pytest.param(b"id: 123456789012", id="id"),
    pytest.param(b"error: 123456789", id="error"),
    pytest.param(b"unknown: 1234567", id="unknown field"),
    pytest.param(b"1234567890123456", id="no field"),
]


def outcome(chunks: list[bytes], limit: int, *, lenient: bool) -> tuple[list[Frame], str | None]:
    decoder, frames = SSEDecoder(max_event_bytes=limit, lenient=lenient), []
    try:
        for chunk in chunks:
            frames += decoder.feed(chunk)
        frames += decoder.finish()
    except LimitExceeded as error:
        return frames, f"{error.setting}={error.limit}"
    return frames, None


@every("line", LINES)
@every("lenient", [False, True])
def test_a_line_may_be_as_long_as_the_limit_and_no_longer_however_it_is_cut(line: bytes, lenient: bool) -> None:
    assert len(line) == 16
    first = b"data: 0\n\n"
    for body in (first + line + b"\n\n", first + line):
        for chunks in ([body], byte_by_byte(body), [first, body[len(first) :]]):
            assert outcome(chunks, 17, lenient=lenient)[1] is None
            assert outcome(chunks, 16, lenient=lenient)[1] is None
            frames, exceeded = outcome(chunks, 15, lenient=lenient)
            assert exceeded == "max_event_bytes=15"
            assert [frame.data for frame in frames] == [b"0"], "what was whole before it is not lost"


@every("field", [b"data:", b"error:"])
def test_joined_data_may_be_as_long_as_the_limit_and_no_longer(field: bytes) -> None:
    body = (field + b"1234\n") * 4 + b"\n"  # joined by newlines: 19 bytes
    for chunks in ([body], byte_by_byte(body)):
        assert [len(frame.data) for frame in outcome(chunks, 20, lenient=True)[0]] == [19]
        assert [len(frame.data) for frame in outcome(chunks, 19, lenient=True)[0]] == [19]
        assert outcome(chunks, 18, lenient=True) == ([], "max_event_bytes=18")


def test_many_events_may_be_longer_than_the_limit_together() -> None:
    body = b"data: 123456\n\n" * 100
    assert len(outcome([body], 16, lenient=False)[0]) == 100


def test_an_endless_line_is_refused_before_it_is_kept() -> None:
    decoder = SSEDecoder(max_event_bytes=1000)
    fed = 0
    with pytest.raises(LimitExceeded):
        for _ in range(100):
            decoder.feed(b"x" * 100)
            fed += 100
    assert fed <= 1100


# -- the order of calls ----------------------------------------------------------------------------------------------


def test_feeding_after_the_end_is_a_mistake_of_the_caller() -> None:
    decoder = SSEDecoder()
    decoder.finish()
    with pytest.raises(LocalProtocolError, match="after finish"):
        decoder.feed(b"data: 1\n\n")
    assert decoder.finish() == []


def test_after_the_limit_the_decoder_says_so_again() -> None:
    decoder = SSEDecoder(max_event_bytes=4)
    decoder.feed(b"")
    for _ in range(2):
        with pytest.raises(LimitExceeded):
            decoder.feed(b"12345\n")
            decoder.feed(b"")


def test_payloads_are_the_data_of_the_frames_in_whichever_chunks_they_come() -> None:
    """A chunk that is one event like the one before takes a shorter path."""
    heads = ("data: ", "data:", "event: delta\ndata: ", "id: 7\ndata: ", "event: error\ndata: ")
    for head in heads:
        for end in ("\n", "\r\n", "\r"):
            events = [f"{head}{data}\n\n".replace("\n", end).encode() for data in ('{"n":1}', '{"n":2}', "3", "é")]
            expected = [frame.data for frame in feed_every_way(SSEDecoder, b"".join(events))]
            decoder = SSEDecoder()
            found = [item for chunk in [*events, b""] for item in decoder.feed_payloads(chunk)]
            found += decoder.finish()
            assert [item.data if isinstance(item, Frame) else item for item in found] == expected, (head, end)
            assert all(isinstance(item, Frame) for item in found) is head.startswith("event: error"), (head, end)


def test_of_events_without_data_in_a_row_one_is_a_payload() -> None:
    for body, expected in (
        (b"data\n\n", [b""]),
        (b"data\n\ndata:\n\n", [b""]),
        (b"data: x\n\ndata\n\ndata\n\ndata: y\n\n", [b"x", b"", b"y"]),
    ):
        assert SSEDecoder().feed_payloads(body) == expected, body


# -- what few streams show -------------------------------------------------------------------------------------------


def test_the_name_and_the_id_of_a_frame_are_what_its_lines_say() -> None:
    assert SSEDecoder.name == "sse"
    assert Frame(b"x") == Frame(b"x", "message", "")
    cases: dict[bytes, list[tuple[str, str, str]]] = {
        b"event: a\xff\nid: b\xff\ndata: 1\n\n": [("a\ufffd", "1", "b\ufffd")],
        b"id:7\ndata: 1\n\nid: 8\n\ndata: 2\n\n": [("message", "1", "7"), ("message", "2", "8")],
        b"id: 7\nid: a\0\ndata: 1\n\n": [("message", "1", "7")],
        b"id: 7\nid\ndata: 1\n\n": [("message", "1", "")],
        b"id:  7\nids: 8\nevents: e\ndatas: x\nevent:  e\ndata: 1\n\n": [(" e", "1", " 7")],
        b"event: e\nevent\ndata: 1\n\n": [("message", "1", "")],
        b"event: e\nevent:f\ndata: 1\n\n": [("f", "1", "")],
        b"event: e\n\ndata: 1\n\n": [("message", "1", "")],
        b"error: 1\n\n": [],
        b"errors: 1\ndata: 2\n\n": [("message", "2", "")],
        b"data: 1\r\n\ndata: 2\n\r\ndata: 3\r\n\r\n": [("message", str(n), "") for n in (1, 2, 3)],
        b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n": [("message", "1", "")],
        b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\n": [],
        b"\xef\xbbdata: 1\n\n": [],
        b"\xef\xbb\xbf\ndata: 1\n\n": [("message", "1", "")],
    }
    for body, expected in cases.items():
        assert [told(frame) for frame in feed_every_way(SSEDecoder, body)] == expected, body


def test_an_object_without_fields_is_an_unframed_event_if_lenient() -> None:
    def lenient() -> SSEDecoder:
        return SSEDecoder(lenient=True)

    one, two = ("message", "1", "7"), ("message", "2", "7")
    cases: dict[bytes, list[tuple[str, str, str]]] = {
        b'{"a":1}\n': [("unframed", '{"a":1}', "")],
        b'{"a":1} \t\n': [("unframed", '{"a":1} \t', "")],
        b'{"a":1}{"b":2}\n': [("unframed", '{"a":1}{"b":2}', "")],
        b'{"a":\n': [("unframed", '{"a":', "")],
        b"{}\n{\n}\n": [("unframed", "{}", ""), ("unframed", "{\n}", "")],
        b'{\n  "a": {}\n} \ndata: 1\n\n': [("unframed", '{\n  "a": {}\n} ', ""), ("message", "1", "")],
        b"id: 7\ndata: 1\n\n{\nid: 5\n:\nx\ni\nerrors\n}\ndata: 2\n\n": [
            one,
            ("unframed", "{\nid: 5\n:\nx\ni\nerrors\n}", ""),
            two,
        ],
        b"}\ndata: 1\n\n": [("message", "1", "")],
        b' {"a":1}\n': [],
    }
    for body, expected in cases.items():
        assert [told(frame) for frame in feed_every_way(lenient, body)] == expected, body
        assert all(name == "message" for name, _, _ in decode([body])), body


def test_payloads_do_not_depend_on_what_a_chunk_ends_with() -> None:
    """Where a chunk begins like the one before, the shorter path is left for the general one if it is not one event."""
    for head, end in product((b"data: ", b"event: e\ndata: ", b"data:", b"event: error\ndata: "), (b"\n", b"\r\n")):
        for size in range(5):
            for tail in product((b"\n", b"\r", b"x"), repeat=size):
                event = head + b"1" + end + end
                chunks = [event, event, head + b"2" + b"".join(tail), b"\n\n", event]
                decoder, plain = SSEDecoder(), SSEDecoder()
                found = [item for chunk in chunks for item in decoder.feed_payloads(chunk)]
                expected = [frame for chunk in chunks for frame in plain.feed(chunk)]
                datas = [item.data if isinstance(item, Frame) else item for item in found]
                assert datas == [frame.data for frame in expected], chunks


def test_a_chunk_that_is_an_event_like_the_one_before_takes_the_shorter_path() -> None:
    cases = [
        (head, end, is_short)
        for head, is_short in (
            (b"data: ", True),
            (b"event: delta\ndata: ", True),
            (b"data:", False),
            (b"event: error\ndata: ", False),
            (b"id: 7\ndata: ", False),
        )
        for end in (b"\n", b"\r\n")
        if end == b"\n" or not head.startswith(b"event")
    ]
    for head, end, is_short in cases:
        event = head + b'{"n":1}' + 2 * end
        for mark in (b"", b"\xef\xbb\xbf"):
            decoder = SSEDecoder()
            decoder.feed_payloads(mark + event)
            assert len(decoder.feed_payloads(event)) == 1
            assert (steps(lambda made=decoder: made.feed_payloads(event)) < 12) is is_short, (head, end, mark)  # type: ignore[misc]
    decoder = SSEDecoder()  # the second mark is no mark
    assert decoder.feed_payloads(b"data: 1\n\n") + decoder.feed_payloads(b"\xef\xbb\xbfdata: 2\n\n") == [b"1"]
    decoder = SSEDecoder(max_event_bytes=20)
    for size in (5, 6, 12, 13):  # of the chunk: 13 to 21 bytes
        decoder.feed_payloads(b"data: 1\n\n")
        chunk = b"data: " + b"1" * size + b"\n\n"
        assert (steps(lambda made=chunk: decoder.feed_payloads(made)) < 12) is (len(chunk) <= 20), size  # type: ignore[misc]


def test_a_decoder_that_has_ended_takes_no_payloads_either() -> None:
    decoder = SSEDecoder()
    decoder.feed_payloads(b"data: 1\n\n")
    decoder.finish()
    with pytest.raises(LocalProtocolError, match="after finish"):
        decoder.feed_payloads(b"data: 1\n\n")


def test_an_error_of_the_limit_says_what_was_how_large() -> None:
    line, event, bare = "a line of the event stream", "an event of the event stream", "an object in the event stream"
    cases: dict[bytes, tuple[str, int]] = {
        b"data: 12345": (line, 11),
        b"data: 12345\n": (line, 11),
        b"data:12345\ndata:12345\n": (event, 11),
        b"data\n" * 12: (event, 11),
        b'{"a":1,\n"b"\n': (bare, 11),
        b"{\n" * 6: (bare, 11),
    }
    for body, (where, value) in cases.items():
        for chunks in ([body], byte_by_byte(body)):
            decoder = SSEDecoder(max_event_bytes=10, lenient=True)
            with pytest.raises(LimitExceeded) as caught:
                for chunk in chunks:
                    decoder.feed(chunk)
                decoder.feed(b"")
            assert where in str(caught.value)
            assert (caught.value.limit, caught.value.value) == (10, value), body
            with pytest.raises(LimitExceeded):
                decoder.feed_payloads(b"data: 1\n\n")


def held(run: Callable[[SSEDecoder], object], **options: Any) -> int:
    """Bytes that a decoder holds after `run`."""
    decoder = SSEDecoder(**{"lenient": True, **options})
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run(decoder)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_a_decoder_holds_little_more_than_what_waits_and_nothing_after_its_end() -> None:
    """In whichever pieces it came: each would take some 40 bytes more."""
    kinds = {"a line": (b"data: ", b"xy"), "data": (b"", b"data:xy\n"), "an object": (b"{\n", b"xy\n")}
    for name, (head, piece) in kinds.items():

        def wait(decoder: SSEDecoder, head: bytes = head, piece: bytes = piece) -> None:
            decoder.feed(head)
            for _ in range(12_000):
                decoder.feed(piece)

        def end(decoder: SSEDecoder) -> None:
            wait(decoder)
            decoder.finish()

        def exceed(decoder: SSEDecoder) -> None:
            wait(decoder)
            decoder.feed(b"z" * 200_000)

        assert held(wait) < 200_000, name
        assert held(end) < 16_000, name
        assert held(end, lenient=False) < 16_000, name
        assert held(exceed, max_event_bytes=120_000) < 16_000, name
