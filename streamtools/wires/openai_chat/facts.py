"""How Chat Completions writes a call."""

from __future__ import annotations

from ..call_format import CallFormat

__all__ = ["CALLS", "FUNCTION"]

FUNCTION = CallFormat(
    name="openai.chat_completions.function",
    type="function",
    type_optional=True,
    inside="function",
    id="id",
    as_text=True,
)
"""The form that most other providers took over."""

CUSTOM = CallFormat(
    name="openai.chat_completions.custom", type="custom", inside="custom", id="id", arguments="input", raw=True
)

CALLS = (FUNCTION, CUSTOM)
