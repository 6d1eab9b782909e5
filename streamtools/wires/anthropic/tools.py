"""How the Messages API tells tools."""

from __future__ import annotations

import re
from dataclasses import replace

from ...schema.dialects import ANTHROPIC, ANTHROPIC_STRICT
from ...schema.names import PLAIN_NAMES
from ..tool_format import JSON, EntryFormat, RequestLimits, StrictForm, ToolFormat

__all__ = ["LIMITS", "NAMES", "TOOLS"]

# 400 otherwise: "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'".
NAMES = replace(PLAIN_NAMES, length=128)

# https://docs.claude.com/en/docs/build-with-claude/structured-outputs#schema-complexity-limits
LIMITS = RequestLimits(strict_tools=20, optional_properties=24, unions=16)


def hosted(tool: JSON) -> str | None:
    """Returns the name in ``{"type": "web_search_20250305", "name": "web_search"}``: the type ends in a date."""
    type_, name = tool.get("type"), tool.get("name")
    dated = isinstance(type_, str) and re.search(r"_\d{8}$", type_)
    return name if dated and isinstance(name, str) else None


TOOLS = (
    ToolFormat(
        name="anthropic.messages",
        dialect=ANTHROPIC,
        strict=StrictForm(dialect=ANTHROPIC_STRICT, said_at="`strict`"),
        names=NAMES,
        function=EntryFormat(name="anthropic.messages.tool", schema_at=("input_schema",), strict="where_strict"),
        hosted=hosted,
        limits=LIMITS,
    ),
)
