"""Compares and merges schemas: whether a value has the form of one, whether a value can have the forms of two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ...errors import ExportError
from .document import ANNOTATIONS, DEFINITIONS, REFERENCES, SchemaDocument, pointer, reference_of, without
from .plan import Translation

# The form is types, keys and constants, not bounds. Those are left to validation, whose errors have the reason: a
# number out of its bounds still belongs to its alternative.

Definitions = Callable[[str], Translation | None]


def defined(schema: Mapping[str, Any], definitions: Definitions) -> dict[str, Any] | None:
    found = definitions(schema["$ref"].rpartition("/")[2])
    return None if found is None else found.schema


def kinds_in(schema: Mapping[str, Any]) -> list[str] | None:
    kinds = schema.get("type")
    if kinds is None:
        return None
    return [*([kinds] if isinstance(kinds, str) else kinds), *(["null"] if schema.get("nullable") else [])]


def values_in(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    if values is None:
        return None
    return [*values, None] if schema.get("nullable") else list(values)


def is_closed(schema: Mapping[str, Any]) -> bool:
    # One that lists properties without mentioning others does: the model is asked for no others.
    return schema.get("additionalProperties", not schema.get("properties")) is False


def same(one: Any, other: Any) -> bool:
    """Returns whether two plain JSON values are equal: 1 is 1.0, but not true."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def is_of(value: Any, kinds: Collection[str]) -> bool:
    """Returns whether a value is of one of the types; 1.0 is an integer, too."""
    kind = kind_of(value)
    # ""integer" which matches any number with a zero fractional part":
    # https://json-schema.org/draft/2020-12/json-schema-validation#section-6.1.1
    whole = isinstance(value, float) and value.is_integer()
    return kind in kinds or (kind == "integer" and "number" in kinds) or (whole and "integer" in kinds)


def fits(schema: Mapping[str, Any], definitions: Definitions, value: Any, found: dict[tuple[int, int], bool]) -> bool:
    """Returns whether a value fits; looks at most once at each part of the value for each part of the schema. `found`
    has the known results for parts of the same arguments, by identity; more are added."""
    return _Fitting(definitions, found).fits(schema, value)


class _Fitting:
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
            assert meant is not None, "every definition is made before there are values"
            return self.fits(meant, value)
        if "anyOf" in schema:
            null = value is None and bool(schema.get("nullable"))
            return null or any(self.fits(branch, value) for branch in schema["anyOf"])
        kinds, allowed = kinds_in(schema), values_in(schema)
        if kinds is not None and not is_of(value, kinds):
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


ALL = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_NUMBERS = frozenset({"integer", "number"})
MAX_STEPS = 200
"""Pairs of schemas that are compared before two count as not apart, since schemas may refer to themselves."""


