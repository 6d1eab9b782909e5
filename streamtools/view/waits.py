"""Finds the waits and attempts of a call: as its observation tells them, until then as the events around it show.

In go a call's own moments and the end of its stream; out come the waits from its being ready to a moment before it
runs: for the turn's end, then for a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..events import Observation
from ..parts import Wait, WaitReason
from .picture import CallLane, Span

__all__ = ["REASONS", "take_told", "waits_before"]

REASONS: Mapping[WaitReason, str] = {
    "turn_end": "turn's end",
    "approval": "approval",
    "caller": "caller",
    "key": "same key",
    "tool_limit": "tool's limit",
    "exclusive": "exclusive tool",
    "limit": "place",
    "thread": "thread",
}
"""The words of a page for each reason."""

SHORTEST_S = 0.005  # a wait that is worth showing; less is the dispatcher's own time


def take_told(call: CallLane, event: Observation, origin: float) -> None:
    """Replaces a call's waits, and completes its attempts, by those that its observation tells. `origin` is the
    monotonic time of the run's first event."""
    if event.waits:
        call.waits = list(_told(event.waits, origin))
    for failed in event.failed_attempts:
        if failed.number <= len(call.tries):
            one = call.tries[failed.number - 1]
            one.error, one.end = failed.error_type, max(one.start, failed.ended - origin)


def _told(waits: Iterable[Wait], origin: float) -> Iterator[Span]:
    for wait in waits:
        if wait.reason == "approval" or wait.seconds >= SHORTEST_S:
            start, end = max(0.0, wait.began - origin), max(0.0, wait.ended - origin)
            yield Span(reason=REASONS[wait.reason], start=start, end=end)


def waits_before(call: CallLane, stream_end: float | None, now: float) -> list[Span]:
    """Returns the waits since the call was ready, or since the end of the last one that is known."""
    moments = (call.ready, *(wait.end for wait in call.waits))
    since = max((moment for moment in moments if moment is not None), default=None)
    if since is None:
        return []
    found = []
    if stream_end is not None and stream_end - since >= SHORTEST_S:
        found.append(Span(reason="turn's end", start=since, end=stream_end))
        since = stream_end
    if now - since >= SHORTEST_S:
        found.append(Span(reason="place", start=since, end=now))
    return found
