"""How the Responses API writes a call."""

from __future__ import annotations

from ..call_format import CallFormat

__all__ = ["CALLS"]

CALLS = (
    CallFormat(name="openai.responses.function", type="function_call", id="call_id", as_text=True),
    CallFormat(name="openai.responses.custom", type="custom_tool_call", id="call_id", arguments="input", raw=True),
)
