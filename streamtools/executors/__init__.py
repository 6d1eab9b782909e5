"""Runs calls in this task, in a thread, in a separate process, or on your own `Executor`.

    async with ProcessExecutor([resize, render]) as executor:
        call = Invocation(tool="resize", arguments={"width": 80}, key="order-7")
        answer = await run_once(store, executor, call)

An executor runs an `Invocation` once and never repeats it by itself. A call begins with its ``begin()``: before that it
has not started (`ToolNotStarted`), after that it has an end or is unknown (`ToolOutcomeUnknown`).
`streamtools.testing.check_executor` checks any executor against that contract.

| | what runs | a timeout or cancellation | |---|---|---| | `LocalExecutor` | any tool | reaches an async tool where it
awaits; a thread continues until its tool checks | | `ProcessExecutor` | tools that a module names | kills the worker
and the processes that it started |
"""

from __future__ import annotations

from ..dispatch import Executor, Invocation
from ..durable.claims import CallValue, run_once
from .local import LocalExecutor
from .process import ProcessExecutor

__all__ = [
    "CallValue",
    "Executor",
    "Invocation",
    "LocalExecutor",
    "ProcessExecutor",
    "run_once",
]
