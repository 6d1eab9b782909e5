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
from .drawing import Watch, draw
from .jaeger_file import draw_jaeger, is_jaeger
from .page import LiveView, draw_recordings, page
from .picture import Picture

__all__ = [
    "LiveView",
    "Picture",
    "Watch",
    "chrome_trace",
    "draw",
    "draw_jaeger",
    "draw_recordings",
    "is_jaeger",
    "page",
    "write_private",
]
