"""Attempts at the answer of a step, and who decides whether there is another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..parts import Failure, ResumePoint, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """An attempt that has failed, as far as it got."""

    attempt: int
    """Its number in the step, from 1."""
    fallback: int
    """Which function has made its request: 0 the first one, 1 the first of ``fallback=``."""
    fallbacks: int
    """How many there are in ``fallback=``."""
    asked: int
    """How often that function was asked in a row, this time included."""
    rests: int
    """How often the rest of the attempt's response was asked for."""
    elapsed_s: float
    """The seconds since the step's first attempt began."""
    error: Exception
    """What has ended it."""
    usage: Usage | None
    """Its tokens, as far as they are known."""
    has_output: bool
    """The consumer has seen some of the answer."""
    is_bound: bool
    """A call has begun that must not run twice."""
    resume_from: ResumePoint | None
    """Where the response broke off, if the provider may resume it there: only a `Rest` counts then. The question comes
    again, with None, if there is no rest, or it breaks off as well."""


@dataclass(frozen=True, slots=True)
class Again:
    """Discard the attempt, and make another one. If a call has begun that must not run twice, this is a `Cut`."""

    pause_s: float = 0.0
    """The seconds until then. If the step's or the run's time would be over, or no tokens are left, the error is
    raised."""
    fallback: int | None = None
    """Which function is asked: 0 the first one, 1 the first of ``fallback=``. By default it is the same again."""
    request: Callable[[], Any] | None = None
    """A function of your own that makes the request, and returns its stream or an awaitable of it."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Read on, from a stream of the rest of the response."""

    request: Callable[[], Any]
    """Makes the request from `Sight.resume_from` on, and returns its stream or an awaitable of it."""
    pause_s: float = 0.0
    """The seconds until then."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Keep what has come, since a call has begun that must not run twice: it goes on to its end, and `agent_loop` asks
    the next step with its result."""


class Attempts(Protocol):
    """Decides whether the model is asked again when an attempt at a step's answer has failed; `streamtools.Retry` is
    one. The same object decides for all steps of a run.

    The first argument of `streamtools.pipeline` is then a function that makes the request. With an attribute
    ``after_output = True``, answers that were partly shown may be discarded, too: their readers have to honour
    `AttemptDiscarded`.
    """

    def broke(self, failure: Failure, sight: Sight, /) -> Again | Rest | Cut | None:
        """Returns what follows the failure; None if its error is to be raised. It must not wait. If it raises, the
        failure is raised all the same, with a note."""
        ...
