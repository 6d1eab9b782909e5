"""Typed arguments are weighed before pydantic works on them: what nobody means is refused, what somebody may is not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from hostile_validation import typed
from profiles import every
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Discriminator, Field, Json, Tag
from typing_extensions import TypedDict

from streamtools.errors import InvalidArguments
from streamtools.tools import TakesLong

PRIME = (1 << 61) - 1


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    value: int


class Fork(BaseModel):
    kind: Literal["fork"] = "fork"
    left: Expression
    right: Expression


class Swap(BaseModel):
    kind: Literal["swap"] = "swap"
    left: Expression
    right: Expression


Expression = Fork | Swap | Leaf
Fork.model_rebuild()


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Expression]
    named: Expression | None = Field(default=None, validation_alias="called")
    chosen: int = Field(default=0, validation_alias=AliasChoices("one", AliasPath("other", 0)))
    path: int = Field(default=0, validation_alias=AliasPath("deep", "er"))


class Row(TypedDict):
    a: int
    b: str | None


class Pair(NamedTuple):
    x: int
    y: Expression


@dataclass
class Point:
    x: int
    y: list[int]


def kind_of(value: Any) -> str:
    return "fork" if isinstance(value, dict) and "left" in value else "leaf"


class Told(BaseModel):
    left: Annotated[Annotated[Told, Tag("fork")] | Annotated[Leaf, Tag("leaf")], Discriminator(kind_of)]


class Branch(BaseModel):
    kind: Literal["fork"]
    left: Tagged
    right: Tagged


Tagged = Annotated[Branch | Leaf, Field(discriminator="kind")]
Branch.model_rebuild()


def refused(annotation: Any, value: Any) -> str:
    text = json.dumps({"value": value})
    with pytest.raises(InvalidArguments) as caught:
        typed(annotation).validate(json.loads(text), text=text)
    return "; ".join(caught.value.problems)


def deep(levels: int, inner: Any, kind: str = "fork") -> Any:
    for _ in range(levels):
        inner = {"kind": kind, "left": inner, "right": {"kind": "leaf", "value": 1}}
    return inner


TOO_MUCH = "the arguments: take too much work to check (more than 25 ms)"


@every(
    ("annotation", "value"),
    [
        (Expression, deep(30, {})),
        (Expression, deep(30, "text")),
        (list[Expression], [{}] * 30_000),
        (list[Json[Expression]], [json.dumps(deep(20, {}))]),
        (Open, {"called": deep(30, {})}),
        (Open, {"anything": deep(30, {})}),
        (tuple[Expression, ...], [deep(30, {})]),
        (tuple[int, Expression], [1, deep(30, {})]),
        (dict[str, Expression], {"a": deep(30, {})}),
        (Pair, [1, deep(30, {})]),
        (Pair, {"x": 1, "y": deep(30, {})}),
        (set[int], [PRIME * number for number in range(1, 5000)]),
        (set[int | str], [PRIME * number for number in range(1, 5000)]),
        (frozenset[tuple[int, int]], [[number, 1] for number in range(3000)]),
        (set[UUID], [str(UUID(int=number)) for number in range(3000)]),
        (dict[int, str], {str(PRIME * number): "" for number in range(1, 5000)}),
        (list[Decimal], [10**4200 + number for number in range(100)]),
        (list[int], ["x"] * 100_000),
        (list[list[int]], ["x"] * 100_000),
    ],
)
def test_what_would_hold_up_everybody_is_refused_and_told_so(annotation: Any, value: Any) -> None:
    assert refused(annotation, value) == TOO_MUCH


@every(
    ("annotation", "value"),
    [
        (Expression, deep(8, {"kind": "leaf", "value": 1})),
        (Tagged, deep(30, {"kind": "leaf", "value": 1})),
        (list[Tagged], [deep(2, {"kind": "leaf", "value": 1})] * 500),
        (list[Expression], [{"kind": "leaf", "value": 1}] * 1000),
        (list[float], [0.5] * 100_000),
        (list[list[float]], [[0.5] * 100] * 1000),
        (list[str], ["word"] * 50_000),
        (dict[str, int], {f"n{number}": number for number in range(20_000)}),
        (set[str], [f"n{number}" for number in range(50_000)]),
        (set[int], list(range(50_000))),
        (set[float], [number / 7 for number in range(20_000)]),
        (set[UUID], [str(UUID(int=number)) for number in range(500)]),
        (list[Row], [{"a": 1, "b": None}] * 5000),
        (list[Point], [{"x": 1, "y": [1, 2]}] * 2000),
        (Pair, [1, deep(3, {"kind": "leaf", "value": 1})]),
        (list[Any], [[{}]] * 20_000),
        (Any, {"a": [1] * 50_000}),
        (str, "x" * 500_000),
        (Open, {"called": None, "other": [1], "deep": {"er": 2}, "more": {"kind": "leaf", "value": 1}}),
        (Told, deep(40, {"kind": "leaf", "value": 1})),
        (list[Told], [deep(3, {"kind": "leaf", "value": 1})] * 500),
    ],
)
def test_what_somebody_may_mean_is_taken_however_large_it_is(annotation: Any, value: Any) -> None:
    text = json.dumps({"value": value})
    assert typed(annotation).validate(json.loads(text), text=text).validated


def test_more_mistakes_than_can_be_told_are_told_by_the_first_one() -> None:
    said = refused(list[int], ["x"] * 20_000)
    assert said == "value[0]: should be an integer; the arguments: have 20000 mistakes"


@pytest.mark.thorough
def test_mistakes_are_told_too_where_the_schema_is_larger_than_a_foreign_one_may_be() -> None:
    """pydantic would name 31,000 options 6,000 times."""
    choice = Enum("Choice", {f"n{number}": f"v{number}" for number in range(31_000)})  # type: ignore[misc]
    assert refused(list[choice], ["x"] * 6000) == "the arguments: have 6000 mistakes"  # type: ignore[valid-type]
    assert refused(list[choice], ["x"] * 100) == "the arguments: have 100 mistakes"  # type: ignore[valid-type]
    assert refused(list[choice], ["x"] * 2).startswith("value[0]: should be ")  # type: ignore[valid-type]


def test_more_coercions_than_can_be_told_are_told_as_one() -> None:
    bound = typed(list[int]).validate({"value": ["1"] * 20_000})
    assert (bound.by_name["value"][-1], bound.coercions) == (1, ("the arguments: by lax rules",))


def test_a_union_that_holds_itself_is_weighed_however_small_the_text_is() -> None:
    value = {"value": deep(11, {})}
    assert len(json.dumps(value)) < 1000
    with pytest.raises(TakesLong):
        typed(Expression).validate(value, quick=True)


def test_a_large_text_is_left_to_a_thread_by_who_wants_a_quick_verdict() -> None:
    assert typed(str).validate({"value": "x" * 30_000}, quick=True).validated
    with pytest.raises(TakesLong):
        typed(str).validate({"value": "x" * 33_000}, quick=True)
