"""Shows a run to people: as one self-contained HTML page, live while it goes on, or as a Chrome trace.

from streamtools.view import Watch, page

watch = Watch()
async with pipeline(stream, tools=[...], observers=[watch]) as events:
    ...
Path("run.html").write_text(page(watch), encoding="utf-8")
"""

from __future__ import annotations

from .chrome_trace import chrome_trace
from .drawing import draw
from .jaeger_file import draw_jaeger, is_jaeger
from .live import LiveView
from .page import page
from .picture import Picture
from .recordings import draw_recordings
from .watch import Watch

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
]
