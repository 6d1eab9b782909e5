"""Translates references: keeps them to a definition of the exported schema, or replaces them by their targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..keywords import Action
from .document import LISTS, MAPS, ONE, SchemaDocument, pointer, reference_of
from .merge import Lose, merge
from .plan import JsonText, Named
from .said import ANNOTATIONS, DEFINITIONS, REFERENCES, Translation, without
from .state import Build
from .verbatim import MAX_DEPTH

__all__ = ["inlined", "say"]

MAX_UNROLLED = 2
"""Number of times a recursive definition stands inside itself before it is cut, where it can only be inlined."""


def say(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates a schema with ``$ref``, and the keywords beside it."""
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


def _inlined(build: Build, node: Mapping[str, Any], at: str, target: Any, place: str) -> Translation:
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


# -- definitions written in their references' places, for readers that resolve none ----------------------------------


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
            keyword: self._value(keyword, value, pointer(place, keyword), depth + 1)
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

    def _value(self, keyword: str, value: Any, place: str, depth: int) -> Any:
        if keyword in MAPS and isinstance(value, dict):
            return {key: self.say(inner, pointer(place, key), depth) for key, inner in value.items()}
        if isinstance(value, list) and (keyword in LISTS or keyword == "items"):
            return [self.say(inner, pointer(place, number), depth) for number, inner in enumerate(value)]
        return self.say(value, place, depth) if keyword in ONE else value
