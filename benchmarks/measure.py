"""How the figures are taken and shown.

A cost is CPU time (`time.process_time`, all threads) unless the figure says that it is wall time. Rivals take turns in
one run, so that what else the machine does hits all of them, and each counts with its best turn. The garbage collector
is on and left alone, as in a program that nobody tuned: a full collection before each turn would empty the processor's
caches and the interpreter's free lists, which costs whatever allocates most a fifth (measured).
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
import selectors
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median
from typing import Any

_VERSIONS = ("anyio", "orjson", "pydantic", "pydantic-core", "opentelemetry-sdk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One value that was measured."""

    name: str
    value: float
    unit: str
    detail: str = ""


class _Skipping(selectors.DefaultSelector):
    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found and timeout is None:
            return super().select()
        self.skipped += 0.0 if found or timeout is None else max(0.0, timeout)
        return found


class OneCore(asyncio.SelectorEventLoop):
    """An event loop whose time is what its process has worked and what it has waited, and which skips each wait: so it
    has a core to itself, however busy the machine is. Its clock costs 0.3 µs a look."""

    def __init__(self) -> None:
        self._waits = _Skipping()
        super().__init__(self._waits)

    def time(self) -> float:
        return time.process_time() + self._waits.skipped


def best_of(
    rivals: Mapping[str, Callable[[], object]],
    *,
    repeats: int = 7,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """The least time, in seconds, that each rival took in `repeats` turns; one more turn before warms up."""
    best = dict.fromkeys(rivals, float("inf"))
    for turn in range(repeats + 1):
        for name, rival in rivals.items():
            start = clock()
            rival()
            took = clock() - start
            if turn:
                best[name] = min(best[name], took)
    return best


@dataclass(frozen=True, slots=True)
class Pairs:
    """The difference between two rivals, measured in pairs."""

    median: float
    """Of the pairs: the second rival over the first."""
    low: float
    high: float
    """The median's confidence interval of 95 %, by bootstrap."""
    added: float
    """The median of the differences, in seconds."""

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def paired(
    first: Callable[[], object],
    second: Callable[[], object],
    *,
    pairs: int = 15,
    turns: int = 12,
    clock: Callable[[], float] = time.process_time,
) -> Pairs:
    """Measures two rivals in turns. Each value of a pair is the best of `turns` that alternate, so that a pair is as
    quiet as the machine lets it be; the pairs then tell how sure their median is."""
    ratios, differences = [], []
    for _ in range(pairs):
        best = best_of({"first": first, "second": second}, repeats=turns, clock=clock)
        ratios.append(best["second"] / best["first"])
        differences.append(best["second"] - best["first"])
    dice = random.Random(0)
    medians = sorted(median(dice.choices(ratios, k=pairs)) for _ in range(2000))
    return Pairs(median(ratios), medians[50], medians[-51], median(differences))


def environment() -> dict[str, Any]:
    """What the figures depend on: machine, Python, versions, and how busy the machine was."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {name: version(name) for name in _VERSIONS},
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except FileNotFoundError:  # not Linux
        return platform.processor()
