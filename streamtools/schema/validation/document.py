"""Finds the schemas of a document, and the targets of their references, in it and in known dialects' metaschemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import unquote, urljoin

from ...errors import SchemaError
from ...limits import Limits
from .reading import escaped, refuse_size

MAX_SHOWN_CHARS = 200  # of a reference in an error
REFERENCES = ("$ref", "$dynamicRef")
Name = str | int


@dataclass(slots=True, eq=False)
class Resource:
    uri: str
    dialect: SchemaVersion
    root: Place | None = None
    anchors: dict[str, Place] = field(default_factory=dict)
    dynamic: dict[str, Place] = field(default_factory=dict)  # the anchors that `$dynamicRef` can lead to


@dataclass(slots=True, eq=False)
class Place:
    schema: dict[str, Any] | bool
    resource: Resource
    _step: str
    parent: Place | None = None  # the schema that contains it; None for the root
    depth: int = field(init=False)
    children: dict[str, dict[Name, Place]] = field(default_factory=dict)
    """The schemas that it contains, by keyword, and by name or position (0 where the keyword has one schema)."""
    references: dict[str, Place] = field(default_factory=dict)
    dynamic_name: str | None = None
    """The anchor that ``$dynamicRef`` looks for in the dynamic scope; None if its target is always the same."""
    keywords: dict[str, Any] = field(init=False)
    """The keywords that the dialect knows; none for true and false."""

    def __post_init__(self) -> None:
        self.depth = 0 if self.parent is None else self.parent.depth + 1
        self.keywords = self.find_keywords()

    @property
    def pointer(self) -> str:
        # On demand, since the pointers of all schemas together may be far larger than the document.
        steps = []
        place: Place | None = self
        while place is not None:
            steps.append(place._step)
            place = place.parent
        return "".join(reversed(steps))

    def find_keywords(self) -> dict[str, Any]:
        if not isinstance(self.schema, dict):
            return {}
        dialect = self.resource.dialect
        # draft-07: "All other properties in a "$ref" object MUST be ignored."
        # https://json-schema.org/draft-07/draft-handrews-json-schema-01#section-8.3
        if dialect.is_draft_07 and "$ref" in self.schema:
            return {"$ref": self.schema["$ref"]}
        found = {
            name: held for name, held in self.schema.items() if name in dialect.applicators or name in dialect.others
        }
        names = found.get("required")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            found["required"] = list(dict.fromkeys(names))  # each once, as the metaschema demands
        return found

    @property
    def values(self) -> dict[str, Any]:
        """The values of keywords without schemas, as the metaschema of 2020-12 judges them."""
        applicators = self.resource.dialect.applicators
        found = {name: value for name, value in self.keywords.items() if name not in applicators and name != "const"}
        if isinstance(found.get("$id"), str):  # which may have a fragment in draft-07
            del found["$id"]
        return found


class Document:
    """Finds all schemas of a document, which is plain JSON as `read_schema` returns it and must not change, and
    resolves their references. Raises a `SchemaError` for what is no schema where one belongs, a reference that leads
    nowhere or to another document, and beyond the `limits`."""

    def __init__(self, schema: Any, dialect: SchemaVersion, limits: Limits) -> None:
        self._limits = limits
        self._resources: dict[str, Resource] = {}
        self._by_id: dict[int, Place] = {}
        self._unresolved: list[Place] = []
        self._holders: dict[str, list[Place]] = {}
        self.places: list[Place] = []  # every schema, including those of metaschemas that are referred to
        self.root = self._add(schema, "", dialect)
        while self._unresolved:
            self._resolve(self._unresolved.pop())
        # With a single target, a dynamic reference is a plain one: most documents need no scope at run time.
        for place in self.places:
            if place.dynamic_name is not None and len(self._holders[place.dynamic_name]) == 1:
                place.dynamic_name = None
        self.is_dynamic = any(place.dynamic_name is not None for place in self.places)
        """True if the target of a reference depends on the way by which the reference is reached."""

    # -- finding the schemas --

    def _add(self, schema: Any, uri: str, dialect: SchemaVersion) -> Place:
        resource = Resource(uri, dialect_of(schema, dialect, f"{uri}#"))
        self._resources[uri] = resource
        resource.root = self._index(Place(schema, resource, f"{uri}#"))
        return resource.root

    def _index(self, place: Place) -> Place:
        schema = place.schema
        self._check_size(place)
        self.places.append(place)
        if isinstance(schema, bool):
            return place
        if not isinstance(schema, dict):
            raise SchemaError("expected a schema: an object, true or false", path=place.pointer)
        self._by_id[id(schema)] = place
        self._identify(place)
        if any(name in place.keywords for name in REFERENCES):
            self._unresolved.append(place)
        applicators = place.resource.dialect.applicators
        for name in schema:
            # Definitions beside a lone `$ref` have no effect, but references reach them.
            if name in applicators and (name in place.keywords or name in DEFINITIONS):
                place.children[name] = {
                    key: self._index(Place(held, place.resource, step, place))
                    for key, held, step in _held(schema[name], applicators[name], name, place)
                }
        return place

    def _check_size(self, place: Place) -> None:
        limits = self._limits
        if len(self.places) >= limits.max_schema_nodes:
            raise refuse_size("has more schemas than", "max_schema_nodes", limits.max_schema_nodes)
        if place.depth > limits.max_schema_depth:
            raise refuse_size("is nested deeper than", "max_schema_depth", limits.max_schema_depth, place.pointer)

    def _identify(self, place: Place) -> None:
        keywords = place.keywords
        given = keywords.get("$id")
        if isinstance(given, str):
            at = f"{place.pointer}/$id"
            uri, _, fragment = _join(place.resource.uri, given, at).partition("#")
            # "Non-empty fragments not allowed.", says 2020-12 of `$id` (meta/core); in draft-07 a fragment is an
            # anchor.
            if fragment and not place.resource.dialect.is_draft_07:
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
            place.keywords = place.find_keywords()  # they may be others in this dialect
        known = self._resources.setdefault(uri, place.resource).root
        # The same schema inlined twice does no harm.
        if known is not None and known is not place and known.schema != place.schema:
            raise SchemaError("another schema has this $id, too", path=f"{place.pointer}/$id")

    def _name(self, place: Place, name: str) -> None:
        if place.resource.anchors.setdefault(name, place) is not place:
            raise SchemaError(f"another schema has the anchor {name[:MAX_SHOWN_CHARS]!r}, too", path=place.pointer)

    # -- references --

    def _resolve(self, place: Place) -> None:
        for keyword, given in place.keywords.items():
            if keyword not in REFERENCES:
                continue
            if not isinstance(given, str):
                raise SchemaError("expected a string", path=f"{place.pointer}/{keyword}")
            target, anchor = self._find(place, given, f"{place.pointer}/{keyword}")
            place.references[keyword] = target
            if keyword == "$dynamicRef" and target.resource.dynamic.get(anchor) is target:
                place.dynamic_name = anchor

    def _find(self, place: Place, reference: str, at: str) -> tuple[Place, str]:
        uri, _, fragment = _join(place.resource.uri, reference, at).partition("#")
        resource = self._resources.get(uri)
        # A schema may refer to the schema of schemas, which is part of this package. Nothing else is outside: MCP
        # 2026-07-28 forbids to fetch references over the network, and a server's schema could name any host.
        if resource is None and (schema := metaschema(uri)) is not None:
            resource = self._add(schema, uri, place.resource.dialect).resource
        if resource is None or resource.root is None:
            raise SchemaError(
                f"{_shown(reference)} refers to another document, and none is fetched; put it under $defs",
                path=at,
            )
        fragment = unquote(fragment)
        if not fragment:
            return resource.root, fragment
        if fragment.startswith("/"):
            return self._follow(resource.root, fragment, reference, at), fragment
        found = resource.anchors.get(fragment)
        if found is None:
            raise SchemaError(f"{_shown(reference)} is not the name of a schema in this document", path=at)
        return found, fragment

    def _follow(self, place: Place, pointer: str, reference: str, at: str) -> Place:
        """Returns the schema at a JSON pointer, also where no keyword of the dialect has schemas."""
        value: Any = place.schema
        step = ""
        for token in pointer[1:].split("/"):
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
                value = value[int(name)]
            else:
                raise SchemaError(f"{_shown(reference)} leads nowhere in this document", path=at)
            step = f"{step}/{escaped(name)}"
            known = self._by_id.get(id(value))
            if known is not None:
                place, step = known, ""
        if not step and isinstance(value, dict):
            return place
        return self._index(Place(value, place.resource, step, place))


def _held(held: Any, shape: Shape, keyword: str, place: Place) -> Iterator[tuple[Name, Any, str]]:
    at = f"/{keyword}"
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
    return SchemaError(f"expected {should}", path=place.pointer + step)


def _join(base: str, reference: str, at: str) -> str:
    # Not by `urljoin`, which drops the base of schemes that it does not know (urn:, tag:).
    if not reference or reference.startswith("#"):
        return base + reference
    try:
        return urljoin(base, reference)
    except ValueError as error:
        raise SchemaError(f"expected a URI, got {_shown(reference)}", path=at) from error


def _shown(reference: str) -> str:
    return ascii(reference[:MAX_SHOWN_CHARS])


# -- the keywords of both dialects --

# https://json-schema.org/draft/2020-12/json-schema-core, https://json-schema.org/draft/2020-12/json-schema-validation,
# https://json-schema.org/draft-07/draft-handrews-json-schema-validation-01
#
# Keywords that do not affect validity (`title`, `format`, `contentEncoding`, unknown ones) are ignored.

Shape = Literal["one", "many", "named", "one_or_many", "named_or_names"]  # how a keyword contains schemas

DEFINITIONS = ("definitions", "$defs")  # their schemas judge nothing unless something refers to them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SchemaVersion:
    uri: str  # the URI of its metaschema, without fragment
    applicators: Mapping[str, Shape]
    others: frozenset[str]
    is_draft_07: bool


_ONE = ("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
_APPLICATORS: dict[str, Shape] = {
    **dict.fromkeys(("properties", "patternProperties", "definitions"), "named"),  # kept by 2020-12 for older documents
    **dict.fromkeys(_ONE, "one"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), "many"),
}
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
_COUNTS = ("minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties")
_OTHERS = frozenset(
    {"$ref", "$id", "$schema", "type", "enum", "const", "pattern", "uniqueItems", "required", *_BOUNDS, *_COUNTS}
)
_OTHERS_2020_12 = {"$anchor", "$dynamicAnchor", "$dynamicRef", "minContains", "maxContains", "dependentRequired"}

DIALECTS = {  # the dialects by their names for `compile`
    "2020-12": SchemaVersion(
        uri="https://json-schema.org/draft/2020-12/schema",
        applicators={
            **_APPLICATORS,
            **dict.fromkeys(("items", "unevaluatedItems", "unevaluatedProperties"), "one"),
            **dict.fromkeys(("dependentSchemas", "$defs"), "named"),
            "prefixItems": "many",
        },
        others=_OTHERS | _OTHERS_2020_12,
        is_draft_07=False,
    ),
    "draft-07": SchemaVersion(
        uri="http://json-schema.org/draft-07/schema",
        applicators={
            **_APPLICATORS,
            "items": "one_or_many",
            "additionalItems": "one",
            "dependencies": "named_or_names",
        },
        others=_OTHERS,
        is_draft_07=True,
    ),
}

_BY_URI = {dialect.uri.partition("://")[2]: dialect for dialect in DIALECTS.values()}


def dialect_of(schema: Any, otherwise: SchemaVersion, pointer: str) -> SchemaVersion:
    """Returns the dialect of the schema's own ``$schema``, which has to be a known one; `otherwise` if it has none."""
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(uri, str):
        return otherwise
    known = _BY_URI.get(uri.removesuffix("#").partition("://")[2])  # both http and https are in use
    if known is None:
        names = " and ".join(dialect.uri for dialect in DIALECTS.values())
        raise SchemaError(f"expected one of the dialects {names}, got {uri[:100]!r}", path=f"{pointer}/$schema")
    return known


_VOCABULARIES = "https://json-schema.org/draft/2020-12/meta/"


@lru_cache(16)
def metaschema(uri: str) -> Any:
    """Returns the schema that was published at `uri` (without fragment), or None; do not change it."""
    dialect = next((one for one in DIALECTS.values() if uri == one.uri), DIALECTS["2020-12"])
    if uri != dialect.uri and not uri.startswith(_VOCABULARIES):
        return None
    import jsonschema_rs  # which holds them

    try:
        made: Any = jsonschema_rs.bundle({"$schema": dialect.uri, "$ref": uri}, retriever=refuse_to_fetch)
    except (ValueError, jsonschema_rs.ReferencingError):  # no vocabulary of this name
        return None
    return (made.get("$defs") or made["definitions"]).get(uri)  # None for another spelling of a known one


def refuse_to_fetch(uri: str) -> Any:
    raise ValueError("nothing is fetched")
