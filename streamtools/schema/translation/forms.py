"""Determines the form of a JSON value: its type, and whether two values are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .said import Translation

__all__ = ["Definitions", "defined", "is_closed", "kinds_in", "of_kind", "same", "values_in"]

Definitions = Callable[[str], Translation | None]
"""The definitions of an exported schema by name; None for one that is not known yet."""


def defined(schema: Mapping[str, Any], definitions: Definitions) -> dict[str, Any] | None:
    """Returns the target of an exported schema's reference."""
    said = definitions(schema["$ref"].rpartition("/")[2])
    return None if said is None else said.schema


def kinds_in(schema: Mapping[str, Any]) -> list[str] | None:
    """Returns the types that an exported schema names; None if it names none."""
    kinds = schema.get("type")
    if kinds is None:
        return None
    return [*([kinds] if isinstance(kinds, str) else kinds), *(["null"] if schema.get("nullable") else [])]


def values_in(schema: Mapping[str, Any]) -> list[Any] | None:
    """Returns the values that an exported schema lists; None if it lists none."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    if values is None:
        return None
    return [*values, None] if schema.get("nullable") else list(values)


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Returns whether an exported object takes its own properties only. An object that lists properties without
    mentioning others does: a model is asked for no others."""
    return schema.get("additionalProperties", not schema.get("properties")) is False


def same(one: Any, other: Any) -> bool:
    """Returns whether two plain JSON values are equal: 1 is 1.0, but not true."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def of_kind(value: Any, kind: str) -> bool:
    """Returns whether a value is of a JSON type; 1.0 is an integer, too."""
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)
