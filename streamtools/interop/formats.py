"""The names of what is translated: formats (how something is written) and targets (which wire it is written for).

A format's name is its wire and what it is there: ``openai.responses.custom``. Schemas and calls share the names; a
result's format is its wire, or one of the two that this package stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import ExportError

__all__ = [
    "ANTHROPIC_TOOL",
    "BEDROCK_TOOL",
    "BUILT_IN",
    "CHAT_CUSTOM",
    "CHAT_FUNCTION",
    "CUSTOM_FORMATS",
    "FORMATS",
    "GEMINI_FUNCTION",
    "MCP_TOOL",
    "NATIVE_RESULT",
    "RESPONSES_CUSTOM",
    "RESPONSES_FUNCTION",
    "TARGET_FORMATS",
    "TOOL_RESULT",
    "ToolInteropTarget",
]

CHAT_FUNCTION = "openai.chat_completions.function"
CHAT_CUSTOM = "openai.chat_completions.custom"
RESPONSES_FUNCTION = "openai.responses.function"
RESPONSES_CUSTOM = "openai.responses.custom"
ANTHROPIC_TOOL = "anthropic.messages.tool"
GEMINI_FUNCTION = "gemini.function_declaration"
MCP_TOOL = "mcp.tool"
BEDROCK_TOOL = "bedrock.tool_spec"

FORMATS = (
    CHAT_FUNCTION,
    CHAT_CUSTOM,
    RESPONSES_FUNCTION,
    RESPONSES_CUSTOM,
    ANTHROPIC_TOOL,
    GEMINI_FUNCTION,
    MCP_TOOL,
    BEDROCK_TOOL,
)
"""Every format of schemas and calls that is built in."""

CUSTOM_FORMATS = frozenset({CHAT_CUSTOM, RESPONSES_CUSTOM})
"""Formats whose calls carry one raw text."""

BUILT_IN = ".built_in"
"""Ends the format of a tool that its provider runs itself (``anthropic.messages.built_in``). Nobody else has it, so it
is never translated."""

TOOL_RESULT = "tool_result"
"""The canonical result: text, and blocks where there is more."""
NATIVE_RESULT = "provider_native_tool_result"
"""A result that a tool wrote for one provider."""

TARGET_FORMATS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openai.chat_completions": (CHAT_FUNCTION, CHAT_CUSTOM),
        "openai.responses": (RESPONSES_FUNCTION, RESPONSES_CUSTOM),
        "anthropic.messages": (ANTHROPIC_TOOL,),
        "gemini.generate_content": (GEMINI_FUNCTION,),
        "mistral.chat": (CHAT_FUNCTION,),
        "cohere.chat": (CHAT_FUNCTION,),
        "ollama.chat": (CHAT_FUNCTION,),
        "bedrock.converse_stream": (BEDROCK_TOOL,),
        "mcp": (MCP_TOOL,),
    }
)
"""What each wire takes by itself, the usual format first."""


@dataclass(frozen=True, slots=True)
class ToolInteropTarget:
    """Where something translated goes: a wire, by its name.

    A wire of your own is fine, as long as you say which formats it takes, or contribute what writes them.
    """

    wire: str

    def formats(self) -> tuple[str, ...]:
        """The formats that the wire takes by itself.

        Raises:
            ExportError: this is no wire that is built in; pass ``target_formats``.
        """
        known = TARGET_FORMATS.get(self.wire)
        if known is None:
            names = ", ".join(TARGET_FORMATS)
            raise ExportError(f"no formats are known for {self.wire!r}; pass target_formats=[...] (known: {names})")
        return known

    def __str__(self) -> str:
        return self.wire
