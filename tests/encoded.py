"""Encoded bodies: each coding, flushed after each chunk so that it streams, and bombs, made a little at a time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import brotli
import zstandard

__all__ = ["CODINGS", "PAIRS", "bomb", "encoded"]


class _Zlib:
    def __init__(self, wbits: int, level: int = 6) -> None:
        self._zlib = zlib.compressobj(level, wbits=wbits)

    def chunk(self, data: bytes) -> bytes:
        return self._zlib.compress(data) + self._zlib.flush(zlib.Z_SYNC_FLUSH)

    def more(self, data: bytes) -> bytes:
        return self._zlib.compress(data)

    def end(self) -> bytes:
        return self._zlib.flush()


class _Brotli:
    def __init__(self, lgwin: int = 22) -> None:
        self._brotli = brotli.Compressor(quality=5, lgwin=lgwin)

    def chunk(self, data: bytes) -> bytes:
        return bytes(self._brotli.process(data) + self._brotli.flush())

    def more(self, data: bytes) -> bytes:
        return bytes(self._brotli.process(data))

    def end(self) -> bytes:
        return bytes(self._brotli.finish())


class _Zstd:
    def __init__(self) -> None:
        self._zstd = zstandard.ZstdCompressor(level=3).compressobj()

    def chunk(self, data: bytes) -> bytes:
        return self._zstd.compress(data) + self._zstd.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def more(self, data: bytes) -> bytes:
        return self._zstd.compress(data)

    def end(self) -> bytes:
        return self._zstd.flush()


CODINGS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: _Zlib(31),
    "x-gzip": lambda: _Zlib(31),
    "deflate": lambda: _Zlib(15),
    "deflate, bare": lambda: _Zlib(-15),
    "br": _Brotli,
    "zstd": _Zstd,
}
_TESTED = ("gzip", "deflate", "br", "zstd")
PAIRS = [*zip(_TESTED, (*_TESTED[1:], _TESTED[0]), strict=True), ("gzip", "gzip")]


def encoded(chunks: Iterable[bytes], *codings: str) -> list[bytes]:
    """A body's chunks, each encoded so that it can be decoded when it has come, and last what ends the encoding."""
    body = list(chunks)
    for name in codings:
        coding = CODINGS[name]()
        body = [*(coding.chunk(chunk) for chunk in body), coding.end()]
    return body


def bomb(unit: bytes, size: int, *codings: str, head: bytes = b"") -> list[bytes]:
    """`size` bytes of `unit` after `head`, encoded; made a mebibyte at a time."""

    def plain() -> Iterator[bytes]:
        yield head
        piece = unit * ((1 << 20) // len(unit))
        for _ in range(size // len(piece)):
            yield piece

    chunks: Iterable[bytes] = plain()
    for name in codings:
        chunks = _packed(chunks, name)
    body = b"".join(chunks)
    return [body[at : at + (16 << 10)] for at in range(0, len(body), 16 << 10)]


def _packed(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    coding = CODINGS[name]()
    for chunk in chunks:
        if packed := coding.more(chunk):
            yield packed
    yield coding.end()
