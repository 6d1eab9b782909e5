"""What each provider does with each keyword of JSON Schema, as data.

A row is a keyword or, in parentheses, a construct; a column is a provider's dialect. What a cell says is the first
letter of an `Action`. Everything that reads or writes a provider's schema asks this table, and so does the page that
compares the providers.

Sources, read from August to November 2026:

* OpenAI: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas ; a ``default`` is refused on
  Azure (livekit/agents#1987), an untyped ``items`` everywhere.
* Anthropic: https://docs.claude.com/en/docs/build-with-claude/structured-outputs#json-schema-limitations ; the root
  may be no union ("input_schema does not support oneOf, allOf, or anyOf at the top level",
  langchain-ai/langchain#39271).
* Bedrock: the same for its strict tools, but lengths and patterns pass (pydantic-ai's tests against the service).
* Gemini: https://ai.google.dev/api/caching#Schema for ``parameters`` and
  https://ai.google.dev/gemini-api/docs/structured-output#json_schema_support for ``parametersJsonSchema``.
* MCP: https://modelcontextprotocol.io/specification/2025-11-25/server/tools (any 2020-12 keyword).
* Ollama: the Go type ``api.ToolProperty`` has six fields; what is not among them vanishes without a word.
* Mistral and Cohere pass plain JSON Schema on to the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal, TypeAlias, get_args

__all__ = ["COLUMNS", "KEYWORDS", "Action", "Column", "actions"]

Column: TypeAlias = Literal[
    "openai",
    "openai_strict",
    "anthropic",
    "anthropic_strict",
    "bedrock_strict",
    "gemini",
    "gemini_openapi",
    "mcp",
    "ollama",
    "plain",
]
"""A provider's dialect of JSON Schema. ``gemini`` is ``parametersJsonSchema``, ``gemini_openapi`` is ``parameters``;
``plain`` is what Mistral, Cohere and Bedrock take."""

COLUMNS: tuple[Column, ...] = get_args(Column)
"""The columns, in the order of the table."""


class Action(Enum):
    """What happens to a keyword."""

    KEEP = "K"
    """It stays."""
    DROP = "D"
    """It goes; a model loses nothing by that."""
    NOTE = "N"
    """It goes, and the description tells it: ``(min 1, max 10)``."""
    REWRITE = "R"
    """It is said in another way; where that changes what the model sends, `decode` changes it back."""
    INLINE = "I"
    """References only: what is referred to stands in the reference's place."""
    REFUSE = "E"
    """It cannot be said: the export is refused, or falls back to one that is not strict."""


def _row(letters: str) -> Mapping[Column, Action]:
    return dict(zip(COLUMNS, map(Action, letters.split()), strict=True))


