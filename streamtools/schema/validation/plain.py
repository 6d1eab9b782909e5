"""Writes a document again in a plain form: of one dialect, with local references alone, and only keywords that decide,
so that the engine that judges by it reads nothing that was not read here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ...limits import Limits
from .document import DEFINITIONS, REFERENCES, Document, Place
from .patterns import Patterns
from .reading import escaped, refuse_size

PREFIX = "#/$defs/"
SAME = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_OF_ARRAYS = ("prefixItems", "items", "contains", "unevaluatedItems")
_OF_OBJECTS = ("properties", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties")
BELOW = (*_OF_ARRAYS, *_OF_OBJECTS)  # keywords whose schemas apply to parts of the value
_NAMES = ("$schema", "$id", "$anchor", "$dynamicAnchor", *REFERENCES)
_ANY_NAME = ""  # a pattern that every name matches

Scope: TypeAlias = tuple[tuple[str, Place], ...]
"""The dynamic anchors that were entered on the way to a schema: by name, the outermost of each."""


@dataclass(slots=True, eq=False)
class Plain:
    schema: Any
    definitions: dict[str, Any] = field(default_factory=dict)
    origins: dict[int, Place] = field(default_factory=dict)

    def whole(self) -> dict[str, Any]:
        return {"allOf": [self.schema], "$defs": self.definitions}

    def target(self, node: dict[str, Any]) -> Any:
        return self.definitions[node["$ref"].removeprefix(PREFIX)]

    def objects(self, *nodes: Any) -> Iterator[dict[str, Any]]:
        waiting = [*nodes]
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict):
                yield node
                for _, held in parts(node, (*SAME, *BELOW)):
                    waiting.extend(held)

    def pointer(self, node: int) -> str:
        return self.origins[node].pointer if node in self.origins else "#"


def parts(node: Any, keywords: tuple[str, ...]) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(node, dict):
        for keyword in keywords:
            held = node.get(keyword)
            if isinstance(held, list):
                yield keyword, held
            elif keyword in _NAMED and isinstance(held, dict):
                yield keyword, list(held.values())
            elif held is not None:
                yield keyword, [held]


_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})


def in_plain_form(document: Document, patterns: Patterns, limits: Limits) -> Plain:
    """Writes a document in the plain form; raises a `SchemaError` for a pattern beyond its bounds, or if following the
    dynamic references makes more schemas than `limits` allow."""
    return _Writing(document, patterns, limits).run()


class _Writing:
    """Writes each schema once, or once for each dynamic scope in which it is reached."""

    def __init__(self, document: Document, patterns: Patterns, limits: Limits) -> None:
        self._document = document
        self._patterns = patterns
        self._limits = limits
        self._targets = {target for place in document.places for target in place.references.values()}
        if document.is_dynamic:  # it may be any of them
            self._targets.update(*(place.resource.dynamic.values() for place in document.places))
        self._names: dict[tuple[Place, Scope], str] = {}
        self._waiting: list[tuple[Place, Scope]] = []
        self._made = Plain(True)

    def run(self) -> Plain:
        made = self._made
        made.schema = self._use(self._document.root, ())
        while self._waiting:
            place, scope = self._waiting.pop()
            made.definitions[self._names[place, scope]] = self._schema(place, scope)
        return made

    def _use(self, place: Place, scope: Scope) -> Any:
        """Returns a schema for the place of its use; a reference to it if it is among the definitions."""
        if self._document.is_dynamic and place.resource.root is place:
            scope = _entered(scope, place)
        if place not in self._targets:
            return self._schema(place, scope)
        key = place, scope
        if key not in self._names:
            self._names[key] = f"s{len(self._names)}"
            self._waiting.append(key)
        return {"$ref": PREFIX + self._names[key]}

    def _schema(self, place: Place, scope: Scope) -> Any:
        if isinstance(place.schema, bool):
            return place.schema
        if any(place.keywords.get(keyword) == [] for keyword in ("anyOf", "oneOf")):
            return False  # of no alternatives none can fit
        written: dict[str, Any] = {}
        self._made.origins[id(written)] = place
        if len(self._made.origins) > self._limits.max_schema_nodes:
            what = "has, with its $dynamicRefs followed, more schemas than"
            raise refuse_size(what, "max_schema_nodes", self._limits.max_schema_nodes, place.pointer)
        for keyword, value in place.keywords.items():
            if keyword in place.children:
                if keyword not in DEFINITIONS:
                    self._write_children(written, place, keyword, scope)
            elif keyword == "pattern":
                enforced = self._patterns.enforced(value, place, "/pattern")
                if enforced is not None:
                    written[keyword] = enforced
            elif keyword not in _NAMES:
                written[keyword] = value
        if written.get("additionalProperties") is False:
            written.setdefault("properties", {})  # with them the engine names the properties that are not allowed
        for reference in self._references(place, scope):
            if "$ref" in written:
                written["allOf"] = [*written.get("allOf", ()), reference]
            else:
                written.update(reference)
        return written

    def _references(self, place: Place, scope: Scope) -> Iterator[dict[str, Any]]:
        for keyword, target in place.references.items():
            found = target
            # "the outermost schema resource in the dynamic scope (Section 7.1) that defines an identically named
            # fragment with "$dynamicAnchor"": json-schema.org/draft/2020-12/json-schema-core#section-8.2.3.2
            if keyword == "$dynamicRef" and place.dynamic_name is not None:
                found = dict(scope).get(place.dynamic_name, target)
            inner = _entered(scope, found) if self._document.is_dynamic else scope
            yield self._use(found, inner)

    def _write_children(self, written: dict[str, Any], place: Place, keyword: str, scope: Scope) -> None:
        held = place.keywords[keyword]
        used = {name: self._use(child, scope) for name, child in place.children[keyword].items()}
        if keyword == "additionalItems":  # of draft-07, whose tuples and dependencies have other names now
            if isinstance(place.keywords.get("items"), list):
                written["items"] = used[0]
        elif keyword == "dependencies":
            written["dependentSchemas"] = used
            written["dependentRequired"] = {name: names for name, names in held.items() if name not in used}
        elif keyword == "patternProperties":
            written[keyword] = self._by_pattern(used, place)
        elif isinstance(held, list):
            if used:
                written["prefixItems" if keyword == "items" else keyword] = list(used.values())
        elif keyword in _NAMED:
            written[keyword] = used
        else:
            written[keyword] = used[0]

    def _by_pattern(self, used: dict[Any, Any], place: Place) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for pattern, schema in used.items():
            enforced = self._patterns.enforced(pattern, place, f"/patternProperties/{escaped(pattern)}")
            if enforced is not None:
                made[enforced] = {"allOf": [made[enforced], schema]} if enforced in made else schema
            else:  # it may match any name
                made.setdefault(_ANY_NAME, True)
        return made


def _entered(scope: Scope, place: Place) -> Scope:
    known = dict(scope)
    more = tuple((name, at) for name, at in place.resource.dynamic.items() if name not in known)
    return (*scope, *more) if more else scope


MAX_LEVELS = 4  # how deep circular definitions are followed where a problem is looked for


def weakened(plain: Plain, circular: Collection[str]) -> Plain:
    """Returns a schema without recursion that demands less, so that each problem by it is one of the schema's own:
    circular definitions are followed a few times."""

    def refers(*nodes: Any) -> bool:
        return any("$ref" in inner for inner in plain.objects(*nodes))

    def weak(node: Any, level: int) -> Any:
        if not refers(node):  # nothing inside can be cut
            return node
        made: dict[str, Any] = {}
        for keyword, held in node.items():
            if keyword == "$ref" and held.removeprefix(PREFIX) in circular:
                if level < MAX_LEVELS:
                    made[keyword] = f"{held}.{level + 1}"
            elif keyword in _OF_THE_REST or (keyword in ("not", "if") and refers(held)):
                continue  # where a schema inside accepts more, this would accept less
            elif keyword == "oneOf":
                made.setdefault("anyOf", [weak(one, level) for one in held])
            elif keyword in SAME or keyword in BELOW:
                made[keyword] = _mapped(keyword, held, lambda one: weak(one, level))
            else:
                made[keyword] = held
        return made

    definitions = {name: weak(node, 0) for name, node in plain.definitions.items() if name not in circular}
    for name in circular:
        for level in range(1, MAX_LEVELS + 1):
            definitions[f"{name}.{level}"] = weak(plain.definitions[name], level)
    return Plain(weak(plain.schema, 0), definitions)


_OF_THE_REST = ("maxContains", "unevaluatedItems", "unevaluatedProperties")


def _mapped(keyword: str, held: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(held, list):
        return list(map(change, held))
    if keyword in _NAMED:
        return {name: change(one) for name, one in held.items()}
    return change(held)
