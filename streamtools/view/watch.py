"""Watches a run: an observer that draws a growing picture, which another thread may read."""

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
        content: show texts, arguments, results and error messages; False: only names, times and outcomes.
        max_events: the number of events to keep; the page shows how many were left out.
        max_chars: the number of characters of text to keep.
        prices: the prices of models, as for `Tracing`: the page shows the cost of each answer and of the run.

    Raises:
        ValueError: a price is for no token count.
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
        """Notes the result of a call that was started early under a tap."""
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
