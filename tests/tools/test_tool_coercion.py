"""What is made of a value of another JSON type: with ``strict`` nothing, with ``lax`` what pydantic makes of it, and it
is recorded."""

from __future__ import annotations

import datetime as dt
import enum
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from pydantic import BaseModel, BeforeValidator, Field, WrapValidator
from pydantic_core import SchemaValidator

from streamtools.errors import InvalidArguments
from streamtools.tools import Coerce, tool


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Cat(BaseModel):
    lives: int
    age: str = ""


class Dog(BaseModel):
    lives: float
    age: str = ""
    bones: int = 0


class Small(BaseModel):
    x: int


class Large(BaseModel):
    x: int
    y: int = 0


@dataclass
class Point:
    x: float


class NeverEqual:
    """Compares to nothing, itself included."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


class Incomparable(NeverEqual):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = None  # type: ignore[assignment]


def _fall_back(value: Any, inner: Any) -> Any:
    try:
        return inner(value)
    except ValueError:
        return -1


def take(
    priority: int = 0,
    ratio: float = 0.0,
    flag: bool = False,
    text: str = "",
    day: dt.date | None = None,
    at: dt.datetime | None = None,
    lasts: dt.timedelta | None = None,
    price: Decimal = Decimal(0),
    level: Level = Level.LOW,
    names: dict[int, str] = {},
    points: list[Point] = [],
    pair: tuple[int, float] = (0, 0.0),
    either: int | list[int] = 0,
    loose: int | str = 0,
    pet: Cat | Dog | None = None,
    tagged: Annotated[int | float, Field(union_mode="left_to_right")] = 0,
    shape: Small | Large | None = None,
    safe: Annotated[int, WrapValidator(_fall_back)] = 0,
    renamed: Annotated[int, Field(alias="from")] = 0,
) -> str:
    """Take everything."""
    return ""


lax = tool(take)
strict = tool(take, coerce="strict")


@every(
    ("arguments", "recorded"),
    [
        ({"priority": "1"}, "priority: string to integer"),
        ({"priority": 1.0}, "priority: number to integer"),
        ({"priority": True}, "priority: boolean to integer"),
        ({"ratio": "1.5"}, "ratio: string to number"),
        ({"flag": "yes"}, "flag: string to boolean"),
        ({"flag": 1}, "flag: integer to boolean"),
        ({"day": "2024-01-02T00:00:00"}, "day: string to date"),
        ({"at": 1700000000}, "at: integer to datetime"),
        ({"lasts": 5}, "lasts: integer to duration"),
        ({"level": "2"}, "level: string to enum"),
        ({"points": [{"x": 1}, {"x": "2"}]}, "points[1].x: string to number"),
        ({"pair": ["1", 2]}, "pair[0]: string to integer"),
        ({"either": "1"}, "either: string to integer"),
        ({"either": ["1", 2]}, "either[0]: string to integer"),
        ({"from": "3"}, "from: string to integer"),
        ({"pet": {"lives": "9", "age": "3"}}, "pet.lives: string to integer"),
    ],
)
def test_each_place_that_needed_it_is_recorded_and_strict_refuses_it(arguments: dict[str, Any], recorded: str) -> None:
    assert lax.validate(arguments).coercions == (recorded,)
    with pytest.raises(InvalidArguments) as caught:
        strict.validate(arguments)
    assert recorded.partition(":")[0] in str(caught.value)


@every(
    "arguments",
    [
        {"priority": 1, "ratio": 1, "flag": True, "text": "1", "day": "2024-01-02", "at": "2024-01-02T03:04:05Z"},
        {"price": "1.5", "level": 2, "names": {"1": "x"}, "points": [{"x": 1}], "lasts": "PT5S", "pair": [1, 2]},
        {"either": [1], "loose": "1", "tagged": 1.5, "pet": {"lives": 9.5}, "shape": {"x": 1}},
    ],
)
def test_what_json_says_itself_is_no_coercion(arguments: dict[str, Any]) -> None:
    assert lax.validate(arguments).coercions == ()
    assert strict.validate(arguments).by_name == lax.validate(arguments).by_name


def test_strict_decodes_no_text_either() -> None:
    arguments = {"points": '[{"x": 1}]'}
    assert lax.validate(arguments).coercions == ("points: json_string",)
    with pytest.raises(InvalidArguments, match="points: should be a valid array"):
        strict.validate(arguments)


def test_what_was_decoded_and_what_was_coerced_in_it_are_both_recorded() -> None:
    bound = lax.validate({"points": '[{"x": "1"}]', "priority": "2"})
    assert bound.coercions == ("points: json_string", "priority: string to integer", "points[0].x: string to number")


def test_many_coercions_are_counted() -> None:
    bound = lax.validate({"points": [{"x": "1"}] * 40})
    assert len(bound.coercions) == 17
    assert bound.coercions[-1] == "and 24 more"


def test_a_choice_that_only_lax_rules_make_is_recorded_without_a_place() -> None:
    """The larger model fits best by lax rules, though the smaller one fits strictly."""
    bound = lax.validate({"shape": {"x": 1, "y": "2"}})
    assert bound.by_name["shape"] == Large(x=1, y=2)
    assert bound.coercions == ("the arguments: by lax rules",)
    assert lax.validate({"safe": "5"}).by_name["safe"] == 5
    assert lax.validate({"safe": "5"}).coercions == ("the arguments: by lax rules",)
    assert strict.validate({"safe": "5"}).by_name["safe"] == -1


@every("kind", [NeverEqual, Incomparable])
def test_values_that_cannot_be_compared_are_no_coercion(kind: type[NeverEqual]) -> None:
    @tool
    def f(x: Annotated[Any, BeforeValidator(kind)], y: Small | Large | None = None) -> str:
        """Work."""
        return ""

    bound = f.validate({"x": 1, "y": {"x": 1}})
    assert bound.by_name["x"].value == 1
    assert bound.coercions == ()


@every("coerce", ["lax", "strict"])
@every("depth", [100, 199, 200, 255, 300, 5000])
def test_nesting_that_cannot_be_read_is_refused(coerce: Coerce, depth: int) -> None:
    def f(x: int) -> str:
        """Work."""
        return ""

    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    text = '{"x": ' + "[" * depth + "1" + "]" * depth + "}"
    for options in ({}, {"text": text}):
        with pytest.raises(InvalidArguments):
            tool(f, coerce=coerce).validate({"x": nested}, **options)


def test_a_literal_is_not_stretched() -> None:
    @tool
    def f(x: Literal[1, "a"]) -> str:
        """Work."""
        return ""

    with pytest.raises(InvalidArguments):
        f.validate({"x": "1"})


VALUES = st.recursive(
    st.sampled_from([0, 1, -3, 1.0, 2.5, "1", "2.5", "true", "x", "", True, None, "2024-01-02", "[1]", '{"x": 1}']),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y", "lives", "age", "1"]), inner)
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(list(lax.schema["properties"]))


def lax_alone(arguments: dict[str, Any]) -> Any:
    """What pydantic's lax validation gives, asked by itself."""
    validator: SchemaValidator = lax._binder.typed.validator  # type: ignore[attr-defined]  # the same core schema
    try:
        return validator.validate_json(json.dumps(arguments))[1]
    except ValueError:
        return None


