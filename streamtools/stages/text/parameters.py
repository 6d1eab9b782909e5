"""Reads a parameter's raw text as a string or as JSON, by the tool's schema where the markup does not say which.

The raw text is written by the model between two tags, without quotes. Where the schema allows only strings, the text is
one, whatever it looks like; where the schema allows no string, the text is JSON, or one of Python's ``True``, ``False``
and ``None``, which chat templates write instead. Where the schema allows both, the text is a string, except for
``null``. For a tool whose schema is not known, the text is JSON if it is a whole JSON value other than a string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic_core import from_json

from ...tools import Toolset

__all__ = ["NO_STRING", "STRING", "Types", "as_json", "escaped", "parameter_types"]

Types: TypeAlias = "frozenset[str] | None"
"""The JSON types that a parameter takes; None if they are not known."""

STRING: Types = frozenset({"string"})
NO_STRING: Types = frozenset({"number", "integer", "boolean", "null", "array", "object"})
_ALL = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_MAX_STEPS = 8  # references and branches followed; a schema nested deeper counts as unknown
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_TYPE_OF: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object"
}  # fmt: skip


def parameter_types(tools: Toolset, name: str) -> Mapping[str, Types]:
    """Returns the types that each parameter of a tool takes; empty if the tool's schema is not known."""
    tool = tools.get(name.removeprefix("functions."))
    if tool is None:
        return {}
    schema = tool.schema
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {parameter: _types(inner, schema, _MAX_STEPS) for parameter, inner in properties.items()}


def as_json(text: str, types: Types) -> str:
    """Returns the raw text of a parameter as JSON."""
    bare = text.strip()
    if types is not None and "string" in types:
        return bare if bare == "null" and "null" in types else f'"{escaped(text)}"'
    bare = _PYTHON.get(bare, bare)
    try:
        value = from_json(bare, allow_inf_nan=False)
    except ValueError:
        return f'"{escaped(text)}"'
    return f'"{escaped(text)}"' if isinstance(value, str) else bare


def escaped(text: str) -> str:
    """Returns `text` as it stands inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _types(schema: Any, root: Mapping[str, Any], steps: int) -> Types:
    """Returns the JSON types that a schema takes; None where it does not say."""
    if not isinstance(schema, Mapping) or steps <= 0:
        return None
    if isinstance(reference := schema.get("$ref"), str):
        return _types(_referenced(reference, root), root, steps - 1)
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if isinstance(declared, list):
        return frozenset(name for name in declared if isinstance(name, str))
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return frozenset(_TYPE_OF.get(type(value), "string") for value in values)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(keyword), list):
            found = [_types(branch, root, steps - 1) for branch in branches]
            return frozenset().union(*(_ALL if types is None else types for types in found))
    branches = schema.get("allOf")
    if isinstance(branches, list):
        return next((types for branch in branches if (types := _types(branch, root, steps - 1)) is not None), None)
    return None


def _referenced(reference: str, root: Mapping[str, Any]) -> Any:
    node: Any = root
    for key in reference.removeprefix("#").split("/")[1:]:
        if not isinstance(node, Mapping):
            return None
        node = node.get(key.replace("~1", "/").replace("~0", "~"))
    return node
