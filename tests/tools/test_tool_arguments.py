"""Arguments as a model sends them: bound with their types, or refused in words that it can act on."""

from __future__ import annotations

import datetime as dt
import enum
import math
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Json, model_validator
from typing_extensions import TypedDict

from streamtools.errors import InvalidArguments
from streamtools.tools import ToolContext, tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


class Span(BaseModel):
    start: int
    end: int

    @model_validator(mode="after")
    def _ordered(self) -> Span:
        if self.end < self.start:
            raise ValueError("end must not be before start")
        return self


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: dt.datetime
    pair: tuple[int, int]


class Keys(TypedDict):
    a: int


@dataclass
class Point:
    x: float


def _repeats_its_input(value: str) -> str:
    raise ValueError(f"the value {value!r} is not allowed")


def _crashes(value: Any) -> Any:
    raise ZeroDivisionError(value)


@tool
def everything(
    number: int = 0,
    ratio: float = 0.0,
    text: Annotated[str, Field(max_length=5)] = "",
    mode: Literal["fast", "slow"] = "fast",
    color: Color = Color.RED,
    people: list[Person] | None = None,
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None,
    span: Span | None = None,
    strict: Strict | None = None,
    keys: Keys | None = None,
    point: Point | None = None,
    unique: set[str] = frozenset(),  # type: ignore[assignment]
    ages: dict[str, int] = {},
    by_number: dict[int, str] = {},
    either: int | list[int] | Span = 0,
    ident: uuid.UUID | None = None,
    raw: Json[list[int]] | None = None,
    anything: Any = None,
    talkative: Annotated[str, AfterValidator(_repeats_its_input)] = "",
    broken: Annotated[str, AfterValidator(_crashes)] = "",
    broken_too: Annotated[Point, AfterValidator(_crashes)] | None = None,
) -> str:
    """Take everything."""
    return ""


@tool
def weather(city: str, days: int = 1) -> str:
    """Weather."""
    return city


def problems(arguments: Any) -> list[str]:
    with pytest.raises(InvalidArguments) as caught:
        everything.validate(arguments)
    assert str(caught.value) == "invalid arguments for everything: " + "; ".join(caught.value.problems)
    return list(caught.value.problems)


# -- what fits --------------------------------------------------------------------------------------------------


def test_values_reach_the_function_with_their_types() -> None:
    bound = everything.validate(
        {
            "number": "3",
            "color": "blue",
            "people": [{"name": "n", "age": 3}],
            "pet": {"kind": "cat", "lives": 9},
            "point": {"x": 1},
            "unique": ["a"],
            "by_number": {"1": "x"},
        }
    )
    assert bound.args == ()
    assert bound.kwargs["number"] == 3
    assert bound.kwargs["color"] is Color.BLUE
    assert bound.kwargs["people"] == [Person(name="n", age=3)]
    assert bound.kwargs["pet"] == Cat(kind="cat", lives=9)
    assert bound.kwargs["point"] == Point(1.0)
    assert bound.kwargs["unique"] == {"a"}
    assert bound.kwargs["by_number"] == {1: "x"}
    assert bound.by_name["mode"] == "fast"
    assert bound.coercions == ("number: string to integer",)


def test_arguments_are_validated_as_json_so_strict_models_take_dates_and_tuples() -> None:
    bound = everything.validate({"strict": {"when": "2024-01-02T03:04:05", "pair": [1, 2]}})
    assert bound.kwargs["strict"].when == dt.datetime(2024, 1, 2, 3, 4, 5)
    assert bound.kwargs["strict"].pair == (1, 2)


def test_defaults_are_fresh_for_every_call() -> None:
    everything.validate({}).kwargs["ages"]["x"] = 1
    assert everything.validate({}).kwargs["ages"] == {}


def test_a_tool_that_changes_its_arguments_does_not_change_the_call() -> None:
    sent = {"anything": {"list": [1]}, "ages": {"a": 1}}
    bound = everything.validate(sent)
    bound.kwargs["anything"]["list"].append(2)
    bound.kwargs["ages"].clear()
    assert sent == {"anything": {"list": [1]}, "ages": {"a": 1}}


def test_typed_dicts_inside_stay_as_open_as_they_are() -> None:
    assert everything.validate({"keys": {"a": 1, "more": 2}}).kwargs["keys"] == {"a": 1}
    assert "additionalProperties" not in everything.schema["$defs"]["Keys"]


