"""Locates the token counts of ``message_start`` and ``message_delta``: in ``usage``, each count in either or both."""

from __future__ import annotations

from ..usage import UsageMap, total

__all__ = ["USAGE"]

USAGE = UsageMap({
    # "Anthropic `input_tokens` excludes cached tokens": docs/gen-ai/anthropic.md of OpenTelemetry's conventions v1.41.1
    "input_tokens": total("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "output_tokens": ("output_tokens",),
    "cached_input_tokens": ("cache_read_input_tokens",),
    "cache_write_input_tokens": ("cache_creation_input_tokens",),
})  # fmt: skip
