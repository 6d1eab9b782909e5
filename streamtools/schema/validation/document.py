"""Finds the schemas of a document, and the targets of their references.

A `Place` is one schema in the document; a `Resource` begins with an ``$id``: a part that references can name by URI,
with anchors of its own. References are resolved inside the document and in the metaschemas of the known dialects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urljoin

from ...errors import SchemaError
from ...limits import Limits
from .values import escaped, is_integer, kind_of, refuse_size

MAX_SHOWN_CHARS = 200  # of a reference in an error
REFERENCES = ("$ref", "$dynamicRef")
AGAIN = frozenset({"unevaluatedProperties", "unevaluatedItems"})
"""Keywords about the parts that other schemas have not evaluated."""
Name = str | int


_NOTHING: dict[Any, Any] = {}  # shared by all places that have been forgotten


@dataclass(slots=True, eq=False)
class Resource:
    """Holds a part of the document that has a URI, with its anchors."""

    uri: str
    dialect: SchemaVersion
    root: Place | None = None
    anchors: dict[str, Place] = field(default_factory=dict)
    dynamic: dict[str, Place] = field(default_factory=dict)
    """The anchors that ``$dynamicRef`` can lead to."""


@dataclass(slots=True, eq=False)
class Place:
    """Holds one schema of a document, with its place in it."""

    schema: dict[str, Any] | bool
    resource: Resource
    _step: str
    parent: Place | None = None
    """The schema that contains it; None for the root."""
    depth: int = field(init=False)
    children: dict[str, dict[Name, Place]] = field(default_factory=dict)
    """The schemas that it contains, by keyword, and by name or position (0 where the keyword has one schema)."""
    references: dict[str, Place] = field(default_factory=dict)
    """The targets of ``$ref`` and ``$dynamicRef``, without regard to the dynamic scope."""
    dynamic_name: str | None = None
    """The anchor that ``$dynamicRef`` looks for in the dynamic scope; None if its target is always the same."""
    _keywords: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.depth = 0 if self.parent is None else self.parent.depth + 1

    @property
    def pointer(self) -> str:
        """The JSON pointer to the schema."""
        # On demand, since the pointers of all schemas together may be far larger than the document.
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
        """The keywords that the dialect knows; none for true and false."""
        if self._keywords is None:
            self._keywords = self._find_keywords()
        return self._keywords

    def _find_keywords(self) -> dict[str, Any]:
        if isinstance(self.schema, bool):
            return {}
        # draft-07: "All other properties in a "$ref" object MUST be ignored."
        # https://json-schema.org/draft-07/draft-handrews-json-schema-01#section-8.3
        if self.resource.dialect.lone_reference and "$ref" in self.schema:
            return {"$ref": self.schema["$ref"]}
        knows = self.resource.dialect.knows
        return {keyword: value for keyword, value in self.schema.items() if knows(keyword)}

    def forget(self) -> None:
        """Drops everything but the pointer, which problems need."""
        self.schema = True
        self._keywords = None
        self.children = self.references = _NOTHING

    def applicators(self) -> Iterator[tuple[str, Applicator, list[Place]]]:
        """Yields the schemas that it contains, by keyword."""
        known = self.resource.dialect.applicators
        for keyword, places in self.children.items():
            yield keyword, known[keyword], list(places.values())


class Document:
    """Finds and checks all schemas of a document, which is plain JSON as `read_schema` returns it and must not change,
    and resolves their references. Raises a `SchemaError` for a keyword's value of the wrong kind, a reference that
    leads nowhere or to another document, and beyond the `limits`."""

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
        # With a single target, a dynamic reference is a plain one: most documents need no scope at run time.
        for place in self.places:
            if place.dynamic_name is not None and len(self.holders(place.dynamic_name)) == 1:
                place.dynamic_name = None
        self.is_dynamic = any(place.dynamic_name is not None for place in self.places)
        """True if the target of a reference depends on the way by which the reference is reached."""

    def holders(self, name: str) -> list[Place]:
        """Returns the schemas with this ``$dynamicAnchor``."""
        return self._holders[name]

    def forget(self) -> None:
        """Drops the schemas, once they are compiled."""
        # Not with `unevaluated...`, whose collectors look targets up during validation.
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
            raise SchemaError("expected a schema: an object, true or false", path=place.pointer)
        self._by_id[id(schema)] = place
        self._identify(place)
        self._check_values(place)
        if any(name in place.keywords for name in REFERENCES):
            self._unresolved.append(place)
        applicators = place.resource.dialect.applicators
        for name in schema:
            # Definitions beside a lone `$ref` have no effect, but references reach them.
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
            raise refuse_size("has more schemas than", "max_schema_nodes", limits.max_schema_nodes)
        if place.depth > limits.max_schema_depth:
            raise refuse_size("is nested deeper than", "max_schema_depth", limits.max_schema_depth, place.pointer)

    def _check_values(self, place: Place) -> None:
        checks = place.resource.dialect.checks
        for name, value in place.keywords.items():
            if name in checks and not checks[name].fits(value):
                raise SchemaError(f"expected {checks[name].should}", path=f"{place.pointer}/{name}")

    def _identify(self, place: Place) -> None:
        """Registers the place's ``$id`` and anchors."""
        keywords = place.keywords
        given = keywords.get("$id")
        if isinstance(given, str):
            at = f"{place.pointer}/$id"
            uri, _, fragment = _join(place.resource.uri, given, at).partition("#")
            # "Non-empty fragments not allowed.", says 2020-12 of `$id` (meta/core); in draft-07 a fragment is an
            # anchor.
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
        # The same schema inlined twice does no harm.
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
        # A schema may refer to the schema of schemas, which is part of this package. Nothing else is outside: MCP
        # 2026-07-28 forbids to fetch references over the network, and a server's schema could name any host.
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


