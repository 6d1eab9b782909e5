"""Locates the token counts of the line that is done: beside all its other fields."""

from __future__ import annotations

from ..usage import UsageMap

__all__ = ["USAGE"]

USAGE = UsageMap({
    "input_tokens": ("prompt_eval_count",),
    "output_tokens": ("eval_count",),
})  # fmt: skip
