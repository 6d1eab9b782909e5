"""Watches a run: an observer that draws its picture while it goes on, and may be read from another thread."""

from __future__ import annotations

import threading
import time
from typing import Any

from ..events import Event
from ..observers import EarlyEnd, Observer, RunFacts
from ..telemetry.names import Prices
from .drawing import Drawing
from .picture import MAX_CHARS, MAX_EVENTS, Picture


class Watch(Observer):
    """An observer that draws a run. Give each run its own, through `agent_loop`, `Trajectory` or `pipeline`.

    Args:
        title: the headline; by default the run's id.
        content: show texts, arguments, results and error messages; without it, names, times and outcomes alone.
        max_events: events that are kept; the page shows how many were left out.
        max_chars: characters of all texts that are kept.
        prices: the prices of models, as `Tracing` takes them: the page has the cost of each answer, and of all.

    Raises:
        ValueError: a price is of no count of tokens.
    """

    def __init__(
        self,
        title: str = "",
        *,
        content: bool = True,
        max_events: int = MAX_EVENTS,
        max_chars: int = MAX_CHARS,
        prices: Prices | None = None,
    ) -> None:
        picture = Picture(title, max_events=max_events, max_chars=max_chars)
        self._drawing = Drawing(picture, content=content, prices=prices)
        self._lock = threading.Lock()

    def on_event(self, event: Event) -> None:
        """Draws an event."""
        # A page may be made in another thread.
        with self._lock:
            self._drawing.feed(event, time.monotonic())

    def see_early(self, end: EarlyEnd) -> None:
        """Notes on a call that was started early under a tap what became of it."""
        with self._lock:
            self._drawing.see_early(end)

    def begin_run(self, run: RunFacts) -> None:
        """Begins the run."""
        with self._lock:
            self._drawing.begin_run(run.run_id, run.name)

    def end_run(self, outcome: str | None, error: BaseException | None) -> None:
        """Draws the end of the run."""
        with self._lock:
            self._drawing.end_run(outcome, error)

    @property
    def picture(self) -> Picture:
        """The picture so far; it grows with the run."""
        return self._drawing.finish()

    def data(self) -> dict[str, Any]:
        """Returns the picture so far as plain JSON, also to another thread."""
        with self._lock:
            return self._drawing.finish().data()
