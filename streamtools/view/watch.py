"""Watches a run as an observer, so that it can be seen while it goes on or afterwards.

In go a run's events, each with the moment at which it came; out comes the picture. `on_event` takes some microseconds
and never waits. A watch is bounded as its picture is, and safe to read from another thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

from ..events import Event
from .drawing import Drawing
from .picture import MAX_CHARS, MAX_EVENTS, Picture, Seen

__all__ = ["Watch"]


class Watch:
    """An observer that draws a run. Give each run its own, through `agent_loop`, `Trajectory` or `pipeline`.

        watch = Watch()
        async with pipeline(stream, tools=[...], observers=[watch]) as events:
            ...
        write_private("run.html", page(watch))

    Args:
        title: the headline; by default the run's id.
        content: show texts, arguments, results and error messages; without it, names, times and outcomes alone.
        max_events: events that are kept; the page says how many were left out.
        max_chars: characters of all texts that are kept.
    """

    def __init__(
        self, title: str = "", *, content: bool = True, max_events: int = MAX_EVENTS, max_chars: int = MAX_CHARS
    ) -> None:
        self._drawing = Drawing(Picture(title, max_events=max_events, max_chars=max_chars), content=content)
        self._lock = threading.Lock()

    @property
    def event_types(self) -> Collection[type[Event]] | None:
        """All events."""
        return None

    def on_event(self, event: Event) -> None:
        """Draws an event."""
        with self._lock:
            self._drawing.feed(event, time.monotonic())

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns None: nothing is to be held."""
        return None

    @property
    def picture(self) -> Picture:
        """The picture so far; it grows with the run."""
        return self._drawing.finish()

    def patch(self, since: Seen) -> tuple[dict[str, Any], Seen]:
        """Returns what is new since a reader looked, and the reader's new place."""
        with self._lock:
            picture = self._drawing.picture
            return picture.patch(since), picture.seen
