"""Locates the token counts of the event that ends a response: in ``response.usage``."""

from __future__ import annotations

from ..usage import UsageMap

__all__ = ["USAGE"]

USAGE = UsageMap({
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cached_input_tokens": ("input_tokens_details.cached_tokens",),
    "reasoning_tokens": ("output_tokens_details.reasoning_tokens",),
})  # fmt: skip
