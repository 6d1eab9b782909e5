"""Makes the events of a step as its copies may have them: the same events, with their content redacted.

In: the events in order. Out: for each one, those to show instead, with the same `seq`. Ids, names of registered tools,
words of ours, counts and times stay.

A growing text is masked by `redact_secrets` as it grows; where its end is still held when the text is over, one more
delta with the number of the last one brings it. A plain function sees whole texts alone. A secret may be cut by any
delta, so that deltas are masked then (`DOT`), and the end of the text has the whole; pages get it as one delta.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..events import (
    AnswerRequested,
    ApprovalRequested,
    AttemptDiscarded,
    Event,
    OutputDelta,
    ProviderItem,
    ReasoningDelta,
    ReasoningEnd,
    RefusalDelta,
    StepEnd,
    StreamEnd,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from ..parts import changed
from ..wires.cited import made_files
from .policy import Redact
from .secrets import TextMask
from .values import DOT, HasNames, Values, set_field

_ENDS: Mapping[type[Event], type[Event]] = {TextEnd: TextDelta, ReasoningEnd: ReasoningDelta}
_LAST = frozenset({StreamEnd, StepEnd})


@dataclass(slots=True)
class _Growing:
    """Follows a text that grows."""

    mask: TextMask | None
    latest: Any
    """Its last delta."""
    pieces: list[str] = field(default_factory=list)
    """All of it, for a policy that sees whole texts."""
    is_hidden: bool = False
    """True once the rest is masked, since JSON escapes could hide a secret in it."""


class Copies:
    """Makes copies of the events of one step.

    Args:
        redact: the policy's function.
        run: has the names of the registered tools so far.
        for_pages: the copies are web frames: an approval keeps its fingerprint, by which a decision names it, and
            masked deltas are left out.
    """

    def __init__(self, redact: Redact, run: HasNames, *, for_pages: bool = False) -> None:
        self.values = Values(redact, run)
        """Redacts single values."""
        self._for_pages = for_pages
        self._growing: dict[Any, _Growing] = {}

    def of(self, event: Event) -> list[Event]:
        """Returns the events to show instead of this one.

        Raises:
            TypeError: the policy's function did not return text.
            Exception: the policy's function raised it.
        """
        kind = type(event)
        if kind in (TextDelta, ReasoningDelta, RefusalDelta):
            return self._delta(kind, event, "text")
        if isinstance(event, ToolCallDelta):
            return self._delta((event.step, event.call_id), event, "delta")
        if isinstance(event, OutputDelta):
            return [] if self._for_pages else [OutputDelta(seq=event.seq, step=event.step)]
        if isinstance(event, AttemptDiscarded):
            self._growing.clear()
        state = event.raw if isinstance(event, ProviderItem) else None
        if isinstance(event, ToolCallEnd):
            state = event.call.provider_state
        is_hidden = state is not None and self._hides(state)
        copy = self.values.fields(event)
        shown: list[Event] = []
        if kind in _ENDS:
            self._end(_ENDS[kind], shown, copy)
        elif isinstance(event, ToolCallEnd):
            self._end((event.step, event.call_id), shown, copy)
            if is_hidden:
                set_field(copy, "call", changed(copy.call, provider_state=None))
        elif kind in _LAST:
            is_cut = not isinstance(event, StreamEnd) or not event.complete
            for key in list(self._growing):
                self._end(key, shown, copy, is_cut=is_cut)
            if isinstance(copy, StreamEnd):
                set_field(copy, "resume_from", None)  # payloads of the wire, deltas among them
        elif isinstance(event, ProviderItem) and is_hidden:
            set_field(copy, "raw", {})
        elif isinstance(copy, (AnswerRequested, ApprovalRequested)) and not self._for_pages:
            set_field(copy, "fingerprint", "")  # a hash of arguments shows whether a guess of them is right
        shown.append(copy)
        return shown

    def _hides(self, state: Mapping[str, Any]) -> bool:
        """Returns whether a part has a file that the policy changes. It judges the bytes: in base64 a secret does not
        look like one, and other bytes may."""
        files = [*made_files(state, drafts=True)]
        if any(self.values.of(file) != file for file in files):
            return True
        if files:
            self.values.keep(state, {file.data for file in files if file.data is not None})
        return False

    # -- growing texts --

    def _delta(self, key: Any, event: Any, name: str) -> list[Event]:
        text: str = getattr(event, name)
        known = self._growing.get(key)
        if known is None:
            known = self._growing[key] = _Growing(self.values.shapes.growing() if self.values.shapes else None, event)
        known.latest = event
        if known.mask is None:
            known.pieces.append(text)
            return [] if self._for_pages else [_delta_of(event, name, DOT * len(text))]
        if name == "delta":
            # In JSON an escape may stand for any character: what follows one is shown when it is read, at its end.
            joined = (known.pieces[-1] if known.pieces else "") + text
            known.is_hidden |= "\\u" in joined or "\\/" in joined
            known.pieces = [text[-1:]]
        if known.is_hidden:
            return [] if self._for_pages else [_delta_of(event, name, DOT * len(text))]
        certain = known.mask.feed(text)
        return [] if self._for_pages and not certain else [_delta_of(event, name, certain)]

    def _end(self, key: Any, shown: list[Event], end: Any, *, is_cut: bool = False) -> None:
        """Shows the rest of a text that is over."""
        known = self._growing.pop(key, None)
        if known is None:
            return
        name = "delta" if isinstance(known.latest, ToolCallDelta) else "text"
        if known.mask is not None:
            rest = "" if known.is_hidden else known.mask.finish()
            if rest:  # of a text that was cut, the beginning of a secret is not recognised
                shown.append(_delta_of(known.latest, name, DOT * len(rest) if is_cut else rest))
            return
        if isinstance(end, ToolCallEnd):
            whole = end.call.arguments_text
        else:
            whole = self.values.text("".join(known.pieces))
            if isinstance(end, (TextEnd, ReasoningEnd)):
                if not self._for_pages and end.whole is None:
                    set_field(end, "whole", whole)
                if end.whole is not None:
                    return
        if self._for_pages and not is_cut:
            shown.append(_delta_of(known.latest, name, whole))


def _delta_of(event: Any, name: str, text: str) -> Any:
    if name == "delta":
        # Without its preview, which reads the arguments as they were.
        return ToolCallDelta(event.call_id, text, seq=event.seq, step=event.step)
    return replace(event, text=text)
