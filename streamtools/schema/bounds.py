"""Counts what providers limit in the schemas of tools, and compares it with what one allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .translation.document import subschemas

__all__ = ["Counts", "SchemaBound", "counts", "schema_problem"]


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
class SchemaBound:
    """The most that one schema may have of one of the `Counts`."""

    count: str
    """The field of `Counts`."""
    most: int
    what: str
    """What is counted, in the plural, for people."""


def counts(schema: Mapping[str, Any]) -> Counts:
    """Everything in an exported schema that a provider limits."""
    total = dict.fromkeys(Counts.__slots__, 0)
    for node, depth in _nodes(schema):
        for what, count in _of_node(node).items():
            total[what] += count
        total["depth"] = max(total["depth"], depth)
        total["long_enum"] = max(total["long_enum"], _long_enum(node))
    return Counts(**total)


def schema_problem(schema: Mapping[str, Any], bounds: Iterable[SchemaBound]) -> str | None:
    """Why the provider would refuse a strict schema, if it would."""
    found = counts(schema)
    for bound in bounds:
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
