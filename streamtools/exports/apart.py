"""Whether two exported schemas can have a value in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .forms import Definitions, defined, is_closed, kinds_in, same, values_in

__all__ = ["apart", "types_of"]

ALL = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_NUMBERS = frozenset({"integer", "number"})
MAX_STEPS = 200
"""Pairs of schemas that are looked at before two count as not apart: schemas may refer to themselves."""


def types_of(schema: Mapping[str, Any], definitions: Definitions) -> frozenset[str]:
    """The JSON types that a schema takes; all of them where it cannot be told (yet)."""
    return _types(schema, definitions, set())


def apart(one: Mapping[str, Any], other: Mapping[str, Any], definitions: Definitions) -> bool:
    """True if certainly no value fits both, by types, keys and constants."""
    return _Comparison(definitions).apart(one, other)


class _Comparison:
    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.steps = 0

    def apart(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        self.steps += 1
        if self.steps > MAX_STEPS:
            return False
        for this, that in ((one, other), (other, one)):
            if "$ref" in this:
                meant = defined(this, self.definitions)
                return meant is None or self.apart(meant, that)  # not known yet: the next build knows
            if "anyOf" in this:
                return all(self.apart(branch, that) for branch in this["anyOf"]) and self._null_apart(this, that)
        these, those = types_of(one, self.definitions), types_of(other, self.definitions)
        if not _overlap(these, those):
            return True
        values, rivals = values_in(one), values_in(other)
        if values is not None and rivals is not None:
            return not any(same(value, rival) for value in values for rival in rivals)
        return these == those == {"object"} and self._objects_apart(one, other)

    def _null_apart(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        return not one.get("nullable") or "null" not in types_of(other, self.definitions)

    def _objects_apart(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        for this, that in ((one, other), (other, one)):
            if is_closed(that) and not set(this.get("required", ())) <= that.get("properties", {}).keys():
                return True
        shared = [name for name in one.get("required", ()) if name in other.get("required", ())]
        return any(self.apart(one["properties"][name], other["properties"][name]) for name in shared)


def _types(schema: Mapping[str, Any], definitions: Definitions, seen: set[str]) -> frozenset[str]:
    """`seen` is changed; what was met before adds nothing."""
    if "$ref" in schema:
        meant = defined(schema, definitions)
        if meant is None:
            return ALL
        if schema["$ref"] in seen:
            return frozenset()
        seen.add(schema["$ref"])
        return _types(meant, definitions, seen)
    if "anyOf" in schema:
        found = frozenset[str]().union(*(_types(branch, definitions, seen) for branch in schema["anyOf"]))
        return found | {"null"} if schema.get("nullable") else found
    kinds = kinds_in(schema)
    return ALL if kinds is None else frozenset(kinds)


def _overlap(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one & other) or bool(one & _NUMBERS and other & _NUMBERS)
