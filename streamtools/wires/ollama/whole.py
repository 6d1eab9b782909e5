"""Reads a whole answer of Ollama's: it has the form of a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..marks import is_ollama_answer

__all__ = ["whole"]


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns an answer as the one line that it is; None if this is none."""
    return [answer] if isinstance(answer, dict) and is_ollama_answer(answer) else None
