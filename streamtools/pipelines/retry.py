"""Asks the model for a step's answer: makes the request, and makes it again where that may help.

Theory of operation. A step has one or more *attempts*: a request and its stream. When one breaks off, and before the
last events of its decoder are emitted, `Retrying.judge` decides. If the attempt is to be *discarded*, its calls are
observed as ``discarded``, `AttemptDiscarded` says from where on to forget, and the pipeline reads another source with a
new decoder, new calls and an empty turn; the step goes on. If a call has begun that must not run twice, the attempt
is *cut*: it ends as any cut answer does, but its running calls go on, and `agent_loop` asks for the next step.
Otherwise the error is raised, as without ``retry=``. Calls that have begun and may run again are carried over
(`dispatch.carried`). Before all that, the rest of a response may be asked for (`Retrying.rest`): the same decoder reads
on (`resumed`), and nothing is judged.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from anyio import sleep
from anyio.lowlevel import checkpoint_if_cancelled

from ..decode.body import as_items
from ..dispatch.carried import Carried
from ..events import AttemptBegan, AttemptCommitted, AttemptDiscarded, StreamEnd
from ..sources import answer_of, open_source
from ..text import shown_by
from ..wires import Wire

if TYPE_CHECKING:
    from ..dispatch import DispatchOptions
    from ..observers import StreamFacts
    from ..parts import ResumePoint, Usage
    from ..sources import Source
    from ..sources.failures import Failure
    from ..tools import Toolset
    from .pump import ItemDecoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Says how often a step's request is made, after which errors, and after which pause. Times are seconds.

    >>> Retry(attempts=5, after_output=True).attempts
    5

    An SDK's client has retries of its own, which multiply with these: ``AsyncOpenAI(max_retries=0)``.
    """

    attempts: int = 3
    """How often each function that makes the request is asked in one step, the first time included."""
    backoff: float = 0.5
    """The pause before the second attempt, and twice as long before each further one; at most `max_wait`."""
    max_wait: float = 30.0
    """The longest pause, also where the provider asks for a longer one (``retry-after``)."""
    total: float | None = 180.0
    """The time from a step's first request within which its last attempt has to begin. None: no limit."""
    after_output: bool = False
    """Ask again also where the answer had begun to be shown: for readers who honour `AttemptDiscarded`."""
    when: Callable[[Exception], bool] | None = None
    """Decides after which errors the model is asked again. By default: the connection or the stream broke off, a time
    for the first chunk was over, the provider is overloaded or limits the rate, or its HTTP status is 408, 409, 425,
    429 or above 499."""
    resume: Callable[[ResumePoint], Any] | None = None
    """Asks for the rest of a response, on wires that can resume one, and returns its stream. The attempt then goes on,
    and nothing is discarded. If the rest is refused, or breaks off too, `attempts` times, the model is asked anew."""
    jitter: Callable[[], float] = field(default=random.random, repr=False)
    """Returns a number from 0 to 1: the pause is shortened by up to its half, so that many clients do not return at
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


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request that is made when it is awaited; the result is the stream."""

    ask: Callable[[], Any]
    """Returns the stream, or an awaitable of it."""
    wire: Wire | str | None
    pause_s: float = 0.0
    """How long to wait before it is made."""

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._made().__await__()

    async def _made(self) -> Any:
        if self.pause_s:
            await sleep(self.pause_s)
        await checkpoint_if_cancelled()  # the answer may have been cut before it was asked for
        stream = self.ask()
        if isinstance(stream, Awaitable) and not hasattr(stream, "__aiter__"):
            stream = await stream
        return as_items(answer_of(stream), self.wire)


class Sight(Protocol):
    """Shows how far an attempt has come."""

    @property
    def has_output(self) -> bool:
        """True once the answer has shown something."""
        ...

    @property
    def is_bound(self) -> bool:
        """True once a call has begun that must not run twice."""
        ...

    def leaves(self, seconds: float, usage: Usage | None) -> bool:
        """Returns whether so many seconds, and some tokens behind those used, are left of the step and of the run."""
        ...

    def failure(self, error: Exception) -> Failure:
        """Returns the way in which the attempt failed."""
        ...


Prepared = tuple["Source", "ItemDecoder", "DispatchOptions", "StreamFacts"]


