"""Token counts, which every payload gives anew and larger."""

from __future__ import annotations

from typing import Any

from ..reading import read_count

__all__ = ["UsageMetadata"]

_COUNTS = (
    "promptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
    "toolUsePromptTokenCount",
    "totalTokenCount",
)


class UsageMetadata:
    """The latest of each count: one that a payload leaves out keeps its value."""

    __slots__ = ("_counts", "newest")

    def __init__(self) -> None:
        self._counts: dict[str, Any] = {}
        self.newest: dict[str, Any] = {}
        """What came last; not merged yet. One with the same keys may take its place."""

    def add(self, usage: object) -> None:
        """Take a payload's ``usageMetadata``."""
        if isinstance(usage, dict):
            self._merge()
            self.newest = usage

    def counts(self) -> dict[str, int | None]:
        """The counts in our words. Thoughts are output, as with every provider."""
        self._merge()
        prompt, answer, thoughts, cached, tool_use, total = (read_count(self._counts.get(name)) for name in _COUNTS)
        output = answer
        if thoughts:
            # Gemini counts them apart; servers whose sum comes out without them do not (BerriAI/litellm#10141).
            inside = answer is not None and (prompt or 0) + (tool_use or 0) + answer == total
            output = answer if inside else (answer or 0) + thoughts
        return {
            "input_tokens": prompt,
            "output_tokens": output,
            "cached_input_tokens": cached,
            "reasoning_tokens": thoughts,
        }

    def _merge(self) -> None:
        newest = self.newest
        self._counts.update((name, newest[name]) for name in _COUNTS if newest.get(name) is not None)