def test_a_record_does_not_show_values_in_its_repr() -> None:
    assert "secret" not in repr(everything.validate({"anything": "secret"}))


PARAMETERS = st.lists(
    st.tuples(
        st.sampled_from(["posonly", "plain", "keyword"]),
        st.booleans(),  # injected
        st.booleans(),  # has a default
    ),
    max_size=5,
)


@given(PARAMETERS, st.booleans(), st.booleans(), st.data())
def test_any_signature_is_called_with_what_was_sent(
    kinds: list[tuple[str, bool, bool]], has_args: bool, has_kwargs: bool, data: st.DataObject
) -> None:
    """Whatever the order of positional, injected, variable and keyword parameters, no value shifts to another."""
    function, names, injected = _build(kinds, has_args, has_kwargs)
    made = tool(function)
    sent: dict[str, Any] = {name: position + 10 for position, name in enumerate(names)}
    expected: dict[str, Any] = {**sent, **dict.fromkeys(injected, "context")}
    if has_args:
        sent["rest"] = data.draw(st.lists(st.integers(0, 9)))
        expected["rest"] = tuple(sent["rest"])
    if has_kwargs:
        sent["more"] = data.draw(st.dictionaries(st.sampled_from(["k1", "k2"]), st.integers(0, 9)))
        expected["more"] = sent["more"]
    context = ToolContext()
    args, kwargs = made.complete(made.validate(sent), context)
    got = made.fn(*args, **kwargs)
    assert {name: "context" if value is context else value for name, value in got.items()} == expected


def _build(kinds: list[tuple[str, bool, bool]], has_args: bool, has_kwargs: bool) -> tuple[Any, list[str], list[str]]:
    """A function with these parameters that returns what it was called with."""
    groups: dict[str, list[str]] = {"posonly": [], "plain": [], "keyword": []}
    names, injected, seen_default = [], [], False
    for position, (kind, is_context, default) in enumerate(sorted(kinds, key=lambda k: list(groups).index(k[0]))):
        name = f"p{position}"
        (injected if is_context else names).append(name)
        seen_default = default if kind == "keyword" else seen_default or default
        hint = "ToolContext | None" if is_context else "int | None"
        groups[kind].append(f"{name}: {hint}" + (" = None" if seen_default else ""))
    star = ["*rest: int"] if has_args else ["*"] if groups["keyword"] else []
    slash = ["/"] if groups["posonly"] else []
    more = ["**more: int"] if has_kwargs else []
    listed = ", ".join([*groups["posonly"], *slash, *groups["plain"], *star, *groups["keyword"], *more])
    namespace: dict[str, Any] = {"ToolContext": ToolContext}
    exec(f"def f({listed}) -> dict:\n    'Return all.'\n    return dict(locals())", namespace)
    return namespace["f"], names, injected


# -- what does not ----------------------------------------------------------------------------------------------

NO_INTEGER = "should be a valid integer, unable to parse string as an integer"


@every(
    ("arguments", "wanted"),
    [
        ({"number": "x"}, [f"number: {NO_INTEGER}"]),
        ({"text": "toolong"}, ["text: string should have at most 5 characters"]),
        ({"mode": "mid"}, ["mode: should be 'fast' or 'slow'"]),
        ({"color": "green"}, ["color: should be 'red' or 'blue'"]),
        (
            {"people": [{"name": "n", "age": -1}, {"age": 1}]},
            ["people[0].age: should be greater than or equal to 0", "people[1].name: is required but missing"],
        ),
        ({"pet": {"kind": "cow"}}, ["pet: 'kind' should be one of 'cat', 'dog'"]),
        ({"pet": {}}, ["pet: is missing 'kind', which names its kind"]),
        ({"pet": {"kind": "cat"}}, ["pet.lives (as cat): is required but missing"]),
        ({"broken_too": '{"x": 1}'}, ["the arguments: the tool's own check raised ZeroDivisionError"]),
        ({"span": {"start": 2, "end": 1}}, ["span: end must not be before start"]),
        ({"by_number": {"x": "y"}}, [f"by_number.x (its key): {NO_INTEGER}"]),
        ({"ages": {"a b": "?"}}, [f"ages['a b']: {NO_INTEGER}"]),
        ({"ident": "zz"}, ["ident: should be a valid UUID"]),
        ({"raw": "[x"}, ["raw: invalid JSON: expected value at line 1 column 2"]),
        ({"ratio": math.nan}, ["ratio: should be a finite number"]),
        ({"ratio": "inf"}, ["ratio: should be a finite number"]),
        ({"anything": [math.inf]}, ["the arguments: should have neither NaN nor Infinity"]),
        ({"talkative": "hush"}, ["talkative: was refused by the tool's own check"]),
        ({"broken": "hush"}, ["the arguments: the tool's own check raised ZeroDivisionError"]),
        ({"anything": object()}, ["the arguments: should be plain JSON, without lone surrogates or too deep nesting"]),
        ({"text": "\ud800"}, ["the arguments: should be plain JSON, without lone surrogates or too deep nesting"]),
        ([1], ["the arguments: should be an object, not list"]),
        (None, ["the arguments: should be an object, not NoneType"]),
    ],
)  # fmt: skip
def test_problems_are_a_path_and_a_rule(arguments: Any, wanted: list[str]) -> None:
    assert problems(arguments) == wanted


