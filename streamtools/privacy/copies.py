"""Makes redacted copies of a step's events, with the same `seq`.

A growing text is masked by `redact_secrets` as it grows; where its end is still held when the text is over, one more
delta with the number of the last one brings it. A plain function sees whole texts alone. A secret may be cut by any
delta, so that deltas are masked then (`DOT`), and the end of the text has the whole; pages get it as one delta. What is
held of a text that was cut stays masked. The event behind its end says that, so that the copy of the end waits for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

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
from ..observers import RunFacts, Withheld
from ..parts import changed
from ..wires import made_files
from .secrets import Redact, TextMask
from .values import DOT, RunKnowledge, Values, set_field

_ENDS: Mapping[type[Event], type[Event]] = {TextEnd: TextDelta, ReasoningEnd: ReasoningDelta}
_LAST = frozenset({StreamEnd, StepEnd})
_CUTS = _LAST | {AttemptDiscarded}  # all but a `StreamEnd` that is complete


@dataclass(slots=True)
class _Growing:
    mask: TextMask | None
    first: Any
    pieces: list[str] = field(default_factory=list)  # all of it, for a policy that sees whole texts
    is_hidden: bool = False  # True once the rest is masked, since JSON escapes could hide a secret in it


_known_of: WeakKeyDictionary[RunFacts, RunKnowledge] = WeakKeyDictionary()


class Copies:
    """Shows the events of one step. `for_pages`: an approval keeps its fingerprint, by which a decision names it, and
    masked deltas are left out."""

    def __init__(self, redact: Redact, run: RunFacts, names: Collection[str], *, for_pages: bool) -> None:
        known = _known_of.setdefault(run, RunKnowledge())
        known.tool_names |= frozenset(names)
        self.values = Values(redact, known)
        self._for_pages = for_pages
        self._growing: dict[tuple[int, Any], _Growing] = {}  # by step, and by kind or call
        self._latest: Event | None = None
        self._over: list[tuple[int, Any]] = []  # the texts that it has ended
        self._end_before: Any = None  # the copy of the end of a text that waits for the latest
        self._end_latest: Any = None  # the copy of the latest, if that ends a text

    def fact(self, method: str, /, *facts: Any) -> tuple[Any, ...]:
        if method == "on_item":
            return (Withheld.of(*facts),)
        if method == "see_parts":
            (parts,) = facts
            return (lambda: self.values.of(parts()),)
        return tuple(self.values.of(one) if isinstance(one, BaseException) else one for one in facts)

    def words(self, error: BaseException, /) -> BaseException | None:
        return self.values.words(error)

    def event(self, event: Event, /) -> list[Event]:
        """An event that is no delta gives the same if it is asked for again before the next one, as after an interrupt.
        Raises what the policy's function raises, a `TypeError` if it does not return text."""
        kind = type(event)
        if event is not self._latest:
            for key in self._over:
                self._growing.pop(key, None)
            self._latest, self._end_before, self._end_latest = event, self._end_latest, None
        self._over, shown = [], list[Event]()
        is_cut = kind in _CUTS and not getattr(event, "complete", False)
        if (end := self._end_before) is not None:
            if is_cut:  # it may repeat the text
                set_field(end, "provider_state", None)
            self._end((end.step, _ENDS[type(end)]), shown, end, is_cut=is_cut)
            shown.append(end)
        if kind in (TextDelta, ReasoningDelta, RefusalDelta):
            return shown + self._delta(kind, event, "text")
        if isinstance(event, ToolCallDelta):
            return shown + self._delta(event.call_id, event, "delta")
        if isinstance(event, OutputDelta):
            return shown if self._for_pages else [*shown, OutputDelta(seq=event.seq, step=event.step)]
        if isinstance(event, AttemptDiscarded):
            self._over = [key for key in self._growing if key[0] == event.step]
        state = event.raw if isinstance(event, ProviderItem) else None
        if isinstance(event, ToolCallEnd):
            state = event.call.provider_state
        is_hidden = state is not None and self._hides(state)
        copy = self.values.fields(event)
        if kind in _ENDS:
            self._end_latest = copy
            return shown
        if isinstance(event, ToolCallEnd):
            self._end((event.step, event.call_id), shown, copy, is_cut=event.call.status == "truncated")
            if is_hidden:
                set_field(copy, "call", changed(copy.call, provider_state=None))
        elif kind in _LAST:
            for key in self._growing:
                if key[0] == event.step and key not in self._over:
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

    def _delta(self, of: Any, event: Any, name: str) -> list[Event]:
        text: str = getattr(event, name)
        key = (event.step, of)
        known = self._growing.get(key)
        if known is None:
            known = self._growing[key] = _Growing(self.values.shapes.growing() if self.values.shapes else None, event)
        if known.mask is None:
            known.pieces.append(text)
        elif name == "delta":
            # In JSON an escape may stand for any character: what follows one is shown when it is read, at its end.
            joined = (known.pieces[-1] if known.pieces else "") + text
            known.is_hidden |= "\\u" in joined or "\\/" in joined
            known.pieces = [text[-1:]]
        mask = None if known.is_hidden else known.mask
        certain = DOT * len(text) if mask is None else mask.feed(text)
        return [] if self._for_pages and (mask is None or not certain) else [_delta_of(event, name, certain, event.seq)]

    def _end(self, key: tuple[int, Any], shown: list[Event], end: Any, *, is_cut: bool = False) -> None:
        known = self._growing.get(key)
        if known is None:
            return
        self._over.append(key)
        name = "delta" if isinstance(known.first, ToolCallDelta) else "text"
        if known.mask is not None:
            rest = "" if known.is_hidden else known.mask.finish()
            if rest:  # of a text that was cut, the beginning of a secret is not recognised
                shown.append(_delta_of(known.first, name, DOT * len(rest) if is_cut else rest, end.seq))
            return
        if isinstance(end, ToolCallEnd):
            whole = end.call.arguments_text
        else:
            whole = self.values.text("".join(known.pieces))
            if isinstance(end, (TextEnd, ReasoningEnd)):
                if not (self._for_pages or is_cut) and end.whole is None:
                    set_field(end, "whole", whole)
                if end.whole is not None:
                    return
        if self._for_pages and not is_cut:
            shown.append(_delta_of(known.first, name, whole, end.seq))


def _delta_of(event: Any, name: str, text: str, seq: int) -> Any:
    if name == "delta":
        # Without its preview, which reads the arguments as they were.
        return ToolCallDelta(event.call_id, text, seq=seq, step=event.step)
    return replace(event, text=text, seq=seq)
