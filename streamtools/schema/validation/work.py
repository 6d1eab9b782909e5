"""Bounds the work of validating a value by a plain schema before it begins, since the engine cannot be interrupted.

Input: a plain schema with its outline, and plain JSON. Output: units of work, each at most some 50 ns: as many as the
engine needs if no alternative ends early. A schema is refused if one small value can take too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from ...errors import SchemaError
from .graph import Outline
from .patterns import Patterns
from .plain import BELOW, PREFIX, SAME, Plain, parts

MAX_LOOKS = 800_000
"""The most values that weighing looks at, each for each schema before it, where an object or array counts as eight:
some 0.3 s, which other threads share."""
_CONTAINER_LOOKS = 8
MAX_DEPTH = 256
"""How often a value may lead into a circle, one inside the other: the engine recurses. Arguments are less deep."""

_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_UNEVALUATED_UNITS = 16
_UNIQUE_UNITS = 12  # for each value inside
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_DECIMALS = 10  # a division by a decimal, in comparisons
_TINY_DECIMALS = 1000
_OPTION = 4  # a comparison with a number in `enum` or `const`, in bounds
_CHARS_PER_UNIT = 64
_INTEGER = 2  # a comparison of an ordinary integer with a bound or decimal
_INTEGERS_PER_UNIT = 8  # comparisons of two ordinary integers
_NUMBER = 30  # a comparison of an ordinary number with a decimal
_LONG_NUMBER = 500  # of one whose exponent is large
_DIGITS_SQUARED = 256  # of integers beyond 64 bits, for a unit
_EXACT = 1 << 53  # up to here a number is compared as a machine's integer or float


At: TypeAlias = tuple[frozenset[str], int]
"""A place of a way through circles: the circle that it is in, and how many more of its references may be followed."""


class TooMuch(Exception):
    """Raised for more work than is allowed."""


class Work:
    def __init__(self, plain: Plain, outline: Outline, patterns: Patterns) -> None:
        self.plain = plain
        self.patterns = patterns
        self.circular = outline.circular
        # By the ids of schemas: alone, and with all schemas that they apply to the same value.
        nodes = outline.same_value
        self.own = {id(node): own_units(node) for node in nodes}
        self.units = self._with_same(nodes, lambda node: self.own[id(node)], 1)
        self.numbers = self._with_same(nodes, _numbers)
        self.integers = self._with_same(nodes, _integers)
        self.chars = self._with_same(nodes, lambda node: "pattern" in node and patterns.cost(node["pattern"]))
        self.names = {id(node): sum(map(patterns.cost, node.get("patternProperties", ()))) for node in nodes}
        self.has_alternatives = any("anyOf" in node or "oneOf" in node for node in nodes)
        self.unique = any(node.get("uniqueItems") for node in nodes)
        self.peaks = self._peaks(outline.everywhere)
        self._rate = self._largest_rate()

    def refuse_more_than(self, most: int) -> None:
        """Raises a `SchemaError` if the schema, or a part, may take more than `most` units for a single value."""
        for node, peak in self.peaks.items():
            if peak > most:
                place = self.plain.origins[node]
                what = f"may take {peak} units of work for one value, more than max_validation_steps={most}"
                raise SchemaError(f"the schema {what}; reduce its alternatives and references", path=place.pointer)

    def surely_within(self, chars: int, most: int) -> bool:
        """Returns whether arguments of so many characters cannot be more than `most` units."""
        if self.circular:
            return False
        return chars * self._rate[0] + chars * chars // _DIGITS_SQUARED * self._rate[1] <= most

    def of(self, value: Any, most: int) -> int:
        """Returns the units for a value; raises `TooMuch` beyond `most`, or if it is too deep to be weighed."""
        try:
            return _Weighing(self, most).whole(value)
        except RecursionError:
            raise TooMuch from None

    def _with_same(self, order: list[Any], own: Callable[[Any], int], leaf: int = 0) -> dict[int, int]:
        found: dict[int, int] = {}
        for node in order:
            inner = [found.get(id(child), leaf) for child in self.same(node)]
            found[id(node)] = own(node) + _times(node) * sum(inner)
        return found

    def same(self, node: Any) -> list[Any]:
        found = [child for _, held in parts(node, SAME) for child in held]
        return [*found, self.plain.target(node)] if "$ref" in node else found

    def _peaks(self, order: list[Any]) -> dict[int, int]:
        below: dict[int, int] = {}
        peaks: dict[int, int] = {}
        for node in order:
            same = [child for child in self.same(node) if child is not self._cut(node)]
            inside = 0
            for keyword, held in parts(node, BELOW):
                most = [peaks.get(id(child), 1) for child in held]
                one_only = keyword in ("properties", "prefixItems")
                inside += max(most, default=0) if one_only else sum(most)
            below[id(node)] = inside + _times(node) * sum(below.get(id(child), 0) for child in same)
            peaks[id(node)] = max(self.units[id(node)], below[id(node)])
        return peaks

    def _cut(self, node: Any) -> Any:
        is_circular = "$ref" in node and node["$ref"].removeprefix(PREFIX) in self.circular
        return self.plain.target(node) if is_circular else None

    def _largest_rate(self) -> tuple[int, int]:
        """Returns the most units for a character, and for the square of digits in units of `_DIGITS_SQUARED`."""
        peak = max(self.peaks.values(), default=1) + 64 * _UNIQUE_UNITS * self.unique
        numbers = sum(self.numbers.values()) + sum(self.integers.values())
        chars = sum(self.chars.values()) + sum(self.names.values())
        return peak + chars + _LONG_NUMBER // 4 * numbers, numbers + self.unique


class _Weighing:
    # The engine remembers its verdicts about objects and arrays by some of the references in circles: which ones is not
    # known but for a definition that refers to itself, but there is one in each circle. So a way without it meets each
    # definition once at most. From each definition and value such ways are followed for themselves, as far as that.

    def __init__(self, work: Work, most: int) -> None:
        self._work = work
        self._most = most
        self._known: dict[tuple[int, int, At], int] = {}
        self._begun: set[tuple[str, int]] = set()
        self._waiting: list[tuple[str, Any, int]] = []
        self._depth = 0
        self._looks = 0
        self._spent = 0  # for pairs, each counted once
        self._digits = 0

    def whole(self, value: Any) -> int:
        units = self.cost(self._work.plain.schema, value, (frozenset(), 0))
        while self._waiting:
            name, inner, self._depth = self._waiting.pop()
            if self._depth > MAX_DEPTH:
                raise TooMuch
            units += self._begin(name, inner)
            if units > self._most:
                raise TooMuch
        return units

    def cost(self, node: Any, value: Any, at: At) -> int:
        self._looks += _CONTAINER_LOOKS if isinstance(value, (dict, list)) else 1
        if self._looks > MAX_LOOKS:
            raise TooMuch
        if not isinstance(node, dict):
            return 1
        if isinstance(value, (dict, list)):
            units = self._container(node, value, at)
        else:
            units = self._work.units[id(node)] + self._scalar(node, value)
            self._spend(units)
        if units > self._most:
            raise TooMuch
        return units

    def _spend(self, units: int) -> None:
        self._spent += units
        if self._spent > self._most:
            raise TooMuch

    def _scalar(self, node: Any, value: Any) -> int:
        if isinstance(value, str):
            return len(value) // _CHARS_PER_UNIT + self._work.chars[id(node)] * len(value)
        if isinstance(value, (int, float)):
            numbers, integers = self._work.numbers[id(node)], self._work.integers[id(node)]
            if isinstance(value, int) and -_EXACT < value < _EXACT:
                return numbers * _INTEGER + integers // _INTEGERS_PER_UNIT
            return (numbers + integers) * self._number(value) if numbers or integers else 0
        return 0

    def _number(self, value: float) -> int:
        if isinstance(value, int):
            if -_EXACT < value < _EXACT:
                return _INTEGER
            digits = value.bit_length() // 3
            self._digits += digits  # together: unique items are compared with each other
            return _LONG_NUMBER + digits * self._digits // _DIGITS_SQUARED
        return _NUMBER if value == 0 or 1e-9 < abs(value) < 1e15 else _LONG_NUMBER

    def _container(self, node: Any, value: Any, at: At) -> int:
        key = id(node), id(value), at
        known = self._known.get(key)
        if known is not None:
            return known
        inner = sum(self.cost(child, value, at) for _, held in parts(node, SAME) for child in held)
        if "$ref" in node:
            inner += self._target(node, value, at)
        units = self._work.own[id(node)] + _times(node) * inner
        self._spend(self._work.own[id(node)])
        units += self._items(node, value, at) if isinstance(value, list) else self._members(node, value, at)
        self._known[key] = units
        return units

    def _begin(self, name: str, value: Any) -> int:
        circle = self._work.circular[name]
        return self.cost(self._work.plain.definitions[name], value, (circle, len(circle) - 1))

    def _target(self, node: Any, value: Any, at: At) -> int:
        name = node["$ref"].removeprefix(PREFIX)
        if name not in self._work.circular:
            return self.cost(self._work.plain.definitions[name], value, at)
        circle, left = at
        if name not in circle:
            return self._begin(name, value)
        if (name, id(value)) not in self._begun:
            self._begun.add((name, id(value)))
            self._waiting.append((name, value, self._depth + 1))
        return self.cost(self._work.plain.definitions[name], value, (circle, left - 1)) if left else 1

    def _items(self, node: Any, value: list[Any], at: At) -> int:
        first = node.get("prefixItems", ())
        units = sum(self.cost(one, item, at) for one, item in zip(first, value, strict=False))
        rest = value[len(first) :] if first else value
        for keyword, items in (("items", rest), ("contains", value), ("unevaluatedItems", rest)):
            if keyword in node:
                units += sum(self.cost(node[keyword], item, at) for item in items)
        if node.get("uniqueItems"):
            units += self._values(value)
        return units

    def _values(self, value: Any) -> int:
        units, waiting = 0, [value]
        while waiting:
            held = waiting.pop()
            if isinstance(held, (dict, list)):
                units += _UNIQUE_UNITS * len(held)
                waiting.extend(held.values() if isinstance(held, dict) else held)
            elif isinstance(held, (int, float)) and not isinstance(held, bool):
                units += self._number(held)
            if units > self._most:
                raise TooMuch
        return units

    def _members(self, node: Any, value: dict[str, Any], at: At) -> int:
        known = node.get("properties", {})
        units = sum(self.cost(known[name], item, at) for name, item in value.items() if name in known)
        patterns = node.get("patternProperties", {})
        if patterns:
            units += self._work.names[id(node)] * sum(map(len, value))
        of_all = [*patterns.values()]
        if "unevaluatedProperties" in node:
            of_all.append(node["unevaluatedProperties"])
        for schema in of_all:
            units += sum(self.cost(schema, item, at) for item in value.values())
        if "additionalProperties" in node:
            schema = node["additionalProperties"]
            units += sum(self.cost(schema, item, at) for name, item in value.items() if name not in known)
        if "propertyNames" in node:
            units += sum(self.cost(node["propertyNames"], name, at) for name in value)
        return units


def _times(node: Any) -> int:
    # Evaluated parts are found by asking the schemas of the same value once more.
    return 1 if _UNEVALUATED.isdisjoint(node) else 2


def own_units(node: Any) -> int:
    units = 1 + len(node.get("required", ())) // 4 + len(node.get("dependentRequired", ()))
    units += sum(map(_size, _options(node)))
    return units + (_UNEVALUATED_UNITS if not _UNEVALUATED.isdisjoint(node) else 0)


def _options(node: Any) -> list[Any]:
    options: list[Any] = node.get("enum", [])
    return [*options, node["const"]] if "const" in node else options


def _size(option: Any) -> int:
    """Returns the units of comparing with an option: nothing for a text, which is looked up."""
    if isinstance(option, (dict, list)):
        return 1 + sum(1 + _size(inner) for inner in (option.values() if isinstance(option, dict) else option))
    return 0


def _numbers(node: Any) -> int:
    """Returns the comparisons of a number with those of a schema, in the cost of one with a bound."""
    count = sum(keyword in node for keyword in _BOUNDS)
    if "multipleOf" in node:
        divisor = node["multipleOf"]
        count += 1 if isinstance(divisor, int) else _DECIMALS if divisor > 1e-15 else _TINY_DECIMALS
    return count + _OPTION * sum(isinstance(option, float) for option in _leaves(node))


def _integers(node: Any) -> int:
    """Returns the comparisons of a number with integers in the options of a schema."""
    return _OPTION * sum(isinstance(option, int) and not isinstance(option, bool) for option in _leaves(node))


def _leaves(node: Any) -> Iterator[Any]:
    waiting = list(_options(node))
    while waiting:
        option = waiting.pop()
        if isinstance(option, (dict, list)):
            waiting.extend(option.values() if isinstance(option, dict) else option)
        else:
            yield option
