"""Locates the token counts of the event that ends a response: in ``delta.usage``, in v1 in ``response.meta``.

``tokens`` counts the tokens that the model read and wrote. ``billed_units``, those that are paid for, stand in for it.
"""

from __future__ import annotations

from ..usage import UsageMap

__all__ = ["USAGE"]

USAGE = UsageMap({
    "input_tokens": ("tokens.input_tokens", "billed_units.input_tokens"),
    "output_tokens": ("tokens.output_tokens", "billed_units.output_tokens"),
    "cached_input_tokens": ("cached_tokens",),
    "reasoning_tokens": ("tokens.reasoning_tokens", "billed_units.reasoning_tokens"),
})  # fmt: skip
