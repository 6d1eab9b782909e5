"""Locates the token counts of a Chat Completions chunk: in ``usage``, or in Groq's ``x_groq.usage``."""

from __future__ import annotations

from ..usage import UsageMap

__all__ = ["USAGE"]

USAGE = UsageMap({
    "input_tokens": ("prompt_tokens",),
    "output_tokens": ("completion_tokens",),
    "cached_input_tokens": ("prompt_tokens_details.cached_tokens",),
    "reasoning_tokens": ("completion_tokens_details.reasoning_tokens",),
})  # fmt: skip
