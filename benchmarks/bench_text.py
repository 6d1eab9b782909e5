"""2,000 text deltas of every wire through the whole pipeline, against the limit.

Bedrock has no targets: a message is more headers and checksums than JSON there, and the limit looks at no header.
One event per chunk is the worst case; a busy socket gives reads of some KiB. The source has all chunks ready, so that
nothing but our own work is measured; the figure for one that waits before each chunk includes the event loop's work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from streamtools import parse, pipeline

from .measure import Figure, best_of
from .workloads import ALL_WIRES, NEXT_ROUND, Pause, body, limit, reads, source, text

__all__ = ["run"]

DELTAS = 2000
READ_BYTES = 4096
REPEATS = 11


def run() -> list[Figure]:
    """Measure every wire."""
    with asyncio.Runner() as runner:
        return [figure for wire in ALL_WIRES for figure in _wire(runner, wire)]


def _wire(runner: asyncio.Runner, wire: str) -> list[Figure]:
    chunks = body(wire, text=text(DELTAS))
    blocks = reads(chunks, READ_BYTES)
    best = best_of(
        {
            "limit": lambda: limit(wire, chunks),
            "pipeline": lambda: runner.run(_consume(wire, chunks)),
            "limit of reads": lambda: limit(wire, blocks),
            "pipeline of reads": lambda: runner.run(_consume(wire, blocks)),
            "parse": lambda: _parse(wire, chunks),
            "waiting": lambda: runner.run(_consume(wire, chunks, NEXT_ROUND)),
            "waiting source": lambda: runner.run(_exhaust(chunks, NEXT_ROUND)),
        },
        repeats=REPEATS,
    )
    per_event = {name: seconds / DELTAS * 1e6 for name, seconds in best.items()}

    def figure(what: str, name: str, limit: str = "limit", more: str = "") -> Figure:
        detail = f"{per_event[name]:.2f} µs per event, limit {per_event[limit]:.2f}{more}"
        return Figure(name=f"{wire}: {what}", value=best[name] / best[limit], unit="x limit", detail=detail)

    alone = f", the source alone {per_event['waiting source']:.2f}"
    return [
        figure("pipeline(), an event a chunk", "pipeline"),
        figure("pipeline(), reads of 4 KiB", "pipeline of reads", "limit of reads"),
        figure("parse(), an event a chunk", "parse"),
        figure("pipeline(), the source waits before each chunk", "waiting", more=alone),
    ]


def _parse(wire: str, chunks: Sequence[bytes]) -> None:
    turn = parse(chunks, wire=wire)
    assert turn.complete


async def _consume(wire: str, chunks: Sequence[bytes], pause: Pause | None = None) -> None:
    async with pipeline(source(chunks, pause), wire=wire, observers=[]) as events:
        async for _ in events:
            pass


async def _exhaust(chunks: Sequence[bytes], pause: Pause) -> None:
    async for _ in source(chunks, pause):
        pass
