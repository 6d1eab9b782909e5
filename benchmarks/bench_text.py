"""2,000 text deltas through the whole pipeline, against the limit.

Bars: 2.5 times the limit for Chat Completions, 3.5 times for Anthropic Messages, whose events are a third of the size.
One event per chunk is the worst case; a busy socket gives reads of some KiB. The source has all chunks ready, so that
nothing but our own work is measured; the figure for one that waits before each chunk includes the event loop's work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from streamtools import parse, pipeline

from .measure import Figure, best_of, show
from .workloads import ANTHROPIC, CHAT, NEXT_ROUND, WIRES, Pause, body, limit, reads, source, text

__all__ = ["run"]

DELTAS = 2000
READ_BYTES = 4096
REPEATS = 25
BARS = {CHAT: 2.5, ANTHROPIC: 3.5}


def run() -> list[Figure]:
    """Measure both wires."""
    with asyncio.Runner() as runner:
        return [figure for wire in WIRES for figure in _wire(runner, wire)]


def _wire(runner: asyncio.Runner, wire: str) -> list[Figure]:
    chunks = body(wire, text=text(DELTAS))
    blocks = reads(chunks, READ_BYTES)
    best = best_of(
        {
            "limit": lambda: limit(chunks),
            "pipeline": lambda: runner.run(_consume(chunks)),
            "limit of reads": lambda: limit(blocks),
            "pipeline of reads": lambda: runner.run(_consume(blocks)),
            "parse": lambda: parse(chunks),
            "waiting": lambda: runner.run(_consume(chunks, NEXT_ROUND)),
            "waiting source": lambda: runner.run(_exhaust(chunks, NEXT_ROUND)),
        },
        repeats=REPEATS,
    )
    per_event = {name: seconds / DELTAS * 1e6 for name, seconds in best.items()}

    def figure(what: str, name: str, limit: str = "limit", bar: float | None = None, more: str = "") -> Figure:
        detail = f"{per_event[name]:.2f} µs per event, limit {per_event[limit]:.2f}{more}"
        return Figure(name=f"{wire}: {what}", value=best[name] / best[limit], unit="x limit", bar=bar, detail=detail)

    alone = f", the source alone {per_event['waiting source']:.2f}"
    return [
        figure("pipeline(), an event a chunk", "pipeline", bar=BARS[wire]),
        figure("pipeline(), reads of 4 KiB", "pipeline of reads", "limit of reads", bar=BARS[wire]),
        figure("parse(), an event a chunk", "parse"),
        figure("pipeline(), the source waits before each chunk", "waiting", more=alone),
    ]


async def _consume(chunks: Sequence[bytes], pause: Pause | None = None) -> None:
    async with pipeline(source(chunks, pause), observers=[]) as events:
        async for _ in events:
            pass


async def _exhaust(chunks: Sequence[bytes], pause: Pause) -> None:
    async for _ in source(chunks, pause):
        pass


if __name__ == "__main__":
    show(run())
