"""Many pipelines for a while: does it lose a call, grow, or let a call wait?

    python -m benchmarks.load --pipelines 2000 --seconds 60

Each of the pipelines' consumers reads one stream after the other: text of some length, then three calls of a ``pure``
tool and one of a ``once`` tool, which do nothing but give way to others once. Every source lets the event loop go round
before each event, so that all of them really alternate; they begin at different times and differ in length, so that
they do not all do the same at once. The time begins when each consumer has read one stream, since memory only grows
until then. One process, one core: others on the machine show in the times, so what is told of these is a ratio.

Bars: every call that was announced was observed, as ``ok``; of the times from a pure call's end marker to its start
(`ToolCallEnd` to `ToolStarted`) the 99th percentile is at most 20 times the median; over the second half of the run,
the resident memory grows by less than 1 % (the slope of a line through the samples, times the time, as a share of the
level); all have ended within a minute after the time is up. The exit status is 1 if a bar is missed, or if there is
nothing to say about it; where a system does not tell the resident memory, that line is left out. Should even that not
end, the interpreter does, with status 1 and what each thread was doing.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import gc
import math
import os
import random
import statistics
import sys
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from streamtools import Observation, pipeline, tool
from streamtools.events import ToolCallEnd, ToolCallStart, ToolStarted

from .measure import Figure, show
from .workloads import ANTHROPIC, NEXT_ROUND, body, source, text

__all__ = ["Tally", "figures", "main", "run"]

WIRE = ANTHROPIC  # each call has an end marker of its own
DELTAS = (2, 5, 10, 20, 40)
STATM = Path("/proc/self/statm")
HAS_STATM = STATM.exists()
SAMPLE_S = 0.5
PROGRESS_S = 5.0
GRACE_S = 60.0
WARM_UP_S = 180.0
SPREAD_S = 0.0025  # for each of them: when their first streams begin
MAX_GROWTH_PER_CENT = 1.0
MAX_RATIO = 20.0

_ARGUMENTS = '{"query":"a few words"}'


@tool(effect="pure")
async def look_up(query: str) -> int:
    """Look something up."""
    await asyncio.sleep(0)
    return len(query)


@tool(effect="once")
async def send(query: str) -> int:
    """Send something."""
    await asyncio.sleep(0)
    return len(query)


class Tally:
    """What was seen of all pipelines."""

    def __init__(self) -> None:
        self.until = math.inf
        """When the time is up; known once it has begun."""
        self.streams = 0
        """How many were read to their end."""
        self.announced = 0
        self.outcomes: Counter[str] = Counter()
        self.waits_s = array("d")  # what is kept here must not look like growth of what is measured
        self.memory: list[tuple[float, int]] = []
        """When the resident memory was looked at, and how many bytes it had."""
        self.ended = False
        """All consumers came to their end by themselves."""


async def run(pipelines: int, seconds: float, *, grace_s: float = GRACE_S) -> Tally:
    """Run the load. Consumers that have not ended `grace_s` after the time is up are cancelled."""
    bodies = [body(WIRE, text=text(deltas), calls=_calls()) for deltas in DELTAS]
    tally, warm = Tally(), asyncio.Semaphore(0)
    watching = asyncio.create_task(_watch(tally))
    consumers = [
        asyncio.create_task(_consume(bodies, number * SPREAD_S, tally, warm, random.Random(number)))
        for number in range(pipelines)
    ]
    try:
        async with asyncio.timeout(WARM_UP_S):
            for _ in range(pipelines):
                await warm.acquire()
    except TimeoutError:
        print(f"some consumers have read nothing in {WARM_UP_S:g} s", file=sys.stderr)
    tally.until = time.monotonic() + seconds
    done, stuck = await asyncio.wait(consumers, timeout=seconds + grace_s)
    for task in (*stuck, watching):
        task.cancel()
    await asyncio.wait([watching, *stuck], timeout=grace_s / 2)
    tally.ended = not stuck
    for task in done:
        task.result()  # raises what a consumer raised
    return tally


def _calls() -> list[tuple[str, str]]:
    return [(look_up.name, _ARGUMENTS)] * 3 + [(send.name, _ARGUMENTS)]


async def _consume(
    bodies: Sequence[list[bytes]], delay_s: float, tally: Tally, warm: asyncio.Semaphore, dice: random.Random
) -> None:
    """One consumer: one stream after the other, until the time is up."""
    await asyncio.sleep(delay_s)
    try:
        await _read(dice.choice(bodies), tally)
    finally:
        warm.release()
    while time.monotonic() < tally.until:
        await _read(dice.choice(bodies), tally)


async def _read(chunks: Sequence[bytes], tally: Tally) -> None:
    ended: dict[str, float] = {}
    async with pipeline(source(chunks, NEXT_ROUND), tools=[look_up, send], observers=()) as events:
        async for event in events:
            if isinstance(event, ToolCallStart):
                tally.announced += 1
            elif isinstance(event, ToolCallEnd):
                ended[event.call_id] = event.time
            elif isinstance(event, ToolStarted) and event.tool_name == look_up.name:
                tally.waits_s.append(event.time - ended[event.call_id])
            elif isinstance(event, Observation):
                tally.outcomes[event.outcome] += 1
    tally.streams += 1


async def _watch(tally: Tally) -> None:
    """Read the resident memory now and then while the time runs, and say how it goes until all is over."""
    start = told = time.monotonic()
    while True:
        now = time.monotonic()
        if now < tally.until < math.inf and HAS_STATM:
            tally.memory.append((now, _resident_bytes()))
        if now - told >= PROGRESS_S:
            told = now
            level = f"{_resident_bytes() / 1e6:.0f} MB" if HAS_STATM else ""
            level += "  (warming up)" if tally.until == math.inf else ""
            observed = tally.outcomes.total()
            line = f"{now - start:4.0f} s  {tally.streams} streams, {observed} of {tally.announced} calls  {level}"
            print(line, file=sys.stderr, flush=True)
        await asyncio.sleep(SAMPLE_S)


def _resident_bytes() -> int:
    """The resident set: a read of a file that is no file."""
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def figures(tally: Tally) -> list[Figure]:
    """What came of a run, with its bars. What cannot be told for want of data is infinite, and so misses its bar."""
    observed = tally.outcomes.total()
    found = [
        Figure(
            name="calls not observed once",
            value=abs(tally.announced - observed) if tally.announced else math.inf,
            unit="calls",
            bar=0,
            detail=f"{tally.announced} announced, {observed} observed, {tally.streams} streams",
        ),
        Figure(
            name="calls not ok",
            value=observed - tally.outcomes["ok"],
            unit="calls",
            bar=0,
            detail=", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.items()),
        ),
        _waits(sorted(tally.waits_s)),
        Figure(name="consumers that never ended", value=0 if tally.ended else math.inf, unit="", bar=0),
    ]
    return [*found, _growth(tally.memory)] if HAS_STATM else found


def _waits(waits: Sequence[float]) -> Figure:
    ratio, detail = math.inf, "nothing started"
    if waits:
        median, p99 = statistics.median(waits), waits[int(len(waits) * 0.99)]
        ratio = p99 / median
        detail = f"median {median * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms, most {waits[-1] * 1e3:.2f} ms"
    return Figure(name="end marker to start, p99", value=ratio, unit="x median", bar=MAX_RATIO, detail=detail)


def _growth(samples: Sequence[tuple[float, int]]) -> Figure:
    """How much the memory grows over the second half of the samples, as a share of its level there."""
    half = samples[len(samples) // 2 :]
    per_cent, detail = math.inf, "too short to tell"
    if len(half) > 2:
        times, sizes = [at for at, _ in half], [float(size) for _, size in half]
        grown = statistics.linear_regression(times, sizes).slope * (times[-1] - times[0])
        per_cent = grown / statistics.fmean(sizes) * 100
        detail = f"{sizes[0] / 1e6:.1f} MB half-way, {sizes[-1] / 1e6:.1f} MB at the end, {len(half)} samples"
    return Figure(name="memory grows", value=per_cent, unit="%", bar=MAX_GROWTH_PER_CENT, detail=detail)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it, and say what came of it. The exit status is 1 if a bar was missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pipelines", type=int, default=2_000, help="at once (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: %(default)s)")
    options = parser.parse_args(arguments)
    gc.collect()
    faulthandler.dump_traceback_later(WARM_UP_S + options.seconds + 2 * GRACE_S, exit=True)
    found = figures(asyncio.run(run(options.pipelines, options.seconds)))
    faulthandler.cancel_dump_traceback_later()
    show(found)
    return int(any(figure.verdict == "MISS" for figure in found))


if __name__ == "__main__":
    raise SystemExit(main())
