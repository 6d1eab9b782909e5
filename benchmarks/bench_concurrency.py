"""1,000 streams at once in one process: what each costs in CPU and in memory.

CPU. The bar: 1,000 concurrent streams take at most 1.3 times the CPU of the same 1,000 one after the other. Each is a
response of 50 text deltas and a call that runs; its source lets the event loop go round before each event, so that
concurrent streams really alternate, event by event.

Memory. The bar: 30 kB resident per stream. A fresh process first runs a few streams, so that all code is loaded. Then
it opens 1,000, each with a task of its own that consumes it, lets each come to the middle (50 text deltas and half of
the arguments of a call have been consumed) and wait there, and reads how much the resident set has grown. Another
process does the same with the sources alone: same tasks, same sources, no pipeline. The difference, divided by 1,000,
is the figure; what the stream has said so far, which its turn keeps, is part of it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from streamtools import pipeline, tool

from .measure import Figure, best_of, show
from .workloads import NEXT_ROUND, WIRES, body, source, text

__all__ = ["run"]

STREAMS = 1000
DELTAS = 50
WARM_UP = 20
REPEATS = 5
PROCESSES = 3
MAX_RATIO = 1.3
MAX_KILOBYTES = 30
ARGUMENTS = '{"query":"%s"}' % ("a question of a hundred characters, give or take a few; " * 2)
STATM = Path("/proc/self/statm")


@tool(effect="pure")
async def look_up(query: str) -> int:
    """Look something up."""
    return len(query)


def run() -> list[Figure]:
    """Measure both wires."""
    with asyncio.Runner() as runner:
        figures = [_cpu(runner, wire) for wire in WIRES]
    return figures + ([_memory(wire) for wire in WIRES] if STATM.exists() else [])


# -- CPU ---------------------------------------------------------------------------------------------------------


def _cpu(runner: asyncio.Runner, wire: str) -> Figure:
    chunks = _response(wire)

    async def concurrent() -> None:
        await _all(lambda: _consume(source(chunks, NEXT_ROUND)), STREAMS)

    async def sequential() -> None:
        for _ in range(STREAMS):
            await _consume(source(chunks, NEXT_ROUND))

    best = best_of(
        {"sequential": lambda: runner.run(sequential()), "concurrent": lambda: runner.run(concurrent())},
        repeats=REPEATS,
    )
    return Figure(
        name=f"{wire}: {STREAMS:,} concurrent streams",
        value=best["concurrent"] / best["sequential"],
        unit="x sequential",
        bar=MAX_RATIO,
        detail=f"{best['concurrent']:.2f} s of CPU, {best['sequential']:.2f} s one after the other",
    )


def _response(wire: str) -> list[bytes]:
    return body(wire, text=text(DELTAS), calls=[("look_up", ARGUMENTS)])


async def _all(make: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(make())


async def _consume(stream: AsyncIterator[bytes]) -> None:
    async with pipeline(stream, tools=[look_up], observers=[]) as events:
        async for _ in events:
            pass
    assert events.turn.observations[0].outcome == "ok"


# -- memory ------------------------------------------------------------------------------------------------------


def _memory(wire: str) -> Figure:
    with_pipeline, alone = (_kilobytes(wire, what) for what in ("pipelines", "sources"))
    detail = (
        f"{with_pipeline:.1f} with the pipeline, {alone:.1f} for the source alone, medians of {PROCESSES} processes"
    )
    name = f"{wire}: resident, waiting in mid-stream"
    return Figure(name=name, value=with_pipeline - alone, unit="kB", bar=MAX_KILOBYTES, detail=detail)


def _kilobytes(wire: str, what: str) -> float:
    """By how much a process grows for each stream that it holds: the median of several fresh processes."""
    command = [sys.executable, "-m", "benchmarks.bench_concurrency", wire, what]
    growths = [int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for _ in range(PROCESSES)]
    return statistics.median(growths) / STREAMS / 1000


async def _hold(wire: str, what: str) -> int:
    """Open all streams, and return by how many bytes the resident set grew until all of them were waiting."""
    consume = _consume if what == "pipelines" else _exhaust
    chunks = _response(wire)
    middle = len(chunks) - len(ARGUMENTS) // 10
    await _all(lambda: consume(source(chunks)), WARM_UP)
    gate, waiting = asyncio.Event(), asyncio.Semaphore(0)
    gc.collect()
    before = _resident()

    async def measured() -> int:
        for _ in range(STREAMS):
            await waiting.acquire()
        for _ in range(10):  # until the consumers have taken what is there
            await asyncio.sleep(0)
        grown = _resident() - before
        gate.set()
        return grown

    growth = asyncio.create_task(measured())
    await _all(lambda: consume(_pausing(chunks, middle, waiting.release, gate.wait)), STREAMS)
    return await growth


async def _pausing(
    chunks: Sequence[bytes], middle: int, arrived: Callable[[], None], go_on: Callable[[], Awaitable[object]]
) -> AsyncIterator[bytes]:
    async for chunk in source(chunks[:middle], NEXT_ROUND):
        yield chunk
    arrived()
    await go_on()
    for chunk in chunks[middle:]:
        yield chunk


async def _exhaust(stream: AsyncIterator[bytes]) -> None:
    async for _ in stream:
        pass


def _resident() -> int:
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(asyncio.run(_hold(sys.argv[1], sys.argv[2])))
    else:
        show(run())
