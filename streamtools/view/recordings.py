"""Draws a picture from recordings: every delta stands at the moment at which its chunk came."""

from __future__ import annotations

from collections.abc import Iterable

from ..events import Event
from ..record import Recording
from .drawing import Drawing
from .picture import Picture

__all__ = ["draw_recordings"]


def draw_recordings(recordings: Iterable[Recording], title: str = "") -> Picture:
    """Returns the picture of one run, or of several in one.

    Args:
        recordings: the runs, in order; `Recording.read_all` returns those of a file.
        title: the headline; by default the first run's id.
    """
    drawing = Drawing(Picture(title))
    for recording in recordings:
        for at, entry in recording.timed():
            if isinstance(entry, Event):
                drawing.feed(entry, at)
        if recording.cut:
            drawing.picture.notes.append("The recording was full before the run had ended.")
        if recording.redacted:
            drawing.picture.notes.append("The recording is redacted: a text appears as a whole, where it ends.")
    return drawing.finish()
