"""2,000 text deltas of every wire through the whole pipeline, against the limit.

Bedrock has no targets: a message is more headers and checksums than JSON there, and the limit looks at no header.
One event per chunk is the worst case; a busy socket gives reads of some KiB. The source has all chunks ready, so that
nothing but our own work is measured; the figure for one that waits before each chunk includes the event loop's work.
"""

from __future__ import annotations

import asyncio

from streamtools import parse

from .measure import Figure, best_of
from .workloads import ALL_WIRES, NEXT_ROUND, body, consume, exhaust, limit, reads, source, text

DELTAS = 2000
READ_BYTES = 4096
REPEATS = 11


def run() -> list[Figure]:
    """Measure every wire."""
    with asyncio.Runner() as runner:
        return [figure for wire in ALL_WIRES for figure in _wire(runner, wire)]


def _wire(runner: asyncio.Runner, wire: str) -> list[Figure]:
    chunks = body(wire, text=text(DELTAS))
    blocks, options = reads(chunks, READ_BYTES), {"wire": wire, "observers": []}
    assert parse(chunks, wire=wire).complete
    best = best_of(
        {
            "limit": lambda: limit(wire, chunks),
            "pipeline": lambda: runner.run(consume(source(chunks), **options)),
            "limit of reads": lambda: limit(wire, blocks),
            "pipeline of reads": lambda: runner.run(consume(source(blocks), **options)),
            "parse": lambda: parse(chunks, wire=wire),
            "waiting": lambda: runner.run(consume(source(chunks, NEXT_ROUND), **options)),
            "waiting source": lambda: runner.run(exhaust(source(chunks, NEXT_ROUND))),
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
