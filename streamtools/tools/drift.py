"""Where a hand-written schema and the signature of its function disagree: `Tool.check`."""

from __future__ import annotations

import types
from collections.abc import Mapping
from inspect import Parameter
from typing import Annotated, Any, Union, get_args, get_origin

from .placement import Placement

__all__ = ["drift"]

_JSON_TYPES: Mapping[Any, frozenset[str]] = {
    str: frozenset({"string"}),
    int: frozenset({"integer"}),
    float: frozenset({"number", "integer"}),
    bool: frozenset({"boolean"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    type(None): frozenset({"null"}),
}
"""What a simple type takes of JSON."""


def drift(schema: Mapping[str, Any], placement: Placement) -> list[str]:
    """One line per disagreement, in the order of the signature; empty if there is none.

    Only what both sides say plainly is compared: names, what is required, and types that are simple on both sides.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    required = schema.get("required", [])
    lines: list[str] = []
    for parameter in placement.named:
        name = parameter.name
        if name not in properties:
            lines.append(f"{name}: is a parameter of the function, and missing in the schema")
        else:
            lines.extend(_disagreements(parameter, properties[name], in_required=name in required))
    if placement.var_keyword is None:
        names = {parameter.name for parameter in placement.named}
        superfluous = (name for name in properties if name not in names)
        lines.extend(f"{name}: is in the schema, and no parameter of the function" for name in superfluous)
    return lines


def _disagreements(parameter: Parameter, described: Any, *, in_required: bool) -> list[str]:
    name, needed = parameter.name, parameter.default is Parameter.empty
    lines = []
    if needed and not in_required:
        lines.append(f"{name}: is required by the function, and optional in the schema")
    elif in_required and not needed:
        lines.append(f"{name}: is required in the schema, and optional for the function")
    takes = _takes(parameter.annotation)
    given = described.get("type") if isinstance(described, Mapping) else None
    types_given = {given} if isinstance(given, str) else set(given) if isinstance(given, (list, tuple)) else set()
    if takes and not types_given <= takes:
        lines.append(f"{name}: is {_spelled(types_given)} in the schema, and {_spelled(takes)} for the function")
    return lines


def _takes(annotation: Any) -> frozenset[str]:
    """The JSON types that a simple annotation takes; empty if it is not simple."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _takes(get_args(annotation)[0])
    if origin is Union or origin is types.UnionType:
        members = [_takes(member) for member in get_args(annotation)]
        return frozenset[str]().union(*members) if all(members) else frozenset()
    return _JSON_TYPES.get(origin or annotation, frozenset())


def _spelled(names: set[str] | frozenset[str]) -> str:
    return " or ".join(sorted(names))
