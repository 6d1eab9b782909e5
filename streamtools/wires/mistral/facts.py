"""How Mistral writes a call: as Chat Completions does."""

from __future__ import annotations

from ..openai_chat.facts import FUNCTION

__all__ = ["CALLS"]

CALLS = (FUNCTION,)
