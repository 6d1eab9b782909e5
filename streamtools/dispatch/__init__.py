"""Calls in, observations out: when a call starts, how it runs, and the one event that says how it ended.

scheduler.Scheduler     which calls may run now; decides only
dispatcher.Dispatcher   the same for one pipeline or several, with the tasks that it starts
calls.Calls             the calls of one turn: what is held, asked about, skipped, released, observed
tasks.CallTasks         their places in the order, and the tasks that they run in
running.Runner          one call: attempts, times, threads, executors, results
approvals.Approvals     who is asked before they run, and what follows from the answer
suspended.Suspended     what waits for a word over a restart
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .approval import Approver, Verdict
from .calls import Calls
from .dispatcher import Dispatcher
from .options import DispatchOptions, DispatchPolicy
from .store import IdempotencyStore, MemoryStore
from .suspended import Suspended, SuspendedCall

if TYPE_CHECKING:
    from .store_sqlite import SqliteStore

__all__ = [
    "Approver",
    "Calls",
    "DispatchOptions",
    "DispatchPolicy",
    "Dispatcher",
    "IdempotencyStore",
    "MemoryStore",
    "SqliteStore",
    "Suspended",
    "SuspendedCall",
    "Verdict",
]


def __getattr__(name: str) -> Any:
    if name == "SqliteStore":  # with sqlite3, which costs some milliseconds
        from .store_sqlite import SqliteStore

        return SqliteStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
