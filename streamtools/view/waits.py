"""Finds the waits and attempts of a call: as its observation tells them, until then as the events around it show.

In go a call's own moments and the end of its stream; out come the waits from its being ready to a moment before it
runs: for the turn's end, then for a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..events import Observation
from ..parts import WAITS, Wait
from .picture import CallLane, Span

__all__ = ["APPROVAL", "take_told", "waits_before"]

APPROVAL = WAITS["approval"].words
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
        facts = WAITS[wait.reason]
        if facts.has_own_span or wait.seconds >= SHORTEST_S:
            start, end = max(0.0, wait.began - origin), max(0.0, wait.ended - origin)
            yield Span(reason=facts.words, start=start, end=end)


def waits_before(call: CallLane, stream_end: float | None, now: float) -> list[Span]:
    """Returns the waits since the call was ready, or since the end of the last one that is known."""
    moments = (call.ready, *(wait.end for wait in call.waits))
    since = max((moment for moment in moments if moment is not None), default=None)
    if since is None:
        return []
    found = []
    if stream_end is not None and stream_end - since >= SHORTEST_S:
        found.append(Span(reason=WAITS["turn_end"].words, start=since, end=stream_end))
        since = stream_end
    if now - since >= SHORTEST_S:
        found.append(Span(reason=WAITS["limit"].words, start=since, end=now))
    return found
