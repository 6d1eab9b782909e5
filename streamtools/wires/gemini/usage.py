"""Locates the token counts of a response: in ``usageMetadata``, which nearly every payload gives anew."""

from __future__ import annotations

from collections.abc import Sequence

from ..usage import Derived, UsageMap

__all__ = ["USAGE"]


def _output(counts: Sequence[int | None]) -> int | None:
    """Adds the thoughts to the answer: they are output, as with every provider."""
    answer, thoughts, prompt, tool_use, total = counts
    if not thoughts:
        return answer
    # Gemini counts them apart; servers whose sum comes out without them do not (BerriAI/litellm#10141).
    inside = answer is not None and (prompt or 0) + (tool_use or 0) + answer == total
    return answer if inside else (answer or 0) + thoughts


_OF_OUTPUT = (
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "totalTokenCount",
)

USAGE = UsageMap({
    "input_tokens": ("promptTokenCount",),
    "output_tokens": Derived(_OF_OUTPUT, _output),
    "cached_input_tokens": ("cachedContentTokenCount",),
    "reasoning_tokens": ("thoughtsTokenCount",),
})  # fmt: skip
