"""Locates the token counts of ``metadata``: in ``usage``."""

from __future__ import annotations

from ..usage import UsageMap, total

__all__ = ["USAGE"]

USAGE = UsageMap({
    # "total tokens = cacheReadInputTokens + cacheWriteInputTokens + inputTokens":
    # https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
    "input_tokens": total("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
    "output_tokens": ("outputTokens",),
    "cached_input_tokens": ("cacheReadInputTokens",),
    "cache_write_input_tokens": ("cacheWriteInputTokens",),
})  # fmt: skip
