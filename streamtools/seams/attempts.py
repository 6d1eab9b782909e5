"""Decides whether a step makes another attempt at its answer after one has failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..parts import Failure, ResumePoint, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A failed attempt, as `Attempts.broke` sees it."""

    attempt: int
    """Its number in the step, from 1."""
    fallback: int
    """Which function made its request: 0 is the main one, 1 the first of ``fallback=``."""
    fallbacks: int
    """How many functions ``fallback=`` has."""
    asked: int
    """How many times in a row that function was called, including this time."""
    rests: int
    """How many times the rest of the attempt's response was requested."""
    elapsed_s: float
    """The seconds since the step's first attempt began."""
    error: Exception
    """The error that ended it."""
    usage: Usage | None
    """Its token counts, as far as they are known."""
    has_output: bool
    """True if the consumer has seen some of the answer."""
    is_bound: bool
    """True if a call that must not run twice has begun."""
    resume_from: ResumePoint | None
    """Where the response broke off, if the provider may resume it there: then only a `Rest` counts. `Attempts.broke` is
    called again, with None here, if it returned no `Rest` or the rest breaks off as well."""


@dataclass(frozen=True, slots=True)
class Again:
    """Discard the attempt and make another one. If a call that must not run twice has begun, this counts as a `Cut`."""

    pause_s: float = 0.0
    """The seconds to wait first. If the step or run would then be out of time or tokens, the attempt's error is raised
    instead."""
    fallback: int | None = None
    """Which function to call: 0 is the main one, 1 the first of ``fallback=``. None calls the same one again."""
    request: Callable[[], Any] | None = None
    """Your own function to make the request with. It returns the stream or an awaitable of it."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Continue the response from a stream of its rest."""

    request: Callable[[], Any]
    """Requests the response from `Sight.resume_from` on. Returns the stream or an awaitable of it."""
    pause_s: float = 0.0
    """The seconds to wait first."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Keep what has arrived, since a call that must not run twice has begun. The call runs to its end, and `agent_loop`
    sends its result with the next step."""


class Attempts(Protocol):
    """Decides whether the model is asked again when an attempt at a step's answer has failed; `streamtools.Retry` is
    one. The same object decides for all steps of a run.

    As its first argument, `streamtools.pipeline` then takes a function that makes the request. With an attribute
    ``after_output = True``, answers that were partly shown may be discarded too: their readers have to handle
    `AttemptDiscarded`.
    """

    def broke(self, failure: Failure, sight: Sight, /) -> Again | Rest | Cut | None:
        """Returns what to do after the failure; None raises its error. It must not block. If it raises, the failure
        is raised anyway, with a note."""
        ...
