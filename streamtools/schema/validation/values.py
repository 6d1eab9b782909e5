"""Handles JSON values: finds their kind, compares them, spells them in messages; and copies a schema within limits."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

from ...errors import SchemaError
from ...limits import Limits
from .. import Kept

KINDS: tuple[type, ...] = (dict, list, str, int, float, bool, type(None))
"""The Python types of plain JSON."""


class OTHER:
    """Stands for the type of a value that is not a JSON value at all."""


MAX_SPELLED_CHARS = 40  # of one value of a schema in a message
_MAX_DIGITS = 4300  # of an integer that Python reads by default
_STEPS_PER_DECIMALS = 8  # a division of decimals: some 3 µs
_BIG = 1 << 61  # hash() of smaller integers is the integer itself: a peer cannot make them collide


class _Spending(Protocol):
    """Counts work, as a `ValidationRun` does."""

    def spend(self, steps: int, /) -> None: ...
    def spend_on_text(self, chars: int, /) -> None: ...


class TooDeep(Exception):
    """Raised for a value that is nested too deep to be compared."""


def kind_of(value: Any) -> type:
    """Returns the first type of `KINDS` that `value` is an instance of; `OTHER` for any other value."""
    if isinstance(value, bool):
        return bool
    return next((kind for kind in KINDS if isinstance(value, kind)), OTHER)


def is_integer(value: Any) -> bool:
    """Returns whether a value is a whole number: in JSON Schema 1.0 is one, True is not."""
    kind = kind_of(value)
    return kind is int or (kind is float and float(value).is_integer())


def is_multiple(value: float, divisor: float) -> bool:
    """Returns whether `value` divided by `divisor` is whole, by the decimals as written: 0.3 is a multiple of 0.1."""
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor == 0
    # By integers: as floats, 0.3 / 0.1 is 2.9999999999999996.
    try:
        (number, exponent), (part, part_exponent) = _decimal(value), _decimal(divisor)
    except ValueError:  # infinity, which JSON does not have
        return False
    shift = exponent - part_exponent
    if shift >= 0:
        return number * pow(10, shift, part) % part == 0
    # No number of a JSON text has more digits than Python reads, so a divisor with more zeros divides only 0.
    return number == 0 or (-shift <= _MAX_DIGITS and number % (part * 10**-shift) == 0)


def division_cost(value: float, divisor: float) -> int:
    """Returns the cost of `is_multiple`, in steps."""
    if type(value) is float or type(divisor) is float:
        return _STEPS_PER_DECIMALS
    return int(value).bit_length() * int(divisor).bit_length() >> 20


def _decimal(number: float) -> tuple[int, int]:
    """Returns a finite number as it is written: an integer, and the power of ten that it is multiplied by."""
    if isinstance(number, int):
        return number, 0
    mantissa, _, exponent = repr(float(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    return int(whole + fraction), int(exponent or 0) - len(fraction)


def equal(one: Any, other: Any) -> bool:
    """Returns whether two JSON values are equal: 1 and 1.0 are, True and 1 are not."""
    # Numbers are equal if they "have the same mathematical value", and a boolean is not a number, though Python's is:
    # https://json-schema.org/draft/2020-12/json-schema-core#section-4.2.2
    # Recurses as deep as both are alike: one of them is of the schema, whose depth is bounded.
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(item, other[name]) for name, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, (dict, list)) or isinstance(other, (dict, list)):
        return False
    return scalar_key(one) == scalar_key(other)


def size_of(value: Any) -> int:
    """Returns the steps of comparing with a value of a schema: by the number of its values, and the length of texts."""
    if isinstance(value, str):
        return 1 + len(value) // 64
    if not isinstance(value, (dict, list)):
        return 1
    return 1 + sum(map(size_of, value.values() if isinstance(value, dict) else value))


def scalar_key(value: Any) -> Hashable:
    """Returns a key of a value other than an object or array, equal for equal JSON values."""
    kind = type(value)
    if kind is str or value is None:
        return value  # type: ignore[no-any-return]
    kind = kind_of(value)
    if kind is bool:
        return bool, bool(value)
    if kind is int or kind is float:
        return _number_key(value)
    return str.__str__(value) if kind is str else (kind, id(value))


def key_of(value: Any, depth: int, spending: _Spending) -> Hashable:
    """Returns a key that is equal for equal JSON values; raises `TooDeep` beyond `depth`."""
    if not isinstance(value, (dict, list)):
        return scalar_key(value)
    # A text, which Python hashes with a secret. A peer could make the hashes of tuples of numbers collide.
    written: list[str] = []
    _write(value, depth, spending, written)
    text = "".join(written)
    spending.spend_on_text(len(text))
    return text.encode("utf-8", "surrogatepass")


def _write(value: Any, depth: int, spending: _Spending, out: list[str]) -> None:
    """Writes a value so that equal values, and only those, are written alike."""
    if isinstance(value, str):
        out.append(f"{len(value)}:{value}")
    elif isinstance(value, (dict, list)):
        if depth < 1:
            raise TooDeep
        spending.spend(len(value))
        if isinstance(value, list):
            out.append("[")
            for item in value:
                _write(item, depth - 1, spending, out)
        else:
            out.append("{")
            for name in sorted(value):
                out.append(f"{len(name)}:{name}")
                _write(value[name], depth - 1, spending, out)
        out.append("]")
    elif is_integer(value):
        out.append(f"{int(value):x};")
    else:
        out.append(f"{value!r};" if kind_of(value) is not OTHER else f"{kind_of(value)}{id(value)};")


def _number_key(value: float) -> Hashable:
    """Returns a key for a number."""
    # Python hashes big integers modulo a prime, so that a peer could make any number of them collide; their digits are
    # a text, which is hashed with a secret.
    if -_BIG < value < _BIG:
        return value
    return (int, format(int(value), "x")) if is_integer(value) else value


def deeper_than(value: Any, limit: int, spend_on: Callable[[int], None]) -> bool:
    """Returns whether `value` is nested deeper than `limit`, without recursion. `spend_on` counts the entries seen."""
    level = [value]
    for _ in range(limit + 1):
        found: list[Any] = []
        for item in level:
            if isinstance(item, (dict, list)):
                spend_on(len(item))
                found.extend(item.values() if isinstance(item, dict) else item)
        if not found:
            return False
        level = found
    return True


def spelled(value: Any) -> str:
    """Returns a value of a schema as JSON, cut after some characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):  # an integer of more digits than Python writes
        return "a very long number"
    return text if len(text) <= MAX_SPELLED_CHARS else text[:MAX_SPELLED_CHARS] + "..."


# -- a copy of a schema, within limits ---------------------------------------------------------------------------------


LEVELS_PER_SCHEMA = 4
"""Levels of JSON for each level of schemas: two for most keywords (``{"properties": {"a": {}}}``), and as many for the
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
    """Copies a schema, or checks one that is `Kept`; raises a `SchemaError` if it is no JSON, or too large."""
    # Without recursion, and counted before it is copied: the schema may be a server's, nested or as large as it likes.
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
            raise refuse_size("has more JSON values than", "max_schema_values", limits.max_schema_values)
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
            raise SchemaError(f"expected strings as keys, got a {type(name).__name__}", path=pointer_of(item.trail))
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
            raise SchemaError("expected a number that JSON has, got one that is not finite", path=pointer_of(trail))
        return float.__float__(value), 8
    raise SchemaError(f"expected plain JSON, got a {type(value).__name__}", path=pointer_of(trail))


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
