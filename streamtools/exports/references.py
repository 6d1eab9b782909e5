"""References: kept to a definition of the exported schema, or replaced by what they refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .document import pointer, reference_of
from .keywords import Action
from .merge import merge
from .plan import JsonText, Named
from .said import ANNOTATIONS, DEFINITIONS, REFERENCES, Said, without

if TYPE_CHECKING:
    from .build import Build

__all__ = ["say"]

MAX_UNROLLED = 2
"""How often a recursive definition stands inside itself before it is cut, where it can only be inlined."""


def say(build: Build, node: Mapping[str, Any], place: str) -> Said:
    """A schema with ``$ref``, whatever else it says beside it."""
    at, target = build.document.target(reference_of(node) or "#", place)
    if build.dialect.action("$ref") is Action.INLINE:
        return _inlined(build, node, at, target, place)
    beside = without(node, REFERENCES, DEFINITIONS)
    demands = [keyword for keyword in beside if keyword not in ANNOTATIONS and not keyword.startswith("$")]
    if demands and at not in build.document.recursive:
        return build.say(merge(build.document, [(place, node)], build.lose), place)
    for keyword in demands:
        build.lose(pointer(place, keyword), "not said; it stands beside a reference to a schema that contains itself")
    return _referred(build, {key: value for key, value in beside.items() if key in ANNOTATIONS}, at, target, place)


def _referred(build: Build, beside: Mapping[str, Any], at: str, target: Any, place: str) -> Said:
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
    return Said(schema, Named(name) if needs_plan else None)


def _inlined(build: Build, node: Mapping[str, Any], at: str, target: Any, place: str) -> Said:
    if build.inlining.count(at) >= MAX_UNROLLED:
        return _cut(build, node, target, place)
    build.inlining.append(at)
    try:
        return build.say(merge(build.document, [(place, node)], build.lose), at)
    finally:
        build.inlining.pop()


def _cut(build: Build, node: Mapping[str, Any], target: Any, place: str) -> Said:
    """A recursive definition beyond what is unrolled: JSON text, or anything of its type."""
    build.lose(place, f"not said beyond {MAX_UNROLLED} levels of a schema that contains itself")
    again = "the same again, as deep as needed"
    kept = {key: value for key, value in node.items() if key in ANNOTATIONS}
    if build.dialect.rewrites("(no type)"):
        schema = {"type": "string"}
        return Said(build.finish(kept, schema, place, more=[f"{again}, written as JSON text"]), JsonText())
    kind = target.get("type") if isinstance(target, Mapping) else None
    schema = {"type": kind} if isinstance(kind, str) else {}
    return Said(build.finish(kept, schema, place, more=[again]))
