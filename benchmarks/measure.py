"""How the figures are taken and shown.

A cost is CPU time (`time.process_time`, all threads) unless the figure says that it is wall time. Rivals take turns in
one run, so that what else the machine does hits all of them, and each counts with its best turn. The garbage collector
is on and left alone, as in a program that nobody tuned: a full collection before each turn would empty the processor's
caches and the interpreter's free lists, which costs whatever allocates most a fifth (measured).
"""

from __future__ import annotations

import os
import platform
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from statistics import median
from typing import Any

__all__ = ["Figure", "Pairs", "best_of", "environment", "paired", "record", "show"]

_VERSIONS = ("anyio", "orjson", "pydantic", "pydantic-core", "opentelemetry-sdk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One value that was measured."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    """It should be at most this; None: it is only stated."""
    detail: str = ""

    @property
    def verdict(self) -> str:
        """``pass`` or ``MISS``; nothing where there is no bar."""
        if self.bar is None:
            return ""
        return "pass" if self.value <= self.bar else "MISS"


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


def show(figures: Iterable[Figure]) -> None:
    """Print a table of the figures."""
    rows = [("figure", "value", "bar", "", "detail")]
    for figure in figures:
        bar = "" if figure.bar is None else f"<= {figure.bar:g}"
        rows.append((figure.name, f"{figure.value:.2f} {figure.unit}", bar, figure.verdict, figure.detail))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[4]]).rstrip())


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


def record(figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """The figures as JSON values."""
    return [{**asdict(figure), "verdict": figure.verdict} for figure in figures]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except FileNotFoundError:  # not Linux
        return platform.processor()
