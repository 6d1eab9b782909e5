"""Logs a tool's exceptions and oddities of tools and wires to the logger ``streamtools``, an oddity once a process.

An exception's text may be secret: it is logged only where the environment variable ``STREAMTOOLS_DEBUG`` is ``1``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..errors import ToolError
from ..events import Observation, StreamWarning
from ..ground.text import class_name, is_debugging, one_line, stand_in, type_name

if TYPE_CHECKING:
    from ..wires import Wire

_MAX_ID_CHARS = 128  # of a name or an id from the wire
_MAX_ODDITIES = 1_000  # names may come from a server; after so many, no others are logged
_logged: set[tuple[str, str]] = set()
_logger = logging.getLogger("streamtools")


def log_failure(seen: Observation, host: Any) -> None:
    """Logs the exception that made a call of a `states.Host` fail, unless the tool's author raised it for the model."""
    error = None if seen.error is None else seen.error.__cause__
    if error is None or isinstance(error, ToolError) or not _logger.isEnabledFor(logging.ERROR):
        return
    texts = {"tool_name": seen.tool_name, "call_id": seen.call_id, "run_id": host.run_id,
             "conversation_id": host.conversation_id}  # fmt: skip
    facts = {name: text and one_line(text, _MAX_ID_CHARS) for name, text in texts.items()}
    facts |= {"outcome": seen.outcome, "error_type": class_name(error), "step": host.number}
    shown, hint = (host.words(error), "") if is_debugging() else (stand_in(error), "; STREAMTOOLS_DEBUG=1 shows why")
    form = "%(tool_name)s: %(outcome)s: %(error_type)s (call %(call_id)s)" + hint
    raised = None if shown is None else (type(shown), shown, shown.__traceback__)
    record = _logger.makeRecord(_logger.name, logging.ERROR, __file__, 0, form, (facts,), raised)
    for name, fact in facts.items():  # `extra=` would raise where the program's own records have such an attribute
        vars(record).setdefault(name, fact)
    _logger.handle(record)


def log_blocked(tool: str, label: str, seconds: float) -> StreamWarning:
    """Logs a tool that blocked the event loop; returns the warning of it."""
    text = f"blocked the event loop for {seconds:.1f} s; await there, or make the tool a `def`, to run in a thread"
    _log_once("blocked", tool, text)
    return StreamWarning("loop_blocked", f"{label}: {text}")


def log_unwritable(tool: str, value: object) -> None:
    why = f"a result of type {type_name(value)} cannot be written as JSON; the model reads a note instead"
    _log_once("unwritable", tool, why)


def log_uncounted(wire: Wire, model: str | None) -> None:
    asked_by = wire.usage.request
    if asked_by and model is not None and wire.usage.on_request(model):
        _log_once("uncounted", wire.name, f"the response has no usage; request it with {asked_by}")


def _log_once(oddity: str, name: str, words: str) -> None:
    if (oddity, name) not in _logged and len(_logged) < _MAX_ODDITIES:
        _logged.add((oddity, name))
        _logger.warning("%s: %s", one_line(name, _MAX_ID_CHARS), words)
