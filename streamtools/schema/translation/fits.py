"""Checks whether a value has the form of an exported schema: its types, keys and constants, not its bounds.

Bounds are left to validation, whose errors give the reason; a number that is out of bounds still belongs to its
alternative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .forms import Definitions, defined, is_closed, kinds_in, of_kind, same, values_in

__all__ = ["Fits"]


class Fits:
    """A test for values, made of a schema in a provider's dialect.

    Args:
        schema: a schema that a build made.
        definitions: the targets of its references; read when a value comes, since not all are known before.
    """

    __slots__ = ("definitions", "schema")

    def __init__(self, schema: Mapping[str, Any], definitions: Definitions) -> None:
        self.schema = schema
        self.definitions = definitions

    def __call__(self, value: Any, found: dict[tuple[int, int], bool]) -> bool:
        """Returns whether the value fits, after at most one look at each part of the value for each part of the schema.

        Args:
            value: the value; it must live as long as `found`, which knows values by their identity.
            found: the known results for parts of the same arguments; more are added.
        """
        return _Fitting(self.definitions, found).fits(self.schema, value)


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
        if kinds is not None and not any(of_kind(value, kind) for kind in kinds):
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
