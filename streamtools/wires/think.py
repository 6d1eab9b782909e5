"""A ``<think>`` block that opens the text of a response: which characters are reasoning, and which are text.

Servers without a reasoning parser send it inline (BerriAI/litellm#15233, pydantic/pydantic-ai#2290). Only a block at
the very start is split off; a tag anywhere else stays text, since text may quote one.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["LeadingThink"]

_OPEN, _CLOSE = "<think>", "</think>"


class LeadingThink:
    """Splits the head of a text. Feed it until `state` is ``"text"``; from then on all is text.

    Holds back at most what may still become a tag, so that a tag is found however it is cut.
    """

    def __init__(self) -> None:
        self.state: Literal["undecided", "reasoning", "gap", "text"] = "undecided"
        self.raw: list[str] = []
        """Everything up to the text, verbatim: what a history must repeat."""
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Take more text; returns (reasoning, text) that are now certain."""
        reasoning = ""
        if self.state == "undecided":
            self._held += text
            head = self._held.lstrip()
            if not head.startswith(_OPEN):
                if _OPEN.startswith(head):
                    return "", ""
                return "", self._to_text(self._held)
            self.state = "reasoning"
            at = len(self._held) - len(head) + len(_OPEN)
            self.raw.append(self._held[:at])
            text, self._held = self._held[at:], ""
        if self.state == "reasoning":
            reasoning, text = self._reasoning(text)
        if self.state == "gap":  # the white space between the block and the text belongs to neither
            stripped = text.lstrip()
            self.raw.append(text[: len(text) - len(stripped)])
            return reasoning, self._to_text(stripped) if stripped else ""
        return reasoning, ""

    def finish(self) -> tuple[str, str]:
        """No more text will come; returns what was held back."""
        held, self._held = self._held, ""
        if self.state == "reasoning":
            self.raw.append(held)
            return held, ""
        self.state = "text"
        return "", held

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
