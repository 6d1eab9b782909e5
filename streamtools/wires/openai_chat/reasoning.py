"""Reasoning that is told in other ways than by a field of its own.

A ``<think>`` block opens the text of a response where a server has no reasoning parser (BerriAI/litellm#15233,
pydantic/pydantic-ai#2290). Only a block at the very start is split off; a tag anywhere else stays text, since text may
quote one.

``reasoning_details`` (OpenRouter) are entries that come in pieces and have to be sent back as they came:
https://openrouter.ai/docs/use-cases/reasoning-tokens (read 2026-11-20). Pieces of one entry are joined; everything else
in an entry stays as the provider sent it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from ..reading import says_something, weight

_OPEN, _CLOSE = "<think>", "</think>"
_MAX_SPACE = 4096  # characters of white space before a tag, or after its end; after more, all is text


class LeadingThink:
    """Splits the head of a text. Feed it until `state` is ``"text"``; from then on all is text.

    Holds back at most what may still become a tag, so that a tag is found however it is cut.
    """

    def __init__(self) -> None:
        self.state: Literal["undecided", "reasoning", "gap", "text"] = "undecided"
        self.raw: list[str] = []
        """Everything up to the text, verbatim: what a history must repeat."""
        self._held = ""  # what may become a tag
        self._space: list[str] = []  # the white space before it
        self._space_size = 0

    def feed(self, text: str) -> tuple[str, str]:
        """Takes more text; returns (reasoning, text) that are now certain."""
        reasoning = ""
        if self.state == "undecided":
            if not self._begins_with_tag(text):
                return ("", "") if self.state == "undecided" else ("", self._to_text(self._head()))
            self.state, self._space_size = "reasoning", 0
            self.raw.append("".join(self._space) + _OPEN)
            text, self._held = self._held[len(_OPEN) :], ""
        if self.state == "reasoning":
            reasoning, text = self._reasoning(text)
        if self.state == "gap":  # the white space between the block and the text belongs to neither
            stripped = text.lstrip()
            self._space_size += len(text) - len(stripped)
            self.raw[-1] += text[: len(text) - len(stripped)]
            return reasoning, self._to_text(stripped) if stripped or self._space_size > _MAX_SPACE else ""
        return reasoning, ""

    def finish(self) -> tuple[str, str]:
        """Ends the text; returns what was held back."""
        held, self._held = (self._head() if self.state == "undecided" else self._held), ""
        if self.state == "reasoning":
            self.raw.append(held)
            return held, ""
        self.state = "text"
        return "", held

    def _begins_with_tag(self, text: str) -> bool:
        """Returns whether the head, with `text`, is a tag; sets the state to "text" if it can become none any more."""
        if not self._held:
            stripped = text.lstrip()
            self._space.append(text[: len(text) - len(stripped)])
            self._space_size += len(self._space[-1])
            text = stripped
        self._held += text  # at most a tag and one delta
        if self._held.startswith(_OPEN):
            return True
        if not _OPEN.startswith(self._held) or self._space_size > _MAX_SPACE:
            self.state = "text"
        return False

    def _head(self) -> str:
        return "".join(self._space) + self._held

    def _reasoning(self, text: str) -> tuple[str, str]:
        text = self._held + text
        at = text.find(_CLOSE)
        if at >= 0:
            self.state, self._held = "gap", ""
            self.raw.append(text[: at + len(_CLOSE)])
            return text[:at], text[at + len(_CLOSE) :]
        keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)
        self._held = text[len(text) - keep :]
        text = text[: len(text) - keep]
        self.raw.append(text)
        return text, ""

    def _to_text(self, text: str) -> str:
        self.state, self._held = "text", ""
        return text


_GROWING = ("text", "summary", "data")
_IDENTITY = ("type", "index", "id")


class ReasoningDetails:
    """Collects the entries of one response."""

    def __init__(self) -> None:
        self.size = 0
        """How much is kept, as `weight` has it."""
        self.replaced: dict[str, Any] = {}
        """Values that the latest delta has replaced by others."""
        self._entries: list[tuple[dict[str, Any], dict[str, list[str]]]] = []  # an entry, and its growing texts

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, details: object) -> Iterator[str]:
        """Takes the entries of one delta; yields their new texts."""
        self.replaced = {}
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, dict):
                continue
            if not self._entries or any(self._entries[-1][0].get(key) != detail.get(key) for key in _IDENTITY):
                self._entries.append(({}, {}))
            entry, pieces = self._entries[-1]
            for key, value in detail.items():
                if key in _GROWING and isinstance(value, str):
                    entry.setdefault(key, "")  # keeps its place among the keys
                    if not value:
                        continue
                    self.size += len(value)
                    pieces.setdefault(key, []).append(value)
                    if key != "data":
                        yield value
                elif key not in entry or (value is not None and entry[key] != value):
                    self.size += weight(value)
                    if says_something(entry.get(key)):
                        self.replaced[key] = entry[key]
                    entry[key] = value

    def joined(self) -> list[dict[str, Any]]:
        """Returns the entries, whole."""
        return [{**entry, **{key: "".join(texts) for key, texts in pieces.items()}} for entry, pieces in self._entries]


def texts_of(inner: object) -> Iterator[str]:
    """Yields the texts of a typed block's content: a string, or a list of text blocks."""
    for item in inner if isinstance(inner, list) else [inner]:
        text = item.get("text") if isinstance(item, dict) else item
        if isinstance(text, str) and text:
            yield text
