"""Locates the token counts of a chunk of Mistral's: where Chat Completions has them, and in one older place."""

from __future__ import annotations

from ..openai_chat.usage import USAGE as CHAT_USAGE
from ..usage import UsageMap

__all__ = ["USAGE"]

USAGE = UsageMap({
    **CHAT_USAGE.counts,
    "cached_input_tokens": ("prompt_tokens_details.cached_tokens", "num_cached_tokens"),  # the second is the older
})  # fmt: skip
