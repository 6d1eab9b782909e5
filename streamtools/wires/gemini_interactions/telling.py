"""Tells the texts of steps, the model's output and its thoughts, as events.

One step is told at a time. What comes whole between its texts, such as a picture, ends the part; what the step says
after that begins another. The step goes back whole: its state goes with the last of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...events import ProviderItem
from ...limits import Limits
from ..decoder import WireDecoder
from ..plain import PlainDelta
from ..reading import named_error, rest_of
from .facts import BEGINS, TEXT_FIELDS
from .steps import CONTENTS, GrowingStep, contents_of, head_of, object_of

__all__ = ["StepTexts"]


class StepTexts(WireDecoder):
    """The part of the decoder that tells texts."""

    plain = tuple(
        PlainDelta(
            ("delta", *path),
            {
                (): frozenset({"event_id", "event_type", "index"}),
                ("delta",): frozenset({"type"}),
                ("delta", "content"): frozenset({"type"}),
            },
            varies=frozenset({("event_id",)}),
        )
        for path in (("text",), ("content", "text"), ("arguments",))
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._by_index: dict[object, GrowingStep] = {}  # of this hop
        self._telling: GrowingStep | None = None  # the step whose text is being told
        self._is_resumable = False  # a token has come, so that what follows may be said again
        self._closed_since = 0  # texts that have ended since then

    def _end_step(self, step: GrowingStep) -> None:
        """Lets a step go with the part that tells it; alone if there is none."""
        kept = self.to_keep(step.as_sent())
        state = {"index": step.number} | ({"step": kept} if kept is not None else {})
        if self._telling is step and self._open is not None:
            self._closed_since += self._is_resumable
            self.end_part(state)
        elif step.type == "user_input":
            self.emit_unknown(step.head, "step")
        elif kept is not None and kept:
            self._closed_since += self._is_resumable
            self.out.append(ProviderItem(step.type, state))
        if self._telling is step:
            self._end_telling()

    def _may_keep(self, raw: Mapping[str, Any]) -> bool:
        beside = rest_of(head_of(raw), "type", "id", "name")
        return not beside or self.charge(beside)

    def _begin_text(self, step: GrowingStep, raw: Mapping[str, Any]) -> None:
        self._tell(step, "")
        for place, content in enumerate(contents_of(raw)):
            self._content(step, content)
            if isinstance(content, dict) and content.get("type") == "text":
                self.emit_unread(content, TEXT_FIELDS, "step", CONTENTS[step.type], place)
        if (error := object_of(raw.get("error"))) and self._verdict is None:
            self._verdict = named_error({"error": error})

    def _content(self, step: GrowingStep, content: object) -> None:
        """Takes a content, or a piece of one, of a step that is told as text."""
        type_ = content.get("type") if isinstance(content, dict) else None
        text = object_of(content).get("text")
        if type_ == "text" and isinstance(text, str):
            if text:
                step.text(text)
            self._tell(step, text)
            self.part.sink = step.text
            if (annotations := object_of(content).get("annotations")) is not None:
                self._annotations(step, annotations)
        elif isinstance(content, dict) and (kept := self.to_keep(content)) is not None and self.charge(content):
            self._end_telling()
            step.whole(kept)
            self.out.append(ProviderItem(str(type_), {"index": step.number, "content": kept}))

    def _contents(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        if BEGINS[delta["type"]] == step.type:
            self._content(step, delta.get("content") if step.type == "thought" else delta)
        else:
            self.emit_unknown(delta, "delta")

    def _annotated(self, step: GrowingStep, delta: dict[str, Any]) -> None:
        self._annotations(step, delta.get("annotations"))

    def _annotations(self, step: GrowingStep, annotations: object) -> None:
        if isinstance(annotations, list) and annotations and self.charge(annotations):
            step.annotate(annotations)
            self.emit_unknown({"annotations": annotations}, "delta")

    def _tell(self, step: GrowingStep, text: str) -> None:
        if self._telling is not step:
            self._end_telling()
            self._telling = step
        if step.type == "thought":
            self.emit_reasoning(text)
        else:
            self.emit_text(text)

    def _end_telling(self) -> None:
        self._closed_since += self._is_resumable and self._open is not None
        self.end_part()
        self._telling = None
