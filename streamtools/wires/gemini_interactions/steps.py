"""The steps of an interaction while they come: what the API said of one so far, and the step as it goes back.

A step begins with all that is known of it, is continued by deltas of several types, and is over at its stop. Texts of
one kind that follow one another are one content; a picture or a sound between them begins another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...parts import CallKind
from ..reading import rest_of

__all__ = ["CONTENTS", "GrowingStep", "contents_of", "head_of", "key_of", "object_of"]

CONTENTS: dict[str, str] = {"model_output": "content", "thought": "summary"}
"""Steps that are told as text, and the field with their contents."""


@dataclass(slots=True)
class GrowingStep:
    """One step, from its start to its stop."""

    number: int
    """Its place among the steps of the turn, and the label of its call; no other step has it."""
    type: str
    index: object
    """The same as the wire has it, which counts anew in each hop."""
    head: dict[str, Any]
    """As it was announced, and what deltas that repeat it whole have said since; without its contents."""
    kind: CallKind | None = None
    """Who runs the call that it is; None if it is none."""
    contents: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """The pieces of the text that is growing, which is the last of the contents."""
    stopped: bool = False
    cut: bool = False
    """It never stopped, and its interaction is over."""
    # of a call
    call_number: int = 0
    """Its place among the calls of the turn."""
    ended: bool = False
    """It was said to be whole, or cut."""
    arguments: tuple[str, str | None] = ("", None)
    """The arguments that came whole, as text, and what is wrong with them."""
    grows: bool = False
    """Some came in pieces: these count, and what was announced was a placeholder."""
    announced: bool = True
    """Its start came; else it began with a delta, and has neither an id nor a name."""
    early: bool = False
    """Pieces of its arguments may have come before its start, so that it is cut."""
    again: bool = False
    """It is made again, so that its pieces are told at its end."""
    pieces: list[str] = field(default_factory=list)
    """The pieces of arguments that are made again."""

    @property
    def is_open_call(self) -> bool:
        """True for a call that has not stopped."""
        return self.kind is not None and not self.stopped

    @property
    def is_call_of_ours(self) -> bool:
        """True for a call that we run."""
        return self.kind == "function"

    def text(self, piece: str) -> None:
        """Takes a piece of text."""
        if not self.texts:
            self.contents.append({"type": "text"})
        self.texts.append(piece)

    def whole(self, content: dict[str, Any]) -> None:
        """Takes a content that comes whole."""
        self.settle()
        self.contents.append(content)

    def annotate(self, annotations: list[Any]) -> None:
        """Takes citations of the text that is growing, or of the one that grew last."""
        last: dict[str, Any] | None = next((one for one in reversed(self.contents) if one.get("type") == "text"), None)
        if last is None:
            last = {"type": "text", "text": ""}
            self.contents.append(last)
        last.setdefault("annotations", []).extend(annotations)

    def settle(self) -> None:
        """Ends the text that is growing."""
        if self.texts:
            self.contents[-1] = {"type": "text", "text": "".join(self.texts), **rest_of(self.contents[-1], "type")}
            self.texts = []

    def as_sent(self) -> dict[str, Any]:
        """Returns the step as it goes back, with the contents that came so far."""
        self.settle()
        place = CONTENTS.get(self.type)
        return self.head if place is None or not self.contents else {**self.head, place: list(self.contents)}


def object_of(value: object) -> Mapping[str, Any]:
    """Returns the value if it is an object; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def key_of(index: object) -> object:
    """Returns an index as a key of a table, whatever came as one."""
    return index if isinstance(index, int) else str(index)


def head_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a step without its contents, which are collected."""
    return rest_of(raw, CONTENTS.get(str(raw.get("type")), ""))


def contents_of(raw: Mapping[str, Any]) -> list[Any]:
    """Returns the contents in a step that is told as text; none if it has none, or is of another type."""
    found = raw.get(CONTENTS.get(str(raw.get("type")), ""))
    return found if isinstance(found, list) else []
