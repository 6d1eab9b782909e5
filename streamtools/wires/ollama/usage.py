"""Tells where the line that is done has its token counts: beside everything else that it says."""

from __future__ import annotations

from ..usage import UsageMap

__all__ = ["USAGE"]

USAGE = UsageMap({
    "input_tokens": ("prompt_eval_count",),
    "output_tokens": ("eval_count",),
})  # fmt: skip
