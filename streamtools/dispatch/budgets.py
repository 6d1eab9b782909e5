"""Counts calls and tokens against the budgets of a run, and of the runs that share a `CallPool`.

A call takes its place in each budget before anybody is asked about it, and gives it back if it has not begun.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from ..errors import BudgetExceeded
from ..limits import Limits
from ..parts import COUNTS, Outcome, Usage

_whole_counts = attrgetter(*(name for name, facts in COUNTS.items() if facts.part_of is None))


@dataclass(slots=True, eq=False)
class Spent:
    calls: int = 0  # calls that have begun, wait for their begin, or wait for an approval
    tokens: int = 0
    """Tokens of the responses that have ended: input and output, with those from the provider's cache, those of
    reasoning, and those of the provider's own tools."""


def tokens_of(usage: Usage | None) -> int | None:
    counts = () if usage is None else [count for count in _whole_counts(usage) if count is not None]
    return sum(counts) if counts else None


class PoolBudget:
    """Keeps the budget of the runs that share a pool, by a lock: any thread may use it. None is any amount of calls or
    tokens."""

    __slots__ = ("_lock", "calls", "spent", "tokens")

    def __init__(self, calls: int | None, tokens: int | None, lock: threading.RLock) -> None:
        self.calls = calls
        self.tokens = tokens
        self.spent = Spent()
        self._lock = lock

    def take_call(self) -> BudgetExceeded | None:
        with self._lock:
            if self.calls is not None and self.spent.calls >= self.calls:
                return BudgetExceeded("call_budget", self.calls, "pool")
            self.spent.calls += 1
        return None

    def give_back_call(self) -> None:
        with self._lock:
            self.spent.calls -= 1

    def add_tokens(self, tokens: int) -> None:
        with self._lock:
            self.spent.tokens += tokens

    def tokens_exceeded(self) -> BudgetExceeded | None:
        if self.tokens is None or self.spent.tokens < self.tokens:
            return None
        return BudgetExceeded("token_budget", self.tokens, "pool")


class Counted(Protocol):
    counted: bool
    attempts: int


class Budgets:
    """Keeps the budgets of one pipeline: that of its run, by its limits, and that of its pool if it shares one."""

    __slots__ = ("_limits", "_pool", "_run", "bound_tokens")

    def __init__(self, limits: Limits, run: Spent, pool: PoolBudget | None) -> None:
        self._limits = limits
        self._run = run
        self._pool = pool
        self.bound_tokens = limits.token_budget is not None or (pool is not None and pool.tokens is not None)

    def admit(self, call: Counted) -> BudgetExceeded | None:
        exceeded = self.tokens_exceeded()
        if exceeded is not None or call.counted:
            return exceeded
        most = self._limits.call_budget
        if most is not None and self._run.calls >= most:
            return BudgetExceeded("call_budget", most, "run")
        if self._pool is not None and (exceeded := self._pool.take_call()) is not None:
            return exceeded
        self._run.calls += 1
        call.counted = True
        return None

    def ended(self, call: Counted, outcome: Outcome) -> None:
        if call.counted and not call.attempts and outcome != "unknown":
            call.counted = False
            self._run.calls -= 1
            if self._pool is not None:
                self._pool.give_back_call()

    def add(self, usage: Usage | None, before: Usage | None = None) -> None:
        """Counts the tokens of a response that has ended; `before`: those of them that were counted when it was cut."""
        if usage is not None and (tokens := tokens_of(usage)):
            if before is not None:
                tokens = max(0, tokens - (tokens_of(before) or 0))
            self._run.tokens += tokens
            if self._pool is not None:
                self._pool.add_tokens(tokens)

    def leaves_tokens(self, usage: Usage | None) -> bool:
        tokens, most, pool = tokens_of(usage) or 0, self._limits.token_budget, self._pool
        if most is not None and self._run.tokens + tokens >= most:
            return False
        return pool is None or pool.tokens is None or pool.spent.tokens + tokens < pool.tokens

    def tokens_exceeded(self) -> BudgetExceeded | None:
        if not self.bound_tokens:
            return None
        most = self._limits.token_budget
        if most is not None and self._run.tokens >= most:
            return BudgetExceeded("token_budget", most, "run")
        return None if self._pool is None else self._pool.tokens_exceeded()
