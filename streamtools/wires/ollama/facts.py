"""How Ollama writes a call, as Chat Completions does, and its result."""

from __future__ import annotations

from ..openai_chat.facts import FUNCTION
from ..result_format import ResultFormat

__all__ = ["CALLS", "RESULT"]

CALLS = (FUNCTION,)

RESULT = ResultFormat(
    recognises=lambda result: result.get("role") == "tool" and "tool_name" in result,
    call_id_key="tool_call_id",
    id_optional=True,
    is_message=True,
)
