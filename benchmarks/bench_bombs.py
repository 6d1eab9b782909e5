"""Bodies that are small on the wire and a gibibyte when they are decoded: what do they take before a limit ends them?

Each case is read in a fresh process, from a server on this machine, by httpx, httpx2 and aiohttp, in each coding and in
each two. Bar: the resident set grows by at most twice `Limits.max_event_bytes`, and 16 MB, beyond what the process had
when it had read an ordinary response. A body is one endless line; or line ends, comments or events without end, which
`Limits.max_stream_bytes` ends: these are bounded at 64 MiB, and events, whose cost is their own, at 8.

Where a library or a decoder is not installed, its cases are left out, and named: `make test-integrations` installs all.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from streamtools import Limits, StreamError, pipeline
from streamtools.errors import LimitExceeded

from .measure import Figure, show
from .workloads import CHAT, body

__all__ = ["run"]

BOMB_BYTES = 1 << 30
STREAM_BYTES = 64 << 20
PIECE_BYTES = 1 << 20
CAP = Limits().max_event_bytes
MAX_BYTES = 2 * CAP + (16 << 20)
HEAD = b"".join(body(CHAT, text=["a"])[:1])
BODIES = {  # what repeats after a first event, how large it is, and the limit that ends it
    "a line": (b"\0", BOMB_BYTES, Limits()),
    "line ends": (b"\n", BOMB_BYTES, Limits(max_stream_bytes=STREAM_BYTES)),
    "comments": (b": keep-alive\n\n", BOMB_BYTES, Limits(max_stream_bytes=STREAM_BYTES)),
    "events": (b"data: {}\n\n", STREAM_BYTES, Limits(max_stream_bytes=STREAM_BYTES >> 3)),
}
CODINGS = ("gzip", "deflate", "br", "zstd")
ENCODERS = {"br": "brotli", "zstd": "zstandard"}
LIBRARIES = ("httpx", "httpx2", "aiohttp")


def run() -> list[Figure]:
    """Measure an endless line in every coding and two, and the others in every coding."""
    codings = [name for name in CODINGS if find_spec(ENCODERS.get(name, "zlib"))]
    libraries = [name for name in LIBRARIES if find_spec(name)]
    for name in {*CODINGS, *LIBRARIES} - {*codings, *libraries}:
        print(f"{name}: left out, it is not installed", file=sys.stderr)
    singles = [(name,) for name in codings]
    pairs = [(first, second) for first in codings for second in codings]
    cases = [("a line", case) for case in [*singles, *pairs]]
    cases += [(what, case) for what in list(BODIES)[1:] for case in singles]
    figures = []
    for what, case in cases:
        with tempfile.NamedTemporaryFile() as file, _Server(file.name, case) as url:
            for piece in _bomb(what, case):
                file.write(piece)
            file.flush()
            figures += [_figure(library, what, case, url) for library in libraries]
    return figures


def _figure(library: str, what: str, codings: tuple[str, ...], url: str) -> Figure:
    command = [sys.executable, "-m", "benchmarks.bench_bombs", library, what, url]
    grown, seconds, error = orjson.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return Figure(
        name=f"{library}: {what} behind {', '.join(codings)}",
        value=grown / 1e6,
        unit="MB",
        bar=MAX_BYTES / 1e6,
        detail=f"{seconds:.2f} s of CPU time, {error}",
    )


# -- bombs ---------------------------------------------------------------------------------------------------------


def _bomb(what: str, codings: Iterable[str]) -> Iterator[bytes]:
    unit, size, _ = BODIES[what]
    chunks = _plain(b"data: " if what == "a line" else HEAD, unit, size)
    for name in codings:
        chunks = _encoded(chunks, name)
    return chunks


def _plain(head: bytes, unit: bytes, size: int) -> Iterator[bytes]:
    yield head
    piece = unit * (PIECE_BYTES // len(unit))
    for _ in range(size // len(piece)):
        yield piece


def _encoded(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    take, end = _encoder(name)
    for chunk in chunks:
        yield take(chunk)
    yield end()


def _encoder(name: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    if name == "br":
        import brotli

        packer: Any = brotli.Compressor(quality=5)
        return packer.process, packer.finish
    if name == "zstd":
        import zstandard

        packer = zstandard.ZstdCompressor(level=3).compressobj()
        return packer.compress, packer.flush
    packer = zlib.compressobj(wbits=31 if name == "gzip" else 15)
    return packer.compress, packer.flush


class _Server:
    """Answers each request with the file's bytes."""

    def __init__(self, path: str, codings: tuple[str, ...]) -> None:
        self._path = path
        self._codings = ", ".join(codings)
        self._socket = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> str:
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/"

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:  # closed
                return
            with client:
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        asked = client.recv(1 << 16)
        is_small = asked.startswith(b"GET /ordinary")
        size = len(HEAD) if is_small else Path(self._path).stat().st_size
        encoding = "" if is_small else f"content-encoding: {self._codings}\r\n"
        client.sendall(f"HTTP/1.1 200 OK\r\n{encoding}content-length: {size}\r\nconnection: close\r\n\r\n".encode())
        try:
            if is_small:
                client.sendall(HEAD)
                return
            with open(self._path, "rb") as file:
                client.sendfile(file)
        except OSError:  # the client has had enough
            return


# -- in the fresh process ------------------------------------------------------------------------------------------


def _measured(library: str, what: str, url: str) -> tuple[int, float, str]:
    """By how many bytes the resident set grew, seconds of CPU time, and what ended it."""
    asyncio.run(READERS[library](url + "ordinary", Limits()))
    before, start = _peak(), _cpu_s()
    error = asyncio.run(READERS[library](url, BODIES[what][2]))
    told = f"{type(error).__name__} {error.setting}" if isinstance(error, LimitExceeded) else f"{error!s:.100}"
    return _peak() - before, _cpu_s() - start, told


def _peak() -> int:
    """Of the resident set. Not getrusage's: a new program inherits the peak of the one that it replaces."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _read(stream: Any, limits: Limits) -> StreamError | None:
    async with pipeline(stream, limits=limits, observers=[]) as events:
        try:
            async for _ in events:
                pass
        except StreamError as error:
            return error
    return None


async def _by_httpx(url: str, limits: Limits, library: str = "httpx") -> StreamError | None:
    client = __import__(library).AsyncClient(trust_env=False)
    async with client, client.stream("GET", url) as response:
        return await _read(response, limits)


async def _by_httpx2(url: str, limits: Limits) -> StreamError | None:
    return await _by_httpx(url, limits, "httpx2")


async def _by_aiohttp(url: str, limits: Limits) -> StreamError | None:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await _read(response, limits)


READERS: dict[str, Callable[[str, Limits], Any]] = {
    "httpx": _by_httpx,
    "httpx2": _by_httpx2,
    "aiohttp": _by_aiohttp,
}


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(orjson.dumps(_measured(*sys.argv[1:])).decode())
    else:
        show(run())
