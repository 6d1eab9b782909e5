"""Responses whose body is encoded: decoded as they come, in any coding and any two, within the limits."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
import zlib
from importlib import import_module
from types import ModuleType
from typing import Any

import anyio
import anyio.lowlevel
import brotli
import httpx
import httpx2
import pytest
import zstandard
from blocking_sources import AiohttpResponse, Held, Response
from encoded import CODINGS, PAIRS, bomb, encoded
from profiles import every, thorough_unless
from streams import add, chat
from test_sources import BlockingBody, Body, client_for

from streamtools import Limits, StreamError, TextDelta, Turn, pipeline
from streamtools.errors import LimitExceeded, RemoteProtocolError, TruncatedStream

pytestmark = pytest.mark.anyio

WORDS = ["Hel", "lo", " from", " afar"]
CALLS = [("call_a", "add", '{"a": 1, "b": 2}')]
CHAT = chat(WORDS, CALLS)
EVERY = [(name,) for name in CODINGS] + PAIRS
LIBRARIES = every("library", [httpx, httpx2])
CODED = every("codings", EVERY)
CAP, MOST = 256 << 10, 2 << 20
SMALL = Limits(max_event_bytes=CAP, max_stream_bytes=MOST)
ROOM = 2 << 20  # beside the limit, for pieces on their way through the decoders
# Each is used when those before it are not there.
DECODERS = {
    "br": ("brotli", "brotlicffi"),
    "zstd": ("compression.zstd", "backports.zstd", "zstandard"),
}


def header(codings: tuple[str, ...]) -> dict[str, str]:
    return {"content-type": "text/event-stream", "content-encoding": ", ".join(name.split(",")[0] for name in codings)}


async def read(
    chunks: list[bytes], coding: str | tuple[str, ...], library: Any = httpx, **options: Any
) -> tuple[Turn, StreamError | None, Body]:
    """The turn of an encoded body, what was raised, and how the body was treated."""
    body = Body(chunks)
    headers = header(coding) if isinstance(coding, tuple) else {"content-encoding": coding}
    error = None
    client = client_for(body, headers, library)
    async with client, pipeline(client.stream("POST", "http://test/"), tools=[add], **options) as events:
        try:
            _ = [event async for event in events]
        except StreamError as raised:
            error = raised
    return events.turn, error, body


def is_whole(turn: Turn) -> None:
    assert turn.text == "".join(WORDS)
    assert [observation.value for observation in turn.observations] == [3]
    assert turn.complete
    assert turn.error is None


def recut(chunks: list[bytes], size: int) -> list[bytes]:
    body = b"".join(chunks)
    return [body[at : at + size] for at in range(0, len(body), size)]


# -- they are read -----------------------------------------------------------------------------------------------------


@CODED
@LIBRARIES
async def test_an_encoded_response_is_read_however_it_is_cut(library: Any, codings: tuple[str, ...]) -> None:
    body = encoded(CHAT, *codings)
    for chunks in (body, recut(body, 1), recut(body, 13), recut(body, 1 << 20)):
        turn, error, source = await read(chunks, codings, library)
        assert error is None
        is_whole(turn)
        assert source.closed


class Waiting(Body):
    """Goes on after each chunk of text only when that was seen."""

    def __init__(self, chunks: list[bytes], stops: dict[int, anyio.Event]) -> None:
        super().__init__(chunks)
        self.stops = stops

    async def __anext__(self) -> bytes:
        if (stop := self.stops.get(self.read - 1)) is not None:
            await stop.wait()
        return await super().__anext__()


@CODED
async def test_what_can_be_decoded_comes_at_once(codings: tuple[str, ...]) -> None:
    seen = {word: anyio.Event() for word in WORDS}
    stops = {at: seen[word] for at, chunk in enumerate(CHAT) for word in WORDS if f'"{word}"'.encode() in chunk}
    assert len(stops) == len(WORDS)
    body = Waiting(encoded(CHAT, *codings), stops)
    async with client_for(body, header(codings)) as client:
        with anyio.fail_after(30):
            async with pipeline(client.stream("POST", "http://test/"), tools=[add]) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        seen[event.text].set()
    is_whole(events.turn)
    assert body.closed


@CODED
@LIBRARIES
async def test_an_encoded_response_of_a_synchronous_client_is_read(library: Any, codings: tuple[str, ...]) -> None:
    for size in (7, 1 << 20):
        body = BlockingBody(recut(encoded(CHAT, *codings), size))
        with client_for(body, header(codings), library) as client:
            turn = await pipeline(client.stream("POST", "http://test/"), tools=[add])
        is_whole(turn)
        assert body.closed


async def test_members_and_frames_one_after_the_other_are_one_body() -> None:
    whole = b"".join(CHAT)
    parts = whole[:100], whole[100:150], whole[150:]
    for coding, pack in (("gzip", gzip.compress), ("zstd", zstandard.compress)):
        body = [b"".join(map(pack, parts)) + (b"\0\0\0" if coding == "gzip" else b"")]
        for chunks in (body, recut(body, 1)):
            turn, error, _ = await read(chunks, coding)
            assert error is None
            is_whole(turn)


@every("decodes", [False, True])
async def test_a_response_of_aiohttp_is_decoded_where_aiohttp_has_not_done_it(decodes: bool) -> None:
    held = Held(CHAT if decodes else encoded(CHAT, "gzip", "br"))
    response: Any = AiohttpResponse(held)
    response.headers = MultiDict("gzip", "br")
    response.content.total_compressed_bytes = 0 if decodes else None
    turn = await pipeline(response, tools=[add])
    is_whole(turn)
    assert held.closed == 1


class MultiDict(dict[str, str]):
    """aiohttp's headers: `get` gives the first line of a name."""

    def __init__(self, *codings: str) -> None:
        super().__init__({"content-encoding": codings[0]})
        self._codings = codings

    def getall(self, name: str, default: Any) -> Any:
        return self._codings


