"""Tells where ``metadata`` has its token counts: in ``usage``."""

from __future__ import annotations

from ..usage import UsageMap

__all__ = ["USAGE"]

USAGE = UsageMap({
    "input_tokens": ("inputTokens",),
    "output_tokens": ("outputTokens",),
    "cached_input_tokens": ("cacheReadInputTokens",),
})  # fmt: skip
