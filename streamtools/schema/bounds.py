"""Counts the parts of tool schemas that providers limit, and compares the counts with a provider's limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaBound:
    count: str  # the key of the count
    most: int
    what: str  # the counted parts, in the plural, for people


def counts(schema: Mapping[str, Any]) -> Counter[str]:
    """Counts the parts of an exported schema that a provider limits.

    ``properties``, ``optional_properties``, ``unions`` and ``enum_values`` are counted throughout the schema.
    ``characters`` are those of the names of properties and definitions, and of the values of ``enum`` and ``const``;
    ``long_enum`` those of the longest enum of texts among those with more than 250 values. ``depth`` is the levels of
    objects and arrays inside each other, each definition by itself.
    """
    total: Counter[str] = Counter()
    for node, depth in _nodes(schema):
        total.update(_of_node(node))
        total["depth"] = max(total["depth"], depth)
        total["long_enum"] = max(total["long_enum"], _long_enum(node))
    return total


def schema_problem(schema: Mapping[str, Any], bounds: Iterable[SchemaBound]) -> str | None:
    """Returns the reason for which the provider would refuse a strict schema; None if it would not."""
    found = counts(schema)
    for bound in bounds:
        has = found[bound.count]
        if has > bound.most:
            return f"the strict schema has {has} {bound.what}; {bound.most} are allowed"
    return None


def _nodes(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], int]]:
    from .translation.document import subschemas  # wires state their bounds, and count nothing themselves

    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, Mapping):
            yield node, depth
            for place, inner in subschemas(node, ""):
                keyword = place.split("/")[1]
                # Providers count levels without following references, and a union is at its place, not below it.
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
    # OpenAI: 15,000 characters for an enum of more than 250 values.
    values = node.get("enum", ())
    return sum(len(value) for value in values if isinstance(value, str)) if len(values) > 250 else 0
