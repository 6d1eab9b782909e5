"""Keeps a run beyond an attempt or its process, and keeps a call from running twice.

desk.StoreDesk           decides by a store which decision or answer about a call came first
suspended.Suspended      the calls that wait for an approval or an answer, kept across a restart
journal_waiting          the same calls in a journal, where any process can decide about them
gate.StoreGate           admits a call once it has claimed it in a store, under its key or that of its operation
journal_gate.JournalGate admits a call once its response is on record; it wraps the store's gate
store.IdempotencyStore   the contract of every store, and its answers
claims.CallClaim         the claim of one call, and its end; `run_once`
alone.once               the same around any function
records.Records          the contract of a place that keeps values under keys
memory, store_sqlite, store_postgres, store_redis  such places: a process, a file, servers
threaded.ThreadedRecords shared by those with a blocking driver: a thread, deadlines, forks, renewals
record_store.RecordStore keeps claims, ends of calls and decisions as records
holders.Holder           the process that made a claim
retry.Retry              decides when the model is asked again
tries.PolicyTries        makes the attempts, reads the rest of a response, carries calls over to the next attempt
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground.on_demand import names

if TYPE_CHECKING:
    from .alone import once
else:
    __getattr__ = names(__name__, {"alone": "once"})

__all__ = ["once"]
