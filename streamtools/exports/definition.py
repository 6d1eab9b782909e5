"""`schema`: a function, tool or model as a definition, with one method for each provider's shape."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

from typing_extensions import is_typeddict

from ..tools import Tool
from .exporting import Constraints, export, tool_of
from .making import canonical

__all__ = ["ToolDefinition", "schema"]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool's name, text and schemas, and each provider's shape of them. Made by `schema`.

    The methods give payloads alone. Where `export` says that one needs a way back (strict ones mostly do), send what
    `export_all` gives, and pass that to the pipeline.
    """

    tool: Tool[..., Any]

    @property
    def name(self) -> str:
        """The name under which the model calls it."""
        return self.tool.name

    @property
    def description(self) -> str:
        """What the model reads about it."""
        return self.tool.description

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema 2020-12 of the arguments: a closed object, with ``$schema``; a fresh dict."""
        return canonical(self.tool.schema, self.tool.name)

    def to_json_schema(self) -> dict[str, Any]:
        """``name``, ``description``, ``parameters``, and ``output`` if the tool says what it returns."""
        made = {"name": self.name, "description": self.description, "parameters": self.parameters}
        output = self.tool.output_schema
        return made if output is None else {**made, "output": dict(output)}

    def to_openai(self, *, strict: bool = False) -> dict[str, Any]:
        """For OpenAI's chat completions."""
        return export(self.tool, "openai.chat_completions", strict=strict).payload

    def to_responses(self, *, strict: bool = False) -> dict[str, Any]:
        """For OpenAI's Responses API."""
        return export(self.tool, "openai.responses", strict=strict).payload

    def to_anthropic(self, *, strict: bool = False, constraints: Constraints = "description") -> dict[str, Any]:
        """For Anthropic. Bounds are told in the descriptions, since models read those, unless `constraints` is
        ``keep``."""
        return export(self.tool, "anthropic.messages", strict=strict, constraints=constraints).payload

    def to_mcp(self, *, inline_refs: bool = True) -> dict[str, Any]:
        """For an MCP server's ``tools/list``, with the schema of the result."""
        return export(self.tool, "mcp", inline_refs=inline_refs).payload

    def to_gemini(self) -> dict[str, Any]:
        """For Gemini's ``functionDeclarations``, in OpenAPI's form."""
        return export(self.tool, "gemini.parameters").payload


def schema(of: Tool[..., Any] | Callable[..., Any] | type[Any]) -> ToolDefinition:
    """A tool's definition.

    Args:
        of: a tool; a function, which is made a tool as `streamtools.tool` would; or a pydantic model, dataclass or
            ``TypedDict``, whose fields are the arguments.

    Raises:
        ToolDefinitionError: no tool can be made of it.
    """
    if isinstance(of, Tool):
        return ToolDefinition(of)
    if inspect.isclass(of) and (hasattr(of, "model_fields") or is_dataclass(of) or is_typeddict(of)):
        return ToolDefinition(
            Tool.from_model(of, _returned(of), name=of.__name__, description=inspect.getdoc(of) or "")
        )
    return ToolDefinition(tool_of(of))


def _returned(model: Any) -> Callable[..., Any]:
    """A function of a model that gives the instance back."""

    def returned(value: Any) -> Any:
        return value

    returned.__annotations__ = {"value": model, "return": None}
    return returned
