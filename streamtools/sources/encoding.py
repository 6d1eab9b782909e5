"""Decodes the content codings of a response body, a piece at a time.

    gzip, x-gzip   several members one after the other, too     zlib
    deflate        with zlib's header or without                zlib
    br             Brotli                                       brotli or brotlicffi, 1.2 or later
    zstd           several frames one after the other, too      compression.zstd, backports.zstd or zstandard

A piece is decoded only when the reader asks for it, so that `Limits` see each before the next.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from ..decode.body import SLICE_BYTES
from ..errors import LimitExceeded, RemoteProtocolError, TruncatedStream
from ..ground.text import one_line
from ..limits import Limits

# HTTP libraries decode a chunk at once, or in steps of a mebibyte, and a chunk of 64 KiB may hold 64 MiB, or with two
# codings gigabytes. So output is bounded by the piece. The window, which a decoder must remember to go on, is bounded,
# too: else the header of a body alone could claim any memory.
_MOST_CODINGS = 4  # codings on top of each other; two are already unusual
_WINDOW_BITS = 24  # for all windows of a body together, 16 MiB: the largest that a Brotli stream may have
_ZSTD_WINDOW_BITS = 23  # the largest that HTTP allows (RFC 9659)
_BROTLI_STEP = 32 << 10  # bytes; the output may be three times as much
# Bytes; `zstandard` bounds no output. A block has at least four bytes and decodes to at most 128 KiB, so a step gives
# at most half a MiB.
_ZSTANDARD_STEP = 16
_WITHOUT = "send the request with Accept-Encoding: identity"


class Coding(Protocol):
    errors: tuple[type[Exception], ...]  # the exceptions of `feed` for bytes that are not encoded in this way

    def feed(self, data: bytes, /) -> Iterator[bytes]:
        """Takes the next bytes; yields the decoded ones. Exhaust it before the next call."""
        ...

    def is_whole(self) -> bool: ...


class Decoding:
    """Decodes one body. Exhaust `feed` for each of its chunks, then call `finish`. The codings are in the order in
    which they were applied; one that is unknown, or has no decoder here that can be bounded, raises a
    `RemoteProtocolError` with the remedy. `max_stream_bytes` bounds the encoded bytes as well, which may decode to
    nothing without end."""

    def __init__(self, codings: Sequence[str], limits: Limits = Limits()) -> None:
        if len(codings) > _MOST_CODINGS:
            what = f"the body has {len(codings)} content codings; at most {_MOST_CODINGS} are decoded"
            raise RemoteProtocolError(f"{what}; {_WITHOUT}")
        # Each coding has a window of its own, and all together may be as large as one. Two have half of it each, three
        # and four a quarter.
        window_bits = _WINDOW_BITS - max(0, len(codings) - 1).bit_length()
        self._name = ", ".join(codings)
        self._codings = [_coding(name, window_bits) for name in reversed(codings)]
        self._errors = tuple({error for coding in self._codings for error in coding.errors})
        self._max_size = limits.max_stream_bytes
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields decoded pieces of at most `SLICE_BYTES`; raises a `RemoteProtocolError` or `LimitExceeded`."""
        # Empty members or frames decode to nothing, without end: no limit on what comes out would ever see them.
        self._size += len(data)
        if self._size > self._max_size:
            where = "the encoded body"
            raise LimitExceeded("max_stream_bytes", limit=self._max_size, value=self._size, where=where)
        try:
            for at in range(0, len(data), SLICE_BYTES):
                yield from self._through(0, data[at : at + SLICE_BYTES])
        except self._errors as error:
            reason = one_line(str(error), 200)
            raise RemoteProtocolError(f"the body is not {self._name}, as its header says: {reason}") from error

    def finish(self) -> None:
        """Ends the body; raises a `TruncatedStream` in the middle of its encoding."""
        if self._size and not all(coding.is_whole() for coding in self._codings):
            raise TruncatedStream(f"the body ended in the middle of its {self._name}")

    def _through(self, at: int, data: bytes) -> Iterator[bytes]:
        # Generators inside each other, one for each coding: each is as lazy as its reader, and holds one piece and its
        # input, which is a piece of the coding before.
        if at == len(self._codings):
            for begin in range(0, len(data), SLICE_BYTES):
                yield data[begin : begin + SLICE_BYTES]
            return
        for piece in self._codings[at].feed(data):
            if piece:
                yield from self._through(at + 1, piece)


# -- the codings --


def _coding(name: str, window_bits: int) -> Coding:
    make = _CODINGS.get(name)
    if make is None:
        raise RemoteProtocolError(f"the body has the unknown encoding {one_line(name, 50)!r}; {_WITHOUT}")
    return make(window_bits)


@dataclass(slots=True, eq=False)
class _Frames:
    new: Callable[[], Any]
    decoded: Callable[[Any, bytes], Iterator[bytes]]
    errors: tuple[type[Exception], ...]
    padding: bytes = b""  # bytes to drop between two frames
    step: int = SLICE_BYTES  # how many bytes are decoded at once
    frame: Any = None
    count: int = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), self.step):
            yield from self._fed(data[at : at + self.step])

    def _fed(self, data: bytes) -> Iterator[bytes]:
        # Members and frames may follow one another, and a decoder ends with its own: the rest is for the next.
        while data:
            if self.frame is None:
                if self.count and not (data := data.lstrip(self.padding)):
                    return
                self.frame = self.new()
                self.count += 1
            yield from self.decoded(self.frame, data)
            if not self.frame.eof:
                return
            data, self.frame = self.frame.unused_data, None

    def is_whole(self) -> bool:
        return self.frame is None and self.count > 0


