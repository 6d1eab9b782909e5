"""Reads a whole answer of Gemini's: it has the form of a chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..marks import is_gemini_answer

__all__ = ["whole"]


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns an answer as the one chunk that it is; None if this is none."""
    return [answer] if isinstance(answer, dict) and is_gemini_answer(answer) else None
