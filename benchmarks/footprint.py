"""How much of the package a tool call passes through: ``python -m benchmarks.instructions --calls``.

A Python call is a function of the package that is entered, or a coroutine or generator of the package that is resumed;
generated code (the ``__init__`` of a dataclass) counts for the module with the class.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .counted import consume
from .instructions import CHAT, turn

PACKAGE = "streamtools"
WARM_UPS = 3

Entered = Counter[tuple[str, str]]
"""How often each function was entered: by its module and its qualified name."""


@contextmanager
def _counting() -> Iterator[Entered]:
    entered: Entered = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.partition(".")[0] == PACKAGE:
            entered[module, frame.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        yield entered
    finally:
        sys.setprofile(None)


def calls() -> dict[str, Entered]:
    """Counts what the parts of a turn enter, after a warm-up: a turn without calls, its first call, and one more.

    Each call's name comes in one delta and its arguments in three pieces; it ends, runs and is observed. The text is
    one delta.
    """
    counted: list[Entered] = []
    with asyncio.Runner() as runner:
        for number in (0, 1, 2, 3):
            body = turn(number)
            for _ in range(WARM_UPS):
                runner.run(consume([body], CHAT))
            with _counting() as entered:
                runner.run(consume([body], CHAT))
            counted.append(entered)
    none, one, two, three = counted
    return {"a turn without calls": none, "the first call of a turn": one - none, "one more call": three - two}


def show_calls() -> None:
    """Prints how many Python calls and files each part of a turn takes, and the files of its first call."""
    counted = calls()
    print(f"{'Python calls in the package':30} {'calls':>7} {'files':>7}")
    for name, entered in counted.items():
        print(f"{name:30} {entered.total():7} {len(files_of(entered)):7}")
    print("\nfiles of the first call, by their calls")
    for module, number in files_of(counted["the first call of a turn"]).most_common():
        print(f"{module:30} {number:7}")


def files_of(entered: Entered) -> Counter[str]:
    """Counts the calls of each file, by its module's name within the package (``stages.accumulate``)."""
    found: Counter[str] = Counter()
    for (module, _), number in entered.items():
        found[module.removeprefix(f"{PACKAGE}.")] += number
    return found
