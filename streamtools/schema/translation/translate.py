"""Translates a tool's schema into a target's, for every dialect."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..dialects import Action, Dialect
from . import containers, scalars, unions
from .document import ANNOTATIONS, DEFINITIONS, REFERENCES, SchemaDocument, mapped, pointer, reference_of, without
from .merge import is_union, merge, outermost
from .plan import JsonText, Named, Plan, Translation
from .state import Build
from .verbatim import inlined, verbatim

__all__ = ["Made", "canonical", "make"]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_UNROLLED = 2
"""Number of times a recursive definition stands inside itself before it is cut, where it can only be inlined."""
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
        dialect: the dialect to translate into.
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
        document = SchemaDocument(inlined(document, lose), tool)
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
        said = build.say(without(root, DEFINITIONS), "#")
        made_now = {name: one for name, one in build.definitions.items() if one is not None}
        if made_now == known or not document.recursive:
            break
        known = made_now
    else:
        raise document.refused("#", "its definitions that contain themselves cannot be told apart")
    if said.schema.get("type") != "object":
        said = unions.wrapped(said, WRAPPED)
    made = dict(said.schema)
    if made_now:
        made["$defs"] = {name: one.schema for name, one in made_now.items()}
    if dialect.openapi:
        made = _upper(made)
    plans = {name: one.plan for name, one in made_now.items()}
    return Made(schema=made, plan=said.plan, definitions=plans, losses=_lines(build.losses))


def _lines(losses: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{place}: {what}" for place, what in losses.items())


def _upper(node: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema with types as in OpenAPI's enumeration, and without ``additionalProperties``, which is none of
    its fields."""
    made: dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword == "type":
            made[keyword] = value.upper()
        elif keyword != "additionalProperties" or isinstance(value, dict):
            made[keyword] = mapped(keyword, value, "", lambda inner, _: _upper(inner))
    return made


def _subschema(build: Build, node: Any, place: str) -> Translation:
    if not isinstance(node, Mapping):
        raise build.refused(place, "accepts nothing, so no call could be right")
    if "allOf" in node:
        return _all_of(build, node, place)
    if reference_of(node) is not None:
        return _reference(build, node, place)
    if "anyOf" in node or "oneOf" in node:
        return unions.say(build, node, place)
    kinds = scalars.kinds_of(node)
    if not kinds:
        return scalars.untyped(build, node, place)
    if len(kinds) > 1 and not scalars.may_stay_together(build, node, kinds):
        return unions.split(build, node, kinds, place)
    if kinds in (["object"], ["array"]) and scalars.values_of(node) is not None:
        return scalars.data(build, node, kinds[0], place)
    if kinds == ["object"]:
        return containers.say_object(build, node, place)
    if kinds == ["array"]:
        return containers.say_array(build, node, place)
    return scalars.say(build, node, kinds, place)


def _all_of(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    parts = node["allOf"]
    alone = len(parts) == 1 and isinstance(parts[0], Mapping) and parts[0].keys() == {"$ref"}
    if alone and not REFERENCES & node.keys():  # a reference got a description in this way before 2019-09
        return build.say({**without(node, {"allOf"}), **parts[0]}, place)
    return build.say(merge(build.document, [(place, node)], build.lose), place)


def _reference(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates a schema with ``$ref``, and the keywords beside it."""
    at, target = build.document.target(reference_of(node) or "#", place)
    if build.dialect.action("$ref") is Action.INLINE:
        return _written_in_place(build, node, at, target, place)
    beside = without(node, REFERENCES, DEFINITIONS)
    demands = [keyword for keyword in beside if keyword not in ANNOTATIONS and not keyword.startswith("$")]
    if demands and at not in build.document.recursive:
        return build.say(merge(build.document, [(place, node)], build.lose), place)
    for keyword in demands:
        build.lose(pointer(place, keyword), "not said; it stands beside a reference to a schema that contains itself")
    return _referred(build, {key: value for key, value in beside.items() if key in ANNOTATIONS}, at, target, place)


def _referred(build: Build, beside: Mapping[str, Any], at: str, target: Any, place: str) -> Translation:
    if at in build.document.recursive and build.dialect.action("(recursion)") is Action.REFUSE:
        why = "the schema contains itself, which this target's strict tools may not; export it without strict"
        raise build.refused(place, why)
    name = build.document.name(at)
    if name not in build.definitions:
        build.definitions[name] = None
        build.definitions[name] = build.say(target, at)
    said = build.defined(name)
    needs_plan = said is not None and said.plan is not None
    schema = build.finish(beside, {"$ref": f"#/$defs/{name}"}, place)
    return Translation(schema, Named(name) if needs_plan else None)


def _written_in_place(build: Build, node: Mapping[str, Any], at: str, target: Any, place: str) -> Translation:
    if build.inlining.count(at) >= MAX_UNROLLED:
        return _cut(build, node, target, place)
    build.inlining.append(at)
    try:
        return build.say(merge(build.document, [(place, node)], build.lose), at)
    finally:
        build.inlining.pop()


def _cut(build: Build, node: Mapping[str, Any], target: Any, place: str) -> Translation:
    """Translates a recursive definition beyond the unrolled levels: as JSON text, or anything of its type."""
    build.lose(place, f"not said beyond {MAX_UNROLLED} levels of a schema that contains itself")
    again = "the same again, as deep as needed"
    kept = {key: value for key, value in node.items() if key in ANNOTATIONS}
    if build.dialect.rewrites("(no type)"):
        schema = {"type": "string"}
        return Translation(build.finish(kept, schema, place, more=[f"{again}, written as JSON text"]), JsonText())
    kind = target.get("type") if isinstance(target, Mapping) else None
    schema = {"type": kind} if isinstance(kind, str) else {}
    return Translation(build.finish(kept, schema, place, more=[again]))
