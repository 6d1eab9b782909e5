"""Calls in, observations out: when a call starts, how it runs, and the one event that says how it ended.

scheduler.Scheduler     which calls may run now; decides only
dispatcher.Dispatcher   the same for one pipeline or several, with the tasks that it starts
calls.Calls             the calls of one turn: what is held, skipped, released, observed
running.run             one call: attempts, times, threads, results
"""

from __future__ import annotations

from .calls import Calls, DispatchPolicy
from .dispatcher import Dispatcher

__all__ = ["Calls", "DispatchPolicy", "Dispatcher"]
