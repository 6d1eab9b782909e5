"""Finds the schemas of a document, and the targets of their references.

A `Place` is one schema in the document; a `Resource` begins with an ``$id``: a part that references can name by URI,
with anchors of its own. References are resolved inside the document and in the metaschemas of the known dialects;
nothing is ever fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin

from ...errors import SchemaError
from ...limits import Limits
from .values import escaped, refuse_size
from .vocabulary import Applicator, SchemaVersion, dialect_of, metaschema

__all__ = ["AGAIN", "Document", "Place", "Resource"]

MAX_SHOWN_CHARS = 200  # of a reference in an error
REFERENCES = ("$ref", "$dynamicRef")
AGAIN = frozenset({"unevaluatedProperties", "unevaluatedItems"})
"""Keywords that use what other schemas have already evaluated."""
Name = str | int


_NOTHING: dict[Any, Any] = {}  # shared by all places that have been forgotten


@dataclass(slots=True, eq=False)
class Resource:
    """A part of the document that has a URI."""

    uri: str
    dialect: SchemaVersion
    root: Place | None = None
    anchors: dict[str, Place] = field(default_factory=dict)
    dynamic: dict[str, Place] = field(default_factory=dict)
    """The anchors that ``$dynamicRef`` can lead to."""


@dataclass(slots=True, eq=False)
class Place:
    """One schema of a document."""

    schema: dict[str, Any] | bool
    resource: Resource
    _step: str
    parent: Place | None = None
    """The schema that contains it; None for the root."""
    depth: int = field(init=False)
    children: dict[str, dict[Name, Place]] = field(default_factory=dict)
    """The schemas that it contains, by keyword, and by name or position (0 where the keyword holds one schema)."""
    references: dict[str, Place] = field(default_factory=dict)
    """The targets of ``$ref`` and ``$dynamicRef``, without regard to the dynamic scope."""
    dynamic_name: str | None = None
    """The anchor that ``$dynamicRef`` looks for in the dynamic scope; None if its target is always the same."""
    _keywords: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.depth = 0 if self.parent is None else self.parent.depth + 1

    @property
    def pointer(self) -> str:
        """JSON pointer to the schema. It is composed on demand: the pointers of all schemas together may be far larger
        than the document."""
        steps = []
        place: Place | None = self
        while place is not None:
            steps.append(place._step)
            place = place.parent
        return "".join(reversed(steps))

    @property
    def keyword(self) -> str:
        """The keyword that contains it; empty for a root."""
        return "" if self.parent is None else self._step.split("/")[1]

    @property
    def keywords(self) -> dict[str, Any]:
        """Its keywords that the dialect knows; none for true and false."""
        if self._keywords is None:
            self._keywords = self._find_keywords()
        return self._keywords

    def _find_keywords(self) -> dict[str, Any]:
        if isinstance(self.schema, bool):
            return {}
        if self.resource.dialect.lone_reference and "$ref" in self.schema:
            return {"$ref": self.schema["$ref"]}
        knows = self.resource.dialect.knows
        return {keyword: value for keyword, value in self.schema.items() if knows(keyword)}

    def forget(self) -> None:
        """Drops everything but the pointer, which problems are reported with."""
        self.schema = True
        self._keywords = None
        self.children = self.references = _NOTHING

    def applicators(self) -> Iterator[tuple[str, Applicator, list[Place]]]:
        """Yields the schemas that it contains, by keyword."""
        known = self.resource.dialect.applicators
        for keyword, places in self.children.items():
            yield keyword, known[keyword], list(places.values())


class Document:
    """All schemas of a document, found and checked, with their references resolved.

    Args:
        schema: plain JSON as `read_schema` returns it, which is kept and must not change.
        dialect: the dialect where ``$schema`` names none.
        limits: ``max_schema_nodes`` and ``max_schema_depth``.

    Raises:
        SchemaError: a keyword's value is of the wrong kind, a reference leads nowhere or to another document, or there
            are more schemas than `limits` allows.
    """

    def __init__(self, schema: Any, dialect: SchemaVersion, limits: Limits) -> None:
        self._limits = limits
        self._resources: dict[str, Resource] = {}
        self._by_id: dict[int, Place] = {}
        self._unresolved: list[Place] = []
        self._holders: dict[str, list[Place]] = {}
        self._count = 0
        self.places: list[Place] = []
        """Every schema, including those of metaschemas that are referred to."""
        self.root = self._add(schema, "", dialect)
        while self._unresolved:
            self._resolve(self._unresolved.pop())
        for place in self.places:
            if place.dynamic_name is not None and len(self.holders(place.dynamic_name)) == 1:
                place.dynamic_name = None  # there is only one target
        self.is_dynamic = any(place.dynamic_name is not None for place in self.places)
        """True if the target of some reference depends on the way by which it is reached."""

    def holders(self, name: str) -> list[Place]:
        """Returns the schemas with this ``$dynamicAnchor``."""
        return self._holders[name]

    def forget(self) -> None:
        """Drops the schemas, once they are compiled; but not if one has ``unevaluated...``, whose targets are looked up
        during validation."""
        if all(AGAIN.isdisjoint(place.keywords) for place in self.places):
            for place in self.places:
                place.forget()

    # -- finding the schemas ---------------------------------------------------------------------------------

    def _add(self, schema: Any, uri: str, dialect: SchemaVersion) -> Place:
        resource = Resource(uri, dialect_of(schema, dialect, f"{uri}#"))
        self._resources[uri] = resource
        resource.root = self._index(Place(schema, resource, f"{uri}#"))
        return resource.root

    def _index(self, place: Place) -> Place:
        """Adds a schema and all that it contains; `limits` bound the recursion."""
        schema = place.schema
        self._check_size(place)
        self.places.append(place)
        if isinstance(schema, bool):
            return place
        if not isinstance(schema, dict):
            raise SchemaError("should be a schema: an object, true or false", path=place.pointer)
        self._by_id[id(schema)] = place
        self._identify(place)
        self._check_values(place)
        if any(name in place.keywords for name in REFERENCES):
            self._unresolved.append(place)
        applicators = place.resource.dialect.applicators
        for name in schema:
            # definitions beside a lone $ref have no effect, but references reach them
            if name in applicators and (name in place.keywords or applicators[name].where == "nowhere"):
                place.children[name] = {
                    key: self._index(Place(held, place.resource, step, place))
                    for key, held, step in _held(schema[name], applicators[name], name, place)
                }
        return place

    def _check_size(self, place: Place) -> None:
        limits = self._limits
        self._count += 1
        if self._count > limits.max_schema_nodes:
            raise refuse_size("holds more schemas than", "max_schema_nodes", limits.max_schema_nodes)
        if place.depth > limits.max_schema_depth:
            raise refuse_size("is nested deeper than", "max_schema_depth", limits.max_schema_depth, place.pointer)

    def _check_values(self, place: Place) -> None:
        checks = place.resource.dialect.checks
        for name, value in place.keywords.items():
            if name in checks and not checks[name].fits(value):
                raise SchemaError(f"should be {checks[name].should}", path=f"{place.pointer}/{name}")

    def _identify(self, place: Place) -> None:
        """Registers the place's ``$id`` and anchors."""
        keywords = place.keywords
        given = keywords.get("$id")
        if isinstance(given, str):
            at = f"{place.pointer}/$id"
            uri, _, fragment = _join(place.resource.uri, given, at).partition("#")
            if fragment and not place.resource.dialect.fragment_ids:
                raise SchemaError("should have no fragment; a name for this schema is $anchor", path=at)
            if not given.startswith("#"):
                self._begin_resource(place, uri)
            if fragment:
                self._name(place, fragment)
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = keywords.get(keyword)
            if isinstance(name, str):
                self._name(place, name)
                if keyword == "$dynamicAnchor":
                    place.resource.dynamic[name] = place
                    self._holders.setdefault(name, []).append(place)

    def _begin_resource(self, place: Place, uri: str) -> None:
        if place.parent is None:
            place.resource.uri, place.resource.root = uri, place
        else:
            dialect = dialect_of(place.schema, place.resource.dialect, place.pointer)
            place.resource = Resource(uri, dialect, place)
        known = self._resources.setdefault(uri, place.resource).root
        # the same schema inlined twice does no harm
        if known is not None and known is not place and known.schema != place.schema:
            raise SchemaError("another schema has this $id, too", path=f"{place.pointer}/$id")

    def _name(self, place: Place, name: str) -> None:
        if place.resource.anchors.setdefault(name, place) is not place:
            raise SchemaError(f"another schema has the anchor {name[:MAX_SHOWN_CHARS]!r}, too", path=place.pointer)

    # -- references ------------------------------------------------------------------------------------------

    def _resolve(self, place: Place) -> None:
        for keyword in REFERENCES:
            given = place.keywords.get(keyword)
            if given is None:
                continue
            target, anchor = self._find(place, given, f"{place.pointer}/{keyword}")
            place.references[keyword] = target
            if keyword == "$dynamicRef" and target.resource.dynamic.get(anchor) is target:
                place.dynamic_name = anchor

    def _find(self, place: Place, reference: str, at: str) -> tuple[Place, str]:
        """Returns the target of a reference, and the reference's fragment."""
        uri, _, fragment = _join(place.resource.uri, reference, at).partition("#")
        resource = self._resources.get(uri)
        if resource is None and (schema := metaschema(uri)) is not None:
            resource = self._add(schema, uri, place.resource.dialect).resource
        if resource is None or resource.root is None:
            raise SchemaError(
                f"{_shown(reference)} refers to another document, and none is ever fetched; put it under $defs", path=at
            )
        fragment = unquote(fragment)
        if not fragment:
            return resource.root, fragment
        if fragment.startswith("/"):
            return self._follow(resource.root, fragment, reference, at), fragment
        found = resource.anchors.get(fragment)
        if found is None:
            raise SchemaError(f"{_shown(reference)} is the name of no schema in this document", path=at)
        return found, fragment

    def _follow(self, place: Place, pointer: str, reference: str, at: str) -> Place:
        """Returns the schema at a JSON pointer, which may lie where no keyword of the dialect has schemas."""
        value: Any = place.schema
        step = ""
        for token in pointer[1:].split("/"):
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
                value = value[int(name)]
            else:
                raise SchemaError(f"{_shown(reference)} leads to no place in this document", path=at)
            step = f"{step}/{escaped(name)}"
            known = self._by_id.get(id(value))
            if known is not None:
                place, step = known, ""
        if not step and isinstance(value, dict):
            return place
        return self._index(Place(value, place.resource, step, place))


