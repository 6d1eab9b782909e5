"""Schemas and arguments made to cost much: foreign schemas, which a peer writes, and types, which a peer only fills.

Each argument text is within ``max_argument_bytes``. A foreign schema is within the bounds on schemas, so that it is the
validator's work that has to be bounded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, Json

from streamtools import Tool, tool

__all__ = ["CASES", "Case"]

PRIME = (1 << 61) - 1
"""By which Python hashes integers."""
NAMES = [f"k{number}" for number in range(7)]


@dataclass(frozen=True)
class Case:
    """One tool, and the text of one call of it."""

    name: str
    make_tool: Callable[[], Tool[..., Any]]
    make_text: Callable[[], str]


def written(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def nested(depth: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    value = inner
    for _ in range(depth):
        value = wrap(value)
    return value


def fan(levels: int, fork: Callable[[Any], Any], last: str = "string") -> dict[str, Any]:
    """Every definition uses the next one twice."""
    definitions = {f"d{level}": fork({"$ref": f"#/$defs/d{level + 1}"}) for level in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": last}}}


def alternatives(count: int, inner: Any) -> dict[str, Any]:
    """Alternatives that each miss seven names."""
    return {
        "anyOf": [
            {"required": [f"m{number}{name}" for name in NAMES], "properties": {"a": {"$ref": "#/$defs/inner"}}}
            for number in range(count)
        ],
        "$defs": {"inner": inner},
    }


SELF = {"$ref": "#/$defs/self"}


def recursive(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$ref": "#/$defs/self", "$defs": {"self": schema}}


def deep(depth: int, name: str = "a", inner: Any = 1) -> Any:
    return nested(depth, lambda value: {name: value}, inner)


def tree(depth: int, width: int) -> Any:
    return nested(depth, lambda value: [value] * width, 1)


FOREIGN: dict[str, tuple[Any, Callable[[], Any]]] = {
    # -- alternatives --
    "alternatives that hold themselves": (
        recursive({"anyOf": [{"properties": {"a": SELF}, "required": [name]} for name in "bcd"]}),
        lambda: deep(58),
    ),
    "alternatives that miss many names, and hold themselves": (
        recursive({"anyOf": [{"properties": {"a": SELF}, "required": [n + name for name in NAMES]} for n in "bcd"]}),
        lambda: deep(58),
    ),
    "exactly one of alternatives that hold themselves": (
        recursive({"oneOf": [{"properties": {"a": SELF}, "required": [name]} for name in "bcd"]}),
        lambda: deep(58),
    ),
    "alternatives of lists in a wide tree": (
        recursive({"anyOf": [{"items": SELF, "minItems": 5}, {"items": SELF, "minItems": 6}, {"type": "string"}]}),
        lambda: tree(7, 4),
    ),
    "alternatives with long names in their paths": (
        recursive({"anyOf": [{"type": "string"}, {"additionalProperties": SELF, "required": ["z"]}]}),
        lambda: deep(58, "n" * 4000),
    ),
    "thousands of false alternatives": ({"items": {"anyOf": [False] * 9000}}, lambda: [1] * 100_000),
    "thousands of constants": (
        {"items": {"anyOf": [{"const": number} for number in range(4000)]}},
        lambda: [-1] * 100_000,
    ),
    "exactly one of thousands": (
        {"items": {"oneOf": [{"const": number} for number in range(4000)]}},
        lambda: [3999] * 100_000,
    ),
    "eight alternatives, six levels, seven names missing": (
        nested(5, lambda schema: alternatives(8, schema), {"type": "string"}),
        lambda: deep(6),
    ),
    "conditions in conditions": (
        {
            "items": nested(
                30, lambda s: {"if": s, "then": {"required": NAMES}, "else": {"required": NAMES}}, {"type": "string"}
            )
        },
        lambda: [{}] * 100_000,
    ),
    "negations": ({"items": nested(50, lambda schema: {"not": schema}, {"type": "string"})}, lambda: [1] * 200_000),
    "forks with all": (fan(30, lambda ref: {"allOf": [ref, ref]}), lambda: "x"),
    "forks with any": (fan(30, lambda ref: {"anyOf": [ref, ref]}), lambda: 1),
    "forks with exactly one": (fan(30, lambda ref: {"oneOf": [ref, {"not": ref}]}), lambda: "x"),
    "dynamic references": (
        {
            "$id": "urn:a",
            "$dynamicAnchor": "n",
            "items": {"$dynamicRef": "#n"},
            "anyOf": [{"type": "array", "minItems": 5}, {"type": "integer"}],
        },
        lambda: tree(7, 4),
    ),
    # -- names --
    "thousands of required names": (
        {"items": {"required": [f"n{number}" for number in range(9000)]}},
        lambda: [{}] * 45_000,
    ),
    "seven required names, five hundred times": (
        {"items": {"allOf": [{"required": NAMES}] * 500}},
        lambda: [{}] * 45_000,
    ),
    "names that none of many patterns takes": (
        {"propertyNames": {"anyOf": [{"pattern": f"^a{number}$"} for number in range(300)]}},
        lambda: {f"n{number}": 1 for number in range(45_000)},
    ),
    "a thousand patterns of names": (
        {"patternProperties": {f"^p{number}": {} for number in range(1000)}},
        lambda: {f"n{number}": 1 for number in range(45_000)},
    ),
    "dependent schemas": (
        {"items": {"dependentSchemas": {f"k{number}": {"required": NAMES} for number in range(2000)}}},
        lambda: [{"k1": 1, "k2": 2}] * 22_000,
    ),
    "dependent names": (
        {"items": {"dependentRequired": {f"k{number}": NAMES for number in range(2000)}}},
        lambda: [{"k1": 1, "k2": 2}] * 22_000,
    ),
    "no name is allowed": (
        {"additionalProperties": False, "properties": {f"p{number}": {} for number in range(9000)}},
        lambda: {f"n{number}": 1 for number in range(45_000)},
    ),
    "many keywords for one value": (
        {
            "items": {
                "minProperties": 0,
                "maxProperties": 2,
                "minItems": 0,
                "maxItems": 9,
                "minimum": 3,
                "maximum": 4,
                "maxLength": 3,
                "minLength": 0,
                "type": ["object", "array", "integer"],
                "required": [],
                "properties": {"a": True},
                "propertyNames": {"maxLength": 9},
                "enum": [{}, 1],
            }
        },
        lambda: [{}] * 45_000,
    ),
    # -- paths and depth --
    "lists to the greatest depth": (recursive({"items": SELF}), lambda: nested(60, lambda value: [value], 1)),
    "a wide tree of lists": (recursive({"items": SELF}), lambda: tree(7, 4)),
    "empty lists": (recursive({"items": SELF}), lambda: [[]] * 45_000),
    "a wrong leaf below long names": (
        recursive({"additionalProperties": SELF, "type": "object"}),
        lambda: deep(58, "n" * 10_000),
    ),
    "tuples": ({"items": {"prefixItems": [{"type": "integer"}] * 5000}}, lambda: [[1] * 100] * 4000),
    # -- unevaluated --
    "names of a thousand alternatives": (
        {
            "items": {
                "unevaluatedProperties": False,
                "anyOf": [{"properties": {f"a{number}": {"type": "string"}}} for number in range(1000)],
            }
        },
        lambda: [{"a1": 1, "b": 2}] * 22_000,
    ),
    "unevaluated names, level by level": (
        nested(20, lambda s: {"anyOf": [s, {"properties": {"a": {}}}], "unevaluatedProperties": False}, {}),
        lambda: {"a": 1, "b": 2},
    ),
    "unevaluated names of dependent schemas": (
        {
            "items": {
                "unevaluatedProperties": False,
                "properties": {"a": {}, "b": {}},
                "dependentSchemas": {f"k{number}": {"properties": {"a": True}} for number in range(3000)},
            }
        },
        lambda: [{"a": 1, "b": 2}] * 22_000,
    ),
    "unevaluated items beside those contained": (
        {"items": {"unevaluatedItems": {"type": "string"}, "contains": {"type": "integer"}}},
        lambda: [[1, 2, "c"]] * 40_000,
    ),
    "unevaluated names by the thousand": (
        {"unevaluatedProperties": {"type": "integer"}},
        lambda: {f"n{number}": 1 for number in range(45_000)},
    ),
    # -- uniqueItems --
    "unique: integers whose hashes are equal": (
        {"uniqueItems": True},
        lambda: [PRIME * number for number in range(1, 40_000)],
    ),
    "unique: pairs": ({"uniqueItems": True}, lambda: [[number, -number] for number in range(45_000)]),
    "unique: nested items": ({"uniqueItems": True}, lambda: [[[[[number]]]] for number in range(9_000)]),
    "unique: objects": ({"uniqueItems": True}, lambda: [{"a": number, "b": [number]} for number in range(22_000)]),
    "unique: long texts, again and again": (
        {"allOf": [{"uniqueItems": True}] * 2000},
        lambda: ["x" * 200_000, "x" * 199_999 + "y"],
    ),
    "unique: lists in lists, at each level": (
        recursive({"uniqueItems": True, "items": SELF}),
        lambda: nested(40, lambda value: [value, [1]], 1),
    ),
    # -- enums and constants --
    "enum: nested options": (
        {"items": {"enum": [[number, "x" * 20] for number in range(5000)]}},
        lambda: [[-1, "y"]] * 45_000,
    ),
    "enum: twenty thousand": ({"items": {"enum": list(range(20_000))}}, lambda: [10**9] * 45_000),
    "enum: long texts": ({"items": {"enum": ["x" * 100_000]}}, lambda: ["x" * 99_999 + "y"] * 9),
    "const: a long list": ({"items": {"const": list(range(9000))}}, lambda: [list(range(9000))] * 15),
    # -- numbers --
    "numbers: tiny divisors": ({"items": {"multipleOf": 5e-324}}, lambda: [1e308] * 100_000),
    "numbers: divisors of decimals": ({"items": {"multipleOf": 0.1}}, lambda: [1.5e300] * 100_000),
    "numbers: long divisors": (
        {"items": {"allOf": [{"multipleOf": 7**2000 + number} for number in range(100)]}},
        lambda: [10**4200 + number for number in range(200)],
    ),
    "numbers: long bounds": (
        {"items": {"minimum": 10**4000, "maximum": 10**4200}},
        lambda: [10**4100 + number for number in range(200)],
    ),
    # -- patterns --
    "pattern: nested repetition": ({"items": {"pattern": "^(a+)+$"}}, lambda: ["a" * 30 + "!"] * 25_000),
    "pattern: a class of many ranges, repeated": ({"pattern": r"\p{L}{100}\p{N}$"}, lambda: "é" * 122_000),
    "pattern: many states": ({"pattern": "[ab]*a[ab]{900}[cd]"}, lambda: "abcd" * 200_000),
    # -- texts that hold JSON --
    "a text that holds a list": (
        {"type": "array", "items": {"anyOf": [{"const": number} for number in range(100)]}},
        lambda: json.dumps([-1] * 200_000),
    ),
    "contains: constants": (
        {"items": {"contains": {"anyOf": [{"const": number} for number in range(100)]}}},
        lambda: [[-1] * 100] * 3000,
    ),
    "wrong types": ({"items": {"type": "integer"}}, lambda: ["a"] * 200_000),
}


class Add(BaseModel):
    op: Literal["add"]
    left: Expression
    right: Expression


class Negate(BaseModel):
    op: Literal["negate"]
    of: Expression


class Value(BaseModel):
    value: int


Expression = Add | Negate | Value
Add.model_rebuild()


class First(BaseModel):
    a: int
    next: First | Second | None = None


class Second(BaseModel):
    b: int
    next: First | Second | None = None


class Frozen(BaseModel, frozen=True):
    x: int
    y: int


class Cat(BaseModel):
    kind: Literal["cat"]
    kittens: list[Pet] = []


class Dog(BaseModel):
    kind: Literal["dog"]
    puppies: list[Pet] = []


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Cat.model_rebuild()
Wide = Annotated[
    tuple[int, int] | tuple[int, str] | list[int] | list[bool] | dict[str, int] | First | Second | Cat | Dog | bool,
    None,
]


def typed(annotation: Any) -> Tool[..., Any]:
    def take(value: Any) -> str:
        """Take a value."""
        return "taken"

    take.__annotations__["value"] = annotation
    return tool(effect="pure")(take)


TYPED: dict[str, tuple[Any, Callable[[], Any]]] = {
    "union that holds itself, nothing fits": (First | Second, lambda: deep(50, "next", {})),
    "union that holds itself, all fits": (First | Second, lambda: nested(50, lambda v: {"b": 1, "next": v}, None)),
    "expressions": (
        Expression,
        lambda: nested(16, lambda v: {"op": "add", "left": v, "right": {"value": 1}}, {"value": 1}),
    ),
    "tagged unions that hold themselves": (
        Pet,
        lambda: nested(28, lambda v: {"kind": "cat", "kittens": [v]}, {"kind": "dog", "puppies": []}),
    ),
    "many of two models, neither fits": (list[First | Second], lambda: [{}] * 45_000),
    "many of two models, one fits": (list[First | Second], lambda: [{"b": 1}] * 45_000),
    "many of ten alternatives": (list[Wide], lambda: ["x"] * 200_000),
    "set: integers whose hashes are equal": (set[int], lambda: [PRIME * number for number in range(1, 40_000)]),
    "set: the same, at a third of the size": (set[int], lambda: [PRIME * number for number in range(1, 1400)]),
    "frozenset: integers whose hashes are equal": (
        frozenset[int],
        lambda: [PRIME * number for number in range(1, 40_000)],
    ),
    "set: floats and integers": (set[int | float], lambda: [PRIME * number for number in range(1, 40_000)]),
    "set: pairs": (set[tuple[int, int]], lambda: [[number, 0] for number in range(45_000)]),
    "set: UUIDs whose hashes are equal": (set[UUID], lambda: [str(UUID(int=PRIME * n)) for n in range(1, 24_000)]),
    "set: frozen models": (set[Frozen], lambda: [{"x": number, "y": 0} for number in range(40_000)]),
    "set: decimals": (set[Decimal], lambda: [str(PRIME * number) for number in range(1, 40_000)]),
    "dict: integers whose hashes are equal": (
        dict[int, int],
        lambda: {str(PRIME * number): 1 for number in range(1, 35_000)},
    ),
    "long integers": (list[int], lambda: [10**4200 + number for number in range(200)]),
    "long decimals": (list[Decimal], lambda: [10**4200 + number for number in range(200)]),
    "integers as texts": (list[int], lambda: ["1"] * 200_000),
    "no integers at all": (list[int], lambda: ["a"] * 200_000),
    "objects where lists belong": (list[list[int]], lambda: [{}] * 45_000),
    "texts that hold lists": (list[list[int]], lambda: ["[1]"] * 122_000),
    "JSON in a text, a union that holds itself": (
        Json[First | Second],
        lambda: json.dumps(deep(30, "next", {})),
    ),
    "anything, empty lists": (Any, lambda: [[]] * 45_000),
    "anything, more lists than may be": (Any, lambda: [[]] * 300_000),
    "anything, more lists than may be, nested": (Any, lambda: [[[[[number]]]] for number in range(45_000)]),
    "names that the tool does not have": (dict[str, int], lambda: {f"n{number}": "x" for number in range(45_000)}),
}


def _foreign(name: str, schema: Any, make: Callable[[], Any]) -> Case:
    document = {"type": "object", "properties": {"value": schema}}
    if isinstance(schema, dict):  # references are from the document's root
        document = {"type": "object", **{key: schema[key] for key in ("$defs", "$id") if key in schema}}
        document["properties"] = {"value": {key: held for key, held in schema.items() if key not in ("$defs", "$id")}}

    def take(arguments: dict[str, Any]) -> str:
        return "taken"

    def make_tool() -> Tool[..., Any]:
        return Tool.from_schema(take, document, name="take", description="", pass_as="mapping", effect="pure")

    return Case(f"schema: {name}", make_tool, lambda: written({"value": make()}))


def _cases() -> Iterator[Case]:
    for name, (schema, make) in FOREIGN.items():
        yield _foreign(name, schema, make)
    for name, (annotation, make) in TYPED.items():
        yield Case(
            f"types: {name}",
            lambda annotation=annotation: typed(annotation),  # type: ignore[misc]
            lambda make=make: written({"value": make()}),  # type: ignore[misc]
        )


CASES = {case.name: case for case in _cases()}
