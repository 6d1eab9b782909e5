"""What a provider takes at most: of one strict schema, and of all tools of a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .keywords import Column
from .translation.document import subschemas

__all__ = ["REQUEST_LIMITS", "Counts", "RequestLimits", "counts", "schema_problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The most that the tools of one request may have together. None: no limit. Pass your own to `export_all` where
    your endpoint takes more or less."""

    tools: int | None = None
    """Tools, strict or not."""
    strict_tools: int | None = None
    optional_properties: int | None = None
    """Properties that may be left out, of all strict tools."""
    unions: int | None = None
    """Places with several types (``anyOf`` or a list of types), of all strict tools."""
    properties: int | None = None
    """Properties of all strict tools."""


_OPENAI = RequestLimits(tools=128)  # https://platform.openai.com/docs/api-reference/chat/create
_ANTHROPIC = RequestLimits(strict_tools=20, optional_properties=24, unions=16)
REQUEST_LIMITS: Mapping[str, RequestLimits] = {
    "openai.chat_completions": _OPENAI,
    "openai.responses": _OPENAI,
    # https://docs.claude.com/en/docs/build-with-claude/structured-outputs#schema-complexity-limits
    "anthropic.messages": _ANTHROPIC,
    "bedrock.converse_stream": _ANTHROPIC,
    # "you can define a maximum of 200 fields across all tools": https://docs.cohere.com/docs/tool-use-parameter-types
    "cohere.chat": RequestLimits(properties=200),
}
"""By target; one without an entry has no limits that are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a schema has of all that is limited."""

    properties: int = 0
    optional_properties: int = 0
    unions: int = 0
    depth: int = 0
    """Levels of objects and arrays inside each other, each definition by itself."""
    enum_values: int = 0
    long_enum: int = 0
    """Characters of the longest enum of texts among those with more than 250 values."""
    characters: int = 0
    """Of the names of properties and definitions, and of the values of ``enum`` and ``const``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    count: str
    most: int
    what: str


# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
_OPENAI_STRICT = (
    _Bound(count="properties", most=5000, what="properties"),
    _Bound(count="depth", most=10, what="levels of nesting"),
    _Bound(count="enum_values", most=1000, what="enum values"),
    _Bound(count="long_enum", most=15_000, what="characters in one enum of more than 250 values"),
    _Bound(count="characters", most=120_000, what="characters of names and enum values"),
)
_SCHEMA_BOUNDS: Mapping[Column, tuple[_Bound, ...]] = {"openai_strict": _OPENAI_STRICT}


def counts(schema: Mapping[str, Any]) -> Counts:
    """Everything in an exported schema that a provider limits."""
    total = dict.fromkeys(Counts.__slots__, 0)
    for node, depth in _nodes(schema):
        for what, count in _of_node(node).items():
            total[what] += count
        total["depth"] = max(total["depth"], depth)
        total["long_enum"] = max(total["long_enum"], _long_enum(node))
    return Counts(**total)


def schema_problem(schema: Mapping[str, Any], column: Column) -> str | None:
    """What the provider would refuse a strict schema for, if anything."""
    found = counts(schema)
    for bound in _SCHEMA_BOUNDS.get(column, ()):
        has = getattr(found, bound.count)
        if has > bound.most:
            return f"the strict schema has {has} {bound.what}, of which {bound.most} are allowed"
    return None


def _nodes(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], int]]:
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, Mapping):
            yield node, depth
            for place, inner in subschemas(node, ""):
                keyword = place.split("/")[1]
                deeper = {"$defs": 1, "anyOf": depth}.get(keyword, depth + 1)
                waiting.append((inner, deeper))


def _of_node(node: Mapping[str, Any]) -> dict[str, int]:
    properties = node.get("properties", {})
    constants = [node["const"]] if "const" in node else []
    texts = [value for value in (*node.get("enum", ()), *constants) if isinstance(value, str)]
    return {
        "properties": len(properties),
        "optional_properties": len(properties) - len(node.get("required", ())) if properties else 0,
        "unions": int("anyOf" in node or isinstance(node.get("type"), list)),
        "enum_values": len(node.get("enum", ())),
        "characters": sum(map(len, (*properties, *node.get("$defs", {}), *texts))),
    }


def _long_enum(node: Mapping[str, Any]) -> int:
    values = node.get("enum", ())
    return sum(len(value) for value in values if isinstance(value, str)) if len(values) > 250 else 0
