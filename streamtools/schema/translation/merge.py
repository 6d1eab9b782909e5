"""Merges schemas: ``allOf`` into one that makes all demands together, and the outermost schema into that of an object,
since a call's arguments are one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import ExportError
from .document import ANNOTATIONS, DEFINITIONS, REFERENCES, SchemaDocument, pointer, reference_of, without

__all__ = ["Contradiction", "Lose", "is_union", "merge", "outermost"]


Lose = Callable[[str, str], None]
"""Takes the place of a keyword that cannot be kept, and the text that replaces it."""
NOT_SAID = "not said; only one of several could be"


class Contradiction(ExportError):
    """Raised for parts of one schema that no value can fit at once."""


def merge(document: SchemaDocument, parts: Sequence[tuple[str, Any]], lose: Lose) -> dict[str, Any]:
    """Returns one schema with the demands of all parts, their own references resolved.

    Args:
        document: the document of the parts.
        parts: schemas with their places; of keywords that can stand only once (a description), the first part's stays.
        lose: takes each keyword of which only the first part's could be kept.

    Raises:
        Contradiction: no value can fit all of them.
        ExportError: a part refers to itself.
    """
    merging = _Merging(document, lose)
    for place, part in parts:
        merging.add(place, part, ())
    merging.tell_what_opened()
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
                raise self.document.refused(place, "its allOf contains itself")
            self.add(at, inner, (*opened, at))

    def tell_what_opened(self) -> None:
        """Reports parts whose demands on further properties or items cannot be kept: those leave out names that the
        part itself has, not those that other parts have."""
        for place, part in self.parts:
            for keyword, names in _REMAINING.items():
                if part.get(keyword, True) is True:
                    continue
                if any(self.made.get(name, part.get(name)) != part.get(name) for name in names):
                    self.lose(pointer(place, keyword), "not said of what other parts of the same schema name")

    def _combine(self, keyword: str, value: Any, place: str) -> None:
        if keyword not in self.made:
            self.made[keyword] = value
            return
        before = self.made[keyword]
        if keyword in _COMBINED:
            self.made[keyword] = _COMBINED[keyword](before, value)
            if keyword in ("type", "enum") and self.made[keyword] == []:
                why = "contradicts what else is demanded at the same place"
                raise Contradiction(str(self.document.refused(pointer(place, keyword), why)))
        elif keyword not in ANNOTATIONS and before != value:
            self.lose(pointer(place, keyword), NOT_SAID)


def _types(before: Any, value: Any) -> Any:
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
"""Keywords about the properties or items that the keywords beside them do not name."""

_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
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
"""The functions that join two values of one keyword."""


_UNIONS = ("anyOf", "oneOf")
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties", "patternProperties", "propertyNames"})


def is_union(root: Mapping[str, Any]) -> bool:
    """Returns whether the outermost schema is a union, which Anthropic, among others, answers with a 400."""
    return any(keyword in root for keyword in (*_UNIONS, "allOf"))


def outermost(document: SchemaDocument, lose: Lose, *, flat: bool) -> dict[str, Any]:
    """Returns the outermost schema of type object, its reference resolved.

    With `flat`, a union becomes one object: with the properties of all alternatives, requiring those that all require.

    Raises:
        ExportError: the schema takes no object.
    """
    root = dict(document.root)
    if REFERENCES & root.keys():
        root = _merged(document, root, lose)
    kinds = root.get("type", "object")
    if "object" not in ([kinds] if isinstance(kinds, str) else kinds):
        raise document.refused("#", "the arguments of a call are an object, which this schema does not take")
    root["type"] = "object"
    if flat and is_union(root):
        root = _flattened(document, _merged(document, root, lose), lose)
    if not _OF_OBJECTS & root.keys() and not is_union(root):
        root["properties"] = {}
    return root


def _merged(document: SchemaDocument, root: Mapping[str, Any], lose: Lose) -> dict[str, Any]:
    """Returns a schema without reference and ``allOf``, definitions kept."""
    return {**merge(document, [("#", root)], lose), **{key: root[key] for key in DEFINITIONS if key in root}}


def _flattened(document: SchemaDocument, root: dict[str, Any], lose: Lose) -> dict[str, Any]:
    for keyword in _UNIONS:
        branches = root.pop(keyword, None)
        if branches is not None:
            lose(pointer("#", keyword), "not said; its alternatives became one object")
            objects = list(_objects(document, branches, keyword, lose))
            if not objects:
                raise document.refused(pointer("#", keyword), "no alternative takes an object, as arguments are")
            root = _one_object(root, objects)
    return root


def _objects(document: SchemaDocument, branches: list[Any], keyword: str, lose: Lose) -> Iterator[dict[str, Any]]:
    """Yields the alternatives that an object can fit, each as one schema without unions at its top."""
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
    """Returns one schema for a property that has several; constants become an enum."""
    if len(known) == 1:
        return known[0]
    constants = [one["const"] for one in known if isinstance(one, Mapping) and "const" in one]
    texts = len(constants) == len(known) and all(isinstance(constant, str) for constant in constants)
    return {"type": "string", "enum": constants} if texts else {"anyOf": known}
