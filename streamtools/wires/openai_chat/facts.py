"""How Chat Completions writes a call and its result."""

from __future__ import annotations

from ..call_format import CallFormat
from ..result_format import ResultFormat

__all__ = ["CALLS", "FUNCTION", "RESULT"]

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

RESULT = ResultFormat(
    recognises=lambda result: result.get("role") == "tool" and "tool_call_id" in result,
    call_id_key="tool_call_id",
    is_message=True,
)
