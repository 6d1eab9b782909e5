"""Logs what a developer has to know of and would not look for, where developers look: the logger ``streamtools``.

A tool's exception is an observation, and the model reads its type alone, so that a program goes on although a tool of
its is broken. The log record has the type and the frames. The exception's text and the values of the frames may be
secret: they are logged only where the environment variable ``STREAMTOOLS_DEBUG`` is set to ``1``.
"""

from __future__ import annotations

import logging
import traceback

from ..display import is_debugging
from ..errors import ToolError
from ..events import Observation
from ..text import one_line
from ..turn import Turn
from ..wires import Wire

__all__ = ["log_failure", "log_uncounted"]

_MAX_ID_CHARS = 128  # of a name or an id from the wire
_logged_wires: set[str] = set()  # wires whose missing counts were logged: once a process is enough
_logger = logging.getLogger("streamtools")


def log_failure(seen: Observation) -> None:
    """Logs the exception that made a call fail, if it was one that the tool's author did not raise for the model."""
    error = None if seen.error is None else seen.error.__cause__
    if error is None or isinstance(error, ToolError) or not _logger.isEnabledFor(logging.ERROR):
        return
    kind = type(error)
    form = "%s: %s: %s (call %s)"
    tool, call_id = (one_line(text, _MAX_ID_CHARS) for text in (seen.tool_name, seen.call_id))
    facts = (tool, seen.outcome, f"{kind.__module__}.{kind.__qualname__}", call_id)
    if is_debugging():
        _logger.error(form, *facts, exc_info=error)
    else:
        frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
        _logger.error(f"{form}\n%s", *facts, frames or "(no frames: it was raised elsewhere)")


def log_uncounted(wire: Wire, turn: Turn) -> None:
    """Logs, once in a process, that a whole response came without token counts, which its provider gives on request."""
    asked_by = wire.usage.request
    if not turn.complete or turn.usage is not None or not asked_by or wire.name in _logged_wires:
        return
    if turn.model is not None and wire.usage.on_request(turn.model):
        _logged_wires.add(wire.name)
        _logger.warning("%s: the response has no usage; request it with %s", wire.name, asked_by)
