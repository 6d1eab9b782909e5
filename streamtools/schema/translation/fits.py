"""Reads exported schemas: whether a value has the form of one, and whether one value can have the forms of two.

The form is types, keys and constants, not bounds. Those are left to validation, whose errors give the reason; a number
that is out of bounds still belongs to its alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from .plan import Translation

__all__ = ["apart", "fits", "is_of", "kind_of", "types_of"]


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


def kind_of(value: Any) -> str:
    """Returns the JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def is_of(value: Any, kinds: Collection[str]) -> bool:
    """Returns whether a value is of one of the types; 1.0 is an integer, too."""
    kind = kind_of(value)
    whole = isinstance(value, float) and value.is_integer()
    return kind in kinds or (kind == "integer" and "number" in kinds) or (whole and "integer" in kinds)


def fits(schema: Mapping[str, Any], definitions: Definitions, value: Any, found: dict[tuple[int, int], bool]) -> bool:
    """Returns whether a value fits, after at most one look at each part of the value for each part of the schema.

    Args:
        schema: a schema that a build made.
        definitions: the targets of its references; all are known by the time that a value comes.
        value: the value; it must live as long as `found`, which knows values by their identity.
        found: the known results for parts of the same arguments; more are added.
    """
    return _Fitting(definitions, found).fits(schema, value)


class _Fitting:
    """The check of one value. The results for its parts are remembered, or nested unions would multiply the work."""

    def __init__(self, definitions: Definitions, found: dict[tuple[int, int], bool]) -> None:
        self.definitions = definitions
        self.found = found
        self.unions: dict[tuple[int, int], bool] = {}
        """The results of references and unions, which may lead back to themselves: valid only for this one value."""

    def fits(self, schema: Mapping[str, Any], value: Any) -> bool:
        key = (id(schema), id(value))
        found = self.unions if "$ref" in schema or "anyOf" in schema else self.found
        if key not in found:
            found[key] = False  # a schema that leads back to itself accepts nothing in this way
            found[key] = self._fits(schema, value)
        return found[key]

    def _fits(self, schema: Mapping[str, Any], value: Any) -> bool:
        if "$ref" in schema:
            meant = defined(schema, self.definitions)
            assert meant is not None, "every definition is made before values come"
            return self.fits(meant, value)
        if "anyOf" in schema:
            null = value is None and bool(schema.get("nullable"))
            return null or any(self.fits(branch, value) for branch in schema["anyOf"])
        kinds, allowed = kinds_in(schema), values_in(schema)
        if kinds is not None and not is_of(value, kinds):
            return False
        if allowed is not None and not any(same(value, one) for one in allowed):
            return False
        if isinstance(value, dict):
            return self._object_fits(schema, value)
        if isinstance(value, list) and "items" in schema:
            return all(self.fits(schema["items"], item) for item in value)
        return True

    def _object_fits(self, schema: Mapping[str, Any], value: dict[str, Any]) -> bool:
        properties = schema.get("properties", {})
        if not value.keys() >= set(schema.get("required", ())):
            return False
        if is_closed(schema) and not value.keys() <= properties.keys():
            return False
        return all(self.fits(properties[name], inner) for name, inner in value.items() if name in properties)


ALL = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_NUMBERS = frozenset({"integer", "number"})
MAX_STEPS = 200
"""Pairs of schemas that are compared before two count as not apart: schemas may refer to themselves."""


def types_of(schema: Mapping[str, Any], definitions: Definitions) -> frozenset[str]:
    """Returns the JSON types that a schema takes; all of them where they are not known (yet)."""
    return _types(schema, definitions, set())


def apart(one: Mapping[str, Any], other: Mapping[str, Any], definitions: Definitions) -> bool:
    """Returns True if certainly no value fits both, by types, keys and constants."""
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
        if not these & those and not (these & _NUMBERS and those & _NUMBERS):
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
    """Returns the types of a schema; adds to `seen`, whose references add nothing again."""
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
