"""How Mistral writes a call and its result: as Chat Completions does."""

from __future__ import annotations

from ..openai_chat.facts import FUNCTION, RESULT

__all__ = ["CALLS", "RESULT"]

CALLS = (FUNCTION,)
