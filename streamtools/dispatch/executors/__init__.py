"""Where calls run: in this task, in a thread, in a process of their own; or wherever an `Executor` of yours takes them.

    async with ProcessExecutor([resize, render]) as executor:
        value = await executor.run(Invocation(tool="resize", arguments={"width": 80}, key="order-7"), print)

An executor runs one `Invocation` and never makes a call again by itself. What it raises tells whether the call may be
made again: `ToolNotStarted` (it has had no effect) or `ToolOutcomeUnknown` (nobody knows). `run_once` puts an
idempotency store before it. `streamtools.testing.check_executor` holds any executor to what these promise.

| | what runs | a timeout or cancellation |
|---|---|---|
| `InProcessExecutor` | async tools | reaches the tool where it awaits; one that swallows it goes on |
| `ThreadExecutor` | sync tools | is seen as ``ctx.cancelled``; the thread goes on until the tool looks |
| `ProcessExecutor` | tools that a module names | kills the worker and the processes that it has started |
"""

from __future__ import annotations

from ..executor import Executor, Invocation
from ..once import Answer, run_once
from ..store import Claimed, IdempotencyStore, MemoryStore, Recorded, Unknown, call_fingerprint
from ..store_sqlite import SqliteStore
from .local import InProcessExecutor, ThreadExecutor
from .process import ProcessExecutor

__all__ = [
    "Answer",
    "Claimed",
    "Executor",
    "IdempotencyStore",
    "InProcessExecutor",
    "Invocation",
    "MemoryStore",
    "ProcessExecutor",
    "Recorded",
    "SqliteStore",
    "ThreadExecutor",
    "Unknown",
    "call_fingerprint",
    "run_once",
]
