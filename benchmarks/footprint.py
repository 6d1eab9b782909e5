"""How much of the package a tool call passes through, and how much of it one stream loads: ``python -m
benchmarks.instructions --calls`` and ``--modules``.

A Python call is a function of the package that is entered, or a coroutine or generator of the package that is resumed;
generated code (the ``__init__`` of a dataclass) counts for the module with the class.
"""

from __future__ import annotations

import asyncio
import json
import marshal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from .counted import consume
from .instructions import CHAT, ROOT, deltas_of, turn

__all__ = ["Entered", "calls", "files_of", "modules", "show_calls", "show_modules"]

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


_PROGRAM = """
import json, marshal, sys
wire, chunks = marshal.load(open(sys.argv[1], "rb"))
import asyncio
import streamtools
async def source():
    for chunk in chunks:
        yield chunk
async def main():
    async with streamtools.pipeline(source(), wire=wire) as events:
        async for _ in events:
            pass
asyncio.run(main())
loaded = [m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] == "streamtools" and m.__file__]
print(json.dumps(loaded))
"""


def modules(wire: str) -> list[Path]:
    """Returns the files of the package that a fresh process has loaded when it has read one stream of this wire."""
    with tempfile.NamedTemporaryFile() as file:
        marshal.dump((wire, deltas_of(wire)), file)
        file.flush()
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, file.name], capture_output=True, text=True, cwd=ROOT, check=True
        )
    return [Path(name) for name in json.loads(done.stdout)]


def show_modules() -> None:
    """Prints for each wire how many modules one stream loads, and the sum of their lines."""
    from streamtools.wires import WIRES

    print(f"{'loaded for one stream':30} {'modules':>7} {'lines':>7}")
    for wire in WIRES:
        files = modules(wire)
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        print(f"{wire:30} {len(files):7} {lines:7,}")
