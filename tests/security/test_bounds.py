"""A peer that never stops: in each framing each kind of flood ends at a limit that is named, its source closed."""

from __future__ import annotations

import binascii
import struct
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from typing import Any

import anyio
import pytest
from every_wire import CHAT
from streams import chat_chunk, sse

from streamtools import Limits, pipeline, tool
from streamtools.errors import LimitExceeded, StreamError
from streamtools.framing import Frame, choose

CAP = 1 << 18
CHUNK = 16 << 10
FLOOD = 16 * CAP


def flood(head: bytes, filler: bytes) -> Iterator[bytes]:
    """A beginning, and then nothing that ends."""
    yield head
    piece = filler * (CHUNK // len(filler))
    for _ in range(FLOOD // CHUNK):
        yield bytes(piece)  # each chunk its own, as a socket gives them


def aws_prelude(size: int) -> bytes:
    """The beginning of a message that says how large it is."""
    lengths = struct.pack(">II", size, 0)
    return lengths + struct.pack(">I", binascii.crc32(lengths))


FLOODS = {
    "sse: a line": (b"data: ", b"x"),
    "sse: a field's name": (b"x", b"x"),
    "sse: a comment": (b":", b"x"),
    "sse: an event of many lines": (b"data: {\n", b"data: x\n"),
    "ndjson: a line": (b'{"a": "', b"x"),
    "json array: a string": (b'[{"a": "', b"x"),
    "json array: nesting": (b"[", b"[       "),
    "aws: a message": (aws_prelude(FLOOD), b"x"),
    "white space": (b"\n", b" "),
    "a web page": (b"<html>", b"x"),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_refused_before_it_takes_more_than_twice_the_limit(name: str) -> None:
    read = 0
    closed: list[bool] = []

    async def source() -> AsyncIterator[bytes]:
        nonlocal read
        try:
            for chunk in flood(*FLOODS[name]):
                read += len(chunk)
                yield chunk
        finally:
            closed.append(True)

    async def run() -> StreamError | None:
        try:
            with anyio.fail_after(60):
                async with pipeline(source(), limits=Limits(max_event_bytes=CAP, max_stream_bytes=4 * CAP)) as events:
                    _ = [event async for event in events]
        except StreamError as error:
            return error
        return None

    tracemalloc.start()
    try:
        error = anyio.run(run)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error is not None
    assert isinstance(error, LimitExceeded) or error.kind == "not_event_stream"
    assert read <= 4 * CAP + 2 * CHUNK
    assert closed == [True]
    assert peak < 2 * CAP + 16 * CHUNK, f"{peak / CAP:.2f} times the limit"


@pytest.mark.parametrize(
    "name", [name for name in FLOODS if name.startswith(("sse: a line", "ndjson", "json array: a"))]
)
def test_after_the_limit_nothing_more_is_taken(name: str) -> None:
    head, filler = FLOODS[name]
    framing = choose(head, CAP)
    assert framing is not None
    with pytest.raises(LimitExceeded) as caught:
        for chunk in flood(head, filler):
            list(framing.feed_payloads(chunk))
    assert caught.value.setting == "max_event_bytes"
    assert caught.value.limit == CAP
    assert "max_event_bytes" in str(caught.value)


# -- small pieces -------------------------------------------------------------------------------------------------

N = 12_000
ROOM = 2.5  # times what was sent: the pieces joined, and the whole that is made of them
PAIRS = b"xy" * N
SMALL_PIECES: dict[
    str, tuple[bytes, list[bytes], bytes, bytes]
] = {  # the head, what comes N times, the end; the payload
    "sse: a line": (b"data: ", [b"xy"], b"\n\n", PAIRS),
    "sse: a line, cut anywhere": (b"data: ", [b"x", b"yz", b"", b"abc"], b"\n\n", b"xyzabc" * (N // 4)),
    "sse: many lines": (b"data: a\n", [b"data: xy\n"], b"\n", b"a" + b"\nxy" * N),
    "sse: many lines, cut": (b"data: a\n", [b"data: x", b"y\n"], b"\n", b"a" + b"\nxy" * (N // 2)),
    "sse: many lines, some empty": (b"data\n", [b"data:\n", b"data: a\n"], b"\n", b"\n\na" * (N // 2)),
    "sse: a bare object": (b":\n{\n", [b'"a": 1,\n'], b"}\n", b"{\n" + b'"a": 1,\n' * N + b"}"),
    "ndjson": (b'{"a": "', [b"xy"], b'"}\n', b'{"a": "' + PAIRS + b'"}'),
    "json array": (b'[{"a": "', [b"xy"], b'"}]', b'{"a": "' + PAIRS + b'"}'),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SMALL_PIECES)
def test_small_pieces_are_joined_as_they_came_and_take_little_more_room_than_their_bytes(name: str) -> None:
    head, pieces, tail, payload = SMALL_PIECES[name]
    framing = choose(head, CAP)
    assert framing is not None
    size = len(head)
    tracemalloc.start()
    try:
        found = list(framing.feed_payloads(head))
        for number in range(N):
            piece = bytes(bytearray(pieces[number % len(pieces)]))  # its own, as a socket gives it
            size += len(piece)
            found += framing.feed_payloads(piece)
        found += framing.feed_payloads(tail)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (only,) = found
    assert (only.data if isinstance(only, Frame) else only) == payload
    assert peak < ROOM * size + 100_000, f"{peak / size:.1f} times what was sent"


# -- floods of small things ------------------------------------------------------------------------------------------


def deltas(delta: dict[str, Any]) -> Iterator[bytes]:
    """One delta for ever, after a call has begun."""
    head = {"index": 0, "id": "c", "type": "function", "function": {"name": "once", "arguments": ""}}
    yield from sse([chat_chunk({"tool_calls": [head]})])
    (chunk,) = sse([chat_chunk(delta)])
    while True:
        yield chunk


def calls() -> Iterator[bytes]:
    """Calls without end."""
    number = 0
    while True:
        call = {
            "index": number,
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "once", "arguments": "{}"},
        }
        yield from sse([chat_chunk({"tool_calls": [call]})])
        number += 1


def _argument(text: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}


SMALL = {
    "white space as arguments": (lambda: deltas(_argument(" ")), {"max_total_argument_bytes", "max_stream_bytes"}),
    "arguments of nothing": (lambda: deltas(_argument("")), {"max_stream_bytes"}),
    "text": (lambda: deltas({"content": "x"}), {"max_text_bytes", "max_stream_bytes"}),
    "white space as text": (lambda: deltas({"content": "\n"}), {"max_text_bytes", "max_stream_bytes"}),
    "text of nothing": (lambda: deltas({"content": ""}), {"max_stream_bytes"}),
    "reasoning": (lambda: deltas({"reasoning_content": "x"}), {"max_text_bytes", "max_stream_bytes"}),
    "calls": (calls, {"max_tool_calls"}),
    "comments": (lambda: iter(lambda: b": ping\n\n", None), {"max_stream_bytes"}),
    "events without data": (lambda: iter(lambda: b"event: x\n\n", None), {"max_stream_bytes"}),
    "blank lines": (lambda: iter(lambda: b"\n" * 99, None), {"max_stream_bytes"}),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", SMALL)
async def test_what_says_little_without_end_ends_at_a_limit_and_runs_nothing(name: str) -> None:
    make, settings = SMALL[name]
    closed: list[bool] = []

    @tool
    def once() -> str:
        """Do it once."""
        raise AssertionError("it ran")

    async def source() -> AsyncIterator[bytes]:
        try:
            for number, chunk in enumerate(make()):
                if number % 100 == 0:
                    await anyio.lowlevel.checkpoint()
                yield chunk
        finally:
            closed.append(True)

    limits = Limits(
        max_stream_bytes=300_000,
        max_text_bytes=500,
        max_total_argument_bytes=900,
        max_argument_bytes=600,
        max_tool_calls=9,
    )
    with anyio.fail_after(60), pytest.raises(LimitExceeded) as caught:
        async with pipeline(source(), tools=[once], limits=limits, wire=CHAT) as events:
            async for _ in events:
                pass
    assert caught.value.setting in settings
    assert closed == [True]
    assert all(observation.attempts == 0 for observation in events.turn.observations)
    assert len(events.turn.observations) == len(events.turn.calls)


def test_no_limit_is_off_unless_somebody_turns_it_off() -> None:
    limits = Limits()
    off = [field.name for field in fields(limits) if getattr(limits, field.name) is None]
    # Budgets and times that only the application can know.
    assert off == ["call_budget", "token_budget", "first_chunk_timeout", "step_timeout", "run_timeout"]
    assert all(getattr(limits, field.name) < float("inf") for field in fields(limits) if field.name not in off)


@pytest.mark.parametrize("value", [0, -1, True, float("nan"), "8", None, [], float("inf")], ids=repr)
@pytest.mark.parametrize("name", ["max_event_bytes", "max_stream_bytes", "max_tool_calls", "max_argument_bytes"])
def test_a_limit_on_what_a_peer_sends_cannot_be_turned_off_by_an_odd_value(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})
