"""How the Gemini API tells tools: as declarations of functions, in JSON Schema or in OpenAPI's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...schema.dialects import GEMINI, GEMINI_OPENAPI
from ...schema.names import NameRule
from ...schema.openapi import as_json_schema
from ..tool_format import JSON, EntryFormat, StrictForm, ToolFormat

__all__ = ["NAMES_IN_HISTORY", "TOOLS"]

# 400 otherwise: "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots
# (.), colons (:), or dashes (-), with a maximum length of 64."
NAMES = NameRule("a-zA-Z_", "a-zA-Z0-9_.:-", 64)
NAMES_IN_HISTORY = replace(NAMES, length=128)
"""Longer ones of calls go back as they came."""

# https://ai.google.dev/api/caching#Tool (read 2026-11-21)
_HOSTED = frozenset(
    {
        "codeExecution",
        "computerUse",
        "enterpriseWebSearch",
        "fileSearch",
        "googleMaps",
        "googleSearch",
        "googleSearchRetrieval",
        "urlContext",
    }
)
_SYNONYMS = {"parameters": "parametersJsonSchema", "response": "responseJsonSchema"}
"""The fields in OpenAPI's form, and those in JSON Schema: https://ai.google.dev/api/caching#FunctionDeclaration"""


def in_json_schema(declaration: JSON) -> JSON:
    """Returns a declaration with its schemas in JSON Schema, be they in that or in OpenAPI's form."""
    kept = {key: value for key, value in declaration.items() if key not in _SYNONYMS}
    for openapi, json_schema in _SYNONYMS.items():
        written = declaration.get(openapi)
        if isinstance(written, Mapping) and not isinstance(declaration.get(json_schema), Mapping):
            kept[json_schema] = as_json_schema(written)
    return kept


def hosted(tool: JSON) -> str | None:
    """Returns the name in ``{"googleSearch": {}}``; None if the object has any other key."""
    return next(iter(tool)) if tool and tool.keys() <= _HOSTED else None


def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """Returns all declarations in one tool; strict is a mode of the whole request."""
    said: dict[str, Any] = {"tools": [{"functionDeclarations": entries}]}
    if strict:
        # https://ai.google.dev/gemini-api/docs/function-calling#function_calling_modes
        said["toolConfig"] = {"functionCallingConfig": {"mode": "VALIDATED"}}
    return said


DECLARATION = EntryFormat(
    name="gemini.function_declaration",
    schema_at=("parametersJsonSchema",),
    output_at="responseJsonSchema",
    never=frozenset({"type"}),
    bare=True,
    in_own_words=in_json_schema,
)

JSON_SCHEMA = ToolFormat(
    name="gemini.generate_content",
    dialect=GEMINI,
    strict=StrictForm(dialect=GEMINI, said_at="mode `VALIDATED` of the request", whole_request=True),
    names=NAMES,
    function=DECLARATION,
    request=request,
    hosted=hosted,
)

OPENAPI = ToolFormat(
    name="gemini.parameters",
    dialect=GEMINI_OPENAPI,
    strict=StrictForm(dialect=GEMINI_OPENAPI, said_at="mode `VALIDATED` of the request", whole_request=True),
    names=NAMES,
    # 400 otherwise: "parameters.properties: should be non-empty for OBJECT type"
    function=replace(
        DECLARATION, schema_at=("parameters",), schema_optional=True, output_at="response", in_own_words=None
    ),
    request=request,
)

TOOLS = (JSON_SCHEMA, OPENAPI)
