"""Shows a run to people, as one self-contained HTML page.

from streamtools.view import Watch, page, write_private

watch = Watch()
async with pipeline(stream, tools=[...], observers=[watch]) as events:
    ...
write_private("run.html", page(watch))
"""

from __future__ import annotations

from ..durable.files import write_private
from .drawing import draw
from .page import draw_recordings, page
from .picture import Picture
from .watch import Watch

__all__ = ["Picture", "Watch", "draw", "draw_recordings", "page", "write_private"]
