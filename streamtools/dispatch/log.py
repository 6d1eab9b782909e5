"""Logs what a developer has to know of and would not look for, where developers look: the logger ``streamtools``.

Input: an observation, or what is odd about a tool or a wire. Output: a log record; of an oddity, one a process.

A tool's exception is an observation, and the model reads its type alone, so that a program goes on although a tool
of its is broken. The log record has the type and the frames. The exception's text and the values of the frames may
be secret: they are logged only where the environment variable ``STREAMTOOLS_DEBUG`` is set to ``1``.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import ToolError
from ..events import Observation
from ..text import class_name, is_debugging, one_line, type_name

if TYPE_CHECKING:
    from ..wires import Wire

_MAX_ID_CHARS = 128  # of a name or an id from the wire
_MAX_ODDITIES = 1_000  # names may be a server's; after so many, no others are logged
_logged: set[tuple[str, str]] = set()
_logger = logging.getLogger("streamtools")


def log_failure(seen: Observation, words_of: Callable[[BaseException], BaseException | None]) -> None:
    """Logs the exception that made a call fail, if it was one that the tool's author did not raise for the model.

    `words_of` returns it as a log may have it.
    """
    error = None if seen.error is None else seen.error.__cause__
    if error is None or isinstance(error, ToolError) or not _logger.isEnabledFor(logging.ERROR):
        return
    form = "%s: %s: %s (call %s)"
    tool, call_id = (one_line(text, _MAX_ID_CHARS) for text in (seen.tool_name, seen.call_id))
    facts = (tool, seen.outcome, class_name(error), call_id)
    if is_debugging():
        _logger.error(form, *facts, exc_info=words_of(error))
    else:
        frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
        _logger.error(f"{form}\n%s", *facts, frames or "(no frames: it was raised elsewhere)")


def log_blocked(tool: str, problem: str) -> None:
    """Logs that a tool kept the event loop from running."""
    _log_once("blocked", tool, problem)


def log_unwritable(tool: str, value: object) -> None:
    """Logs that the model reads a note in place of a result, which cannot be written as JSON."""
    why = f"a result of type {type_name(value)} cannot be written as JSON; the model reads a note in its place"
    _log_once("unwritable", tool, why)


def log_uncounted(wire: Wire, model: str | None) -> None:
    """Logs that a whole response came without token counts, if its provider gives them on request."""
    asked_by = wire.usage.request
    if asked_by and model is not None and wire.usage.on_request(model):
        _log_once("uncounted", wire.name, f"the response has no usage; request it with {asked_by}")


def _log_once(oddity: str, name: str, words: str) -> None:
    if (oddity, name) not in _logged and len(_logged) < _MAX_ODDITIES:
        _logged.add((oddity, name))
        _logger.warning("%s: %s", one_line(name, _MAX_ID_CHARS), words)
