"""A tool's entry in a request, in each provider's shape, and the request's fields around the entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..tools import Tool

__all__ = ["Parts", "Request", "Shape"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a payload is made of."""

    tool: Tool[..., Any]
    name: str
    description: str
    schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    strict: bool


Shape = Callable[[Parts], dict[str, Any]]
"""A tool's entry."""
Request = Callable[[list[dict[str, Any]], bool], dict[str, Any]]
"""The request's fields; the second argument tells whether any entry is strict."""


def openai_chat(parts: Parts) -> dict[str, Any]:
    """``{"type": "function", "function": {...}}``; Mistral and Ollama take the same."""
    function = _function(parts)
    if parts.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def openai_chat_custom(parts: Parts) -> dict[str, Any]:
    """A freeform tool. https://platform.openai.com/docs/guides/function-calling#custom-tools"""
    custom: dict[str, Any] = {"name": parts.name, "description": parts.description, "format": {"type": "text"}}
    if parts.tool.grammar is not None:
        custom["format"] = {"type": "grammar", "grammar": _grammar(parts)}
    return {"type": "custom", "custom": custom}


def openai_responses(parts: Parts) -> dict[str, Any]:
    """``{"type": "function", "name": ...}``, flat."""
    # Without `strict` the API would try to make the schema strict, and change it:
    # https://platform.openai.com/docs/guides/function-calling#strict-mode
    return {"type": "function", **_function(parts), "strict": parts.strict}


def openai_responses_custom(parts: Parts) -> dict[str, Any]:
    """A freeform tool, flat, its grammar too."""
    form = {"type": "text"} if parts.tool.grammar is None else {"type": "grammar", **_grammar(parts)}
    return {"type": "custom", "name": parts.name, "description": parts.description, "format": form}


def anthropic(parts: Parts) -> dict[str, Any]:
    """``{"name": ..., "input_schema": ...}``."""
    made = {"name": parts.name, "description": parts.description, "input_schema": parts.schema}
    return {**made, "strict": True} if parts.strict else made


def gemini(parts: Parts) -> dict[str, Any]:
    """One of ``functionDeclarations``, in JSON Schema."""
    return {"name": parts.name, "description": parts.description, "parametersJsonSchema": parts.schema}


def gemini_openapi(parts: Parts) -> dict[str, Any]:
    """One of ``functionDeclarations``, in OpenAPI's form."""
    made: dict[str, Any] = {"name": parts.name, "description": parts.description}
    # 400 otherwise: "parameters.properties: should be non-empty for OBJECT type"
    return {**made, "parameters": parts.schema} if parts.schema.get("properties") else made


def bedrock(parts: Parts) -> dict[str, Any]:
    """``{"toolSpec": {...}}``."""
    spec: dict[str, Any] = {"name": parts.name}
    if parts.description:  # the service wants at least one character
        spec["description"] = parts.description
    spec["inputSchema"] = {"json": parts.schema}
    return {"toolSpec": {**spec, "strict": True} if parts.strict else spec}


def cohere(parts: Parts) -> dict[str, Any]:
    """As OpenAI's; strictness is a field of the request."""
    return {"type": "function", "function": _function(parts)}


_HINTS: Mapping[str, Mapping[str, bool]] = {
    "pure": {"readOnlyHint": True},
    "idempotent": {"idempotentHint": True},
    "once": {},
}


def mcp(parts: Parts) -> dict[str, Any]:
    """An entry of ``tools/list``. https://modelcontextprotocol.io/specification/2025-11-25/schema#tool"""
    tool = parts.tool
    made: dict[str, Any] = {"name": parts.name}
    if tool.title is not None:
        made["title"] = tool.title
    made["description"] = parts.description
    made["inputSchema"] = parts.schema
    if parts.output_schema is not None:
        made["outputSchema"] = parts.output_schema
    annotations = {**_HINTS[tool.effect], **tool.annotations}
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


def _function(parts: Parts) -> dict[str, Any]:
    return {"name": parts.name, "description": parts.description, "parameters": parts.schema}


def _grammar(parts: Parts) -> dict[str, str]:
    grammar = parts.tool.grammar
    assert grammar is not None, "only a tool with a grammar is asked for it"
    return {"syntax": grammar.syntax, "definition": grammar.definition}
