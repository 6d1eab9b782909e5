"""Tells where ``message_start`` and ``message_delta`` have their token counts: in ``usage``, each in either or both."""

from __future__ import annotations

from ..usage import UsageMap

__all__ = ["USAGE"]

USAGE = UsageMap({
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cached_input_tokens": ("cache_read_input_tokens",),
})  # fmt: skip
