"""One call of 10 kB, 100 kB and 1 MB of arguments in deltas of five characters, with `preview` read at every delta.

What the previews add is the difference between the same stream with and without reading them. The tool is known and its
arguments are validated, so that the growth, an exponent, is that of the whole path.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from streamtools import Limits, pipeline
from streamtools.events import ToolCallDelta

from .measure import Figure, best_of
from .workloads import WIRES, arguments, body, consume, save_report, source

SIZES = (10_000, 100_000, 1_000_000)
NAMES = ("10 kB", "100 kB", "1 MB")
REPEATS = (15, 5, 2)


OPTIONS: Any = {"tools": [save_report], "limits": Limits(max_argument_bytes=2_000_000), "observers": []}


def run() -> list[Figure]:
    """Measure both wires."""
    with asyncio.Runner() as runner:
        return [figure for wire in WIRES for figure in _wire(runner, wire)]


def _wire(runner: asyncio.Runner, wire: str) -> list[Figure]:
    figures, totals = [], []
    for size, name, repeats in zip(SIZES, NAMES, REPEATS, strict=True):
        chunks = body(wire, calls=[("save_report", arguments(size))])
        best = best_of(
            {
                "read": lambda chunks=chunks: runner.run(_previews(chunks)),
                "unread": lambda chunks=chunks: runner.run(consume(source(chunks), **OPTIONS)),
            },
            repeats=repeats,
        )
        with_previews, without = (seconds / (size / 5) * 1e6 for seconds in best.values())
        told, value = f"{with_previews:.2f} µs per delta with, {without:.2f} without", with_previews - without
        figures.append(Figure(name=f"{wire}: previews of {name} add", value=value, unit="µs per delta", detail=told))
        totals.append(best["read"])
    return [*figures, _growth(wire, totals)]


def _growth(wire: str, totals: Sequence[float]) -> Figure:
    """The exponent from each size to the next; the worst has to pass."""
    exponents = [
        math.log(larger / smaller) / math.log(big / small)
        for smaller, larger, small, big in zip(totals, totals[1:], SIZES, SIZES[1:], strict=False)
    ]
    spelled = ", ".join(f"{seconds * 1e3:.1f} ms for {size}" for seconds, size in zip(totals, NAMES, strict=True))
    detail = f"{spelled}; exponents {' and '.join(f'{exponent:.2f}' for exponent in exponents)}"
    name = f"{wire}: growth with previews"
    return Figure(name=name, value=max(exponents), unit="", detail=detail)


async def _previews(chunks: Sequence[bytes]) -> None:
    async with pipeline(source(chunks), **OPTIONS) as events:
        async for event in events:
            if type(event) is ToolCallDelta:
                _ = event.preview
    [observation] = events.turn.observations
    assert observation.outcome == "ok", observation.report()
