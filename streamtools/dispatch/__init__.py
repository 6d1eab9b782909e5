"""Turns calls into observations: decides when a call starts, runs it, and emits the one event for its end.

states.TRANSITIONS      the states of a call: which input leads to which state, with which effects
transitions.Calls       the calls of one turn: turns events and people's actions into inputs of the table
transitions.Transitions carries the effects out: places, tasks, questions, observations
pool.Scheduler          decides which calls may run now; starts none
pool.CallPool           the places of one pipeline's calls, or of several pipelines that share them
pool.Budgets            counts calls and tokens against the budgets of a run and of a pool
middleware.run_inside   runs a call inside its middleware
attempts.CallAttempts   runs one call: its attempts, and `begin`, the one step in which each begins
in_process.run_in_process runs a call in this process, where no executor is given
executor.Executor       the contract of the places where calls run; `executors` has the built-in ones
at_gate.AtGate          takes a call that must not run twice through the gate of its run
endings, results        the ending of a call, and its value as the model reads it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground.on_demand import names
from .executor import Begin, Emit, Executor, Invocation, context_of
from .options import Approver, DispatchOptions, StartPolicy, Verdict
from .pool import CallPool
from .transitions import Calls

if TYPE_CHECKING:
    from ..durable.journal import Journal
    from ..durable.memory import MemoryStore
    from ..durable.store import (
        Claim,
        Claimed,
        DecidingStore,
        EndUnknown,
        IdempotencyStore,
        LeasingStore,
        Recorded,
        StillRunning,
    )
    from ..durable.store_postgres import PostgresStore
    from ..durable.store_redis import RedisStore
    from ..durable.store_sqlite import SqliteStore
    from ..durable.suspended import CallAnswer, Suspended, SuspendedCall
    from ..seams import Decision, Deny
else:
    __getattr__ = names(
        __name__,
        {
            ".seams": "Decision Deny",
            ".durable.journal": "Journal",
            ".durable.store": "Claim Claimed DecidingStore EndUnknown IdempotencyStore LeasingStore Recorded "
            "StillRunning",
            ".durable.memory": "MemoryStore",
            ".durable.store_postgres": "PostgresStore",
            ".durable.store_redis": "RedisStore",
            ".durable.store_sqlite": "SqliteStore",
            ".durable.suspended": "CallAnswer Suspended SuspendedCall",
        },
    )

__all__ = [
    "Begin",
    "Emit",
    "Executor",
    "Invocation",
    "context_of",
    "CallAnswer",
    "Approver",
    "Calls",
    "Claim",
    "Claimed",
    "DecidingStore",
    "Decision",
    "Deny",
    "DispatchOptions",
    "EndUnknown",
    "StartPolicy",
    "CallPool",
    "IdempotencyStore",
    "Journal",
    "LeasingStore",
    "MemoryStore",
    "PostgresStore",
    "Recorded",
    "RedisStore",
    "SqliteStore",
    "StillRunning",
    "Suspended",
    "SuspendedCall",
    "Verdict",
]
