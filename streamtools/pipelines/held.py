"""Holds events back until nothing can take them back, for readers that cannot forget what they have shown.

In: the events of a run with ``Retry(after_output=True)``. Out: the same events, those of an attempt when it is
committed or its step has ended; none of an attempt that was discarded.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..events import AttemptBegan, AttemptCommitted, AttemptDiscarded, Event, StepEnd


class HeldBack:
    """The events of the attempt that goes on. Give it each event with `feed`, and call `finish` at the end."""

    def __init__(self) -> None:
        self._kept: list[Event] | None = None  # None while nothing can be taken back

    def feed(self, event: Event) -> Iterable[Event]:
        """Returns the events to show now."""
        if isinstance(event, AttemptBegan) and event.after_output:
            shown = self.finish()
            self._kept = [event]
            return shown
        if self._kept is None:
            return () if isinstance(event, AttemptDiscarded) else (event,)
        if isinstance(event, AttemptDiscarded):
            self._kept = None
            return ()
        self._kept.append(event)
        return self.finish() if isinstance(event, (AttemptCommitted, StepEnd)) else ()

    def finish(self) -> Iterable[Event]:
        """Returns the events that are left: nobody takes them back any more."""
        shown, self._kept = self._kept or (), None
        return shown
