"""Makes the outermost schema: always that of an object, since a call's arguments are one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .document import SchemaDocument, pointer
from .merge import Contradiction, Lose, merge
from .said import DEFINITIONS, REFERENCES

__all__ = ["is_union", "outermost"]

_UNIONS = ("anyOf", "oneOf")
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties", "patternProperties", "propertyNames"})


def is_union(root: Mapping[str, Any]) -> bool:
    """Returns whether the outermost schema is a union, which Anthropic, among others, answers with a 400."""
    return any(keyword in root for keyword in (*_UNIONS, "allOf"))


def outermost(document: SchemaDocument, lose: Lose, *, flat: bool) -> dict[str, Any]:
    """Returns the outermost schema of type object, its reference resolved.

    Args:
        document: the tool's schema.
        lose: takes each place that cannot be kept.
        flat: make one object of a union: with the properties of all alternatives, requiring those that all require.

    Raises:
        ExportError: the schema takes no object.
    """
    root = dict(document.root)
    if REFERENCES & root.keys():
        root = _merged(document, root, lose)
    if "object" not in _kinds(root):
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


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema.get("type", "object")
    return [kinds] if isinstance(kinds, str) else list(kinds)
