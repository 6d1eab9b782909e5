"""How Cohere tells tools: as Chat Completions does, but that a whole request is strict or is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...schema.dialects import PLAIN
from ...schema.names import PLAIN_NAMES
from ..openai_chat.tools import FUNCTION, STRICT
from ..tool_format import RequestLimits, ToolFormat

__all__ = ["TOOLS"]


def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """Returns ``tools``, and ``strict_tools`` if any is strict."""
    return {"tools": entries, "strict_tools": True} if strict else {"tools": entries}


# What is strict about it, and "you can define a maximum of 200 fields across all tools":
# https://docs.cohere.com/docs/tool-use-parameter-types
TOOLS = (
    ToolFormat(
        name="cohere.chat",
        dialect=PLAIN,
        strict=replace(STRICT, said_at="`strict_tools` of the request", whole_request=True, wants_required=True),
        names=PLAIN_NAMES,
        function=replace(FUNCTION, strict="never"),
        request=request,
        limits=RequestLimits(properties=200),
    ),
)
