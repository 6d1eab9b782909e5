"""Translates strings, numbers, booleans and null; values of an ``enum``; and values of no declared type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..dialects import Action
from .document import ANNOTATIONS, KEYWORDS_OF
from .fits import is_of, kind_of
from .plan import JsonText, Translation
from .state import Build

__all__ = [
    "SILENT",
    "data",
    "kinds_of",
    "may_stay_together",
    "say",
    "takes_anything",
    "untyped",
    "values_of",
]

_BOUNDS = frozenset[str]().union(*KEYWORDS_OF.values())
JSON_TEXT = "any JSON value, written as JSON text"

_INFERRED = (
    ("object", ("properties", "additionalProperties", "patternProperties", "propertyNames", "required")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    ("string", ("pattern", "minLength", "maxLength")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)


SILENT = ANNOTATIONS | {"$comment", "$schema", "$id", "$anchor", "$dynamicAnchor"}
"""Keywords that demand nothing of a value, including those that only name things."""


def values_of(node: Mapping[str, Any]) -> list[Any] | None:
    """Returns the values that ``const`` or ``enum`` allow; None without either."""
    if "const" in node:
        return [node["const"]]
    values = node.get("enum")
    return list(values) if isinstance(values, list) else None


def takes_anything(node: Any) -> bool:
    """Returns whether a subschema demands nothing; a reference or a union may also demand nothing."""
    return node is True or (isinstance(node, Mapping) and node.keys() <= SILENT)


def kinds_of(node: Mapping[str, Any]) -> list[str]:
    """Returns the types of a schema without references and unions; without ``type``, those of its values, or those that
    its keywords concern. Empty if none of these shows a type."""
    declared = node.get("type")
    kinds: list[str] = [declared] if isinstance(declared, str) else list(dict.fromkeys(declared or ()))
    values = values_of(node)
    if values is not None and kinds:
        return [kind for kind in kinds if any(is_of(value, [kind]) for value in values)] or kinds
    if values is not None:
        found = list(dict.fromkeys(map(kind_of, values)))
        return [kind for kind in found if kind != "integer" or "number" not in found]
    if kinds:
        return kinds
    return [kind for kind, keywords in _INFERRED if any(keyword in node for keyword in keywords)]


def may_stay_together(build: Build, node: Mapping[str, Any], kinds: Iterable[str]) -> bool:
    """Returns whether several types can stay side by side in one schema."""
    if build.dialect.rewrites("(type list)") or {"object", "array"}.intersection(kinds):
        return False
    return all(type(value) in build.dialect.enums for value in values_of(node) or ())


def say(build: Build, node: Mapping[str, Any], kinds: list[str], place: str) -> Translation:
    """Translates a schema of one or more plain types."""
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    values = values_of(node)
    notes: dict[str, Any] = {}
    if values is not None and kinds != ["null"]:
        values = [value for value in values if is_of(value, kinds)]
        if not values:
            raise build.refused(place, "none of its values is of its type, so no call could be right")
        if not all(type(value) in build.dialect.enums for value in values):
            notes["enum"] = values
        elif "const" in node and build.dialect.action("const") is Action.KEEP:
            schema["const"] = values[0]
        else:
            schema["enum"] = values
    return Translation(build.finish(node, schema, place, kinds=kinds, notes=notes))


def untyped(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates a schema that takes a value of any type."""
    if values_of(node) is not None:
        raise build.refused(place, "its enum is empty, so no call could be right")
    if not build.dialect.rewrites("(no type)"):
        return Translation(build.finish(node, {}, place, kinds=KEYWORDS_OF))
    # Bounds of the value are no bounds of the text that it is written in.
    notes = {keyword: value for keyword, value in node.items() if keyword in _BOUNDS}
    return Translation(build.finish(node, {"type": "string"}, place, notes=notes, more=[JSON_TEXT]), JsonText())


def data(build: Build, node: Mapping[str, Any], kind: str, place: str) -> Translation:
    """Translates an object or array whose values ``const`` or ``enum`` lists."""
    notes = {"enum": [value for value in values_of(node) or () if is_of(value, [kind])]}
    if not build.dialect.rewrites("(no type)"):
        return Translation(build.finish(node, {"type": kind}, place, notes=notes))
    return Translation(build.finish(node, {"type": "string"}, place, notes=notes, more=[JSON_TEXT]), JsonText())
