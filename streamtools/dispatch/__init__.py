"""Turns calls into observations: decides when a call starts, runs it, and emits the one event for its end.

states.TRANSITIONS      the states of a call: which input leads to which state, with which effects
transitions.Calls       the calls of one turn: makes inputs of the table from events and people's acts
transitions.Transitions carries the effects out: places, tasks, questions, observations
pool.Scheduler          decides which calls may run now; starts none
pool.CallPool           the places of one pipeline's calls, or of several pipelines that share them
budgets.Budgets         counts calls and tokens against the budgets of a run and of a pool
middleware.run_call     runs a call inside its middleware
attempts.Attempts       runs one call: its attempts, and `begin`, the one step in which each begins
in_process.run_in_process runs a call in this process, where no executor is given
executor.Executor       the contract of the places where calls run; `executors/` has ours
store.CallClaim         keeps a call from running twice, by its claim in a store
endings, results        the ending of a call, and its value as the model reads it
journal.Journal         keeps what the model answered in a run, so that the run survives its process
decisions               the decisions about calls, in a store: the first one counts
answers.CallAnswer      the result of a call that was done outside: the first one counts
suspended.Suspended     the calls that wait for an approval or an answer, kept across a restart
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..on_demand import names
from .approval import Approver, Decision, Deny, Verdict
from .options import DispatchOptions, StartPolicy
from .pool import CallPool
from .transitions import Calls

if TYPE_CHECKING:
    from .answers import CallAnswer
    from .journal import Journal
    from .store import DecidingStore, IdempotencyStore, MemoryStore
    from .store_redis import RedisStore
    from .store_sqlite import SqliteStore
    from .suspended import Suspended, SuspendedCall
else:
    __getattr__ = names(
        __name__,
        {
            "answers": "CallAnswer",
            "journal": "Journal",
            "store": "DecidingStore IdempotencyStore MemoryStore",
            "store_redis": "RedisStore",
            "store_sqlite": "SqliteStore",
            "suspended": "Suspended SuspendedCall",
        },
    )

__all__ = [
    "CallAnswer",
    "Approver",
    "Calls",
    "DecidingStore",
    "Decision",
    "Deny",
    "DispatchOptions",
    "StartPolicy",
    "CallPool",
    "IdempotencyStore",
    "Journal",
    "MemoryStore",
    "RedisStore",
    "SqliteStore",
    "Suspended",
    "SuspendedCall",
    "Verdict",
]