@settings(derandomize=True, deadline=None, max_examples=examples(60))
@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_the_value_is_that_of_lax_validation(arguments: dict[str, Any]) -> None:
    wanted = lax_alone(arguments)
    try:
        bound = lax.validate(arguments)
    except InvalidArguments:
        assert wanted is None
        return
    if wanted is None:
        assert any(line.endswith("json_string") for line in bound.coercions)
    else:
        assert repr(bound.by_name) == repr(wanted)


KEYS = st.sampled_from([*lax.schema["properties"], "nowhere"])


@pytest.mark.parametrize("coerce", ["lax", "strict"])
@settings(derandomize=True, deadline=None, max_examples=examples(60))
@given(members=st.lists(st.tuples(KEYS, VALUES), max_size=4))
def test_the_text_of_a_call_gives_what_its_parsed_arguments_give(
    coerce: Coerce, members: list[tuple[str, Any]]
) -> None:
    """Also where a key is there twice: the last one counts, everywhere."""
    text = "{" + ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in members) + "}"
    made = {"lax": lax, "strict": strict}[coerce]

    def outcome(**options: Any) -> tuple[Any, ...]:
        try:
            bound = made.validate(json.loads(text), **options)
        except InvalidArguments as error:
            return sorted(error.problems), None
        return repr(bound.by_name), bound.coercions

    assert outcome(text=text) == outcome()
