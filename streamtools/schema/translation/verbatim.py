"""Copies a schema as it was written, except for single keywords and those that the outermost object must not have."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..dialects import Action, Dialect
from .document import (
    ANNOTATIONS,
    DEFINITIONS,
    KEYWORDS_OF,
    REFERENCES,
    SchemaDocument,
    mapped,
    pointer,
    reference_of,
    without,
)
from .merge import Lose, is_union, outermost
from .notes import TOLD, described
from .plan import Fields, Plan, Property

__all__ = ["inlined", "verbatim"]

_BOUNDS = frozenset[str]().union(*KEYWORDS_OF.values()) - {"format", "patternProperties", "propertyNames"}
"""Keywords that limit values without giving them another form."""

MAX_DEPTH = 100
"""Most levels of a schema."""


def verbatim(document: SchemaDocument, dialect: Dialect, lose: Lose, *, tell: bool) -> tuple[dict[str, Any], Plan]:
    """Returns the schema in a dialect that keeps references, and the plan of the way back.

    With `tell`, bounds are put into descriptions instead.

    Raises:
        ExportError: the schema takes no object, is nested too deep, or too large.
    """
    document.spent = 0
    flat = dialect.rewrites("(root union)") and is_union(document.root)
    root = outermost(document, lose, flat=flat)
    schema = _Copy(document, dialect, lose, tell=tell).of(root, "#", 0)
    if dialect.wants_properties and not is_union(schema):
        schema.setdefault("properties", {})
    plan = _rename(schema, dialect)
    if flat or plan is not None:  # check that references into the moved parts still lead somewhere
        moved = SchemaDocument(schema, document.tool)
        moved.references(schema, "#")
    return schema, plan


class _Copy:
    """Copies a schema without the keywords that the dialect drops or notes; also without bounds if `tell` is set."""

    def __init__(self, document: SchemaDocument, dialect: Dialect, lose: Lose, *, tell: bool) -> None:
        self.document = document
        self.dialect = dialect
        self.lose = lose
        self.tell = tell

    def of(self, node: Any, place: str, depth: int) -> Any:
        self.document.spend(node, place)
        if depth > MAX_DEPTH:
            raise self.document.refused(place, f"the schema is nested deeper than {MAX_DEPTH} levels")
        if not isinstance(node, dict):
            return copy.deepcopy(node)
        told = {key: value for key, value in node.items() if self._tells(key, value)}
        made = {
            keyword: self._value(keyword, value, pointer(place, keyword), depth + 1)
            for keyword, value in node.items()
            if keyword not in told and self._keeps(keyword, value)
        }
        return self._told(made, told, place) if told else made

    def _tells(self, keyword: str, value: Any) -> bool:
        return (self.tell and keyword in _BOUNDS) or self.dialect.for_value(keyword, value) is Action.NOTE

    def _keeps(self, keyword: str, value: Any) -> bool:
        return self.dialect.for_value(keyword, value) is not Action.DROP

    def _told(self, made: dict[str, Any], told: dict[str, Any], place: str) -> dict[str, Any]:
        for keyword in told:
            self.lose(pointer(place, keyword), TOLD)
        return {**made, "description": described(made.get("description"), told)}

    def _value(self, keyword: str, value: Any, place: str, depth: int) -> Any:
        made = mapped(keyword, value, place, lambda inner, at: self.of(inner, at, depth))
        return copy.deepcopy(value) if made is value else made


def _rename(schema: dict[str, Any], dialect: Dialect) -> Plan:
    """Gives the outermost properties names that the target takes; the target checks no others."""
    if dialect.keys is None or not dialect.rewrites("(property name)"):
        return None
    properties: dict[str, Any] = schema.get("properties", {})
    names: dict[str, str] = {}
    for name in properties:
        names[name] = dialect.keys.fitted(name, {*properties, *names.values()})
    changed = tuple((key, Property(name)) for name, key in names.items() if key != name)
    if not changed:
        return None
    schema["properties"] = {names[name]: inner for name, inner in properties.items()}
    if "required" in schema:
        schema["required"] = [names.get(name, name) for name in schema["required"]]
    return Fields(changed)


def inlined(document: SchemaDocument, lose: Lose) -> dict[str, Any]:
    """Returns the whole schema without references; a schema that contains itself stays a definition, which `lose`
    reports.

    Parts of the schema that hold no references are shared with the original: do not change them.

    Raises:
        ExportError: the schema becomes too large or too deep.
    """
    document.spent = 0
    inline = _Inline(document, lose)
    made: Any = inline.say(document.root, "#", 0)
    if made is False:
        raise document.refused("#", "accepts nothing, so no call could be right")
    made = {} if made is True else made
    # `kept` grows meanwhile
    kept = {document.name(at): inline.say(document.target(at, at)[1], at, 1) for at in inline.kept}
    return {**made, "$defs": kept} if kept else made


class _Inline:
    def __init__(self, document: SchemaDocument, lose: Lose) -> None:
        self.document = document
        self.lose = lose
        self.kept: list[str] = []

    def say(self, node: Any, place: str, depth: int) -> Any:
        self.document.spend(node, place)
        if depth > MAX_DEPTH:
            raise self.document.refused(place, f"with its references inlined, it is deeper than {MAX_DEPTH} levels")
        if not isinstance(node, Mapping):
            return node
        said = {
            keyword: mapped(keyword, value, pointer(place, keyword), lambda inner, at: self.say(inner, at, depth + 1))
            for keyword, value in without(node, REFERENCES, DEFINITIONS).items()
        }
        reference = reference_of(node)
        return said if reference is None else self._reference(said, reference, place, depth)

    def _reference(self, beside: dict[str, Any], reference: str, place: str, depth: int) -> Any:
        at, target = self.document.target(reference, place)
        if at in self.document.recursive:
            self.lose(place, "stays a reference, since the schema contains itself")
            if at not in self.kept:
                self.kept.append(at)
            return {"$ref": f"#/$defs/{self.document.name(at)}", **beside}
        whole = self.say(target, at, depth + 1)
        if not beside:
            return whole
        if isinstance(whole, dict) and all(key in ANNOTATIONS or key not in whole for key in beside):
            return {**whole, **beside}
        return {**beside, "allOf": [*beside.get("allOf", ()), whole]}