# -- the keywords of both dialects -----------------------------------------------------------------------------------

# https://json-schema.org/draft/2020-12/json-schema-core, https://json-schema.org/draft/2020-12/json-schema-validation,
# https://json-schema.org/draft-07/draft-handrews-json-schema-validation-01
#
# Keywords that do not affect validity (`title`, `format`, `contentEncoding`, unknown ones) are ignored.

Shape = Literal["one", "many", "named", "one_or_many", "named_or_names"]
"""The form in which a keyword contains schemas: one, in a list, by name, or either."""

Where = Literal["same", "below", "nowhere"]
"""The values of a keyword's schemas: the same value, parts inside it, none (definitions)."""

TYPES = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
"""The values of ``type``, with their names in messages."""


class Applicator(NamedTuple):
    """Describes a keyword that contains schemas."""

    shape: Shape
    where: Where


class Check(NamedTuple):
    """Holds the rule for a keyword's value."""

    fits: Callable[[Any], bool]
    should: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SchemaVersion:
    """Describes one version of JSON Schema."""

    name: str
    uri: str
    """The URI of its metaschema, without fragment."""
    applicators: Mapping[str, Applicator]
    checks: Mapping[str, Check]
    lone_reference: bool
    """True if ``$ref`` makes all keywords beside it void."""
    fragment_ids: bool
    """True if ``{"$id": "#name"}`` is an anchor."""

    def knows(self, keyword: str) -> bool:
        """Returns whether the keyword means anything in this dialect."""
        return keyword in self.applicators or keyword in self.checks