def _held(held: Any, applicator: Applicator, keyword: str, place: Place) -> Iterator[tuple[Name, Any, str]]:
    """Yields the schemas under a keyword: name or position, schema, step from `place`."""
    at = f"/{keyword}"
    shape = applicator.shape
    if shape == "one_or_many":
        shape = "many" if isinstance(held, list) else "one"
    if shape == "one":
        if isinstance(held, list) and keyword == "items":
            raise _wrong("a schema; a list of them is prefixItems, or the way of draft-07", place, at)
        yield 0, held, at
    elif shape == "many":
        if not isinstance(held, list):
            raise _wrong("a list of schemas", place, at)
        yield from ((number, schema, f"{at}/{number}") for number, schema in enumerate(held))
    else:
        if not isinstance(held, dict):
            raise _wrong("an object of schemas", place, at)
        for name, schema in held.items():
            if not (shape == "named_or_names" and isinstance(schema, list)):
                yield name, schema, f"{at}/{escaped(name)}"
            elif not all(isinstance(item, str) for item in schema):
                raise _wrong("a schema or a list of strings", place, f"{at}/{escaped(name)}")


def _wrong(should: str, place: Place, step: str) -> SchemaError:
    return SchemaError(f"should be {should}", path=place.pointer + step)


def _join(base: str, reference: str, at: str) -> str:
    if not reference or reference.startswith("#"):
        return base + reference  # urljoin does not know every scheme (urn:, tag:)
    try:
        return urljoin(base, reference)
    except ValueError as error:
        raise SchemaError(f"{_shown(reference)} is no URI", path=at) from error


def _shown(reference: str) -> str:
    return ascii(reference[:MAX_SHOWN_CHARS])
