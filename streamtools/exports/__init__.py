"""Tools as the providers' requests want them.

`export` computes a provider's shape from the tool's own schema, which stays as it is. What comes back from the model
goes through `Exported.decode` before it is validated against that schema.

    >>> from streamtools import tool
    >>> @tool(effect="pure")
    ... def add(a: int, b: int = 0) -> int:
    ...     \"""Add two numbers.\"""
    ...     return a + b
    >>> export(add, "anthropic.messages").payload["name"]
    'add'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..errors import ExportError
from ..tools import Exported, Tool

__all__ = ["TARGETS", "Exported", "export"]


def export(tool: Tool, target: str) -> Exported:
    """A tool in a provider's own shape.

    Args:
        tool: made by `streamtools.tool`.
        target: the name of the wire that the request goes to; `TARGETS` lists them.

    Raises:
        ExportError: the target is unknown, or it cannot carry this tool.
    """
    render = _RENDERERS.get(target)
    if render is None:
        raise ExportError(f"unknown export target {target!r}; known: {', '.join(TARGETS)}")
    return Exported(tool=tool, target=target, name=tool.name, payload=render(tool, target), decode=dict)


def _openai_chat(tool: Tool, target: str) -> dict[str, Any]:
    # "The name of the function to be called. Must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum
    # length of 64." https://platform.openai.com/docs/api-reference/chat/create
    _require_name(tool, target, r"[a-zA-Z0-9_-]{1,64}")
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


def _anthropic(tool: Tool, target: str) -> dict[str, Any]:
    # The API answers 400 to other names: "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", and to other keys of
    # the outermost object: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
    _require_name(tool, target, r"[a-zA-Z0-9_-]{1,128}")
    schema = tool.schema
    for key in schema["properties"]:
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key):
            allowed = "it takes 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'"
            raise ExportError(
                f"tool {tool.name!r}: {target} does not take the argument name {key!r} ({allowed}); "
                "rename the parameter, or give it another name for the model with Field(alias='...')"
            )
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _responses(tool: Tool, target: str) -> dict[str, Any]:
    # The name as above. Without `strict` the API would try to make the schema strict, and change it:
    # https://platform.openai.com/docs/guides/function-calling#strict-mode
    return {"type": "function", **_openai_chat(tool, target)["function"], "strict": False}


def _gemini(tool: Tool, target: str) -> dict[str, Any]:
    # "Must be a-z, A-Z, 0-9, or contain underscores, colons, dots, and dashes, with a maximum length of 64.", and begin
    # with a letter or an underscore. https://ai.google.dev/api/caching#FunctionDeclaration
    _require_name(tool, target, r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}


def _bedrock(tool: Tool, target: str) -> dict[str, Any]:
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html
    _require_name(tool, target, r"[a-zA-Z0-9_-]{1,64}")
    spec = {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.schema}}
    return {"toolSpec": spec}


def _require_name(tool: Tool, target: str, pattern: str) -> None:
    if not re.fullmatch(pattern, tool.name):
        raise ExportError(
            f"tool {tool.name!r}: {target} does not take this name (it has to match ^{pattern}$); "
            "pass tool(..., name='...')"
        )


_RENDERERS: dict[str, Callable[[Tool, str], dict[str, Any]]] = {
    "openai.chat_completions": _openai_chat,
    "openai.responses": _responses,
    "anthropic.messages": _anthropic,
    "gemini.generate_content": _gemini,
    "mistral.chat": _openai_chat,
    "cohere.chat": _openai_chat,
    "ollama.chat": _openai_chat,
    "bedrock.converse_stream": _bedrock,
}

TARGETS: tuple[str, ...] = tuple(_RENDERERS)
"""The targets that `export` knows."""
