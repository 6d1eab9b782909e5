"""How the Responses API tells tools."""

from __future__ import annotations

import re
from dataclasses import replace

from ...schema.dialects import OPENAI
from ...schema.names import PLAIN_NAMES
from ..openai_chat.tools import LIMITS, STRICT
from ..tool_format import JSON, EntryFormat, ToolFormat

__all__ = ["TOOLS"]

FUNCTION = EntryFormat(
    name="openai.responses.function",
    type="function",
    schema_at=("parameters",),
    # Without `strict` the API would try to make the schema strict, and change it:
    # https://platform.openai.com/docs/guides/function-calling#strict-mode
    strict="always",
    output_at="output_schema",
)

CUSTOM = EntryFormat(
    name="openai.responses.custom", type="custom", freeform=True, never=frozenset({"custom", "input_schema"})
)


def hosted(tool: JSON) -> str | None:
    """Returns any type but the two: ``{"type": "web_search"}``, ``{"type": "mcp", "server_label": ...}``. A date in a
    type is written with underscores here (``web_search_preview_2025_03_11``), never as eight digits."""
    type_ = tool.get("type")
    ours = isinstance(type_, str) and type_ not in ("function", "custom") and not re.search(r"_\d{8}$", type_)
    return type_ if ours else None


TOOLS = (
    ToolFormat(
        name="openai.responses",
        dialect=OPENAI,
        strict=replace(STRICT, said_at="`strict`, always said"),
        names=PLAIN_NAMES,
        function=FUNCTION,
        freeform=CUSTOM,
        hosted=hosted,
        limits=LIMITS,
    ),
)
