"""JSON values: which kind one is, when two are equal, how a value of a schema is spelled in a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

__all__ = [
    "KINDS",
    "OTHER",
    "TooDeep",
    "deeper_than",
    "equal",
    "is_integer",
    "is_multiple",
    "key_of",
    "kind_of",
    "scalar_key",
    "size_of",
    "spelled",
]

KINDS: tuple[type, ...] = (dict, list, str, int, float, bool, type(None))
"""The Python types of plain JSON."""


class OTHER:
    """Stands for the type of what is no JSON value at all."""


MAX_SPELLED_CHARS = 40  # one value of a schema in a message
_BIG = 1 << 61  # hash() of smaller integers is the integer itself: nobody can make them collide


class TooDeep(Exception):
    """A value is nested deeper than it may be where it has to be compared."""


def kind_of(value: Any) -> type:
    """The type of `KINDS` that `value` is an instance of; `OTHER` if it is of none."""
    if isinstance(value, bool):
        return bool
    return next((kind for kind in KINDS if isinstance(value, kind)), OTHER)


def is_integer(value: Any) -> bool:
    """A whole number: 1.0 is one in JSON Schema, True is none."""
    kind = kind_of(value)
    return kind is int or (kind is float and float(value).is_integer())


def is_multiple(value: float, divisor: float) -> bool:
    """Whether `value` divided by `divisor` is whole, by the decimals that are written: 0.3 is a multiple of 0.1."""
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor == 0
    try:
        return (_exact(value) / _exact(divisor)).denominator == 1
    except ValueError:  # infinity, which no JSON text can hold
        return False


def _exact(number: float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(float(number)))


def equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 and 1.0 are, True and 1 are not. As deep as both are alike."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(item, other[name]) for name, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, (dict, list)) or isinstance(other, (dict, list)):
        return False
    return scalar_key(one) == scalar_key(other)


def size_of(value: Any) -> int:
    """How many values a value of a schema consists of."""
    if not isinstance(value, (dict, list)):
        return 1
    return 1 + sum(map(size_of, value.values() if isinstance(value, dict) else value))


def scalar_key(value: Any) -> Hashable:
    """A key that is equal for equal JSON values, of what is neither object nor array."""
    kind = type(value)
    if kind is str or value is None:
        return value  # type: ignore[no-any-return]
    kind = kind_of(value)
    if kind is bool:
        return bool, bool(value)
    if kind is int or kind is float:
        return _number_key(value)
    return str.__str__(value) if kind is str else (kind, id(value))


def key_of(value: Any, depth: int, spend: Callable[[int], None]) -> Hashable:
    """A key that is equal for equal JSON values.

    Args:
        value: plain JSON.
        depth: how deep it may be nested.
        spend: is told the sizes of the objects and arrays in it.

    Raises:
        TooDeep: it is nested deeper.
    """
    if not isinstance(value, (dict, list)):
        return scalar_key(value)
    if depth < 1:
        raise TooDeep
    spend(len(value))
    if isinstance(value, list):
        return list, tuple(key_of(item, depth - 1, spend) for item in value)
    return dict, frozenset((name, key_of(item, depth - 1, spend)) for name, item in value.items())


def _number_key(value: float) -> Hashable:
    """Python hashes big integers modulo a prime, so that a peer could make any number of them collide; their digits
    are hashed with a secret."""
    if -_BIG < value < _BIG:
        return value
    return (int, format(int(value), "x")) if is_integer(value) else value


def deeper_than(value: Any, limit: int, *, size: int) -> bool:
    """Whether `value` is nested deeper than `limit`, or holds more than `size` values: found without recursion."""
    level, seen = [value], 0
    for _ in range(limit + 1):
        found: list[Any] = []
        for item in level:
            if isinstance(item, (dict, list)):
                found.extend(item.values() if isinstance(item, dict) else item)
        seen += len(found)
        if not found:
            return False
        if seen > size:
            return True
        level = found
    return True


def spelled(value: Any) -> str:
    """A value of a schema as JSON, cut after some characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):  # an integer of more digits than Python writes
        return "a very long number"
    return text if len(text) <= MAX_SPELLED_CHARS else text[:MAX_SPELLED_CHARS] + "..."