@every("blocking", [False, True])
async def test_a_response_that_gives_decoded_bytes_only_is_taken_at_its_word(blocking: bool) -> None:
    held = Held(CHAT)
    response: Any = Response(held, blocking=blocking)
    response.headers = {"content-encoding": "gzip"}
    turn = await pipeline(response, tools=[add])
    is_whole(turn)


# -- they are wrong ----------------------------------------------------------------------------------------------------


@CODED
async def test_of_a_body_that_was_cut_all_that_came_is_read_and_nothing_is_complete(codings: tuple[str, ...]) -> None:
    body = encoded(chat(WORDS, finish="stop")[:-2], *codings)
    for chunks in (body[: len(CHAT) // 2], [b"".join(body)[:-1]]):
        turn, error, source = await read(chunks, codings)
        assert isinstance(error, TruncatedStream)
        assert "".join(WORDS).startswith(turn.text)
        assert turn.text
        assert not turn.complete
        assert source.closed


@every("codings", [(name,) for name in CODINGS])
async def test_a_body_that_is_not_encoded_so_is_a_typed_error_after_what_came_before(codings: tuple[str, ...]) -> None:
    garbage = b"\xff\xfe" + b"\xff" * 600
    body = encoded(chat(WORDS)[:3], *codings)[:-1]
    for chunks in ([garbage], [b"".join(CHAT)], [*body, garbage]):
        turn, error, source = await read(chunks, codings)
        assert isinstance(error, (RemoteProtocolError, LimitExceeded)), error
        assert source.closed
        assert not turn.complete
        assert bool(turn.text) == (len(chunks) > 1)
        assert "\n" not in str(error)


@every("codings", [("gzip",), ("deflate",), ("br",), ("zstd",)])
async def test_what_follows_the_end_of_the_encoding_is_no_part_of_the_body(codings: tuple[str, ...]) -> None:
    body = encoded(chat(WORDS, finish="stop")[:-1], *codings)
    turn, error, _ = await read([*body, b"data: {}\n\n", b"more"], codings)
    assert turn.text == "".join(WORDS)
    assert isinstance(error, RemoteProtocolError)


@every(
    ("says", "told"),
    [
        ("compress", "'compress'; send the request with Accept-Encoding: identity"),
        ("gzip, snappy", "'snappy'"),
        ("gzip, gzip, gzip, gzip, gzip", "5 content codings; at most 4"),
        ("x" * 5000, "xxx"),
        ("\x1b[31m", "x1b"),
    ],
)
async def test_a_coding_that_is_not_decoded_is_refused_by_its_name(says: str, told: str) -> None:
    _, error, body = await read(CHAT, says)
    assert isinstance(error, RemoteProtocolError)
    assert told in str(error)
    assert len(str(error)) < 300
    assert "\x1b" not in str(error)
    assert body.closed


@pytest.mark.parametrize(("coding", "wanted"), [("br", "brotli>=1.2"), ("zstd", "zstandard>=0.22")])
@pytest.mark.parametrize("is_there", [False, True], ids=["not there", "too old"])
async def test_a_coding_whose_decoder_cannot_be_bounded_is_refused_and_the_remedy_is_told(
    monkeypatch: pytest.MonkeyPatch, coding: str, wanted: str, is_there: bool
) -> None:
    class Old:
        def decompressobj(self) -> object:
            return object()

    for name in DECODERS[coding]:
        old: Any = ModuleType(name)
        old.Decompressor = old.ZstdDecompressor = Old
        is_old = is_there and name not in ("compression.zstd", "backports.zstd")
        monkeypatch.setitem(sys.modules, name, old if is_old else None)
    _, error, body = await read(encoded(CHAT, coding), coding)
    assert isinstance(error, RemoteProtocolError)
    assert f"install {wanted}, or send the request with Accept-Encoding: identity" in str(error)
    assert ("too old" in str(error)) == is_there
    assert body.closed


# -- they are bombs ----------------------------------------------------------------------------------------------------


ENDLESS = {  # what repeats, and the limit that ends it
    "a line": (b"\0", b"data: ", "max_event_bytes"),
    "line ends": (b"\n", b"", "max_stream_bytes"),
    "comments": (b": keep-alive\n\n", b"", "max_stream_bytes"),
    "events": (b'data: {"type":"ping"}\n\n', b"", "max_stream_bytes"),
    "JSON lines": (
        b'{"model":"m","message":{"role":"assistant","content":""},"done":false}\n',
        b"",
        "max_stream_bytes",
    ),
}


# Encoding a bomb takes longer than ending it: of the pairs one kind each.
BOMBS = thorough_unless(
    lambda bomb: len(bomb[1]) == 1 and bomb[0] == "a line",
    [("a line", codings) for codings in EVERY]
    + [(what, (coding,)) for what in list(ENDLESS)[1:] for coding in ("gzip", "br", "zstd")],
)


@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    ("what", "codings"), BOMBS, ids=lambda value: value if isinstance(value, str) else " then ".join(value)
)
async def test_a_bomb_ends_at_its_limit_and_takes_no_more_than_twice_that(what: str, codings: tuple[str, ...]) -> None:
    unit, head, setting = ENDLESS[what]
    chunks = bomb(unit, 8 << 20, *codings, head=head)
    await read(encoded(CHAT, *codings), codings)  # all code is loaded
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _, error, body = await read(chunks, codings, limits=SMALL)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert isinstance(error, LimitExceeded), error
    assert error.setting == setting
    assert body.closed
    assert peak < 2 * CAP + ROOM, f"{peak / CAP:.1f} times the limit"


async def test_what_decodes_to_nothing_without_end_counts_as_it_comes() -> None:
    nothing = {"gzip": gzip.compress(b""), "zstd": zstandard.compress(b""), "deflate": b"\0\0\0\xff\xff"}
    for coding, unit in nothing.items():
        head = zlib.compressobj(wbits=-15).flush(zlib.Z_SYNC_FLUSH) if coding == "deflate" else b""
        body = [head, *[unit * 1000] * 100]
        _, error, source = await read(body, coding, limits=Limits(max_stream_bytes=50_000))
        assert isinstance(error, LimitExceeded)
        assert (error.setting, error.limit) == ("max_stream_bytes", 50_000)
        assert source.read < len(body)
        assert source.closed


async def test_a_window_may_be_as_large_as_http_allows_and_all_together_no_larger_than_one() -> None:
    whole = b"".join(CHAT)
    for bits in (10, 14, 16, 17, 18, 22, 24):
        turn, error, _ = await read([brotli.compress(whole, lgwin=bits)], "br")
        assert error is None, bits
        is_whole(turn)
    _, error, _ = await read([brotli.compress(gzip.compress(whole), lgwin=24)], "gzip, br")
    assert "window of 16777216 bytes is larger than 8388608" in str(error)
    for bits, fits in ((23, True), (24, False)):
        parameters = zstandard.ZstdCompressionParameters(window_log=bits)
        packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        turn, error, _ = await read([packer.compress(whole) + packer.flush()], "zstd")
        assert (error is None) == fits
        if error is not None:
            assert "too much memory" in str(error)


def is_installed(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize(
    ("coding", "decoder"),
    [
        pytest.param(coding, name, marks=pytest.mark.skipif(not is_installed(name), reason=f"{name} is not installed"))
        for coding, names in DECODERS.items()
        for name in names
    ],
)
async def test_every_decoder_decodes_alike_and_is_bounded(
    monkeypatch: pytest.MonkeyPatch, coding: str, decoder: str
) -> None:
    for name in DECODERS[coding]:
        if name != decoder:
            monkeypatch.setitem(sys.modules, name, None)
    body = encoded(CHAT, coding)
    for chunks in (body, recut(body, 1), recut(body, 1 << 20)):
        turn, error, _ = await read(chunks, coding)
        assert error is None
        is_whole(turn)
    large = bomb(b"\0", 3 << 20, coding, head=b"data: ")
    _, error, _ = await read(large, coding, limits=SMALL)
    assert isinstance(error, LimitExceeded)
    for chunks in (body[:3], [*body[:3], b"\xff" * 600]):
        turn, error, _ = await read(chunks, coding)
        assert isinstance(error, RemoteProtocolError)
        assert turn.text