KEYWORDS: Mapping[str, Mapping[Column, Action]] = {
    # Columns:          openai, strict / anthropic, strict / bedrock strict / gemini, openapi / mcp / ollama / plain
    "$schema": _row("          D  D    K  D    D    D  D    K    D    K"),
    "$comment": _row("         D  D    K  D    D    D  D    K    D    K"),
    "$ref": _row("             K  R    K  R    R    R  I    K    I    K"),
    "type": _row("             K  K    K  K    K    K  K    K    K    K"),
    "title": _row("            D  D    D  D    D    D  D    K    D    K"),
    "description": _row("      K  K    K  K    K    K  K    K    K    K"),
    "default": _row("          K  N    K  N    N    N  K    K    N    K"),
    "examples": _row("         K  D    K  N    N    D  D    K    D    K"),
    "deprecated": _row("       K  D    K  N    N    D  D    K    D    K"),
    "readOnly": _row("         K  D    K  D    D    D  D    K    D    K"),
    "writeOnly": _row("        K  D    K  D    D    D  D    K    D    K"),
    "enum": _row("             K  K    K  K    K    K  K    K    K    K"),
    "const": _row("            K  K    K  K    K    R  R    K    R    K"),
    "anyOf": _row("            K  K    K  K    K    K  K    K    K    K"),
    "oneOf": _row("            K  R    K  R    R    R  R    K    R    K"),
    "discriminator": _row("    K  D    K  D    D    D  D    K    D    K"),
    "allOf": _row("            K  R    K  R    R    R  R    K    R    K"),
    "not": _row("              K  N    K  N    N    N  N    K    N    K"),
    "if": _row("               K  N    K  N    N    N  N    K    N    K"),
    "then": _row("             K  N    K  N    N    N  N    K    N    K"),
    "else": _row("             K  N    K  N    N    N  N    K    N    K"),
    "dependentRequired": _row("K  N    K  N    N    N  N    K    N    K"),
    "dependentSchemas": _row(" K  N    K  N    N    N  N    K    N    K"),
    "properties": _row("       K  K    K  K    K    K  K    K    K    K"),
    "required": _row("         K  K    K  K    K    K  K    K    K    K"),
    "additionalProperties": _row("K R  K  R    R    K  D    K    D    K"),
    "patternProperties": _row("K  R    K  R    R    N  R    K    N    K"),
    "propertyNames": _row("    K  R    K  R    R    N  R    K    N    K"),
    "minProperties": _row("    K  N    K  N    N    N  N    K    N    K"),
    "maxProperties": _row("    K  N    K  N    N    N  N    K    N    K"),
    "unevaluatedProperties": _row("K D K  D    D    D  D    K    D    K"),
    "items": _row("            K  K    K  K    K    K  K    K    K    K"),
    "prefixItems": _row("      K  R    K  R    R    K  R    K    R    K"),
    "minItems": _row("         K  K    K  N    N    K  K    K    N    K"),  # strict Anthropic and Bedrock keep 0 and 1
    "maxItems": _row("         K  K    K  N    N    K  K    K    N    K"),
    "uniqueItems": _row("      K  N    K  N    N    N  N    K    N    K"),
    "contains": _row("         K  N    K  N    N    N  N    K    N    K"),
    "minContains": _row("      K  N    K  N    N    N  N    K    N    K"),
    "maxContains": _row("      K  N    K  N    N    N  N    K    N    K"),
    "minimum": _row("          K  K    K  N    N    K  K    K    N    K"),
    "maximum": _row("          K  K    K  N    N    K  K    K    N    K"),
    "exclusiveMinimum": _row(" K  K    K  N    N    N  N    K    N    K"),
    "exclusiveMaximum": _row(" K  K    K  N    N    N  N    K    N    K"),
    "multipleOf": _row("       K  K    K  N    N    N  N    K    N    K"),
    "minLength": _row("        K  K    K  N    K    N  K    K    N    K"),
    "maxLength": _row("        K  K    K  N    K    N  K    K    N    K"),
    "pattern": _row(
        "          K  K    K  N    K    N  K    K    N    K"
    ),  # kept only if the provider's engine takes it
    "format": _row("           K  K    K  K    K    K  K    K    N    K"),  # kept only if the provider lists it
    "contentEncoding": _row("  K  N    K  N    N    N  N    K    N    K"),
    "contentMediaType": _row(" K  N    K  N    N    N  N    K    N    K"),
    "(root union)": _row("     K  R    R  R    R    R  R    K    R    K"),
    "(recursion)": _row("      K  K    K  E    E    R  R    K    R    K"),
    "(type list)": _row("      K  K    K  R    R    K  R    K    K    K"),
    "(map)": _row("            K  R    K  R    R    K  R    K    N    K"),
    "(no type)": _row("        K  R    K  R    R    K  R    K    K    K"),
    "(optional)": _row("       K  R    K  K    K    K  K    K    K    K"),
    "(array without items)": _row("K R K R    R    K  R    K    K    K"),
    "(boolean schema)": _row(" K  R    K  R    R    R  R    K    R    K"),
    "(property name)": _row("  K  K    R  R    R    R  R    K    K    K"),
    "(tool name)": _row("      R  R    R  R    R    R  R    R    K    R"),
}
"""Action by keyword and column."""


def actions(column: Column) -> Mapping[str, Action]:
    """Returns what happens to each keyword in a column."""
    return {keyword: row[column] for keyword, row in KEYWORDS.items()}
