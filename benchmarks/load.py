"""Many pipelines for a while: does it lose a call, grow, or let a call wait?

    python -m benchmarks.load --pipelines 2000 --seconds 60

Each of the pipelines' consumers reads one stream after the other: some text, then four calls of tools that do nothing
but give way to others once. Every source lets the event loop go round before each event, so that all of them really
alternate. What is counted: calls announced, calls observed, and those that ended otherwise than ``ok``. What is
measured: the time from each call's end marker to its start (`ToolCallReady` to `ToolStarted`), and the resident memory,
whose slope over the second half of the run is told as a share of its level.

One process, one core: others on the machine show in the times, so what is told of them is a ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import time
from array import array
from collections import Counter
from pathlib import Path

from streamtools import Observation, ToolCallReady, ToolCallStart, ToolStarted, pipeline, tool

from .workloads import NEXT_ROUND, body, source, text

WIRE = "anthropic.messages"  # each call has an end marker of its own
CALLS = 4
STATM = Path("/proc/self/statm")
SAMPLE_S = 0.5
MAX_SLOPE = 0.01
MAX_RATIO = 20.0


@tool(effect="pure")
async def look_up(query: str) -> int:
    """Look something up."""
    await asyncio.sleep(0)
    return len(query)


class Tally:
    """What was seen of all pipelines."""

    def __init__(self) -> None:
        self.pipelines = 0
        self.announced = 0
        self.outcomes: Counter[str] = Counter()
        self.waits = array("d")  # what is kept here must not look like growth of what is measured
        self.memory: list[tuple[float, int]] = []


async def consume(chunks: list[bytes], until: float, tally: Tally) -> None:
    """One consumer: one stream after the other, until the time is up."""
    while time.monotonic() < until:
        ready: dict[str, float] = {}
        async with pipeline(source(chunks, NEXT_ROUND), tools=[look_up], observers=()) as events:
            async for event in events:
                kind = type(event)
                if kind is ToolCallStart:
                    tally.announced += 1
                elif isinstance(event, ToolCallReady):
                    ready[event.call_id] = event.time
                elif isinstance(event, ToolStarted):
                    tally.waits.append(event.time - ready[event.call_id])
                elif isinstance(event, Observation):
                    tally.outcomes[event.outcome] += 1
        tally.pipelines += 1


def resident_pages() -> int:
    """The resident set, in pages: a read of a file that is no file."""
    return int(STATM.read_text(encoding="ascii").split()[1])


async def watch(until: float, tally: Tally) -> None:
    """Read the resident memory now and then."""
    page = os.sysconf("SC_PAGE_SIZE")
    while (now := time.monotonic()) < until:
        tally.memory.append((now, resident_pages() * page))
        await asyncio.sleep(SAMPLE_S)


async def run(pipelines: int, seconds: float) -> Tally:
    """Run the load."""
    chunks = body(WIRE, text=text(10), calls=[("look_up", '{"query":"a few words"}')] * CALLS)
    tally, until = Tally(), time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        for _ in range(pipelines):
            group.create_task(consume(chunks, until, tally))
        group.create_task(watch(until, tally))
    return tally


def slope(samples: list[tuple[float, int]]) -> float:
    """How much memory grows over the second half of the samples, as a share of its level there."""
    half = samples[len(samples) // 2 :]
    times, sizes = [at for at, _ in half], [float(size) for _, size in half]
    grown = statistics.linear_regression(times, sizes).slope * (times[-1] - times[0])
    return grown / statistics.fmean(sizes)


def main() -> int:
    """Run it, and say what came of it. The exit status is 1 if a call was lost or a bar missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, default=2_000, help="at once (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: %(default)s)")
    options = parser.parse_args()
    gc.collect()
    tally = asyncio.run(run(options.pipelines, options.seconds))
    waits = sorted(tally.waits)
    median, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    observed = tally.outcomes.total()
    grown = slope(tally.memory)
    verdicts = {
        "lost": tally.announced - observed,
        "not ok": observed - tally.outcomes["ok"],
    }
    print(f"pipelines        {tally.pipelines} in {options.seconds:g} s, {options.pipelines} at once")
    print(f"calls            {tally.announced} announced, {observed} observed, {verdicts['not ok']} not ok")
    ratio = p99 / median
    print(f"ready to start   median {median * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms, {ratio:.1f} x (bar {MAX_RATIO:g})")
    level = tally.memory[-1][1] / 1e6
    print(f"memory           {level:.0f} MB at the end, second half {grown:+.2%} (bar {MAX_SLOPE:.0%})")
    return int(any(verdicts.values()) or ratio > MAX_RATIO or grown > MAX_SLOPE)


if __name__ == "__main__":
    raise SystemExit(main())
