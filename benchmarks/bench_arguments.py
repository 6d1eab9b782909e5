"""One call of 10 kB, 100 kB and 1 MB of arguments in deltas of five characters, with `preview` read at every delta, or
with a tool that reads them.

What the previews add is the difference between the same stream with and without reading them. The tool is known and its
arguments are validated, so that the growth, an exponent, is that of the whole path.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from streamtools import Growing, Limits, Tool, pipeline, tool
from streamtools.events import ToolCallDelta

from .measure import Figure, best_of
from .workloads import NEXT_ROUND, WIRES, arguments, body, source

__all__ = ["run"]

SIZES = (10_000, 100_000, 1_000_000)
NAMES = ("10 kB", "100 kB", "1 MB")
REPEATS = (15, 5, 2)
LIMITS = Limits(max_argument_bytes=2_000_000)


@tool(effect="pure")
async def save_report(path: str, rows: list[dict[str, Any]], content: str) -> int:
    """Save a report."""
    return len(rows)


@tool(name="save_report", effect="pure")
async def read_report(path: str, rows: list[dict[str, Any]], content: Growing[str]) -> int:
    """Read a report while it is written."""
    return sum([len(piece) async for piece in content])


def run() -> list[Figure]:
    """Measure both wires."""
    with asyncio.Runner() as runner:
        return [figure for wire in WIRES for figure in [*_wire(runner, wire), _reading(runner, wire)]]


def _reading(runner: asyncio.Runner, wire: str) -> Figure:
    """The source waits before each delta, so that the tool is woken for each."""
    chunks = body(wire, calls=[("save_report", arguments(SIZES[-1]))])
    ways = {"previews": (True, save_report), "tool": (False, read_report)}
    works = {
        name: partial(_stream, runner, chunks, previews=way[0], made=way[1], waits=True) for name, way in ways.items()
    }
    best = best_of(works, repeats=REPEATS[-1])
    detail = ", ".join(f"{name} {seconds / (SIZES[-1] / 5) * 1e6:.2f} µs per delta" for name, seconds in best.items())
    value = best["tool"] / best["previews"]
    return Figure(name=f"{wire}: a tool that reads 1 MB", value=value, unit="x previews", detail=detail)


def _wire(runner: asyncio.Runner, wire: str) -> list[Figure]:
    figures, totals = [], []
    for size, name, repeats in zip(SIZES, NAMES, REPEATS, strict=True):
        chunks = body(wire, calls=[("save_report", arguments(size))])
        best = best_of(
            {
                "read": partial(_stream, runner, chunks, previews=True),
                "unread": partial(_stream, runner, chunks, previews=False),
            },
            repeats=repeats,
        )
        with_previews, without = (seconds / (size / 5) * 1e6 for seconds in best.values())
        figures.append(
            Figure(
                name=f"{wire}: previews of {name} add",
                value=with_previews - without,
                unit="µs per delta",
                detail=f"{with_previews:.2f} µs per delta with, {without:.2f} without",
            )
        )
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


def _stream(runner: asyncio.Runner, chunks: Sequence[bytes], **options: Any) -> None:
    runner.run(_consume(chunks, **options))


async def _consume(
    chunks: Sequence[bytes], *, previews: bool, made: Tool[..., Any] = save_report, waits: bool = False
) -> None:
    items = source(chunks, NEXT_ROUND if waits else None)
    async with pipeline(items, tools=[made], limits=LIMITS, observers=[]) as events:
        async for event in events:
            if type(event) is ToolCallDelta and previews:
                _ = event.preview
    [observation] = events.turn.observations
    assert observation.outcome == "ok", observation.report()
