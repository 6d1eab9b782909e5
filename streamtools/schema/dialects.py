"""Holds the providers' dialects of JSON Schema: each a column of the table of keywords, with its further rules.

A row of the table is a keyword or, in parentheses, a construct; a cell is the first letter of an `Action`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from .names import NameRule

COLUMNS = (
    *("openai", "openai_strict", "anthropic", "anthropic_strict", "bedrock_strict"),
    *("gemini", "gemini_openapi", "mcp", "ollama", "plain"),
)
"""The dialects, in the order of the table. ``gemini`` is ``parametersJsonSchema``, ``gemini_openapi`` is
``parameters``; ``plain`` is the dialect of Mistral, Cohere and Bedrock."""


class Action(Enum):
    """Names the treatment of a keyword."""

    KEEP = "K"  # it stays
    DROP = "D"  # it is left out; a model loses nothing by that
    NOTE = "N"  # it moves into the description: `(min 1, max 10)`
    REWRITE = "R"
    """It is expressed in another way; where that changes the model's arguments, `decode` changes them back."""
    INLINE = "I"  # references only: the target stands in the reference's place
    REFUSE = "E"  # it cannot be expressed: the export is refused, or falls back to one that is not strict


def _row(letters: str) -> Mapping[str, Action]:
    return dict(zip(COLUMNS, map(Action, letters.split()), strict=True))


# Sources, read from August to November 2026:
#
# * OpenAI: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas ; a `default` is refused on
#   Azure (livekit/agents#1987), an untyped `items` everywhere.
# * Anthropic: https://docs.claude.com/en/docs/build-with-claude/structured-outputs#json-schema-limitations ; the root
#   may not be a union ("input_schema does not support oneOf, allOf, or anyOf at the top level",
#   langchain-ai/langchain#39271).
# * Bedrock: the same for its strict tools, but lengths and patterns pass (pydantic-ai's tests against the service).
# * Gemini: https://ai.google.dev/api/caching#Schema for `parameters` and
#   https://ai.google.dev/gemini-api/docs/structured-output#json_schema_support for `parametersJsonSchema`.
# * MCP: https://modelcontextprotocol.io/specification/2025-11-25/server/tools (any 2020-12 keyword).
# * Ollama: the Go type `api.ToolProperty` has six fields; any other keyword vanishes without a word.
# * Mistral and Cohere pass plain JSON Schema on to the model.

KEYWORDS: Mapping[str, Mapping[str, Action]] = {  # the action by keyword and column
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
    # The pattern stays only if the provider's engine takes it, the format only if the provider lists it.
    "pattern": _row("          K  K    K  N    K    N  K    K    N    K"),
    "format": _row("           K  K    K  K    K    K  K    K    N    K"),
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """Describes a dialect: one column of the table, with its further rules."""

    name: str
    actions: Mapping[str, Action]
    """The action for each keyword or construct of the table. Any other keyword stays where references do, and is left
    out elsewhere."""
    wants_properties: bool = False  # the schema of a tool has `properties`, even an empty one
    formats: frozenset[str] | None = None  # the formats that it keeps; None keeps all
    refused_pattern: re.Pattern[str] | None = None  # finds the parts of a pattern that its engine does not know
    few_items: bool = False  # it keeps `minItems` of 0 and 1 only
    keys: NameRule | None = None  # the property names that it accepts; None accepts all
    openapi: bool = False  # it is OpenAPI 3.0: `nullable`, types in upper case, enums of strings only
    enums: tuple[type, ...] = (str, int, float, bool, type(None))  # the Python types of values that its enums may have

    def but(self, name: str, actions: Mapping[str, Action]) -> Dialect:
        """Returns a dialect with other actions for some keywords. For the other fields, use `dataclasses.replace`.

        Raises:
            ValueError: the dialect keeps references, so that a schema goes out as it was written and its keywords can
                be kept, dropped or noted; begin with one that does not, `OLLAMA`.
        """
        made = replace(self, name=name, actions={**self.actions, **actions})
        beyond = {key for key, does in actions.items() if does not in _VERBATIM or key.startswith("(")} - _EVERYWHERE
        if made.keeps_references and beyond:
            raise ValueError(f"the dialect {name!r} keeps references, so it cannot change {', '.join(sorted(beyond))}")
        return made

    def action(self, keyword: str) -> Action:
        """Returns the action for `keyword`."""
        return self.actions.get(keyword) or (Action.KEEP if self.keeps_references else Action.DROP)

    def rewrites(self, construct: str) -> bool:
        """Returns whether `construct` has to be expressed in another way."""
        return self.action(construct) is Action.REWRITE

    @property
    def keeps_references(self) -> bool:
        """The schema goes out as it was written, but for single keywords."""
        return self.actions["$ref"] is Action.KEEP

    def for_value(self, keyword: str, value: Any) -> Action:
        """Returns the action for a keyword with this value."""
        general = self.action(keyword)
        if keyword in ("title", "description") and not isinstance(value, str):
            return Action.DROP  # no provider accepts these
        if keyword == "minItems" and self.few_items and value in (0, 1):
            return Action.KEEP
        if general is not Action.KEEP:
            return general
        if keyword == "format" and self.formats is not None and value not in self.formats:
            return Action.NOTE
        if keyword == "pattern" and self.refused_pattern is not None and self.refused_pattern.search(str(value)):
            return Action.NOTE
        return general


_VERBATIM = frozenset({Action.KEEP, Action.DROP, Action.NOTE})
_EVERYWHERE = frozenset({"(root union)", "(property name)"})  # the constructs that can be rewritten even there

_OPENAI_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)  # https://platform.openai.com/docs/guides/structured-outputs#supported-properties ; `uri` is refused there
_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_LOOKAROUND_OR_BACKREFERENCE = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<|\(\?P=")
# 400 otherwise: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
_ANTHROPIC_KEYS = NameRule("a-zA-Z0-9_.-", "a-zA-Z0-9_.-", 64)
# As the API says of function names: "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain
# underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64." Properties become names likewise.
_GEMINI_KEYS = NameRule("a-zA-Z_", "a-zA-Z0-9_.:-", 64)


def _column(column: str, **beyond: Any) -> Dialect:
    return Dialect(name=column, actions={keyword: row[column] for keyword, row in KEYWORDS.items()}, **beyond)


# 400 otherwise: "object schema missing properties"
OPENAI = _column("openai", wants_properties=True)
OPENAI_STRICT = _column("openai_strict", formats=_OPENAI_FORMATS, refused_pattern=_LOOKAROUND)
ANTHROPIC = _column("anthropic", keys=_ANTHROPIC_KEYS)
_STRICT: Mapping[str, Any] = {"formats": _OPENAI_FORMATS | {"uri"}, "few_items": True, "keys": _ANTHROPIC_KEYS}
ANTHROPIC_STRICT = _column("anthropic_strict", **_STRICT)
BEDROCK_STRICT = _column("bedrock_strict", refused_pattern=_LOOKAROUND_OR_BACKREFERENCE, **_STRICT)
GEMINI = _column("gemini", formats=frozenset({"date-time", "date", "time"}), keys=_GEMINI_KEYS, enums=(str, int, float))
# "only 'enum' and 'date-time' are supported for STRING type"
GEMINI_OPENAPI = _column(
    "gemini_openapi", formats=frozenset({"date-time"}), keys=_GEMINI_KEYS, openapi=True, enums=(str,)
)
MCP = _column("mcp")
OLLAMA = _column("ollama")
PLAIN = _column("plain")  # the dialect of Mistral, Cohere and Bedrock, which accept a schema as it is
