"""Words why a span failed, without a word of the model's, the provider's or the tool's."""

from __future__ import annotations

from ..display import class_name
from ..errors import ApprovalPending, ProviderError, StreamError
from ..events import Observation, StreamEnd
from ..parts import OUTCOMES

__all__ = ["call_words", "error_of", "is_pending", "stream_words"]


def error_of(observation: Observation) -> BaseException | None:
    """Returns the exception that stands for a call's end: the tool's own, if it raised one."""
    error = observation.error
    return error if error is None or error.__cause__ is None else error.__cause__


def is_pending(observation: Observation) -> bool:
    """Returns whether a call only waits for an approval that may still come: that is no failure."""
    return isinstance(observation.error, ApprovalPending)


def call_words(observation: Observation, end: StreamEnd | None) -> str:
    """Returns why a call is not ``ok``."""
    outcome, error = observation.outcome, error_of(observation)
    if outcome == "timed_out" and observation.duration is not None:
        return f"timed out after {observation.duration:.3g} s"
    if outcome == "cancelled" and not observation.attempts:
        return "not run: it was cancelled"
    if outcome == "skipped" and end is not None:
        return f"not run: {_turn_words(end)}"
    return OUTCOMES[outcome].words.format(type="an exception" if error is None else class_name(error))


def stream_words(error: StreamError | None) -> str:
    """Returns why a stream did not end well."""
    if isinstance(error, ProviderError):
        return "the provider reported an error"
    return "the stream ended before its end" if error is None else _KINDS.get(error.kind, error.kind.replace("_", " "))


_KINDS = {
    "stream_truncated": "the stream ended before its end",
    "limit_exceeded": "the stream exceeded a limit",
    "deadline_exceeded": "a deadline passed",
}


def _turn_words(end: StreamEnd) -> str:
    if end.error is not None:
        return f"its turn failed ({stream_words(end.error)})"
    return f"its turn ended by {end.finish}" if end.complete else "its turn was cut"
