"""Makes the tools of MCP servers usable here, and writes tool results in MCP's form.

    session ──► tools/list ──► definitions ──► pins ──► Tool      ──► tools/call ──► ToolResult
    (yours)     (cache)        read, bounded   approved  validated     per call       blocks, value

Start with `fetch_tools`. The session is yours: the code that opened it keeps it open, and closes it. The package
``mcp`` (extra ``mcp``) is not imported before you pass one of its objects.
"""

from __future__ import annotations

from .calls import result_for_mcp, tool_result
from .definition import RefusedTool, ServerTool
from .elicitation import Elicitation
from .fetch import FetchedTools, SchemaCache, fetch_tools
from .pins import Pins, ToolChange
from .tasks import TASKS
from .transports import BoundedHTTPTransport, stdio_transport

__all__ = [
    "TASKS", "BoundedHTTPTransport", "Elicitation", "FetchedTools", "Pins", "RefusedTool", "SchemaCache", "ToolChange",
    "ServerTool", "fetch_tools", "result_for_mcp", "stdio_transport", "tool_result",
]  # fmt: skip
