"""What a peer cannot make us pay: a long line that comes byte by byte, a flood in which no line ends.

Bars: one line of 1 MiB in chunks of one byte is read within 1 s of CPU time; 50 MiB without a line end, in chunks of
64 KiB, take less memory at the worst than twice `Limits.max_event_bytes`: as much as the line that is being collected,
and its copy. The memory is that of a fresh process: what Python allocated at most (`tracemalloc`) while the flood was
read and refused, and beside it by how much the resident set's peak grew. 64 MiB of line ends, which say nothing, cost
less than twice what it takes to cut them into lines, and nothing more.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import orjson

from streamtools import Limits, StreamError, parse, pipeline
from streamtools.errors import LimitExceeded
from streamtools.wires import WIRES

from .measure import Figure, best_of, show
from .workloads import ANTHROPIC, CHAT, GEMINI, OLLAMA, body, source

__all__ = ["run"]

LINE_BYTES = 1 << 20
FLOOD_BYTES = 50 << 20
CHUNK_BYTES = 64 << 10
REPEATS = 3
MAX_SECONDS = 1.0
MAX_CAPS = 2.0
SOUP_BYTES = 64 << 20
MAX_CUTTINGS = 2.0
SOUPS = {"LF": b"\n", "CR": b"\r", "CRLF": b"\r\n", "all of them": b"\n\r\r\n\n\n\r\n"}
CAP = Limits().max_event_bytes
FLOODS = {
    "an event stream": (CHAT, b"data: "),
    "JSON lines": (OLLAMA, b'{"model":"m","message":{"role":"assistant","content":"'),
    "a JSON array": (GEMINI, b'[{"candidates": [{"content": {"parts": [{"text": "'),
}
HEADS = {
    "an event stream": (CHAT, b": a comment\n"),
    "JSON lines": (OLLAMA, b'{"model":"m","message":{"role":"assistant","content":"a"},"done":false}\n'),
}


def run() -> list[Figure]:
    """Measure the long line on three wires, then the floods of each framing in fresh processes."""
    with asyncio.Runner() as runner:
        figures = [
            figure for wire in (CHAT, ANTHROPIC, OLLAMA) if wire in WIRES for figure in _byte_by_byte(runner, wire)
        ]
    floods = [name for name, (wire, _) in FLOODS.items() if wire in WIRES]
    figures += [_soup(name, framing) for name in SOUPS for framing in HEADS if _ends_lines(name, framing)]
    return figures + [_flooded(name, reader) for name in floods for reader in READERS]


# -- a long line ---------------------------------------------------------------------------------------------------


def _byte_by_byte(runner: asyncio.Runner, wire: str) -> list[Figure]:
    head, delta, rest = _around_the_longest(body(wire, text=["x" * LINE_BYTES]))
    chunks = [head, *(delta[at : at + 1] for at in range(len(delta))), rest]
    best = best_of(
        {
            "parse()": lambda: _complete(parse(chunks).complete),
            "pipeline()": lambda: runner.run(_consume(chunks)),
        },
        repeats=REPEATS,
    )
    return [
        Figure(name=f"{wire}: a line of 1 MiB byte by byte, {how}", value=seconds, unit="s", bar=MAX_SECONDS)
        for how, seconds in best.items()
    ]


def _around_the_longest(chunks: Sequence[bytes]) -> tuple[bytes, bytes, bytes]:
    """What comes before the longest chunk, that chunk, and what comes after it."""
    at = max(range(len(chunks)), key=lambda index: len(chunks[index]))
    return b"".join(chunks[:at]), chunks[at], b"".join(chunks[at + 1 :])


async def _consume(chunks: Sequence[bytes]) -> None:
    async with pipeline(source(chunks), observers=[]) as events:
        async for _ in events:
            pass
    _complete(events.turn.complete)


def _complete(complete: bool) -> None:
    assert complete, "the response was read to its end"


# -- line ends -----------------------------------------------------------------------------------------------------


def _ends_lines(name: str, framing: str) -> bool:
    return HEADS[framing][0] in WIRES and (framing == "an event stream" or b"\n" in SOUPS[name])


def _soup(name: str, framing: str) -> Figure:
    wire, head = HEADS[framing]
    piece = SOUPS[name] * (CHUNK_BYTES // len(SOUPS[name]))
    chunks = [piece] * (SOUP_BYTES // CHUNK_BYTES)

    def cut() -> None:
        for chunk in chunks:
            chunk.splitlines()

    best = best_of({"cut": cut, "parse": lambda: parse([head, *chunks], wire=wire)}, repeats=REPEATS)
    detail = f"{best['parse']:.2f} s; cutting them into lines takes {best['cut']:.2f} s"
    what = f"{framing}: 64 MiB of line ends ({name}), parse()"
    return Figure(name=what, value=best["parse"] / best["cut"], unit="x cutting", bar=MAX_CUTTINGS, detail=detail)


# -- a flood -------------------------------------------------------------------------------------------------------


def _flooded(name: str, reader: str) -> Figure:
    command = [sys.executable, "-m", "benchmarks.bench_bounds", name, reader]
    allocated, resident = orjson.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    detail = f"{allocated / (1 << 20):.1f} MiB allocated at most, the resident set's peak grew by "
    return Figure(
        name=f"{name}: 50 MiB without a line end, {reader}",
        value=allocated / CAP,
        unit="x max_event_bytes",
        bar=MAX_CAPS,
        detail=detail + ("?" if resident is None else f"{resident / (1 << 20):.1f}"),
    )


def _peak(name: str, reader: str) -> tuple[int, int | None]:
    """Bytes that were allocated at most, and by how many the resident set's peak grew if this system tells."""
    _, prefix = FLOODS[name]
    read = READERS[reader]
    read(prefix, 0)  # all code is loaded
    before = _resident_peak()
    read(prefix, FLOOD_BYTES)
    after = _resident_peak()
    tracemalloc.start()
    read(prefix, FLOOD_BYTES)
    allocated = tracemalloc.get_traced_memory()[1]
    return allocated, None if before is None or after is None else after - before


def _resident_peak() -> int | None:
    try:  # not getrusage: a new program inherits the peak of the one that it replaces
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:  # not Linux
        return None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _flood(prefix: bytes, size: int) -> Iterator[bytes]:
    """Each chunk is an object of its own, as reads of a socket are."""
    yield prefix
    for _ in range(size // CHUNK_BYTES):
        yield bytes(bytearray(b"x") * CHUNK_BYTES)


def _parse(prefix: bytes, size: int) -> None:
    _refused(parse(_flood(prefix, size)).error, size)


def _run_pipeline(prefix: bytes, size: int) -> None:
    async def consume() -> StreamError | None:
        async with pipeline(source(_flood(prefix, size)), observers=[]) as events:
            try:
                async for _ in events:
                    pass
            except StreamError as error:
                return error
        return None

    _refused(asyncio.run(consume()), size)


def _refused(error: StreamError | None, size: int) -> None:
    assert not size or (isinstance(error, LimitExceeded) and error.setting == "max_event_bytes"), error


READERS: dict[str, Callable[[bytes, int], None]] = {"parse()": _parse, "pipeline()": _run_pipeline}


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(orjson.dumps(_peak(sys.argv[1], sys.argv[2])).decode())
    else:
        show(run())
