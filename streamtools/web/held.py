"""Holds back the events of an attempt until it is committed, for readers that cannot retract."""

from __future__ import annotations

from collections.abc import Iterable

from ..events import AttemptBegan, AttemptCommitted, AttemptDiscarded, Event, StepEnd


class HeldBack:
    """The events of the attempt that goes on. Give it each event with `feed`, and call `finish` at the end."""

    def __init__(self) -> None:
        self._kept: list[Event] | None = None  # None while nothing can be taken back

    def feed(self, event: Event) -> Iterable[Event]:
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
        shown, self._kept = self._kept or (), None
        return shown
