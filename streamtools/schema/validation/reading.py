"""Copies a schema within limits, before anything else looks at it: without recursion, and counted as it is copied."""

from __future__ import annotations

import math
from typing import Any

from ...errors import SchemaError
from ...limits import Limits
from .. import Kept

LEVELS_PER_SCHEMA = 4
"""Levels of JSON for each level of schemas: two for most keywords (``{"properties": {"a": {}}}``), and as many for the
values of ``const`` and ``default``."""
MAX_NAME_CHARS = 128  # of a name in a pointer
MAX_INTEGER_BITS = 1023  # some 300 digits, as a float has: each comparison with a longer one takes its time

Token = str | int
Trail = tuple["Trail", Token] | None
"""A path from its end: the path to the parent, and the last step. Made without copying, spelled only for errors."""


def read_schema(schema: Any, limits: Limits) -> Any:
    """Copies a schema, or checks one that is `Kept`; raises a `SchemaError` if it is no JSON, or too large."""
    # Without recursion, and counted before it is copied: the schema may be a server's, nested or as large as it likes.
    kept = schema.schema if isinstance(schema, Kept) else None
    top: list[Any] = [None]
    size, count = 0, 1  # as compact JSON
    waiting: list[tuple[Any, Any, Any, int, Trail]] = [(schema if kept is None else kept, top, 0, 0, None)]
    while waiting:
        value, into, at, level, trail = waiting.pop()
        copied: Any = None
        if isinstance(value, (dict, list)):
            if level > LEVELS_PER_SCHEMA * limits.max_schema_depth:
                raise refuse_size(
                    "is nested deeper than", "max_schema_depth", limits.max_schema_depth, pointer_of(trail)
                )
            size += 2 + len(value)
            count += len(value)
            if isinstance(value, dict) and size <= limits.max_schema_bytes:
                size += sum(1 + _name_bytes(name, trail) for name in value)
        else:
            copied, cost = _copied(value, trail)
            size += cost
        if size > limits.max_schema_bytes:
            raise refuse_size("is larger than", "max_schema_bytes", limits.max_schema_bytes)
        if count > limits.max_schema_values:
            raise refuse_size("has more JSON values than", "max_schema_values", limits.max_schema_values)
        if isinstance(value, dict):
            copied = dict.fromkeys(map(str.__str__, value))  # reserves the places, so that the order stays
            parts = ((str.__str__(name), inner) for name, inner in value.items())
            waiting.extend((inner, copied, name, level + 1, (trail, name)) for name, inner in parts)
        elif isinstance(value, list):
            copied = [None] * len(value)
            waiting.extend((inner, copied, index, level + 1, (trail, index)) for index, inner in enumerate(value))
        if kept is None:
            into[at] = copied
    return top[0] if kept is None else kept


def _copied(value: Any, trail: Trail) -> tuple[Any, int]:
    if value is None or isinstance(value, bool):
        return value, 4
    if isinstance(value, str):
        return str.__str__(value), _text_bytes(value)
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise SchemaError("is an integer with more than three hundred digits", path=pointer_of(trail))
        return int.__int__(value), 1 + value.bit_length() // 4
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SchemaError("expected a number that JSON has, got one that is not finite", path=pointer_of(trail))
        return float.__float__(value), 8
    raise SchemaError(f"expected plain JSON, got a {type(value).__name__}", path=pointer_of(trail))


def _name_bytes(name: Any, trail: Trail) -> int:
    if not isinstance(name, str):
        raise SchemaError(f"expected strings as keys, got a {type(name).__name__}", path=pointer_of(trail))
    return _text_bytes(name)


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
    return SchemaError(f"the schema {what} {setting}={limit}; raise Limits({setting}=...) if this is wanted", path=path)