class Retrying:
    """The attempts of one step. `requests` are the request of each function that may make it, the first and its
    fallbacks."""

    def __init__(self, retry: Retry, requests: Sequence[Any]) -> None:
        self.retry = retry
        self.attempt = 1
        """The number of the attempt in its step."""
        self.take_back_counts: Callable[[], None] = _nothing
        """Takes back the counts of the attempt's calls in their run."""
        self.pause = 0.0
        """The seconds until the next attempt."""
        self.carried = Carried()
        """The calls of discarded attempts."""
        self.cut = False
        """True if the attempt has ended in its middle, and is committed all the same."""
        self.prepare: Callable[[Any], Prepared]
        """Returns all that reads the stream of a request; set by `pipeline`."""
        self.sight: Sight
        """Shows the attempt that goes on; set by the pipeline."""
        self.goes_on = False
        """True if a step that is cut is followed by another one, which is asked with its results."""
        self._requests = tuple(requests)
        self._resumed = 0  # how often the rest of the attempt's response was asked for
        self._of_request = 1
        self._fallback = 0
        self._began_at = 0.0
        self._next: tuple[int, Failure, float, str] | None = None
        self._is_committed = False

    @property
    def request(self) -> Any:
        """The request of the attempt."""
        return self._requests[self._fallback]

    @property
    def is_error(self) -> bool:
        """True if the stream's error is to be raised."""
        return not (self.cut and self.goes_on)

    def rest(self, error: Exception, point: ResumePoint) -> Source | None:
        """Returns a source of the rest of the attempt's response, which broke off so; None if it is not asked for."""
        retry, failure = self.retry, self.sight.failure(error)
        may_pass = failure.may_pass if retry.when is None else bool(retry.when(error))
        # Without a cursor the response would begin anew. The provider of a fallback is another one.
        is_asked = retry.resume is not None and point.after is not None and not self._fallback
        if retry.resume is None or not (is_asked and may_pass and self._resumed < retry.attempts):
            return None
        pause = retry.pause(self._resumed + 1, failure.retry_after)
        if not self._is_time_for(pause) or not self.sight.leaves(pause, None):
            return None
        self._resumed += 1
        request: ModelRequest = self.request
        return open_source(ModelRequest(partial(retry.resume, point), request.wire, pause))

    def _is_time_for(self, pause: float) -> bool:
        total = math.inf if self.retry.total is None else self.retry.total
        return time.monotonic() + pause - self._began_at <= total

    def judge(self, error: Exception, end: StreamEnd) -> bool:
        """Returns whether the attempt is to be discarded, since it has failed so; else notes whether it is cut."""
        if end.error is None:
            return False
        failure, sight, retry = self.sight.failure(error), self.sight, self.retry
        may_pass = failure.may_pass if retry.when is None else bool(retry.when(error))
        if not (may_pass or failure.is_of_one_provider) or (sight.has_output and not retry.after_output):
            return False
        if sight.is_bound:
            self.cut = True
            return False
        is_left = may_pass and self._of_request < retry.attempts
        fallback = self._fallback if is_left else self._fallback + 1
        if fallback >= len(self._requests):
            return False
        pause = retry.pause(self._of_request, failure.retry_after) if is_left else 0.0
        if not self._is_time_for(pause) or not sight.leaves(pause, end.usage):
            return False
        self._next = (fallback, failure, pause, end.error.kind)
        return True

    def began(self) -> AttemptBegan:
        """Begins the attempt; returns its event."""
        self._began_at = self._began_at or time.monotonic()
        self._is_committed = False
        return AttemptBegan(self.attempt, self._fallback, self.retry.after_output)

    def discarded(self, from_seq: int, end: StreamEnd) -> AttemptDiscarded:
        """Ends the attempt; returns its event, and turns to the next one."""
        assert self._next is not None, "judged so"
        (fallback, failure, self.pause, kind), self._next = self._next, None
        event = AttemptDiscarded(self.attempt, from_seq, kind, failure.error_type, self.pause, end.usage)
        self._of_request = self._of_request + 1 if fallback == self._fallback else 1
        self._fallback = fallback
        self.attempt += 1
        self._resumed = 0
        return event

    def committed(self, end: StreamEnd) -> AttemptCommitted | None:
        """Returns the event that follows the end of an attempt which counts; None if its error is raised."""
        if self._is_committed or (end.error is not None and not self.cut):
            return None
        self._is_committed = True
        return AttemptCommitted(self.attempt, self.cut)


def _nothing() -> None:
    """Takes nothing back."""


def attempts_of(
    retry: Retry | None,
    asks: Sequence[Callable[[], Any]],
    wire: Wire | str | None,
    *,
    start: str,
    tools: Toolset,
) -> Retrying:
    """Returns the attempts of a step; the first of `asks` is asked first, the others are its fallbacks. Raises a
    `TypeError` if `retry` is no `Retry`, or something to ask is no function; a `ValueError` if a call might take effect
    twice."""
    if retry is not None and not isinstance(retry, Retry):
        raise TypeError(f"retry is a streamtools.Retry(...), not {type(retry).__name__}")
    for ask in asks:
        if not callable(ask):
            raise TypeError(
                f"with retry= or fallback=, pass functions that make the request, not {type(ask).__name__}; write "
                "pipeline(lambda: client.chat.completions.create(...), retry=Retry())"
            )
    retry = retry or Retry(attempts=1)
    if retry.after_output and start == "early":
        for tool in tools.values():
            if tool is not None and tool.effect == "once" and tool.operation is None:
                raise ValueError(
                    f'Retry(after_output=True) with start="early": {tool.name} has the effect "once" and would begin '
                    "before its answer is whole, and be asked for again by the next step; give it operation=, or leave "
                    "out start="
                )
    return Retrying(retry, [ModelRequest(ask, wire) for ask in asks])
