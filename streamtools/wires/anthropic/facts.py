"""How the Messages API writes a call and its result."""

from __future__ import annotations

from ..call_format import CallFormat
from ..result_format import ResultFormat

__all__ = ["CALLS", "RESULT"]

CALLS = (
    CallFormat(
        name="anthropic.messages.tool",
        type="tool_use",
        id="id",
        arguments="input",
        run_by_provider=("server_tool_use", "mcp_tool_use"),
    ),
)

RESULT = ResultFormat(
    recognises=lambda result: result.get("type") == "tool_result" and "tool_use_id" in result, list_key="content"
)
