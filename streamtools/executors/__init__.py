"""Runs calls in this task, in a thread, in a process of their own, or on an `Executor` of yours.

    async with ProcessExecutor([resize, render]) as executor:
        call = Invocation(tool="resize", arguments={"width": 80}, key="order-7")
        answer = await run_once(store, executor, call)

An executor runs one `Invocation` and never runs it again by itself. Its ``begin()`` is the step in which a call begins:
before it the call is not started (`ToolNotStarted`), after it the call has an end or is unknown (`ToolOutcomeUnknown`).
`streamtools.testing.check_executor` holds any executor to that contract.

| | what runs | a timeout or cancellation |
|---|---|---|
| `LocalExecutor` | any tool | reaches an async tool where it awaits; a thread goes on until its tool checks |
| `ProcessExecutor` | tools that a module names | kills the worker and the processes that it has started |
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
