"""One thing that a call waits for, with the responses to it; a file of its own, which few runs load."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio import CancelScope

from ..seams import Decision, Pending, Response, WrittenAnswer
from .answers import read_answer


@dataclass(slots=True, eq=False)
class PendingCall:
    pending: Pending
    question: Any = None  # what a running call has asked
    answered: anyio.Event | None = None  # is set at the answer to that
    found: list[Response] = field(default_factory=list)  # those that count
    giving: list[Response] = field(default_factory=list)  # on their way to the desk
    error: BaseException | None = None  # for which its approver denies it, or its edits cannot be run
    scope: CancelScope | None = None  # around the work of its approver, or around the wait for its answer

    @property
    def is_settled(self) -> bool:
        return self.pending.is_settled(self.found)

    @property
    def is_taken(self) -> bool:
        """True if no place is left, once the desk has what it is being given."""
        return self.pending.is_settled([*self.found, *self.giving])

    @property
    def value(self) -> Any:
        """The answer, once there is one."""
        assert isinstance(self.found[0], WrittenAnswer), "it was answered"
        return read_answer(self.found[0].record)

    def has_place(self, response: Response) -> bool:
        named = [one.by for one in (*self.found, *self.giving) if isinstance(one, Decision)]
        is_again = isinstance(response, Decision) and response.verdict and response.by in named
        return not self.is_taken and not is_again
