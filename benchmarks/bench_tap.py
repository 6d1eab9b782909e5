"""What a tap costs the response that passes through it, and what it wins.

A tapped chunk's way: from the moment at which the transport has it to the moment at which the client has it. CPU: that
of a response read through a tap, less that of the same response without one, less that of a pipeline over the same
chunks whose events are read; in times of the limit (`workloads.limit`). It is below zero, since nobody reads the events
of a tap's pipeline. Both with a chunk for each event, and a round of the event loop before each.

Won time: a tool and the rest of the response after its call take equally long; without a tap one comes after the
other. The figure is the share of that time which is not won, in wall time. On Chat Completions the call is tried.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx

from streamtools.integrations.httpx import Tap

from .bodies import ANTHROPIC, CHAT, RESPONSES
from .measure import Figure, best_of
from .workloads import NEXT_ROUND, WIRES, body, consume, exhaust, limit, source, text

DELTAS = 2000
REPEATS = 11
LOST_REPEATS = 5
WAIT_S = 0.2  # for the tool, and for the rest of the response

_left_at: list[int] = []


def run() -> list[Figure]:
    """Measure the way, the CPU time and the won time."""
    with asyncio.Runner() as runner:
        figures = [figure for wire in WIRES for figure in _costs(runner, wire)]
        return [*figures, *(_won(runner, wire) for wire in (CHAT, RESPONSES, ANTHROPIC))]


def _costs(runner: asyncio.Runner, wire: str) -> list[Figure]:
    chunks = body(wire, text=text(DELTAS))
    ways: list[int] = []
    best = best_of(
        {
            "bare": lambda: runner.run(_read(chunks, tapped=False)),
            "tapped": lambda: ways.extend(runner.run(_read(chunks, tapped=True))),
            "pipeline": lambda: runner.run(consume(source(chunks, NEXT_ROUND))),
            "limit": lambda: limit(wire, chunks),
        },
        repeats=REPEATS,
    )
    ways.sort()
    median, late = statistics.median(ways) / 1e3, ways[len(ways) * 99 // 100] / 1e3
    added = best["tapped"] - best["bare"]
    more = (added - best["pipeline"]) / best["limit"]
    told = f"it adds {added * 1e3:.1f} ms, a pipeline takes {best['pipeline'] * 1e3:.1f} ms"
    way = Figure(name=f"{wire}: a chunk's way through a tap", value=median, unit="µs", detail=f"99 %: {late:.1f} µs")
    cpu = Figure(name=f"{wire}: CPU beside a pipeline's", value=more, unit="x the limit", detail=told)
    return [way, cpu]


def _served(chunks: AsyncIterator[bytes]) -> Any:
    answer = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=chunks)
    return httpx.MockTransport(lambda request: answer)


async def _noted(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    _left_at.clear()
    for chunk in chunks:
        await NEXT_ROUND()
        _left_at.append(time.perf_counter_ns())
        yield chunk


async def _read(chunks: Sequence[bytes], *, tapped: bool) -> list[int]:
    """Read a response; returns how long each chunk was on its way, in nanoseconds."""
    transport = _served(_noted(chunks))
    async with (
        httpx.AsyncClient(transport=Tap(transport) if tapped else transport) as client,
        client.stream("POST", "http://model/") as response,
    ):
        return [time.perf_counter_ns() - _left_at[-1] async for _ in response.aiter_raw()]


def _won(runner: asyncio.Runner, wire: str) -> Figure:
    took = min(runner.run(_answered(wire)) for _ in range(LOST_REPEATS))
    told = f"{took * 1e3:.0f} ms instead of {2 * WAIT_S * 1e3:.0f}"
    lost = (took - WAIT_S) / WAIT_S * 100
    return Figure(name=f"{wire}: time not won", value=lost, unit="%", detail=told)


async def _answered(wire: str) -> float:
    """Read a response and make its call; returns how many seconds that took."""
    chunks = body(wire, text=text(5), calls=[("look_up", '{"key":"a"}')])
    end = next(at for at, chunk in enumerate(chunks) if _ends_call(wire, chunk))

    async def slowly() -> AsyncIterator[bytes]:
        for at, chunk in enumerate(chunks):
            await NEXT_ROUND()
            yield chunk
            if at == end:
                await asyncio.sleep(WAIT_S)

    async def look_up(key: str) -> str:
        """Looks a key up, slowly."""
        await asyncio.sleep(WAIT_S)
        return key

    tap = Tap(_served(slowly()))
    early = tap.tool(look_up, effect="pure")
    async with httpx.AsyncClient(transport=tap) as client:
        begun = time.perf_counter()
        async with client.stream("POST", "http://model/") as response:
            await exhaust(response.aiter_raw())
        await early("a")
        return time.perf_counter() - begun


def _ends_call(wire: str, chunk: bytes) -> bool:
    marks = {
        CHAT: (b'"arguments":"}"',),
        RESPONSES: (b'"response.output_item.done"', b"function_call"),
        ANTHROPIC: (b'block_stop","index":1',),
    }
    return all(mark in chunk for mark in marks[wire])
