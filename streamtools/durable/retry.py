"""Decides whether to ask a model again for a step's answer, which one, and after which pause."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..ground import shown_by
from ..parts import Failure, ResumePoint
from ..seams import Again, Attempts, Cut, Rest, Sight
from ..tools import Toolset


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Configures retries of a step's request: how often, after which errors, and after which pause. Times are seconds.

    >>> Retry(attempts=5, after_output=True).attempts
    5

    An SDK client has its own retries, which multiply with these: ``AsyncOpenAI(max_retries=0)``.
    """

    attempts: int = 3
    """The most requests by each function in one step, the first one included."""
    backoff: float = 0.5
    """The pause before the second attempt, doubled before each further one up to `max_wait`."""
    max_wait: float = 30.0
    """The longest pause, even if the provider asks for a longer one (``retry-after``)."""
    total: float | None = 180.0
    """The time after a step's first request within which the last attempt has to begin. None: no limit."""
    after_output: bool = False
    """Retry even after some of the answer was emitted: for readers that handle `AttemptDiscarded`."""
    when: Callable[[Exception], bool] | None = None
    """Decides which errors are retried. By default: the connection or stream broke off, the first chunk timed out, the
    provider is overloaded or limits the rate, or its HTTP status is 408, 409, 425, 429 or above 499."""
    resume: Callable[[ResumePoint], Any] | None = None
    """Requests the rest of a response, on wires that can resume one, and returns its stream. The attempt then
    continues, and nothing is discarded. If that fails `attempts` times, the model is asked anew."""
    jitter: Callable[[], float] = field(default=random.random, repr=False)
    """Returns a number from 0 to 1, which shortens the pause by up to half, so that clients do not all return at
    once."""

    __repr__ = shown_by()

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1:
            raise ValueError(f"Retry(attempts={self.attempts!r}): must be an integer greater than 0")
        if not (self.resume is None or callable(self.resume)):
            raise TypeError(f"Retry(resume=...): expected a function, got {type(self.resume).__name__}")
        for name in ("backoff", "max_wait", "total"):
            value = getattr(self, name)
            if value is None and name == "total":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise ValueError(f"Retry({name}={value!r}): must be a number not less than 0")

        if self.when is not None and not callable(self.when):
            raise TypeError(f"Retry(when={self.when!r}): must be a function of the error, or None")

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """Returns the seconds to wait after an attempt, by its number.

        Args:
            attempt: from 1.
            retry_after: the seconds that the provider asks for.
        """
        if retry_after is not None:
            return min(retry_after, self.max_wait)
        longest = min(self.backoff * 2.0 ** min(attempt - 1, 64), self.max_wait)
        return longest * (1 - self.jitter() / 2)

    def broke(self, failure: Failure, sight: Sight, /) -> Again | Rest | Cut | None:
        """Decides what to do after a failed attempt; see `streamtools.seams.Attempts`."""
        if sight.resume_from is not None:
            return self._rest(failure, sight, sight.resume_from)
        may_pass = self._may_pass(failure, sight)
        if not (may_pass or failure.is_of_one_provider) or (sight.has_output and not self.after_output):
            return None
        if sight.is_bound:
            return Cut()
        is_left = may_pass and sight.asked < self.attempts
        pause = self.pause(sight.asked, failure.retry_after) if is_left else 0.0
        fallback = sight.fallback if is_left else sight.fallback + 1
        return Again(pause, fallback) if fallback <= sight.fallbacks and self._is_time_for(pause, sight) else None

    def _rest(self, failure: Failure, sight: Sight, point: ResumePoint) -> Rest | None:
        pause = self.pause(sight.rests + 1, failure.retry_after)
        # Without a cursor the response would start over. A fallback has another provider.
        if self.resume is None or point.after is None or sight.fallback or sight.rests >= self.attempts:
            return None
        is_asked = self._may_pass(failure, sight) and self._is_time_for(pause, sight)
        return Rest(partial(self.resume, point), pause) if is_asked else None

    def _may_pass(self, failure: Failure, sight: Sight) -> bool:
        return failure.may_pass if self.when is None else bool(self.when(sight.error))

    def _is_time_for(self, pause: float, sight: Sight) -> bool:
        return self.total is None or sight.elapsed_s + pause <= self.total


def check_attempts(
    policy: Attempts | None, asks: Sequence[Any], fallback: Sequence[Any], *, start: str, tools: Toolset
) -> None:
    """Raises a `TypeError` if a request is not a function, a `ValueError` if a call might take effect twice."""
    if callable(fallback):
        raise TypeError("fallback must be a list of functions that make the request; write fallback=[...]")
    for ask in (*asks, *fallback):
        if not callable(ask):
            raise TypeError(
                f"with retry= or fallback=, pass functions that make the request, not {type(ask).__name__}; write "
                "pipeline(lambda: client.chat.completions.create(...), retry=Retry())"
            )
    if getattr(policy, "after_output", False) and start == "early":
        for tool in tools.values():
            if tool is not None and tool.effect == "once" and tool.idempotency_key is None:
                raise ValueError(
                    f'Retry(after_output=True) with start="early": {tool.name} has the effect "once", but would begin '
                    "before the answer is complete, and could run again in the next step; give it idempotency_key=, "
                    "or leave out start="
                )