class _Deflate:
    errors: tuple[type[Exception], ...] = (zlib.error,)

    def __init__(self, window_bits: int) -> None:
        self._inflate: Any = None
        self._head = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            # The standard calls zlib's format "deflate", and many servers send bare deflate under that name. Two bytes
            # show which it is (RFC 1950): the method is 8, and together they are a multiple of 31.
            data = self._head = self._head + data
            if len(data) < 2:
                return
            has_header = data[0] & 15 == 8 and int.from_bytes(data[:2]) % 31 == 0
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
            self._head = b""
        if self._inflate.eof:
            raise zlib.error("data after the end")
        yield from _inflated(self._inflate, data)
        if self._inflate.unused_data:
            raise zlib.error("data after the end")

    def is_whole(self) -> bool:
        return self._inflate is not None and bool(self._inflate.eof)


def _inflated(inflate: Any, data: bytes) -> Iterator[bytes]:
    while True:
        piece = inflate.decompress(data, SLICE_BYTES)
        data = inflate.unconsumed_tail
        if piece:
            yield piece
        if inflate.eof or (not data and len(piece) < SLICE_BYTES):
            return


class _Brotli:
    """Decodes one Brotli stream. Its first byte gives the size of its window, for which the decoder knows no bound."""

    def __init__(self, window_bits: int, library: Any) -> None:
        self.errors: tuple[type[Exception], ...] = (library.error, _TooLargeWindow)
        self._window_bits = window_bits
        self._stream = library.Decompressor()
        self._has_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if not self._has_begun:
            self._has_begun = True
            if (bits := _brotli_window_bits(data[0])) > self._window_bits:
                raise _TooLargeWindow(f"its window of {1 << bits} bytes is larger than {1 << self._window_bits}")
        # `can_accept_more_data` would not do as the condition: `brotli` returns True once it has all of the input, also
        # while output waits.
        piece = self._stream.process(data, output_buffer_limit=_BROTLI_STEP)
        while piece:
            yield piece
            piece = self._stream.process(b"", output_buffer_limit=_BROTLI_STEP)

    def is_whole(self) -> bool:
        return bool(self._stream.is_finished())


class _TooLargeWindow(Exception):
    """A stream wants a larger window than it may have."""


def _brotli_window_bits(head: int) -> int:
    """Returns the size of a stream's window from its first byte (RFC 7932, §9.1)."""
    if not head & 1:
        return 16
    if more := head >> 1 & 7:
        return 17 + more
    return 8 + (head >> 4 & 7) or 17


# -- the decoders that are installed --


def _gzip(window_bits: int) -> Coding:
    # Some programs leave zeros behind the last member.
    return _Frames(lambda: zlib.decompressobj(zlib.MAX_WBITS | 16), _inflated, (zlib.error,), padding=b"\0")


def _brotli(window_bits: int) -> Coding:
    # Before 1.2 a Brotli decoder gives out all that a chunk decodes to. It is refused rather than trusted.
    libraries = [library for name in ("brotli", "brotlicffi") if (library := _installed(name)) is not None]
    for library in libraries:
        if hasattr(library.Decompressor, "can_accept_more_data"):  # came with `output_buffer_limit`
            return _Brotli(window_bits, library)
    raise _refused("br", "brotli>=1.2", is_too_old=bool(libraries))


def _zstd(window_bits: int) -> Coding:
    bits = min(window_bits, _ZSTD_WINDOW_BITS)
    for name in ("compression.zstd", "backports.zstd"):
        if (library := _installed(name)) is not None:
            options = {library.DecompressionParameter.window_log_max: bits}
            return _Frames(partial(library.ZstdDecompressor, options=options), _decompressed, (library.ZstdError,))
    # `zstandard` cannot bound its output: fed in steps of a few bytes, it is bounded by what a block may decode to. It
    # is slower, and so the last choice.
    library = _installed("zstandard")
    if library is not None and hasattr(library.ZstdDecompressor().decompressobj(), "unused_data"):
        new = partial(library.ZstdDecompressor(max_window_size=1 << bits).decompressobj, write_size=SLICE_BYTES)
        return _Frames(new, _decompressed_at_once, (library.ZstdError,), step=_ZSTANDARD_STEP)
    raise _refused("zstd", "zstandard>=0.22", is_too_old=library is not None)


def _decompressed(frame: Any, data: bytes) -> Iterator[bytes]:
    yield frame.decompress(data, SLICE_BYTES)
    while not frame.needs_input and not frame.eof:
        yield frame.decompress(b"", SLICE_BYTES)


def _decompressed_at_once(frame: Any, data: bytes) -> Iterator[bytes]:
    """Yields what `zstandard` makes of `data`: it bounds nothing, and so is fed a few bytes at a time."""
    yield frame.decompress(data)


def _installed(name: str) -> Any | None:
    try:
        return import_module(name)
    except ImportError:
        return None


def _refused(name: str, wanted: str, *, is_too_old: bool) -> RemoteProtocolError:
    why = "for which the installed decoder is too old" if is_too_old else "for which no decoder is installed"
    return RemoteProtocolError(f"the body is encoded as {name!r}, {why}; install {wanted}, or {_WITHOUT}")


_CODINGS: dict[str, Callable[[int], Coding]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _Deflate,
    "br": _brotli,
    "zstd": _zstd,
}