def _is_number(value: Any) -> bool:
    return kind_of(value) in (int, float)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_types(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return _is_names(value) and bool(value) and set(value) <= set(TYPES)


_TEXT = Check(lambda value: isinstance(value, str), "a string")
_COUNT = Check(lambda value: is_integer(value) and value >= 0, "a whole number from 0 on")
_NUMBER = Check(_is_number, "a number")
_NAMES = Check(_is_names, "a list of strings")
_ANCHOR = Check(
    lambda value: isinstance(value, str) and re.fullmatch(r"[A-Za-z_][-A-Za-z0-9._]*", value) is not None,
    "a name of letters, digits, '-', '_' and '.'",
)

_CHECKS = {
    **dict.fromkeys(("$ref", "$id", "$schema", "pattern"), _TEXT),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties"), _COUNT),
    "type": Check(_is_types, f"one of {', '.join(TYPES)}, or a list of those"),
    "enum": Check(lambda value: isinstance(value, list), "a list"),
    "const": Check(lambda value: True, "any value"),
    "multipleOf": Check(lambda value: _is_number(value) and value > 0, "a number greater than 0"),
    "uniqueItems": Check(lambda value: isinstance(value, bool), "true or false"),
    "required": _NAMES,
}

_CHECKS_2020_12 = {
    **_CHECKS,
    **dict.fromkeys(("$anchor", "$dynamicAnchor"), _ANCHOR),
    "$dynamicRef": _TEXT,
    **dict.fromkeys(("minContains", "maxContains"), _COUNT),
    "dependentRequired": Check(
        lambda value: isinstance(value, dict) and all(map(_is_names, value.values())), "an object of lists of strings"
    ),
}

_APPLICATORS = {
    **dict.fromkeys(("properties", "patternProperties"), Applicator("named", "below")),
    **dict.fromkeys(("additionalProperties", "propertyNames", "contains"), Applicator("one", "below")),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), Applicator("many", "same")),
    **dict.fromkeys(("not", "if", "then", "else"), Applicator("one", "same")),
    "definitions": Applicator("named", "nowhere"),
}

_APPLICATORS_2020_12 = {
    **_APPLICATORS,  # with `definitions`, which its metaschema keeps for older documents
    **dict.fromkeys(("items", "unevaluatedItems", "unevaluatedProperties"), Applicator("one", "below")),
    "prefixItems": Applicator("many", "below"),
    "dependentSchemas": Applicator("named", "same"),
    "$defs": Applicator("named", "nowhere"),
}

_APPLICATORS_DRAFT_07 = {
    **_APPLICATORS,
    "items": Applicator("one_or_many", "below"),
    "additionalItems": Applicator("one", "below"),
    "dependencies": Applicator("named_or_names", "same"),
}

DIALECTS = {
    dialect.name: dialect
    for dialect in (
        SchemaVersion(
            name="2020-12",
            uri="https://json-schema.org/draft/2020-12/schema",
            applicators=_APPLICATORS_2020_12,
            checks=_CHECKS_2020_12,
            lone_reference=False,
            fragment_ids=False,
        ),
        SchemaVersion(
            name="draft-07",
            uri="http://json-schema.org/draft-07/schema",
            applicators=_APPLICATORS_DRAFT_07,
            checks=_CHECKS,
            lone_reference=True,
            fragment_ids=True,
        ),
    )
}
"""The dialects by their names for `compile`."""

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


_2020_12 = "https://json-schema.org/draft/2020-12"
_VOCABULARIES = "applicator content core format-annotation format-assertion meta-data unevaluated validation"
_FILES = {
    "http://json-schema.org/draft-07/schema": "draft-07/schema.json",
    f"{_2020_12}/schema": "2020-12/schema.json",
    **{f"{_2020_12}/meta/{name}": f"2020-12/{name}.json" for name in _VOCABULARIES.split()},
}
"""The specifications' own schemas, unchanged, in the folder ``metaschemas``, by the URI that is their ``$id``."""


@cache
def metaschema(uri: str) -> Any:
    """Returns the schema that was published at `uri` (without fragment), or None; do not change it."""
    if uri not in _FILES:
        return None
    folder = resources.files("streamtools.schema.validation").joinpath("metaschemas")
    return json.loads(folder.joinpath(_FILES[uri]).read_text(encoding="utf-8"))
