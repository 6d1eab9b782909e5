"""What the demo's user is told in one line."""

from __future__ import annotations

from streamtools import StreamToolsError

__all__ = ["DemoError"]


class DemoError(StreamToolsError):
    """The demo cannot go on, for a reason that its user can do something about."""
