"""A tool's entry in a request, in each provider's shape, and the request's fields around the entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..content import Grammar

__all__ = ["Request", "Shape", "ToolEntry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """A tool as plain values, for a provider's entry."""

    name: str
    description: str
    schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    strict: bool = False
    effect: str = "once"
    title: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    grammar: Grammar | None = None


Shape = Callable[[ToolEntry], dict[str, Any]]
"""A tool's entry."""
Request = Callable[[list[dict[str, Any]], bool], dict[str, Any]]
"""The request's fields; the second argument tells whether any entry is strict."""


def openai_chat(entry: ToolEntry) -> dict[str, Any]:
    """``{"type": "function", "function": {...}}``; Mistral and Ollama take the same."""
    function = _function(entry)
    if entry.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def openai_chat_custom(entry: ToolEntry) -> dict[str, Any]:
    """A freeform tool. https://platform.openai.com/docs/guides/function-calling#custom-tools"""
    custom: dict[str, Any] = {"name": entry.name, "description": entry.description, "format": {"type": "text"}}
    if entry.grammar is not None:
        custom["format"] = {"type": "grammar", "grammar": _grammar(entry)}
    return {"type": "custom", "custom": custom}


def openai_responses(entry: ToolEntry) -> dict[str, Any]:
    """``{"type": "function", "name": ...}``, flat."""
    # Without `strict` the API would try to make the schema strict, and change it:
    # https://platform.openai.com/docs/guides/function-calling#strict-mode
    return {"type": "function", **_function(entry), "strict": entry.strict}


def openai_responses_custom(entry: ToolEntry) -> dict[str, Any]:
    """A freeform tool, flat, its grammar too."""
    form = {"type": "text"} if entry.grammar is None else {"type": "grammar", **_grammar(entry)}
    return {"type": "custom", "name": entry.name, "description": entry.description, "format": form}


def anthropic(entry: ToolEntry) -> dict[str, Any]:
    """``{"name": ..., "input_schema": ...}``."""
    made = {"name": entry.name, "description": entry.description, "input_schema": entry.schema}
    return {**made, "strict": True} if entry.strict else made


def gemini(entry: ToolEntry) -> dict[str, Any]:
    """One of ``functionDeclarations``, in JSON Schema."""
    return {"name": entry.name, "description": entry.description, "parametersJsonSchema": entry.schema}


def gemini_openapi(entry: ToolEntry) -> dict[str, Any]:
    """One of ``functionDeclarations``, in OpenAPI's form."""
    made: dict[str, Any] = {"name": entry.name, "description": entry.description}
    # 400 otherwise: "parameters.properties: should be non-empty for OBJECT type"
    return {**made, "parameters": entry.schema} if entry.schema.get("properties") else made


def bedrock(entry: ToolEntry) -> dict[str, Any]:
    """``{"toolSpec": {...}}``."""
    spec: dict[str, Any] = {"name": entry.name}
    if entry.description:  # the service wants at least one character
        spec["description"] = entry.description
    spec["inputSchema"] = {"json": entry.schema}
    return {"toolSpec": {**spec, "strict": True} if entry.strict else spec}


def cohere(entry: ToolEntry) -> dict[str, Any]:
    """As OpenAI's; strictness is a field of the request."""
    return {"type": "function", "function": _function(entry)}


_HINTS: Mapping[str, Mapping[str, bool]] = {
    "pure": {"readOnlyHint": True},
    "idempotent": {"idempotentHint": True},
    "once": {},
}


def mcp(entry: ToolEntry) -> dict[str, Any]:
    """An entry of ``tools/list``. https://modelcontextprotocol.io/specification/2025-11-25/schema#tool"""
    made: dict[str, Any] = {"name": entry.name}
    if entry.title is not None:
        made["title"] = entry.title
    made["description"] = entry.description
    made["inputSchema"] = entry.schema
    if entry.output_schema is not None:
        made["outputSchema"] = entry.output_schema
    annotations = {**_HINTS[entry.effect], **entry.annotations}
    return {**made, "annotations": annotations} if annotations else made


def tools_field(payloads: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """``tools``, as most have it."""
    return {"tools": payloads}


def gemini_request(payloads: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """All declarations in one tool; strict is a mode of the whole request."""
    request: dict[str, Any] = {"tools": [{"functionDeclarations": payloads}]}
    if strict:
        # https://ai.google.dev/gemini-api/docs/function-calling#function_calling_modes
        request["toolConfig"] = {"functionCallingConfig": {"mode": "VALIDATED"}}
    return request


def bedrock_request(payloads: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """``toolConfig``."""
    return {"toolConfig": {"tools": payloads}}


def cohere_request(payloads: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """``tools``, and ``strict_tools``. https://docs.cohere.com/docs/tool-use-parameter-types"""
    return {"tools": payloads, "strict_tools": True} if strict else {"tools": payloads}


def _function(entry: ToolEntry) -> dict[str, Any]:
    return {"name": entry.name, "description": entry.description, "parameters": entry.schema}


def _grammar(entry: ToolEntry) -> dict[str, str]:
    grammar = entry.grammar
    assert grammar is not None, "only a tool with a grammar is asked for it"
    return {"syntax": grammar.syntax, "definition": grammar.definition}
