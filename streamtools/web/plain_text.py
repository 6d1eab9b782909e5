"""Shows a run as the text of its answer alone, for terminals and for pages without a client of any protocol.

In: the events of a run. Out: bytes of UTF-8, as ``text/plain``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..events import AttemptDiscarded, Event, RefusalDelta, StepStart, TextDelta, TextEnd, TextStart
from ..text import well_formed
from .encoding import RunEnd

__all__ = ["AnswerText", "PlainText"]

_ANSWERS = frozenset({"answered", "complete", "stopped", "cancelled", "left"})


class AnswerText:
    """Joins the texts of a run's steps, with `between` before that of another step."""

    def __init__(self, between: str) -> None:
        self._between = between
        self._any = self._is_due = False
        self._block: list[str] = []  # the text that grows

    def restart(self) -> None:
        """Begins anew in the middle of a run, with nothing shown."""
        self._any = self._is_due = False

    def feed(self, event: Event | RunEnd) -> str:
        """Returns the text to add."""
        if isinstance(event, TextDelta):
            self._block.append(event.text)
            return self._joined(event.text)
        if isinstance(event, RefusalDelta):
            return self._joined(event.text)
        if isinstance(event, TextEnd) and event.whole is not None:
            shown = "".join(self._block)
            # Where the whole contradicts the deltas, nobody can take back what was shown.
            return self._joined(event.whole[len(shown) :]) if event.whole.startswith(shown) else ""
        if isinstance(event, TextStart):
            self._block = []
        elif isinstance(event, (StepStart, AttemptDiscarded)):
            self._is_due = self._any
        return ""

    def _joined(self, text: str) -> str:
        if not text:
            return ""
        head, self._is_due, self._any = self._between if self._is_due else "", False, True
        return head + text


class PlainText:
    """Encodes the answer's text, and nothing else: ``EventStreamResponse(run, encode=PlainText())``.

    Texts of several steps are separated by an empty line. A run that ends otherwise than with its answer has a last
    line in brackets: ``[the run failed: stream truncated]``. A reader cannot tell it from the model's own words: where
    that matters, take another encoder.

    Args:
        between: is written between the texts of two steps.
    """

    can_retract: bool = False
    headers: Mapping[str, str] = MappingProxyType(
        {
            "content-type": "text/plain; charset=utf-8",
            # Browsers look at the first bytes of a plain text for another type, and wait for them.
            "x-content-type-options": "nosniff",
        }
    )

    def __init__(self, *, between: str = "\n\n") -> None:
        self._text = AnswerText(between)
        self._any = False

    def begin(self) -> Iterable[bytes]:
        """Returns nothing: a text has no head."""
        self._text.restart()
        self._any = False
        return ()

    def __call__(self, event: Event | RunEnd, /) -> Iterable[bytes]:
        """Returns the text of an event, if it has any."""
        if isinstance(event, RunEnd):
            if event.outcome in _ANSWERS and event.kind is None:
                return ()
            text = ("\n\n" if self._any else "") + f"[{event.words}]\n"
        else:
            text = self._text.feed(event)
        self._any = self._any or bool(text)
        return (well_formed(text).encode(),) if text else ()
