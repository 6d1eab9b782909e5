"""Words the record of a call for a page: its facts as label and text, and its error.

In go an observation or an error, out come texts. No value of the arguments or the result is in the facts. Reading an
error's text never raises, since a user's exception may fail at it.
"""

from __future__ import annotations

from ..errors import ToolFailed
from ..events import Observation
from ..record import RecordedError

__all__ = ["facts_of", "words_of"]


def facts_of(event: Observation) -> list[tuple[str, str]]:
    """Returns the facts of a call beside its outcome, as label and text."""
    told = [
        ("schema", event.schema_source),
        ("validated by", event.validator),
        ("boundary", "advisory: no schema was enforced" if event.boundary == "advisory" else None),
        ("coercions", ", ".join(event.coercions)),
        ("recorded", "it had run before, and did not run again" if event.recorded else None),
        ("still running", "in a thread that was given up" if event.still_running else None),
    ]
    return [(label, text) for label, text in told if text]


def words_of(error: BaseException, *, text: bool = True) -> str:
    """Returns the type of an error, and that of the tool's own exception behind it; with their texts if wanted."""
    cause = error.__cause__ if isinstance(error, ToolFailed) else None
    return "\n".join(_words_of(one, text) for one in (error, cause) if one is not None)


def _words_of(error: BaseException, text: bool) -> str:
    kind = error.type.rpartition(".")[2] if isinstance(error, RecordedError) else type(error).__name__
    if not text:
        return kind
    try:
        return f"{kind}: {error}"
    except Exception:  # an exception of the user's
        return kind
