"""Derives from the type of a field how it is sent: as JSON, in a JSON Schema, in TypeScript.

In: annotations of the library's own classes. Out: a `Shape` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import orjson

from ..dispatch.results import no_content
from ..parts import COUNTS, Finding, Usage
from .encoding import plain


@dataclass(frozen=True, slots=True)
class Shape:
    """The forms of one type."""

    schema: Mapping[str, Any]
    typescript: str
    write: Callable[[Any], Any] | None = None
    """Makes JSON of a value; None if it is JSON."""


def _usage(usage: Usage) -> dict[str, int]:
    return {name: count for name in COUNTS if (count := getattr(usage, name)) is not None}


_COUNT = {"type": "integer", "minimum": 0}
_SHAPES: Mapping[Any, Shape] = {
    str: Shape({"type": "string"}, "string"),
    int: Shape({"type": "integer"}, "number"),
    float: Shape({"type": "number"}, "number"),
    bool: Shape({"type": "boolean"}, "boolean"),
    NoneType: Shape({"type": "null"}, "null"),
    Any: Shape({}, "unknown", lambda value: plain(value, no_content(value))),
    Finding: Shape({"type": "string"}, "string", str),
    Usage: Shape(
        {"type": "object", "properties": dict.fromkeys(COUNTS, _COUNT), "additionalProperties": False},
        f"{{ {' '.join(f'{one.name}?: number;' for one in fields(Usage))} }}",
        _usage,
    ),
}


@cache
def shape_of(hint: Any) -> Shape:
    """Returns how the values of an annotation are sent."""
    if hint in _SHAPES:
        return _SHAPES[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return Shape({"enum": [*arguments]}, " | ".join(orjson.dumps(word).decode() for word in arguments))
    if origin in (Union, UnionType):
        return _either([shape_of(one) for one in arguments])
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return _several(shape_of(arguments[0]))
    if origin is not None and issubclass(dict, origin):
        return Shape({"type": "object"}, "Record<string, unknown>", lambda value: plain(value, {}))
    raise TypeError(f"a field of type {hint} cannot be sent")


def without_none(hint: Any) -> Any:
    """Returns the annotation of a field that is left out where it is None."""
    left = [one for one in get_args(hint) if one is not NoneType]
    return Union[tuple(left)] if get_origin(hint) in (Union, UnionType) else hint  # noqa: UP007


def _either(shapes: list[Shape]) -> Shape:
    writes = [one.write for one in shapes if one.write is not None]
    assert len(writes) <= 1, "which of two ways to write a value is meant cannot be seen"
    write = (lambda value: None if value is None else writes[0](value)) if writes else None
    return Shape({"anyOf": [one.schema for one in shapes]}, " | ".join(one.typescript for one in shapes), write)


def _several(shape: Shape) -> Shape:
    item, write = shape.typescript, shape.write or (lambda value: value)
    typescript = f"({item})[]" if "|" in item else f"{item}[]"
    return Shape({"type": "array", "items": shape.schema}, typescript, lambda values: [*map(write, values)])
