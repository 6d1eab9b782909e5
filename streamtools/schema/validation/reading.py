"""Copies a schema that somebody gave: plain JSON only, and no more of it than the limits allow."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...errors import SchemaError
from ...limits import Limits
from .. import Kept

__all__ = ["escaped", "read_schema", "refuse_size"]

LEVELS_PER_SCHEMA = 4
"""Levels of JSON for each level of schemas: two for most keywords (``{"properties": {"a": {}}}``), and room for the
values of ``const`` and ``default``."""
MAX_NAME_CHARS = 128  # of a name in a pointer
MAX_INTEGER_BITS = 14_000  # some 4,200 digits: Python writes no longer integers

Token = str | int
Trail = tuple["Trail", Token] | None
"""A path from its end: the path to the parent, and the last step. Made without copying, spelled only for errors."""


class _Item(NamedTuple):
    value: Any
    into: Any  # the list or dict of the copy
    name: Token
    level: int
    trail: Trail


def read_schema(schema: Any, limits: Limits) -> Any:
    """Copies a schema, or checks one that is `Kept`. `limits` bound the time and the depth, whatever the schema.

    Raises:
        SchemaError: the schema is not plain JSON, or exceeds ``max_schema_bytes``, ``max_schema_values`` or four times
            ``max_schema_depth`` levels.
    """
    kept = schema.schema if isinstance(schema, Kept) else None
    top: list[Any] = [None]
    size = count = 0
    waiting = [_Item(schema if kept is None else kept, top, 0, 0, None)]
    while waiting:
        item = waiting.pop()
        copied, cost, children = _copy(item, limits)
        if kept is None:
            item.into[item.name] = copied
        size += cost
        if size > limits.max_schema_bytes:
            raise refuse_size("is larger than", "max_schema_bytes", limits.max_schema_bytes)
        count += 1
        if count + len(waiting) + len(children) > limits.max_schema_values:
            raise refuse_size("holds more JSON values than", "max_schema_values", limits.max_schema_values)
        waiting.extend(children)
    return top[0] if kept is None else kept


def _copy(item: _Item, limits: Limits) -> tuple[Any, int, list[_Item]]:
    """Returns the copy, its bytes as compact JSON without the values inside, and these values."""
    value = item.value
    if isinstance(value, (dict, list)):
        if item.level > LEVELS_PER_SCHEMA * limits.max_schema_depth:
            pointer = pointer_of(item.trail)
            raise refuse_size("is nested deeper than", "max_schema_depth", limits.max_schema_depth, pointer)
        if 2 * len(value) > limits.max_schema_bytes:  # before anything is allocated
            raise refuse_size("is larger than", "max_schema_bytes", limits.max_schema_bytes)
        return _copy_object(value, item) if isinstance(value, dict) else _copy_array(value, item)
    if value is None or isinstance(value, bool):
        return value, 4, []
    if isinstance(value, str):
        return str.__str__(value), _text_bytes(value), []
    return *_copy_number(value, item.trail), []


def _copy_object(value: dict[Any, Any], item: _Item) -> tuple[Any, int, list[_Item]]:
    copied: dict[str, Any] = {}
    cost = 2
    children = []
    for name, child in value.items():
        if not isinstance(name, str):
            raise SchemaError(f"has a key of type {type(name).__name__}; keys are strings", path=pointer_of(item.trail))
        cost += _text_bytes(name) + 2
        copied[name] = None  # reserves the place, so that the order stays
        children.append(_Item(child, copied, str.__str__(name), item.level + 1, (item.trail, name)))
    return copied, cost, children


def _copy_array(value: list[Any], item: _Item) -> tuple[Any, int, list[_Item]]:
    copied: list[Any] = [None] * len(value)
    children = [_Item(child, copied, index, item.level + 1, (item.trail, index)) for index, child in enumerate(value)]
    return copied, 2 + len(value), children


def _copy_number(value: Any, trail: Trail) -> tuple[Any, int]:
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise SchemaError("is an integer of more than four thousand digits", path=pointer_of(trail))
        return int.__int__(value), 1 + value.bit_length() // 4
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SchemaError("is no finite number, so that JSON cannot hold it", path=pointer_of(trail))
        return float.__float__(value), 8
    raise SchemaError(f"is a {type(value).__name__}; a schema is plain JSON", path=pointer_of(trail))


def _text_bytes(text: str) -> int:
    return 2 + (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))


def pointer_of(trail: Trail) -> str:
    """Returns a JSON pointer as a fragment: ``#/properties/a~1b``."""
    tokens = []
    while trail is not None:
        trail, token = trail
        tokens.append("/" + escaped(str(token)))
    return "#" + "".join(reversed(tokens))


def escaped(name: str) -> str:
    """Returns a name as a step of a JSON pointer; a very long one is cut."""
    shown = name if len(name) <= MAX_NAME_CHARS else name[:MAX_NAME_CHARS] + "..."
    return shown.replace("~", "~0").replace("/", "~1")


def refuse_size(what: str, setting: str, limit: int, path: str = "#") -> SchemaError:
    """Returns the error for a schema that exceeds the field `setting` of `Limits`."""
    return SchemaError(f"the schema {what} {setting}={limit}; raise Limits({setting}=...) if this is wanted", path=path)