SAID = st.sampled_from(["{}", "no {}!", "bad_{}", "{}s are refused", "refused", "it must be shorter"])


@settings(max_examples=examples(60))
@given(st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.lists(st.text(min_size=1))), SAID)
def test_what_a_validator_says_is_kept_unless_it_repeats_the_input(value: Any, said: str) -> None:
    def refuse(got: Any) -> Any:
        raise ValueError(said.format(got[0] if isinstance(got, list) and got else got))

    @tool
    def f(x: Annotated[Any, AfterValidator(refuse)]) -> None:
        """Work."""

    with pytest.raises(InvalidArguments) as caught:
        f.validate({"x": value})
    (problem,) = caught.value.problems
    withheld = "x: was refused by the tool's own check"
    if "{}" in said and value not in ("", []):
        assert problem == withheld
    else:  # a word of it may be in the input by chance
        assert problem in (f"x: {said.format(value)}", withheld)


def test_every_alternative_of_a_union_is_named() -> None:
    assert problems({"either": {"start": 1}}) == [
        "either (as int): should be a valid integer",
        "either (as list[int]): should be a valid array",
        "either.end: is required but missing",
    ]


def test_an_argument_that_is_missing_and_one_that_is_too_much_are_named() -> None:
    with pytest.raises(InvalidArguments) as caught:
        weather.validate({"town": "Rome"})
    assert caught.value.problems == (
        "city: is required but missing",
        "town: is not an argument of this tool, which takes city, days",
    )


def test_a_long_list_of_problems_is_cut() -> None:
    found = problems({"people": [{"name": "n", "age": -1}] * 100})
    assert len(found) == 17
    assert found[-1] == "and 84 more"


def test_the_text_nan_is_no_nan() -> None:
    assert everything.validate({"anything": "NaN and Infinity"}).kwargs["anything"] == "NaN and Infinity"


# -- strings that hold an array or object -----------------------------------------------------------------------


@every(
    ("arguments", "path", "value"),
    [
        ({"people": '[{"name": "n", "age": 3}]'}, "people", [Person(name="n", age=3)]),
        ({"pet": '{"kind": "dog"}'}, "pet", Dog(kind="dog")),
        ({"point": '{"x": 1}'}, "point", Point(1.0)),
        ({"unique": '["a"]'}, "unique", {"a"}),
        ({"ages": '{"a": 1}'}, "ages", {"a": 1}),
        ({"keys": '{"a": 1}'}, "keys", {"a": 1}),
        ({"either": "[1]"}, "either", [1]),
        ({"either": '{"start": 1, "end": 2}'}, "either", Span(start=1, end=2)),
    ],
)
def test_json_text_is_decoded_where_an_array_or_object_belongs(
    arguments: dict[str, Any], path: str, value: Any
) -> None:
    bound = everything.validate(arguments)
    assert bound.kwargs[path] == value
    assert bound.coercions == (f"{path}: json_string",)


def test_only_the_string_that_does_not_fit_is_decoded() -> None:
    bound = everything.validate({"people": ['{"name": "[1]", "age": 3}'], "anything": "[1]", "text": "[1]"})
    assert bound.kwargs["people"] == [Person(name="[1]", age=3)]
    assert (bound.kwargs["anything"], bound.kwargs["text"]) == ("[1]", "[1]")
    assert bound.coercions == ("people[0]: json_string",)


@every("text", ["[1", '{"a": 1}', "3", "null", "x"])
def test_text_of_another_kind_is_not_decoded(text: str) -> None:
    assert problems({"people": text}) == ["people: should be a valid array"]
