"""Holds the fields that requests of a run carry besides their messages, from earlier answers (`Turn.carry`).

A container lives on from turn to turn. In a chain each request names the previous answer, and has only the messages
after it. The fields of an answer are sent by the function that requested it only: a fallback may be another provider's.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..parts import NO_CARRY, Carry
from ..pipelines.messages import RunHistory
from ..turn import Turn

NOBODY = -1  # in the place of the number of a function


class Carrying:
    def __init__(self, given: Mapping[str, Any], history: RunHistory, functions: Sequence[Callable[..., Any]]) -> None:
        self._history = history
        self.numbers = tuple(map(functions.index, functions))  # one that is there twice is one provider
        self.takers = tuple(map(takes_carry, functions))  # whether they take it
        self._has_told = False
        self.beside: Mapping[str, Any] = {}  # what the messages themselves need, of the first function
        self.asked = 0  # the number of the function that was asked last
        self._begin(given)

    def _begin(self, given: Mapping[str, Any]) -> None:
        wire, begun_with = self._history.wire, self._history.begun_with
        fields = {name: given[name] for name in wire.carries if given.get(name)}
        self._carry = Carry(fields, getattr(given, "expires_at", None)) if fields else NO_CARRY  # what came last
        self._carries = {0: self._carry}  # by the number of the function that it came from
        self._chain = wire.chain if wire.chain in given else None
        self._chained = self._last_reply(begun_with) if wire.chain in fields else 0  # how many it stands for
        self._is_all = wire.chain not in fields or self._chained > 0

    def go_on(self, carry: Carry) -> None:
        """Begins with what an earlier run has left, unless the program gave its own, or does not want it."""
        is_wanted = self.takers[0] and not self._carry and self._history.wire.chain in (None, self._chain)
        if carry and is_wanted:
            self._begin(carry)

    @property
    def elsewhere(self) -> Mapping[str, str]:
        """The fields that stand for messages which the run has never seen."""
        return NO_CARRY if self._is_all else self._carry

    @property
    def is_chained(self) -> bool:
        return self._chained > 0

    def take(self, turn: Turn) -> None:
        """Takes the turn of a step that is over, and in the history."""
        if (carry := self._of(turn)) is None:
            return
        if self._history.wire.chain in carry:  # it goes on behind this answer, whoever has begun it
            self._chain, self._carries = self._history.wire.chain, {}
            self._chained = self._last_reply(self._history.messages(), self._chained)
        self._carry = self._carries[self._number] = carry

    def behind(self, turns: Sequence[Turn], messages: list[Any]) -> Carry:
        """Returns what a request with all these messages carries, the last of which are of the last turn."""
        own, carry = self._carries.get(0, NO_CARRY), self._of(turns[-1]) if turns else None
        if carry is not None and self._number == 0:
            return carry
        is_last = self._chain is None or self._last_reply(messages) == self._chained
        return own if is_last else NO_CARRY

    @property
    def _number(self) -> int:
        return NOBODY if self.asked == NOBODY else self.numbers[self.asked]

    def _of(self, turn: Turn) -> Carry | None:
        if self._chain is None:
            return turn.carry or None
        is_kept = turn.complete and not turn.is_draft and turn.response_id is not None
        return Carry({self._chain: str(turn.response_id)}) if is_kept else None

    def request(self, number: int, messages: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Returns the messages and the keywords that a function is called with."""
        self.asked = number
        if not self.takers[number]:
            return messages, {}
        carry = self._fresh(number)
        return messages[self._chained :] if carry else messages, {
            "carry": {**carry, **({} if self.numbers[number] else self.beside)}
        }

    def unsent(self) -> str | None:
        """Returns once in words why the provider refuses the next request; None if that has what it needs."""
        needs = self._history.wire.rules.awaits(self._history.messages())
        if needs is None or self._has_told:
            return None
        names = dict.fromkeys((*needs, *self._carry))  # pending work is in the place that its answer named
        if self.takers[0] and (fresh := self._fresh(0)) is self._carry and names.keys() <= fresh.keys():
            return None
        if self._carry and _is_expired(self._carry):
            why = f"expired at {self._carry.expires_at}, before its calls had results"
        elif not self._carry:
            why = "was not in the answer with the calls"
        elif not self.takers[0]:
            why = "is not sent: call_model has no parameter carry; write ask(messages, tools, carry)"
        else:
            why = "is not sent: it comes from a fallback's answer"
        self._has_told = bool(names)
        return f"{', '.join(names)} {why}" if names else None

    def _fresh(self, number: int) -> Carry:
        carry = self._carries.get(self.numbers[number], NO_CARRY)
        return NO_CARRY if _is_expired(carry) else carry

    def _last_reply(self, messages: list[Any], known: int = 0) -> int:
        """Returns how many messages there are up to the last answer, of which the first ones are known."""
        from ..wires import Reply  # few runs are chained

        replies = (one for one in reversed(self._history.wire.entries(messages[known:])) if isinstance(one, Reply))
        return next((known + one.origin[1] for one in replies if one.origin is not None), known)


def _is_expired(carry: Carry) -> bool:
    try:
        ends = datetime.fromisoformat(carry.expires_at or "9999-01-01T00:00:00Z")
        return ends.timestamp() <= time.time()
    except (ValueError, OverflowError, OSError):  # no moment
        return False


def takes_carry(call_model: Callable[..., Any]) -> bool:
    try:
        return "carry" in inspect.signature(call_model).parameters
    except (TypeError, ValueError):  # it is no function, or some of Python's own
        return False
