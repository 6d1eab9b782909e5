"""Counts calls and tokens against the budgets of a run, and of the runs that share a `CallPool`.

Input: the calls that are to run, in the order of their turn; the ends of calls; the token counts of responses. Output:
whether a call may run, or the `BudgetExceeded` that says why not. A call takes its place in each budget before anybody
is asked about it, and gives the place back if it ends without having begun.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal, Protocol

from ..errors import BudgetExceeded
from ..limits import Limits
from ..parts import COUNTS, Outcome, Usage

__all__ = ["ScopedBudget", "Budgets", "Spent", "tokens_of"]

_WHOLE = tuple(name for name, facts in COUNTS.items() if facts.part_of is None)


@dataclass(slots=True, eq=False)
class Spent:
    """The calls and tokens that a run, or all runs of one `CallPool`, have used so far."""

    calls: int = 0
    """Calls that have begun, wait for their begin, or wait for an approval."""
    tokens: int = 0
    """Tokens of the responses that have ended: input and output, with those from the provider's cache, those of
    reasoning, and those of the provider's own tools."""


def tokens_of(usage: Usage | None) -> int | None:
    """Returns the tokens of a response as budgets count them; None if the provider gave no counts."""
    counts = [] if usage is None else [getattr(usage, name) for name in _WHOLE]
    return sum(count or 0 for count in counts) if any(count is not None for count in counts) else None


class ScopedBudget:
    """The budget of a run or of a pool. Any thread may use it.

    Args:
        scope: what has the budget.
        calls, tokens: how much of it there is; None: any amount.
        spent: how much of it is spent.
    """

    __slots__ = ("_lock", "calls", "scope", "spent", "tokens")

    def __init__(self, scope: Literal["run", "pool"], calls: int | None, tokens: int | None, spent: Spent) -> None:
        self.scope: Literal["run", "pool"] = scope
        self.calls = calls
        self.tokens = tokens
        self.spent = spent
        self._lock = threading.RLock()  # a signal's or the garbage collector's code may come back in

    def take_call(self) -> BudgetExceeded | None:
        """Counts a call; returns the error instead if there is no call left."""
        with self._lock:
            if self.calls is not None and self.spent.calls >= self.calls:
                return BudgetExceeded("call_budget", self.calls, self.scope)
            self.spent.calls += 1
        return None

    def give_back_call(self) -> None:
        """Takes back the count of a call that has not begun."""
        with self._lock:
            self.spent.calls -= 1

    def add_tokens(self, tokens: int) -> None:
        """Counts the tokens of a response."""
        with self._lock:
            self.spent.tokens += tokens

    def tokens_exceeded(self) -> BudgetExceeded | None:
        """Returns the error if no token is left."""
        if self.tokens is None or self.spent.tokens < self.tokens:
            return None
        return BudgetExceeded("token_budget", self.tokens, self.scope)


class Counted(Protocol):
    """A call as budgets see it."""

    counted: bool
    attempts: int


class Budgets:
    """The budgets that one pipeline keeps: that of its run, and that of its pool if it shares one."""

    __slots__ = ("_all",)

    def __init__(self, limits: Limits, run: Spent, pool: ScopedBudget | None) -> None:
        own = ScopedBudget("run", limits.call_budget, limits.token_budget, run)
        self._all = (own,) if pool is None else (own, pool)

    @property
    def bound_tokens(self) -> bool:
        """True if one of the budgets is of tokens."""
        return any(budget.tokens is not None for budget in self._all)

    def admit(self, call: Counted) -> BudgetExceeded | None:
        """Counts a call that is to run, unless it is counted; returns the error instead if a budget is spent."""
        exceeded = self.tokens_exceeded()
        if exceeded is not None or call.counted:
            return exceeded
        for number, budget in enumerate(self._all):
            exceeded = budget.take_call()
            if exceeded is not None:
                for earlier in self._all[:number]:
                    earlier.give_back_call()
                return exceeded
        call.counted = True
        return None

    def ended(self, call: Counted, outcome: Outcome) -> None:
        """Gives the place of a call back that ends without having begun."""
        if call.counted and not call.attempts and outcome != "unknown":
            call.counted = False
            for budget in self._all:
                budget.give_back_call()

    def add(self, usage: Usage | None) -> None:
        """Counts the tokens of a response that has ended."""
        if tokens := tokens_of(usage):
            for budget in self._all:
                budget.add_tokens(tokens)

    def tokens_exceeded(self) -> BudgetExceeded | None:
        """Returns the error if the tokens of one of the budgets are spent."""
        for budget in self._all:
            if (exceeded := budget.tokens_exceeded()) is not None:
                return exceeded
        return None
