"""Calls in, observations out: when a call starts, how it runs, and the one event that says how it ended.

states.TRANSITIONS      the states of a call: what happens, what comes next, with which effects
calls.CallWriter             the calls of one turn: events and people's acts, as things that happen to a call
moves.Moves             carries the effects out: places, tasks, questions, observations
attempts.Attempts       one call that runs: its attempts, and `begin`, the one step in which each begins
executor.Executor       the contract of the places where calls run; `executors/` has ours
claims.CallClaim        a call that must not run twice: its claim in a store
scheduler.Scheduler     decides which calls may run now; starts none
pool.CallPool         the same for one pipeline or several, with the tasks that it starts
suspended.Suspended     the calls that wait for an approval over a restart
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .approval import Approver, Verdict
from .calls import Calls
from .options import DispatchOptions, StartPolicy
from .pool import CallPool
from .store import IdempotencyStore, MemoryStore
from .suspended import Suspended, SuspendedCall

if TYPE_CHECKING:
    from .store_redis import RedisStore
    from .store_sqlite import SqliteStore

__all__ = [
    "Approver",
    "Calls",
    "DispatchOptions",
    "StartPolicy",
    "CallPool",
    "IdempotencyStore",
    "MemoryStore",
    "RedisStore",
    "SqliteStore",
    "Suspended",
    "SuspendedCall",
    "Verdict",
]


def __getattr__(name: str) -> Any:
    if name == "SqliteStore":  # with sqlite3, which costs some milliseconds
        from .store_sqlite import SqliteStore

        return SqliteStore
    if name == "RedisStore":  # an extra
        from .store_redis import RedisStore

        return RedisStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
