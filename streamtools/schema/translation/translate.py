"""Translates a tool's schema into a target's, for every dialect."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..dialects import Dialect
from . import arrays, objects, references, scalars, unions
from .document import LISTS, MAPS, ONE, SchemaDocument, reference_of
from .merge import merge
from .plan import Plan, Unwrapped
from .root import is_union, outermost
from .said import REFERENCES, Translation
from .state import Build
from .verbatim import verbatim

__all__ = ["Made", "canonical", "make"]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_BUILDS = 10
"""Most builds of one schema; two or three settle it."""
WRAPPED = "arguments"
"""The property that contains the arguments where they cannot be the outermost object themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A schema in a dialect, with the way back."""

    schema: dict[str, Any]
    plan: Plan
    definitions: Mapping[str, Plan]
    losses: tuple[str, ...]
    """The losses, one line each: a JSON pointer into the tool's own schema, and what replaces the part there."""


def make(schema: Mapping[str, Any], tool: str, dialect: Dialect, *, inline: bool = False, tell: bool = False) -> Made:
    """Returns the schema of a tool's arguments in a provider's dialect.

    Args:
        schema: the tool's own schema; it is neither changed nor kept.
        tool: the tool's name, for errors.
        dialect: the provider's dialect.
        inline: put definitions in their references' places, where the dialect would keep references.
        tell: put the bounds into descriptions, where the dialect would keep them as they were written.

    Raises:
        ExportError: the dialect cannot express the schema, or it is too large; the message names the place.
    """
    document = SchemaDocument(schema, tool)
    if not dialect.keeps_references:
        return _anew(document, dialect)
    losses: dict[str, str] = {}

    def lose(place: str, what: str) -> None:
        losses.setdefault(place, what)

    if inline:
        document = SchemaDocument(references.inlined(document, lose), tool)
    said, plan = verbatim(document, dialect, lose, tell=tell)
    return Made(schema=said, plan=plan, definitions={}, losses=_lines(losses))


def canonical(schema: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Returns a tool's schema with everything explicit: its dialect named, of type object, closed unless it says
    otherwise."""
    root = outermost(SchemaDocument(schema, tool), lambda place, what: None, flat=False)
    own = copy.deepcopy({key: value for key, value in root.items() if key not in ("$schema", "type")})
    closed = {} if is_union(own) else {"properties": {}, "required": [], "additionalProperties": False}
    return {"$schema": schema.get("$schema", DRAFT), "type": "object", **closed, **own}


def _anew(document: SchemaDocument, dialect: Dialect) -> Made:
    known: dict[str, Translation] = {}
    for _ in range(MAX_BUILDS):
        build = Build(document, dialect, known, _subschema)
        root = outermost(document, build.lose, flat=dialect.rewrites("(root union)"))
        said = build.say({key: value for key, value in root.items() if key not in ("$defs", "definitions")}, "#")
        made_now = {name: one for name, one in build.definitions.items() if one is not None}
        if made_now == known or not document.recursive:
            break
        known = made_now
    else:
        raise document.refused("#", "its definitions that contain themselves cannot be told apart")
    if said.schema.get("type") != "object":
        said = _wrapped(said)
    made = dict(said.schema)
    if made_now:
        made["$defs"] = {name: one.schema for name, one in made_now.items()}
    if dialect.openapi:
        made = _upper(made)
    plans = {name: one.plan for name, one in made_now.items()}
    return Made(schema=made, plan=said.plan, definitions=plans, losses=_lines(build.losses))


def _lines(losses: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{place}: {what}" for place, what in losses.items())


def _wrapped(said: Translation) -> Translation:
    schema = {
        "type": "object",
        "properties": {WRAPPED: said.schema},
        "required": [WRAPPED],
        "additionalProperties": False,
    }
    return Translation(schema, Unwrapped(WRAPPED, said.plan))


def _upper(node: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema with types as in OpenAPI's enumeration, and without ``additionalProperties``, which is none of
    its fields."""
    made: dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword == "type":
            made[keyword] = value.upper()
        elif keyword in MAPS:
            made[keyword] = {key: _upper(inner) for key, inner in value.items()}
        elif keyword in LISTS:
            made[keyword] = [_upper(inner) for inner in value]
        elif keyword in ONE and isinstance(value, dict):
            made[keyword] = _upper(value)
        elif keyword != "additionalProperties":
            made[keyword] = value
    return made


def _subschema(build: Build, node: Any, place: str) -> Translation:
    if not isinstance(node, Mapping):
        raise build.refused(place, "accepts nothing, so no call could be right")
    if "allOf" in node:
        return _all_of(build, node, place)
    if reference_of(node) is not None:
        return references.say(build, node, place)
    if "anyOf" in node or "oneOf" in node:
        return unions.say(build, node, place)
    kinds = scalars.kinds_of(node)
    if not kinds:
        return scalars.untyped(build, node, place)
    if len(kinds) > 1 and not scalars.may_stay_together(build, node, kinds):
        return unions.split(build, node, kinds, place)
    if kinds == ["object"]:
        return objects.say(build, node, place)
    if kinds == ["array"]:
        return arrays.say(build, node, place)
    return scalars.say(build, node, kinds, place)


def _all_of(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    parts = node["allOf"]
    alone = len(parts) == 1 and isinstance(parts[0], Mapping) and parts[0].keys() == {"$ref"}
    if alone and not REFERENCES & node.keys():  # a reference got a description in this way before 2019-09
        return build.say({**{k: v for k, v in node.items() if k != "allOf"}, **parts[0]}, place)
    return build.say(merge(build.document, [(place, node)], build.lose), place)
