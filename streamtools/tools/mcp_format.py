"""How MCP's ``tools/list`` tells a tool. MCP is no wire, since no model speaks it, but its tools look like any other's.

The row stands here, and not in `streamtools.exports`, because `Tool.to` writes it, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..schema.dialects import MCP as MCP_DIALECT
from ..schema.names import NameRule
from ..wires.tool_format import EntryFormat, ToolFormat

__all__ = ["HINTS", "MCP"]

HINTS: Mapping[str, Mapping[str, bool]] = {
    "pure": {"readOnlyHint": True},
    "idempotent": {"idempotentHint": True},
    "once": {},
}
"""The annotations that tell an effect. https://modelcontextprotocol.io/specification/2025-11-25/schema#tool"""

MCP = ToolFormat(
    name="mcp",
    dialect=MCP_DIALECT,
    # https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names
    names=NameRule("a-zA-Z0-9_.-", "a-zA-Z0-9_.-", 128),
    function=EntryFormat(name="mcp.tool", schema_at=("inputSchema",), output_at="outputSchema", titled=True),
    tells_results=True,
)
