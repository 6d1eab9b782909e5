"""The built-in accessors and adapters of schemas: each format read once, and written once.

A reader takes any dict and gives None for what is not of its format. A writer copies what it takes over, so that the
source stays as it was authored.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..content import Grammar
from ..errors import ExportError
from ..limits import Limits
from ..schema.openapi import as_json_schema
from ..text import deeper_than
from .contributions import ToolSchemaAccessor, ToolSchemaAdapter
from .formats import (
    ANTHROPIC_TOOL,
    BEDROCK_TOOL,
    BUILT_IN,
    CHAT_CUSTOM,
    CHAT_FUNCTION,
    GEMINI_FUNCTION,
    MCP_TOOL,
    RESPONSES_CUSTOM,
    RESPONSES_FUNCTION,
    raw_formats,
)
from .meanings import InspectedSchema

__all__ = ["SCHEMA_ACCESSORS", "SCHEMA_ADAPTERS", "freeform_parameters", "losses", "require_shallow"]

JSON = Mapping[str, Any]

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_MAX_DEPTH = 4 * Limits().max_schema_depth  # levels of JSON: a subschema may take four (properties, name, anyOf, place)
_INPUT_DESCRIPTION = "The whole input, as plain text."


def require_shallow(schema: InspectedSchema) -> None:
    """Refuse what nobody could copy or write as JSON.

    Raises:
        ExportError: a part of the schema is nested too deep.
    """
    if deeper_than(_MAX_DEPTH, [schema.parameters, schema.output_schema, schema.annotations]):
        raise ExportError(f"tool {schema.tool_name!r}: its schema is nested deeper than {_MAX_DEPTH} levels")


def freeform_parameters(description: str | None) -> dict[str, Any]:
    """The parameters of a freeform tool where it has to be a function: one text, called ``input``."""
    text = {"type": "string", "description": description or _INPUT_DESCRIPTION}
    return {"type": "object", "properties": {"input": text}, "required": ["input"]}


# -- readers -----------------------------------------------------------------------------------------------------------


def _chat_function(schema: JSON) -> InspectedSchema | None:
    body = schema.get("function")
    if not isinstance(body, Mapping):
        return None
    return _function(CHAT_FUNCTION, schema, body, "parameters", strict=body.get("strict"))


def _responses_function(schema: JSON) -> InspectedSchema | None:
    if schema.get("type") != "function":
        return None
    output = schema.get("output_schema")
    return _function(
        RESPONSES_FUNCTION, schema, schema, "parameters", strict=schema.get("strict"), output_schema=output
    )


def _anthropic(schema: JSON) -> InspectedSchema | None:
    if not isinstance(schema.get("input_schema"), Mapping):
        return None
    return _function(ANTHROPIC_TOOL, schema, schema, "input_schema", strict=schema.get("strict"))


def _gemini(schema: JSON) -> InspectedSchema | None:
    if "type" in schema or not schema.keys() & _GEMINI_KEYS:
        return None
    key = "parametersJsonSchema" if "parametersJsonSchema" in schema else "parameters"
    found = _function(GEMINI_FUNCTION, schema, schema, key)
    if found is None:
        return None
    extra = {key: value for key, value in found.extra.items() if key not in _GEMINI_KEYS}
    return replace(
        found,
        extra=extra,
        parameters=as_json_schema(found.parameters) if key == "parameters" else found.parameters,
        output_schema=_gemini_response(schema),
    )


def _gemini_response(schema: JSON) -> JSON | None:
    written = schema.get("responseJsonSchema")
    if isinstance(written, Mapping):
        return written
    return as_json_schema(_mapping(schema.get("response")))


def _mcp(schema: JSON) -> InspectedSchema | None:
    if not isinstance(schema.get("inputSchema"), Mapping):
        return None
    annotations = _mapping(schema.get("annotations"))
    title = schema.get("title") or (annotations or {}).get("title")
    return _function(
        MCP_TOOL,
        schema,
        schema,
        "inputSchema",
        title=title if isinstance(title, str) else None,
        annotations=annotations,
        output_schema=schema.get("outputSchema"),
    )


def _bedrock(schema: JSON) -> InspectedSchema | None:
    body = schema.get("toolSpec")
    if not isinstance(body, Mapping):
        return None
    parameters = _mapping(body.get("inputSchema")) or {}
    found = _function(BEDROCK_TOOL, schema, {**body, "inputSchema": parameters.get("json")}, "inputSchema")
    return None if found is None else replace(found, strict=_flag(body.get("strict")))


def _chat_custom(schema: JSON) -> InspectedSchema | None:
    body = schema.get("custom")
    if schema.get("type") != "custom" or not isinstance(body, Mapping):
        return None
    wrapped = _mapping(body.get("format")) or {}
    return _custom(CHAT_CUSTOM, schema, body, _mapping(wrapped.get("grammar")))


def _responses_custom(schema: JSON) -> InspectedSchema | None:
    if schema.get("type") != "custom" or "custom" in schema or "input_schema" in schema:
        return None
    return _custom(RESPONSES_CUSTOM, schema, schema, _mapping(schema.get("format")))


def _function(format: str, source: JSON, body: JSON, key: str, **more: Any) -> InspectedSchema | None:
    name = body.get("name")
    if not (isinstance(name, str) and name):
        return None
    known = {"type", "function", "name", "description", key, *_TAKEN[format]}
    described = body.get("description")
    return InspectedSchema(
        format=format,
        tool_name=name,
        description=described if isinstance(described, str) else "",
        parameters=_mapping(body.get(key)) or _NO_PARAMETERS,
        strict=_flag(more.get("strict")),
        title=more.get("title"),
        output_schema=_mapping(more.get("output_schema")),
        annotations=more.get("annotations"),
        extra={k: v for k, v in {**source, **body}.items() if k not in known},
        source=source,
    )


def _custom(format: str, source: JSON, body: JSON, grammar: JSON | None) -> InspectedSchema | None:
    name, described = body.get("name"), body.get("description")
    if not (isinstance(name, str) and name):
        return None
    return InspectedSchema(
        format=format,
        tool_name=name,
        kind="custom",
        description=described if isinstance(described, str) else "",
        grammar=_grammar(grammar),
        extra={k: v for k, v in body.items() if k not in ("type", "name", "description", "format")},
        source=source,
    )


def _grammar(found: JSON | None) -> Grammar | None:
    syntax, definition = (found or {}).get("syntax"), (found or {}).get("definition")
    if syntax in ("lark", "regex") and isinstance(definition, str):
        return Grammar(syntax=syntax, definition=definition)
    return None


def _built_in(schema: JSON) -> InspectedSchema | None:
    """Tools that their provider runs: told by how each provider writes them, in the order in which that is sure."""
    type_, name = schema.get("type"), schema.get("name")
    if isinstance(type_, str):
        if isinstance(name, str) and re.search(r"_\d{8}$", type_):  # web_search_20250305
            return _run_by("anthropic.messages", schema, name)
        if type_ not in ("function", "custom"):  # {"type": "web_search"}, {"type": "mcp", "server_label": ...}
            return _run_by("openai.responses", schema, type_)
    elif schema.keys() & _BEDROCK_OWN:
        return _run_by("bedrock.converse_stream", schema, next(iter(schema)))
    elif schema and schema.keys() <= _GEMINI_OWN:
        return _run_by("gemini.generate_content", schema, next(iter(schema)))
    return None


def _run_by(wire: str, schema: JSON, name: str) -> InspectedSchema:
    return InspectedSchema(format=wire + BUILT_IN, tool_name=name, kind="built_in", source=schema)


# -- writers -----------------------------------------------------------------------------------------------------------


def _write_chat_function(schema: InspectedSchema) -> dict[str, Any]:
    strict = {"strict": True} if schema.strict and schema.format in _SHARE_STRICT else {}
    return {"type": "function", "function": {**_said(schema), "parameters": _parameters(schema), **strict}}


def _write_responses_function(schema: InspectedSchema) -> dict[str, Any]:
    # Without `strict` the API would try to make the schema strict, and change it:
    # https://platform.openai.com/docs/guides/function-calling#strict-mode
    strict = bool(schema.strict) and schema.format in _SHARE_STRICT
    output = {"output_schema": copy.deepcopy(dict(schema.output_schema))} if schema.output_schema else {}
    return {"type": "function", **_said(schema), "parameters": _parameters(schema), "strict": strict, **output}


def _write_anthropic(schema: InspectedSchema) -> dict[str, Any]:
    return {**_said(schema), "input_schema": _parameters(schema)}


def _write_gemini(schema: InspectedSchema) -> dict[str, Any]:
    output = {"responseJsonSchema": copy.deepcopy(dict(schema.output_schema))} if schema.output_schema else {}
    return {**_said(schema), "parametersJsonSchema": _parameters(schema), **output}


def _write_mcp(schema: InspectedSchema) -> dict[str, Any]:
    more = {
        "title": schema.title,
        "outputSchema": copy.deepcopy(schema.output_schema),
        "annotations": copy.deepcopy(schema.annotations),
    }
    said = {"inputSchema": _parameters(schema), **{key: value for key, value in more.items() if value}}
    return {**_said(schema), **said}


def _write_bedrock(schema: InspectedSchema) -> dict[str, Any]:
    return {"toolSpec": {**_said(schema), "inputSchema": {"json": _parameters(schema)}}}


def _write_chat_custom(schema: InspectedSchema) -> dict[str, Any]:
    body = _freeform(schema)
    if schema.grammar is not None:
        body["format"] = {"type": "grammar", "grammar": _written(schema.grammar)}
    return {"type": "custom", "custom": body}


def _write_responses_custom(schema: InspectedSchema) -> dict[str, Any]:
    body = _freeform(schema)
    if schema.grammar is not None:
        body["format"] = {"type": "grammar", **_written(schema.grammar)}
    return {"type": "custom", **body}


def _freeform(schema: InspectedSchema) -> dict[str, Any]:
    """Name and text of a tool that takes one text: a custom one, or a function whose only parameter is that."""
    if schema.kind != "custom" and not _takes_one_text(schema.parameters or {}):
        raise ExportError(
            f"tool {schema.tool_name!r} takes an object, which a custom tool cannot; accept a format of functions too"
        )
    return _said(schema)


def _takes_one_text(parameters: JSON) -> bool:
    properties = _mapping(parameters.get("properties")) or {}
    only = _mapping(properties.get("input"))
    one = only is not None and properties.keys() == {"input"} and parameters.get("required") == ["input"]
    return one and only is not None and only.keys() <= {"type", "description", "title"} and only["type"] == "string"


def _said(schema: InspectedSchema) -> dict[str, Any]:
    return {"name": schema.tool_name, **({"description": schema.description} if schema.description else {})}


def _parameters(schema: InspectedSchema) -> dict[str, Any]:
    if schema.kind == "custom":
        return freeform_parameters(schema.input_description)
    return copy.deepcopy(dict(schema.parameters or _NO_PARAMETERS))


def _written(grammar: Grammar) -> dict[str, str]:
    return {"syntax": grammar.syntax, "definition": grammar.definition}


# -- what gets lost ----------------------------------------------------------------------------------------------------


def losses(schema: InspectedSchema, format: str) -> tuple[str, ...]:
    """What of a schema another format cannot say, one line each."""
    return tuple(_lost(schema, format))


def _lost(schema: InspectedSchema, format: str) -> Iterator[str]:
    if schema.grammar is not None and format not in raw_formats():
        yield f"grammar ({schema.grammar.syntax}): the model is not held to it"
    if schema.strict and not (schema.format in _SHARE_STRICT and format in _SHARE_STRICT):
        yield "strict: each provider has rules of its own for it"
    if schema.output_schema and format not in _CARRIES_OUTPUT:
        yield "output schema"
    if (schema.title or schema.annotations) and format != MCP_TOOL:
        yield "title and annotations"
    if schema.extra:
        yield f"fields of {schema.format} alone: {', '.join(sorted(schema.extra))}"


# -- tables ------------------------------------------------------------------------------------------------------------

_SHARE_STRICT = frozenset({CHAT_FUNCTION, RESPONSES_FUNCTION})
_CARRIES_OUTPUT = frozenset({MCP_TOOL, RESPONSES_FUNCTION, GEMINI_FUNCTION})
# https://ai.google.dev/api/caching#FunctionDeclaration and #Tool (read 2026-11-21)
_GEMINI_KEYS = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"}
)
_GEMINI_OWN = frozenset(
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
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Tool.html (read 2026-11-21)
_BEDROCK_OWN = frozenset({"systemTool", "cachePoint"})
_TAKEN: Mapping[str, frozenset[str]] = {
    CHAT_FUNCTION: frozenset({"strict"}),
    RESPONSES_FUNCTION: frozenset({"strict", "output_schema"}),
    ANTHROPIC_TOOL: frozenset({"strict"}),
    GEMINI_FUNCTION: frozenset({"parametersJsonSchema"}),
    MCP_TOOL: frozenset({"title", "annotations", "outputSchema"}),
    BEDROCK_TOOL: frozenset({"strict", "toolSpec"}),
}

# The order matters: what is sure comes first, and the bare shapes of Gemini last.
SCHEMA_ACCESSORS = (
    ToolSchemaAccessor(CHAT_CUSTOM, _chat_custom),
    ToolSchemaAccessor(CHAT_FUNCTION, _chat_function),
    ToolSchemaAccessor(RESPONSES_FUNCTION, _responses_function),
    ToolSchemaAccessor(ANTHROPIC_TOOL, _anthropic),
    ToolSchemaAccessor(RESPONSES_CUSTOM, _responses_custom),
    ToolSchemaAccessor(BEDROCK_TOOL, _bedrock),
    ToolSchemaAccessor(MCP_TOOL, _mcp),
    ToolSchemaAccessor(BUILT_IN, _built_in),
    ToolSchemaAccessor(GEMINI_FUNCTION, _gemini),
)

SCHEMA_ADAPTERS = (
    ToolSchemaAdapter(CHAT_FUNCTION, _write_chat_function),
    ToolSchemaAdapter(CHAT_CUSTOM, _write_chat_custom),
    ToolSchemaAdapter(RESPONSES_FUNCTION, _write_responses_function),
    ToolSchemaAdapter(RESPONSES_CUSTOM, _write_responses_custom),
    ToolSchemaAdapter(ANTHROPIC_TOOL, _write_anthropic),
    ToolSchemaAdapter(GEMINI_FUNCTION, _write_gemini),
    ToolSchemaAdapter(MCP_TOOL, _write_mcp),
    ToolSchemaAdapter(BEDROCK_TOOL, _write_bedrock),
)


def _mapping(value: object) -> JSON | None:
    return value if isinstance(value, Mapping) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