class Separation:
    """Says whether certainly no value fits two schemas, by types, keys and constants."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.steps = 0

    def apart(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        self.steps += 1
        if self.steps > MAX_STEPS:
            return False
        for this, that in ((one, other), (other, one)):
            if "$ref" in this:
                meant = defined(this, self.definitions)
                return meant is None or self.apart(meant, that)  # not known yet: the next build knows
            if "anyOf" in this:
                may_both_be_null = this.get("nullable") and "null" in types_of(that, self.definitions)
                return not may_both_be_null and all(self.apart(branch, that) for branch in this["anyOf"])
        these, those = types_of(one, self.definitions), types_of(other, self.definitions)
        if not these & those and not (these & _NUMBERS and those & _NUMBERS):
            return True
        values, rivals = values_in(one), values_in(other)
        if values is not None and rivals is not None:
            return not any(same(value, rival) for value in values for rival in rivals)
        return these == those == {"object"} and self._objects_apart(one, other)

    def _objects_apart(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        for this, that in ((one, other), (other, one)):
            if is_closed(that) and not set(this.get("required", ())) <= that.get("properties", {}).keys():
                return True
        shared = [name for name in one.get("required", ()) if name in other.get("required", ())]
        return any(self.apart(one["properties"][name], other["properties"][name]) for name in shared)


def types_of(schema: Mapping[str, Any], definitions: Definitions, seen: set[str] | None = None) -> frozenset[str]:
    """Returns the JSON types that a schema accepts; all of them where they are not known (yet). A reference in `seen`,
    to which this adds, counts no second time."""
    seen = set() if seen is None else seen
    if "$ref" in schema:
        meant = defined(schema, definitions)
        if meant is None:
            return ALL
        if schema["$ref"] in seen:
            return frozenset()
        seen.add(schema["$ref"])
        return types_of(meant, definitions, seen)
    if "anyOf" in schema:
        found = frozenset[str]().union(*(types_of(branch, definitions, seen) for branch in schema["anyOf"]))
        return found | {"null"} if schema.get("nullable") else found
    kinds = kinds_in(schema)
    return ALL if kinds is None else frozenset(kinds)


# -- one schema of several --


Lose = Callable[[str, str], None]
NOT_EXPRESSED = "not expressed; only one of several could be"


class Contradiction(ExportError):
    """Raised for parts of one schema that no value can fit at once."""


def merge(document: SchemaDocument, parts: Sequence[tuple[str, Any]], lose: Lose) -> dict[str, Any]:
    """Returns one schema with the demands of all parts, their own references resolved; raises `Contradiction` if no
    value can fit all of them. Of keywords that can occur only once (a description), the first part's stays; `lose`
    records those."""
    merging = _Merging(document, lose)
    for place, part in parts:
        merging.add(place, part, ())
    merging.report_opened()
    return merging.made


class _Merging:
    def __init__(self, document: SchemaDocument, lose: Lose) -> None:
        self.document = document
        self.lose = lose
        self.made: dict[str, Any] = {}
        self.parts: list[tuple[str, Mapping[str, Any]]] = []

    def add(self, place: str, part: Any, opened: tuple[str, ...]) -> None:
        self.document.spend(part, place)
        if part is True:
            return
        if not isinstance(part, Mapping):
            raise Contradiction(str(self.document.refused(place, "accepts nothing")))
        self.parts.append((place, part))
        for keyword, value in without(part, REFERENCES, DEFINITIONS).items():
            if keyword == "allOf":
                for number, inner in enumerate(value):
                    self.add(pointer(place, keyword, number), inner, opened)
            else:
                self._combine(keyword, value, place)
        reference = reference_of(part)
        if reference is not None:
            at, inner = self.document.target(reference, place)
            if at in opened:
                raise self.document.refused(place, "the allOf contains itself")
            self.add(at, inner, (*opened, at))

    def report_opened(self) -> None:
        # `additionalProperties` of a part is about the names that this part itself does not have. In one schema it
        # would be about those that all parts together do not have.
        for place, part in self.parts:
            for keyword, names in _REMAINING.items():
                if part.get(keyword, True) is True:
                    continue
                if any(self.made.get(name, part.get(name)) != part.get(name) for name in names):
                    self.lose(pointer(place, keyword), "not expressed for the names in other parts of the same schema")

    def _combine(self, keyword: str, value: Any, place: str) -> None:
        if keyword not in self.made:
            self.made[keyword] = value
            return
        before = self.made[keyword]
        if keyword in _COMBINED:
            self.made[keyword] = _COMBINED[keyword](before, value)
            if keyword in ("type", "enum") and self.made[keyword] == []:
                why = "contradicts another rule for the same place"
                raise Contradiction(str(self.document.refused(pointer(place, keyword), why)))
        elif keyword not in ANNOTATIONS and before != value:
            self.lose(pointer(place, keyword), NOT_EXPRESSED)


def _merged_types(before: Any, value: Any) -> Any:
    one, other = ([kinds] if isinstance(kinds, str) else list(kinds) for kinds in (before, value))
    both = [kind for kind in one if kind in other or (kind == "integer" and "number" in other)]
    both += [kind for kind in other if kind == "integer" and "number" in one and kind not in both]
    return both[0] if len(both) == 1 else both


def _both(before: Any, value: Any) -> Any:
    if before is True or value is False or before == value:
        return value
    if value is True or before is False:
        return before
    return {"allOf": [before, value]}


def _properties(before: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(before)
    for name, inner in value.items():
        made[name] = _both(made[name], inner) if name in made else inner
    return made


_REMAINING = {"additionalProperties": ("properties", "patternProperties"), "items": ("prefixItems",)}
"""Keywords about the properties or items beyond those that the given keywords name."""

_COMBINED: dict[str, Callable[[Any, Any], Any]] = {  # the functions that join two values of one keyword
    "type": _merged_types,
    "properties": _properties,
    "patternProperties": _properties,
    "additionalProperties": _both,
    "items": _both,
    "propertyNames": _both,
    "required": lambda before, value: [*before, *(name for name in value if name not in before)],
    "enum": lambda before, value: [one for one in before if one in value],
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}


_UNIONS = ("anyOf", "oneOf")
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties", "patternProperties", "propertyNames"})


def is_union(root: Mapping[str, Any]) -> bool:
    # Anthropic: "input_schema does not support oneOf, allOf, or anyOf at the top level" (langchain-ai/langchain#39271).
    return any(keyword in root for keyword in (*_UNIONS, "allOf"))


def outermost(document: SchemaDocument, lose: Lose, *, flat: bool) -> dict[str, Any]:
    """Returns the outermost schema of type object, its reference resolved. With `flat`, a union becomes one object:
    with the properties of all alternatives, requiring those that all require."""
    root = dict(document.root)
    if REFERENCES & root.keys():
        root = _merged(document, root, lose)
    kinds = root.get("type", "object")
    if "object" not in ([kinds] if isinstance(kinds, str) else kinds):
        raise document.refused("#", "the arguments of a call are an object, but this schema accepts no object")
    root["type"] = "object"
    if flat and is_union(root):
        root = _flattened(document, _merged(document, root, lose), lose)
    if not _OF_OBJECTS & root.keys() and not is_union(root):
        root["properties"] = {}
    return root


def _merged(document: SchemaDocument, root: Mapping[str, Any], lose: Lose) -> dict[str, Any]:
    return {**merge(document, [("#", root)], lose), **{key: root[key] for key in DEFINITIONS if key in root}}


def _flattened(document: SchemaDocument, root: dict[str, Any], lose: Lose) -> dict[str, Any]:
    for keyword in _UNIONS:
        branches = root.pop(keyword, None)
        if branches is not None:
            # What one alternative demands of another's properties is lost: validation against the tool's own schema
            # still refuses a mixture of two.
            lose(pointer("#", keyword), "not expressed; its alternatives became one object")
            objects = list(_objects(document, branches, keyword, lose))
            if not objects:
                raise document.refused(pointer("#", keyword), "no alternative accepts an object, but arguments are one")
            root = _one_object(root, objects)
    return root


def _objects(document: SchemaDocument, branches: list[Any], keyword: str, lose: Lose) -> Iterator[dict[str, Any]]:
    for number, branch in enumerate(branches):
        place = pointer("#", keyword, number)
        try:
            merged = merge(document, [(place, branch), (place, {"type": "object"})], lose)
        except Contradiction:
            continue
        yield _flattened(document, merged, lose)


def _one_object(base: Mapping[str, Any], objects: list[dict[str, Any]]) -> dict[str, Any]:
    own = base.get("properties", {})
    properties: dict[str, list[Any]] = {name: [inner] for name, inner in own.items()}
    for branch in objects:
        for name, inner in branch.get("properties", {}).items():
            known = properties.setdefault(name, [])
            if name not in own and inner not in known:
                known.append(inner)
    made = {**base, "properties": {name: _either(known) for name, known in properties.items()}}
    required = list(base.get("required", ()))
    required += [name for name in properties if all(name in branch.get("required", ()) for branch in objects)]
    if required:
        made["required"] = list(dict.fromkeys(required))
    if all(branch.get("additionalProperties") is False for branch in objects):
        made["additionalProperties"] = False
    return made


def _either(known: list[Any]) -> Any:
    if len(known) == 1:
        return known[0]
    # The discriminator of a union of objects has a constant in each: together they are the values to choose from.
    constants = [one["const"] for one in known if isinstance(one, Mapping) and "const" in one]
    texts = len(constants) == len(known) and all(isinstance(constant, str) for constant in constants)
    return {"type": "string", "enum": constants} if texts else {"anyOf": known}
