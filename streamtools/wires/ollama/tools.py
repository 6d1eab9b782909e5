"""How Ollama tells tools: as Chat Completions does, without a strict form and with names of any kind."""

from __future__ import annotations

from ...schema.dialects import OLLAMA
from ..openai_chat.tools import FUNCTION
from ..tool_format import ToolFormat

__all__ = ["TOOLS"]

TOOLS = (ToolFormat(name="ollama.chat", dialect=OLLAMA, names=None, function=FUNCTION),)
