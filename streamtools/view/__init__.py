"""Shows a run to people: as one self-contained HTML page, live while it goes on, or as a Chrome trace.

from streamtools.view import Watch, page, write_private

watch = Watch()
async with pipeline(stream, tools=[...], observers=[watch]) as events:
    ...
write_private("run.html", page(watch))
"""

from __future__ import annotations

from ..files import write_private
from .chrome_trace import chrome_trace
from .drawing import draw
from .page import LiveView, draw_recordings, page
from .picture import Picture
from .span_drawing import draw_traces
from .span_files import is_trace
from .watch import Watch

__all__ = [
    "LiveView",
    "Picture",
    "Watch",
    "chrome_trace",
    "draw",
    "draw_recordings",
    "draw_traces",
    "is_trace",
    "page",
    "write_private",
]
