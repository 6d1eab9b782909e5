"""How the Messages API writes a call."""

from __future__ import annotations

from ..call_format import CallFormat

__all__ = ["CALLS"]

CALLS = (
    CallFormat(
        name="anthropic.messages.tool",
        type="tool_use",
        id="id",
        arguments="input",
        run_by_provider=("server_tool_use", "mcp_tool_use"),
    ),
)
