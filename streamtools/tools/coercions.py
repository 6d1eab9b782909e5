"""What lax validation had to turn into something else: ``priority: string to integer``, a line for each place.

Strict validation's errors say where; the value that came out says into what. Values are never quoted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import ValidationError

from ..schema.paths import dotted
from .problems import listed, locate

__all__ = ["BY_LAX_RULES", "coercions_of", "json_type"]

BY_LAX_RULES = "the arguments: by lax rules"
"""Where the place cannot be told: only which of several models fits best was decided by lax rules."""

_JSON_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_PYTHON_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dt.datetime: "datetime",
    dt.date: "date",
    dt.time: "time",
    dt.timedelta: "duration",
}
_WANTED: Mapping[str, str] = {
    "bool_type": "boolean",
    "int_type": "integer",
    "float_type": "number",
    "string_type": "string",
    "datetime_type": "datetime",
    "datetime_parsing": "datetime",
    "date_type": "date",
    "date_parsing": "date",
    "time_type": "time",
    "time_parsing": "time",
    "time_delta_type": "duration",
    "time_delta_parsing": "duration",
    "decimal_type": "decimal",
    "enum": "enum",
}
"""Strict errors that lax rules may get over in JSON, and what is wanted there."""

_ABSENT = object()


def json_type(value: Any) -> str:
    """JSON Schema's name for the type of a plain JSON value."""
    return _JSON_TYPES[type(value)]


def coercions_of(strict: ValidationError, arguments: dict[str, Any], value: Any) -> tuple[str, ...]:
    """A line for each coercion, at most 16 and one that counts the rest.

    Args:
        strict: what strict validation of `arguments` raised.
        arguments: the arguments as plain JSON.
        value: what lax validation made of them.
    """
    wanted: dict[tuple[str | int, ...], dict[str, None]] = {}  # kinds, each once and in order
    given: dict[tuple[str | int, ...], str] = {}
    for item in strict.errors(include_url=False, include_context=False, include_input=False):
        kind = _WANTED.get(item["type"])
        path, _, found = locate(item, arguments)
        if kind is None or isinstance(found, (list, dict)):
            continue  # of a union's member that was not taken: nothing scalar is ever made of those
        given[path] = json_type(found)
        wanted.setdefault(path, {})[kind] = None
    lines = [
        f"{dotted(path) or 'the arguments'}: {given[path]} to {into}"
        for path, kinds in wanted.items()
        if (into := _into(kinds, _follow(value, path))) != given[path]
    ]
    return tuple(listed(lines)) or (BY_LAX_RULES,)


def _into(kinds: Iterable[str], made: Any) -> str:
    """What the value became: what it is, or, where it cannot be looked at, what the types ask for."""
    return _PYTHON_TYPES.get(type(made), " or ".join(kinds))


def _follow(value: Any, path: tuple[str | int, ...]) -> Any:
    """What stands at `path` in the validated value, as far as its containers are plain."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
        value = value[1]  # (args, kwargs) of a signature
    for part in path:
        inner = value if isinstance(value, (dict, list, tuple)) else getattr(value, "__dict__", None)
        try:
            value = inner[part]  # type: ignore[index]  # None has no items: a TypeError like any other misfit
        except (KeyError, IndexError, TypeError):
            return _ABSENT
    return value
