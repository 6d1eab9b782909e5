"""The targets: for each its dialects of JSON Schema, its rule for names, and the shape of a tool in its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import ExportError
from ..schema.keywords import Column
from ..schema.names import NameRule
from . import shapes
from .shapes import Request, Shape

__all__ = ["ALIASES", "ALL_TARGETS", "STRICT", "STRICT_TARGETS", "TARGETS", "Target", "find"]

STRICT = ".strict"
"""Behind a target's name: its strict form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One place that a tool can be exported to."""

    name: str
    column: Column
    """The dialect of its schemas."""
    strict: Column | None = None
    """The dialect of its strict form; None if it has none."""
    strict_at: str = "none"
    """Where a request says that it is strict, for people."""
    strict_request: bool = False
    """Strictness is a matter of the whole request."""
    strict_wants_required: bool = False
    """A strict tool has to have a property that is required."""
    names: NameRule | None
    """The tool names that it takes; None takes all."""
    shape: Shape
    """The payload of a function."""
    custom: Shape | None = None
    """The payload of a freeform tool; None makes it a function with one text."""
    request: Request = shapes.tools_field
    """The fields of a request with such payloads."""
    schema_at: tuple[str, ...]
    """Where in the payload the schema stands."""
    outputs: bool = False
    """The payload tells the schema of the result, a title and annotations, too."""


# "The name of the function to be called. Must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum
# length of 64." https://platform.openai.com/docs/api-reference/chat/create . Mistral and Cohere take the same, as does
# Bedrock: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html
_PLAIN = NameRule("a-zA-Z0-9_-", "a-zA-Z0-9_-", 64)
# 400 otherwise: "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'".
_ANTHROPIC = NameRule("a-zA-Z0-9_-", "a-zA-Z0-9_-", 128)
# 400 otherwise: "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots
# (.), colons (:), or dashes (-), with a maximum length of 64."
_GEMINI = NameRule("a-zA-Z_", "a-zA-Z0-9_.:-", 64)
# https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names
_MCP = NameRule("a-zA-Z0-9_.-", "a-zA-Z0-9_.-", 128)

ALL_TARGETS: tuple[Target, ...] = (
    Target(
        name="openai.chat_completions",
        column="openai",
        strict="openai_strict",
        strict_at="`strict` of the function",
        names=_PLAIN,
        shape=shapes.openai_chat,
        custom=shapes.openai_chat_custom,
        schema_at=("function", "parameters"),
    ),
    Target(
        name="openai.responses",
        column="openai",
        strict="openai_strict",
        strict_at="`strict`, always said",
        names=_PLAIN,
        shape=shapes.openai_responses,
        custom=shapes.openai_responses_custom,
        schema_at=("parameters",),
    ),
    Target(
        name="anthropic.messages",
        column="anthropic",
        strict="anthropic_strict",
        strict_at="`strict`",
        names=_ANTHROPIC,
        shape=shapes.anthropic,
        schema_at=("input_schema",),
    ),
    Target(
        name="gemini.generate_content",
        column="gemini",
        strict="gemini",
        strict_at="mode `VALIDATED` of the request",
        strict_request=True,
        names=_GEMINI,
        shape=shapes.gemini,
        request=shapes.gemini_request,
        schema_at=("parametersJsonSchema",),
    ),
    Target(
        name="gemini.parameters",
        column="gemini_openapi",
        strict="gemini_openapi",
        strict_at="mode `VALIDATED` of the request",
        strict_request=True,
        names=_GEMINI,
        shape=shapes.gemini_openapi,
        request=shapes.gemini_request,
        schema_at=("parameters",),
    ),
    Target(name="mcp", column="mcp", names=_MCP, shape=shapes.mcp, schema_at=("inputSchema",), outputs=True),
    Target(
        name="bedrock.converse_stream",
        column="plain",
        strict="bedrock_strict",
        strict_at="`strict` of the `toolSpec`",
        names=_PLAIN,
        shape=shapes.bedrock,
        request=shapes.bedrock_request,
        schema_at=("toolSpec", "inputSchema", "json"),
    ),
    Target(
        name="mistral.chat",
        column="plain",
        strict="openai_strict",
        strict_at="`strict` of the function",
        names=_PLAIN,
        shape=shapes.openai_chat,
        schema_at=("function", "parameters"),
    ),
    Target(
        name="cohere.chat",
        column="plain",
        strict="openai_strict",
        strict_at="`strict_tools` of the request",
        strict_request=True,
        strict_wants_required=True,  # https://docs.cohere.com/docs/tool-use-parameter-types
        names=_PLAIN,
        shape=shapes.cohere,
        request=shapes.cohere_request,
        schema_at=("function", "parameters"),
    ),
    Target(
        name="ollama.chat",
        column="ollama",
        names=None,
        shape=shapes.openai_chat,
        schema_at=("function", "parameters"),
    ),
)
"""Every target, in the order of the tables."""

_BY_NAME: Mapping[str, Target] = {target.name: target for target in ALL_TARGETS}

TARGETS: tuple[str, ...] = tuple(_BY_NAME)
"""The targets that `export` knows."""

STRICT_TARGETS: tuple[str, ...] = tuple(target.name for target in ALL_TARGETS if target.strict is not None)
"""Those that have a strict form."""

ALIASES: Mapping[str, str] = {
    "openai": "openai.chat_completions",
    "responses": "openai.responses",
    "anthropic": "anthropic.messages",
    "gemini": "gemini.generate_content",
    "bedrock": "bedrock.converse_stream",
    "mistral": "mistral.chat",
    "cohere": "cohere.chat",
    "ollama": "ollama.chat",
}
"""Short names for the command line; nothing else takes them."""


def find(name: str, strict: bool) -> tuple[Target, bool]:
    """The target of a name, and whether its strict form is meant: asked for, or written behind the name.

    Raises:
        ExportError: there is no such target, or it has no strict form.
    """
    plain = name.removesuffix(STRICT)
    strict = strict or plain != name
    target = _BY_NAME.get(plain)
    if target is None:
        meant = f"write {ALIASES[plain]!r}; " if plain in ALIASES else ""
        raise ExportError(f"unknown export target {name!r}; {meant}known: {', '.join(TARGETS)}")
    if strict and target.strict is None:
        raise ExportError(f"{plain} has no strict form; these have: {', '.join(STRICT_TARGETS)}")
    return target, strict
