"""How Mistral tells tools: as Chat Completions does."""

from __future__ import annotations

from ...schema.dialects import PLAIN
from ...schema.names import PLAIN_NAMES
from ..openai_chat.tools import FUNCTION, STRICT
from ..tool_format import ToolFormat

__all__ = ["TOOLS"]

TOOLS = (ToolFormat(name="mistral.chat", dialect=PLAIN, strict=STRICT, names=PLAIN_NAMES, function=FUNCTION),)
