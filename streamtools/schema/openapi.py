"""Reads Gemini's ``parameters`` as JSON Schema.

Gemini describes a function's parameters by a subset of OpenAPI 3.0, where types are in capitals and null is a flag:
``{"type": "STRING", "nullable": true}`` is ``{"type": ["string", "null"]}``. Source:
https://ai.google.dev/api/caching#Schema (read 2026-11-21).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["as_json_schema"]

_MAX_DEPTH = 64  # levels; deeper ones stay as they are, and whoever validates the schema refuses them
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_DROPPED = frozenset({"nullable", "propertyOrdering"})


def as_json_schema(schema: Mapping[str, Any] | None, depth: int = 0) -> dict[str, Any] | None:
    """Returns the same in JSON Schema; None stays None. The source is not changed."""
    if schema is None:
        return None
    if depth >= _MAX_DEPTH:
        return dict(schema)
    translated = {key: _translated(key, value, depth) for key, value in schema.items() if key not in _DROPPED}
    return _nullable(translated) if schema.get("nullable") is True else translated


def _translated(key: str, value: Any, depth: int) -> Any:
    if key == "type" and isinstance(value, str):
        return value.lower()
    if key in _COUNTS and isinstance(value, str) and value.isdecimal():  # int64 is a string in Google's JSON
        return int(value)
    if key in ("items", "additionalProperties") and isinstance(value, Mapping):
        return as_json_schema(value, depth + 1)
    if key in ("properties", "$defs", "defs") and isinstance(value, Mapping):
        return {name: _inner(child, depth) for name, child in value.items()}
    if key in ("anyOf", "prefixItems") and isinstance(value, list):
        return [_inner(child, depth) for child in value]
    return value


def _inner(value: Any, depth: int) -> Any:
    return as_json_schema(value, depth + 1) if isinstance(value, Mapping) else value


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("type"), str):
        enum = {"enum": [*schema["enum"], None]} if isinstance(schema.get("enum"), list) else {}
        return {**schema, "type": [schema["type"], "null"], **enum}
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return schema
