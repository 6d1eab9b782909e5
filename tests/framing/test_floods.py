"""Floods of lines that say nothing: read like any other lines, and without a step for each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from line_counts import steps
from profiles import every, examples
from streams import chat

from streamtools import Limits, StreamError, parse, pipeline
from streamtools.framing import Frame, NDJSONDecoder, SSEDecoder

LINE_ENDS = (b"\n", b"\r", b"\r\n")
FIELDS = (
    b"data: a", b"data:", b"data", b"event: x", b"event:y", b"id: 7", b"id:8", b"id", b"id:\0", b":", b": ping", b"x",
    b"retry: 1", b" data: b", b"error: c", b"{", b"}", b'{"a": 1}', b'"k": 2', b"i", b"e", b"d", b"\xef\xbb\xbf",
)  # fmt: skip
JSON_FIELDS = (b'{"a": 1}', b" ", b"\t", b"{", b"x", b"\x0b")
SIZE = 3 << 10


def soup(pieces: list[bytes], fields: tuple[bytes, ...]) -> bytes:
    """Mostly line ends, again and again, so that chunks of it are large."""
    body = b"".join(pieces)
    return body * (1 + SIZE // max(1, len(body))) if body else b"\n" * SIZE + fields[0]


def soups(fields: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    ends = st.builds(bytes.__mul__, st.sampled_from(LINE_ENDS), st.integers(1, 12))
    piece = st.one_of(ends, ends, st.sampled_from(fields))
    return st.lists(piece, min_size=1, max_size=30).map(lambda pieces: soup(pieces, fields))


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@settings(deadline=None, derandomize=True, database=None, max_examples=examples(100))
@given(soups(FIELDS), st.booleans(), st.integers(1024, 4096))
def test_an_event_stream_full_of_line_ends_is_read_alike_in_large_chunks_and_in_small_ones(
    body: bytes, lenient: bool, size: int
) -> None:
    def frames(chunks: list[bytes]) -> list[Frame]:
        decoder = SSEDecoder(lenient=lenient)
        return [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.finish()

    assert frames(cut(body, size)) == frames(cut(body, 100))
    begun, rest = [b"{", b'"a"', b":"], b"\n" + b"1\n" * SIZE + b"}\n"  # the begun line of an object, in pieces
    assert frames([*begun, rest]) == frames([*begun, *cut(rest, 100)])


@settings(deadline=None, derandomize=True, database=None, max_examples=examples(100))
@given(soups(JSON_FIELDS), st.integers(8, 64), st.integers(1024, 4096))
def test_json_lines_full_of_line_ends_are_read_alike_in_large_chunks_and_in_small_ones(
    body: bytes, limit: int, size: int
) -> None:
    def lines(chunks: list[bytes], limit: int) -> list[Any]:
        decoder = NDJSONDecoder(max_event_bytes=limit)
        found: list[Any] = []
        try:
            for chunk in chunks:
                found += [line.strip() for line in decoder.feed_payloads(chunk)]  # type: ignore[union-attr]
            found += decoder.finish()
        except StreamError as error:
            found.append((type(error), str(error).partition("(")[0]))
        return found

    for bound in (limit, 1 << 20):
        assert lines(cut(body, size), bound) == lines(cut(body, 100), bound)


CHAT = chat(["a"])[0]
OLLAMA = b'{"model":"m","message":{"role":"assistant","content":"a"},"done":false}\n'
SAYS_NOTHING = {
    "LF": (CHAT, b"\n"),
    "CR": (CHAT, b"\r"),
    "CRLF": (CHAT, b"\r\n"),
    "mixed": (CHAT, b"\n\r\r\n\n\n\r\n"),
    "comments": (CHAT, b":\n"),
    "comments and blank lines": (CHAT, b":a\r\n\r\n\r\n"),
    "fields that nobody knows": (CHAT, b"x\n"),
    "JSON lines, LF": (OLLAMA, b"\n"),
    "JSON lines, CRLF": (OLLAMA, b"\r\n"),
    "JSON lines, blanks": (OLLAMA, b" \n\t\n\n"),
}


@every("name", SAYS_NOTHING)
def test_lines_that_say_nothing_cost_no_step_each(name: str) -> None:
    head, unit = SAYS_NOTHING[name]

    def cost(size: int) -> int:
        body = [head, unit * (size // len(unit))]
        return steps(lambda: parse(body))

    small, large = cost(8 << 10), cost(48 << 10)
    assert large < 2 * small, f"{small} for 8 KiB, {large} for 48"


def test_events_without_data_are_one_warning_however_many_there_are() -> None:
    body = chat(["a"], finish="stop")
    flood = b"data:\n\n" * 5000
    turn = parse(b"".join([*body[:-1], flood, body[-1]]))
    assert turn.text == "a"
    assert turn.complete
    assert [warning.code for warning in turn.warnings] == ["keepalive_data"]


@pytest.mark.anyio
async def test_what_stands_in_a_flood_of_line_ends_is_read() -> None:
    flood = b"\n\r\r\n" * 20_000 + b":\n" * 20_000
    chunks = chat(["Hel", "lo"], finish="stop")
    turn = await pipeline([flood, *(part for chunk in chunks for part in (chunk, flood))])
    assert turn.text == "Hello"
    assert turn.complete


def test_a_flood_of_line_ends_counts_as_bytes_of_the_stream() -> None:
    turn = parse([b"\n" * (64 << 10)] * 20, limits=Limits(max_stream_bytes=1 << 20))
    assert "max_stream_bytes" in str(turn.error)
