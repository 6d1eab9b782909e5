"""How Converse tells tools."""

from __future__ import annotations

from typing import Any

from ...schema.dialects import BEDROCK_STRICT, PLAIN
from ...schema.names import PLAIN_NAMES
from ..anthropic.tools import LIMITS
from ..tool_format import JSON, EntryFormat, StrictForm, ToolFormat

__all__ = ["TOOLS"]

# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Tool.html (read 2026-11-21)
_HOSTED = frozenset({"systemTool", "cachePoint"})


def hosted(tool: JSON) -> str | None:
    """Returns the key of ``{"systemTool": {"name": ...}}``, or of a mark for the cache."""
    return next(iter(tool)) if "type" not in tool and tool.keys() & _HOSTED else None


def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """Returns ``toolConfig``."""
    return {"toolConfig": {"tools": entries}}


TOOLS = (
    ToolFormat(
        name="bedrock.converse_stream",
        dialect=PLAIN,
        strict=StrictForm(dialect=BEDROCK_STRICT, said_at="`strict` of the `toolSpec`"),
        names=PLAIN_NAMES,
        function=EntryFormat(
            name="bedrock.tool_spec", inside="toolSpec", schema_at=("inputSchema", "json"), strict="where_strict"
        ),
        request=request,
        hosted=hosted,
        limits=LIMITS,
    ),
)
