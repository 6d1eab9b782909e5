"""Keeps the last thought of a response, in case it was never closed and contains the call that the model wanted.

Some models call a tool without closing their thought. While a closing tag may come, all is reasoning: a draft in a
thought must not run. Only when the response has ended well, inside a thought and with neither text nor a call behind
it, are the calls at its very end no drafts.
"""

from __future__ import annotations

from typing import TypeVar

from ...events import Event, ReasoningDelta, ReasoningEnd, ReasoningStart, StreamWarning
from ...limits import Limits

__all__ = ["THINKING", "UNCLOSED", "Thought"]

THINKING: frozenset[type[Event]] = frozenset({ReasoningStart, ReasoningDelta, ReasoningEnd, StreamWarning})
"""The types of the events that a `Thought` takes."""
UNCLOSED = "unclosed_think"
"""The code of the warning that a block of reasoning was not closed."""
E = TypeVar("E", bound=Event)
_CLOSING_TAG = "</think>"


class Thought:
    """The last thought of a response.

    Args:
        limits: a thought that is longer than `max_text_bytes` is not kept.
    """

    def __init__(self, limits: Limits) -> None:
        self._left = self._limit = limits.max_text_bytes
        self._pieces: list[str] = []
        self._is_open = False
        self._warned = False

    def take(self, event: Event) -> bool:
        """Takes an event; returns whether a thought is kept."""
        if type(event) is ReasoningDelta:
            self._left -= len(event.text)
            if self._left >= 0:
                self._pieces.append(event.text)
        elif type(event) is ReasoningStart:
            self.forget()
        elif type(event) is ReasoningEnd:
            self._is_open = self._left >= 0 and self._was_open(event)
        elif type(event) is StreamWarning:
            self._warned = event.code == UNCLOSED or self._warned
        return bool(self._pieces)

    def note(self, event: E) -> E:
        """Takes an event; returns it."""
        self.take(event)
        return event

    def forget(self) -> None:
        """Drops the thought, since something else follows it."""
        self._pieces, self._left = [], self._limit
        self._is_open = self._warned = False

    def unclosed_text(self) -> str:
        """Returns the text of the thought if it may have been left open, else nothing."""
        return "".join(self._pieces) if self._is_open else ""

    def _was_open(self, end: ReasoningEnd) -> bool:
        """Returns whether no closing tag came. Where a field of the wire contained the thought, nobody can say."""
        state = end.provider_state or {}
        inline = state.get("inline")
        return self._warned or "field" in state or (isinstance(inline, str) and _CLOSING_TAG not in inline)
