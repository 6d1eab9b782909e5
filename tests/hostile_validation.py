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

__all__ = ["CASES", "Case", "nested", "typed"]

PRIME = (1 << 61) - 1
"""By which Python hashes integers."""


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


SELF = {"$ref": "#/$defs/self"}


def recursive(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$ref": "#/$defs/self", "$defs": {"self": schema}}


def deep(depth: int, name: str = "a", inner: Any = 1) -> Any:
    return nested(depth, lambda value: {name: value}, inner)


def tree(depth: int, width: int) -> Any:
    return nested(depth, lambda value: [value] * width, 1)


FOREIGN: dict[str, tuple[Any, Callable[[], Any]]] = {
    "alternatives that hold themselves": (
        recursive({"anyOf": [{"properties": {"a": SELF}, "required": [name]} for name in "bcd"]}),
        lambda: deep(58),
    ),
    "thousands of constants": (
        {"items": {"anyOf": [{"const": number} for number in range(4000)]}},
        lambda: [-1] * 100_000,
    ),
    "references in a circle, each way anew": (
        {"allOf": [SELF, {"type": "object"}], "$defs": {"self": {"items": {"allOf": [SELF] * 400}}}},
        lambda: nested(6, lambda value: [value], 1),
    ),
    "forks with all": (fan(30, lambda ref: {"allOf": [ref, ref]}), lambda: "x"),
    "dynamic references": (
        {
            "$id": "urn:a",
            "$dynamicAnchor": "n",
            "items": {"$dynamicRef": "#n"},
            "anyOf": [{"type": "array", "minItems": 5}, {"type": "integer"}],
        },
        lambda: tree(7, 4),
    ),
    "a thousand patterns of names": (
        {"patternProperties": {f"^p{number}": {} for number in range(1000)}},
        lambda: {f"n{number}": 1 for number in range(45_000)},
    ),
    "a wrong leaf below long names": (
        recursive({"additionalProperties": SELF, "type": "object"}),
        lambda: deep(58, "n" * 10_000),
    ),
    "unevaluated names, level by level": (
        nested(20, lambda s: {"anyOf": [s, {"properties": {"a": {}}}], "unevaluatedProperties": False}, {}),
        lambda: {"a": 1, "b": 2},
    ),
    "unique: long texts, again and again": (
        {"allOf": [{"uniqueItems": True}] * 2000},
        lambda: ["x" * 200_000, "x" * 199_999 + "y"],
    ),
    "enum: nested options": (
        {"items": {"enum": [[number, "x" * 20] for number in range(5000)]}},
        lambda: [[-1, "y"]] * 45_000,
    ),
    "numbers: long divisors": (
        {"items": {"allOf": [{"multipleOf": 7**2000 + number} for number in range(100)]}},
        lambda: [10**4200 + number for number in range(200)],
    ),
    "pattern: nested repetition": ({"items": {"pattern": "^(a+)+$"}}, lambda: ["a" * 30 + "!"] * 25_000),
    "pattern: a class of many ranges, repeated": ({"pattern": r"\p{L}{100}\p{N}$"}, lambda: "é" * 122_000),
    "pattern: many states": ({"pattern": "[ab]*a[ab]{900}[cd]"}, lambda: "abcd" * 200_000),
    "a text that holds a list": (
        {"type": "array", "items": {"anyOf": [{"const": number} for number in range(100)]}},
        lambda: json.dumps([-1] * 200_000),
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
    "expressions": (
        Expression,
        lambda: nested(16, lambda v: {"op": "add", "left": v, "right": {"value": 1}}, {"value": 1}),
    ),
    "many of ten alternatives": (list[Wide], lambda: ["x"] * 200_000),
    "set: integers whose hashes are equal": (set[int], lambda: [PRIME * number for number in range(1, 40_000)]),
    "set: UUIDs whose hashes are equal": (set[UUID], lambda: [str(UUID(int=PRIME * n)) for n in range(1, 24_000)]),
    "dict: integers whose hashes are equal": (
        dict[int, int],
        lambda: {str(PRIME * number): 1 for number in range(1, 35_000)},
    ),
    "long decimals": (list[Decimal], lambda: [10**4200 + number for number in range(200)]),
    "JSON in a text, a union that holds itself": (
        Json[First | Second],
        lambda: json.dumps(deep(30, "next", {})),
    ),
    "anything, more lists than may be": (Any, lambda: [[]] * 300_000),
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
