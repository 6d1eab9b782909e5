"""How the Responses API writes a call and its result."""

from __future__ import annotations

from ..call_format import CallFormat
from ..result_format import ResultFormat

__all__ = ["CALLS", "RESULT"]

CALLS = (
    CallFormat(name="openai.responses.function", type="function_call", id="call_id", as_text=True),
    CallFormat(name="openai.responses.custom", type="custom_tool_call", id="call_id", arguments="input", raw=True),
)

RESULT = ResultFormat(
    recognises=lambda result: result.get("type") in ("function_call_output", "custom_tool_call_output"),
    call_id_key="call_id",
    raw_type="custom_tool_call_output",
)
