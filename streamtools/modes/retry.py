"""Answers a model whose call was not valid, and bounds how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["RetriesSpent", "Retry", "RetryBudget", "RetryOutcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The decision to ask again: append `message` to the history."""

    message: dict[str, str]
    """The user's message that says what was wrong."""
    attempt: int
    """Number of this retry, from 1."""
    left: int
    """Number of retries that are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriesSpent:
    """The decision not to ask again: the model had all its retries."""

    attempts: int
    """Number of retries that were made."""
    error_message: str
    """The last problem."""


RetryOutcome: TypeAlias = Retry | RetriesSpent


class RetryBudget:
    """Counts how often a model may still correct one call.

    >>> budget = RetryBudget(1)
    >>> budget.failed("no such tool")
    Retry(message={'role': 'user', 'content': 'Error: no such tool. Try again.'}, attempt=1, left=0)
    >>> budget.failed("no such tool")
    RetriesSpent(attempts=1, error_message='no such tool')

    Args:
        limit: retries in a row; a call that is valid gives them back (`succeeded`).

    Raises:
        ValueError: `limit` is negative.
    """

    def __init__(self, limit: int = 2) -> None:
        if limit < 0:
            raise ValueError(f"RetryBudget({limit}): the limit must be 0 or more")
        self.limit = limit
        self.used = 0
        """Retries since the last success."""

    def failed(self, error_message: str | None) -> RetryOutcome:
        """Counts a response that was not usable; returns whether to ask again.

        Args:
            error_message: the problem (`ToolCallValidation.error_message`); None where the response had no payload.
        """
        text = error_message or "the response holds no JSON object of the form that was asked for"
        if self.used >= self.limit:
            return RetriesSpent(attempts=self.used, error_message=text)
        self.used += 1
        message = {"role": "user", "content": f"Error: {text}. Try again."}
        return Retry(message=message, attempt=self.used, left=self.limit - self.used)

    def succeeded(self) -> None:
        """Counts a response that was usable, which restores the whole budget."""
        self.used = 0
