"""A peer that never stops: in each framing each kind of flood ends at a limit that is named, its source closed."""

from __future__ import annotations

import binascii
import struct
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields

import anyio
from profiles import every

from streamtools import Limits, pipeline
from streamtools.errors import LimitExceeded, StreamError

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


@every("name", FLOODS)
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
                await pipeline(source(), limits=Limits(max_event_bytes=CAP, max_stream_bytes=4 * CAP))
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


def test_no_limit_is_off_unless_somebody_turns_it_off() -> None:
    limits = Limits()
    off = [field.name for field in fields(limits) if getattr(limits, field.name) is None]
    # Budgets and times that only the application can know.
    assert off == ["call_budget", "token_budget", "first_chunk_timeout", "step_timeout", "run_timeout"]
    assert all(getattr(limits, field.name) < float("inf") for field in fields(limits) if field.name not in off)
