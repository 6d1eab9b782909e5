"""Calls in worker processes that are cut around their begin: does any of them run twice?

    python -m benchmarks.soak_double_runs 10000

Each call has one effect (a line in a file of its own) and runs by `run_once`. Its deadline or its cancellation is drawn
from the milliseconds around ``begin()``, with a loop that is busy for 0, 1 and 5 ms per turn. A call that was not
started, or cancelled, is made again; the store has to know whether that may be. Prints one line: the calls, their
effects, the calls that ran more than once, and those whose end does not fit their effect.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel

from streamtools.dispatch import MemoryStore
from streamtools.errors import ToolError, ToolNotStarted
from streamtools.executors import Invocation, ProcessExecutor, run_once

BUSY_S = (0.0, 0.001, 0.005)
SPREAD_S = 0.004  # a call of a worker that is there takes one or two milliseconds
ATTEMPTS = 3
AT_ONCE = 6


@dataclass
class Tally:
    """What came of some calls."""

    calls: int = 0
    effects: int = 0
    doubles: int = 0
    wrong: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        ends = ", ".join(f"{name} {count}" for name, count in sorted(self.ends.items()))
        return f"calls {self.calls}, effects {self.effects}, doubles {self.doubles}, wrong {self.wrong} ({ends})"


class CuttingStore(MemoryStore):
    """A store that cancels calls as they begin, or a little later."""

    def __init__(self) -> None:
        super().__init__(max_entries=1_000_000)
        self.cuts: dict[str, tuple[anyio.CancelScope, float]] = {}

    async def claim(self, key, fingerprint, /):  # type: ignore[no-untyped-def]
        scope, delay = self.cuts.pop(key, (None, 0.0))
        if scope is not None and delay < SPREAD_S / 4:
            scope.cancel()  # while begin waits for the store
        claim = await super().claim(key, fingerprint)
        if scope is not None:
            scope.deadline = anyio.current_time() + delay
        return claim


async def soak(calls: int, *, busy_s: float, seed: int, tally: Tally) -> None:
    """Run calls, and count what came of them."""
    draw, store = random.Random(seed), CuttingStore()
    places = anyio.CapacityLimiter(AT_ONCE)

    async def one(path: Path, how: str, delay: float) -> None:
        async with places:
            end = await ended(path, how, delay)
        effects = len(path.read_text().splitlines()) if path.exists() else 0  # noqa: ASYNC240 - one look
        tally.calls += 1
        tally.effects += effects
        tally.doubles += effects > 1
        tally.wrong += {"ok": effects != 1, "not started": effects != 0}.get(end, False)
        tally.ends[end] += 1

    async def ended(path: Path, how: str, delay: float) -> str:
        call = Invocation(tool="mark", arguments={"path": str(path)}, key=path.name)
        end = "not started"
        for attempt in range(ATTEMPTS):
            seconds = delay if how == "deadline" and attempt == 0 else math.inf
            with anyio.CancelScope() as scope:
                if how == "cancel" and attempt == 0:
                    store.cuts[path.name] = scope, delay
                try:
                    await run_once(store, executor, call, seconds=seconds)
                    return "ok"
                except ToolNotStarted:
                    continue
                except ToolError:
                    return "unknown"
            end = "cancelled"
        return end

    async def keep_busy() -> None:
        while True:
            time.sleep(busy_s)  # noqa: ASYNC251 - other work of the program
            await anyio.lowlevel.checkpoint()

    with tempfile.TemporaryDirectory() as directory:
        workers = ProcessExecutor(["streamtools.testing.executors:mark"], max_workers=3)
        async with workers as executor, anyio.create_task_group() as busy:
            if busy_s:
                busy.start_soon(keep_busy)
            async with anyio.create_task_group() as group:
                for number in range(calls):
                    how = draw.choice(("deadline", "cancel", "cancel", "nothing", "nothing"))
                    group.start_soon(one, Path(directory, f"call-{number}"), how, draw.uniform(0, SPREAD_S))
            busy.cancel_scope.cancel()


async def main(calls: int = 300) -> Tally:
    """Run a third of the calls with each kind of loop."""
    tally = Tally()
    for number, busy_s in enumerate(BUSY_S):
        await soak(calls // 3 + (number < calls % 3), busy_s=busy_s, seed=number, tally=tally)
    return tally


if __name__ == "__main__":
    print(anyio.run(main, *map(int, sys.argv[1:])))
