"""A second Ctrl-C on each line, one after the other: does the program end, with every observation made?

    python -m benchmarks.interrupted_lines FIRST LAST [--stride N] [--within PART]

A trace function raises KeyboardInterrupt on the n-th line that runs behind the first SIGINT (in streamtools, anyio and
asyncio), as a second one would: what a random moment finds once in a thousand times, this finds at once.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio._backends._asyncio  # noqa: F401 - here, where no line is counted yet

import streamtools.pipelines.agent_loop  # noqa: F401
from benchmarks.interrupted import Trial, interrupted_main, settle

HUNG_S = 5.0
LATE_S = 1.0
OVER = 9  # the exit of a process that ran fewer lines


class Tracer:
    """Raises on one line."""

    def __init__(self, at: int, within: str) -> None:
        self.at = at
        self.within = within
        self.lines = 0
        self.armed = False
        self.where: str | None = None

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if "asyncio" not in name and "anyio" not in name and "/streamtools/" not in name:
            return None
        if self.within and self.within not in name:
            return None
        if event == "call" and self.armed:
            return self.hit(frame)
        return self.line

    def line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line" and self.armed:
            return self.hit(frame)
        return self.line

    def hit(self, frame: Any) -> Any:
        self.lines += 1
        if self.lines == self.at:
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
            raise KeyboardInterrupt
        return self.line


def one(tracer: Tracer, directory: str) -> tuple[Trial, float]:
    """Runs the program, with the first SIGINT in its middle; returns what came of it, and the seconds."""
    trial = Trial(1, 3, whole=False, plain=False)
    trial.draw, trial.program, trial.endless = random.Random(5), "leave", False
    main = interrupted_main(trial, directory)

    async def first() -> None:
        task = asyncio.current_task()
        assert task is not None

        def interrupt() -> None:
            tracer.armed = True
            task.cancel()  # what asyncio.run makes of the first one

        asyncio.get_running_loop().call_later(0.03, interrupt)
        await main()

    begun = time.monotonic()
    sys.settrace(tracer)
    try:
        asyncio.run(first())
    except (KeyboardInterrupt, asyncio.CancelledError):
        pass
    except BaseException as error:
        trial.raised = f"{type(error).__name__}: {error}"
    finally:
        tracer.armed = False
        sys.settrace(None)
    return trial, time.monotonic() - begun


def watch(tracer: Tracer, done: threading.Event) -> None:
    """Ends a process that hangs, and says where."""
    if done.wait(HUNG_S):
        return
    print(f"{tracer.at} {tracer.where}: HUNG", flush=True)
    for task in [found for found in gc.get_objects() if isinstance(found, asyncio.Task) and not found.done()]:
        print("   ", repr(task)[:400], flush=True)
    os._exit(1)


def interrupted_at(at: int, within: str, directory: str) -> None:
    """The body of one process: prints what is not as it should be."""
    tracer, done = Tracer(at, within), threading.Event()
    threading.Thread(target=watch, args=(tracer, done), daemon=True).start()
    os.dup2(os.open(f"{directory}/err", os.O_RDWR | os.O_CREAT | os.O_TRUNC), sys.stderr.fileno())
    trial, took = one(tracer, directory)
    settle()
    done.set()
    report, said = trial.report(0.0), Path(directory, "err").read_text()
    if report["missing"] or report["twice"] or trial.raised or took > LATE_S or said:
        missing = [*report["missing"], *report["twice"]]
        print(f"{at} {tracer.where}: {took:.2f} s, missing {missing}, raised {trial.raised}, said {said[-200:]!r}")
    sys.stdout.flush()
    os._exit(OVER if tracer.where is None else 0)


def main(arguments: Sequence[str]) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--within", default="", help="part of the path of the files whose lines count")
    options = parser.parse_args(arguments)
    count = hung = 0
    with tempfile.TemporaryDirectory() as directory:
        for at in range(options.first, options.last, options.stride):
            child = os.fork()
            if child == 0:
                interrupted_at(at, options.within, directory)
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if ended == OVER:
                break
            count, hung = count + 1, hung + (ended == 1)
    print(f"hung {hung} of {count} lines")


if __name__ == "__main__":
    main(sys.argv[1:])
