"""What OpenAI documents as the subset of JSON Schema for strict tools, as a lint.

https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KEYWORDS = {
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "format", "items", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum",
    "multipleOf", "pattern", "properties", "required", "type",
}  # fmt: skip
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def problems(root: dict[str, Any]) -> list[str]:
    """One line for each violation."""
    found = list(_problems(root, root, "#", 0))
    if root.get("type") != "object" or "anyOf" in root:
        found.append("#: not a plain object")
    return found


def _problems(node: Any, root: dict[str, Any], place: str, depth: int) -> Iterator[str]:
    if not isinstance(node, dict):
        yield f"{place}: no object"
        return
    yield from (f"{place}: {keyword}" for keyword in node if keyword not in KEYWORDS)
    if depth > 10:
        yield f"{place}: too deep"
    if "$ref" in node:
        if len(node) > 1 or node["$ref"].removeprefix("#/$defs/") not in root.get("$defs", {}):
            yield f"{place}: a reference with siblings, or to nothing"
    elif "anyOf" not in node and "type" not in node:
        yield f"{place}: no type"
    if "object" in _kinds(node) and (
        node.get("additionalProperties") is not False or sorted(node["required"]) != sorted(node["properties"])
    ):
        yield f"{place}: open, or with a property that is not required"
    if "array" in _kinds(node) and "items" not in node:
        yield f"{place}: no items"
    if node.get("format", "date") not in FORMATS:
        yield f"{place}: format {node['format']}"
    for keyword in ("properties", "$defs"):
        for name, inner in node.get(keyword, {}).items():
            yield from _problems(inner, root, f"{place}/{keyword}/{name}", 1 if keyword == "$defs" else depth + 1)
    for number, inner in enumerate(node.get("anyOf", ())):
        yield from _problems(inner, root, f"{place}/anyOf/{number}", depth)
    if "items" in node:
        yield from _problems(node["items"], root, f"{place}/items", depth + 1)


def _kinds(node: dict[str, Any]) -> list[str]:
    kinds = node.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds
