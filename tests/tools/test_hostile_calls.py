"""What a model may try, and what code of the user's may get wrong, without a call passing that should not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from profiles import every
from pydantic import BaseModel, ValidationInfo, field_validator
from single_calls import run_alone

from streamtools import Limits, ToolError, tool
from streamtools.errors import InvalidArguments, ToolDefinitionError
from streamtools.tools import Tool, tools_of

ANYTHING = {"type": "object"}


def refused(made: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    with pytest.raises(InvalidArguments) as caught:
        made.validate(arguments)
    return caught.value.problems


# -- what is bound, or belongs to a wrapper ----------------------------------------------------------------------------


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator with a switch of its own."""

    @functools.wraps(function)
    def wrapper(*args: Any, as_admin: bool = False, **kwargs: Any) -> Any:
        return as_admin, function(*args, **kwargs)

    return wrapper


def look_up(key: str, **more: Any) -> str:
    """Look something up."""
    return f"{key} {sorted(more)}"


class Service:
    @guarded
    def look_up(self, key: str, **more: Any) -> str:
        """Look something up."""
        return key


WRAPPED = [guarded(look_up), guarded(guarded(look_up)), Service().look_up, functools.lru_cache(guarded(look_up))]
RULE = "is a parameter of the tool itself, and cannot be set here"


@every("function", WRAPPED)
def test_a_parameter_of_a_wrapper_around_the_function_cannot_be_set(function: Callable[..., Any]) -> None:
    made = tool(function)
    assert refused(made, {"key": "a", "more": {"as_admin": True}}) == (f"more.as_admin: {RULE}",)
    foreign = Tool.from_schema(function, ANYTHING)
    assert refused(foreign, {"key": "a", "as_admin": True}) == (f"as_admin: {RULE}",)
    assert foreign.validate({"key": "a", "colour": "red"}).kwargs == {"key": "a", "colour": "red"}


def test_an_argument_may_be_called_self() -> None:
    def whoami(self: int) -> int:
        """Say who."""
        return self

    made = tool(whoami)
    assert made(self=3) == 3
    assert made.validate({"self": 4}).kwargs == {"self": 4}


@pytest.mark.anyio
async def test_the_function_of_a_lazy_tool_may_take_an_argument_called_self() -> None:
    def count(**names: int) -> int:
        """Add up."""
        raise AssertionError("the loaded one runs")

    made = tool(count, lazy=lambda: lambda **names: sum(names.values()))
    assert (await run_alone(made, {"names": {"self": 1, "other": 2}})).unwrap() == 3


# -- places ------------------------------------------------------------------------------------------------------------


def spread(first: int = 1, second: int = 2, /, third: int = 3) -> tuple[int, int, int]:
    """Take three."""
    return first, second, third


@every(
    ("arguments", "result"),
    [
        ({}, (1, 2, 3)),
        ({"second": 5}, (1, 5, 3)),
        ({"first": 5}, (5, 2, 3)),
        ({"third": 5}, (1, 2, 5)),
        ({"second": 5, "third": 6}, (1, 5, 6)),
    ],
)
def test_an_argument_that_is_left_out_gives_its_place_to_no_other(
    arguments: dict[str, int], result: tuple[int, int, int]
) -> None:
    for made in (tool(spread), Tool.from_schema(spread, ANYTHING)):
        bound = made.validate(arguments)
        assert made(*bound.args, **bound.kwargs) == result


# -- checks of the user's ----------------------------------------------------------------------------------------------


async def asynchronous(arguments: dict[str, Any]) -> None:
    raise AssertionError("nobody awaits it")


class Asynchronous:
    async def __call__(self, arguments: dict[str, Any]) -> None:
        raise AssertionError("nobody awaits it")


class Later:
    def __await__(self) -> Any:
        raise AssertionError("nobody awaits it")


@every("check", [lambda arguments: asynchronous(arguments), Asynchronous(), lambda arguments: Later()])
def test_a_check_that_turns_out_to_be_async_lets_nothing_pass(check: Any) -> None:
    made = Tool.from_schema(look_up, None, check=check)
    assert refused(made, {"key": "a"}) == ("the arguments: the tool's own check raised TypeError",)


class Says:
    name = "mine"

    def __init__(self, said: Any) -> None:
        self.said = said

    def validate(self, arguments: dict[str, Any]) -> Any:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@every("said", [None, True, "bad", [1], [None], 5, {"a": "b"}])
def test_a_validator_that_returns_no_list_of_lines_refuses_the_call(said: Any) -> None:
    made = Tool.from_schema(look_up, ANYTHING, validator=Says(said))
    assert refused(made, {"key": "a"}) == ("the arguments: the tool's own check raised TypeError",)


class Mute(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class MuteValue(ValueError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@every("error", [Mute(), MuteValue()])
def test_an_error_that_cannot_be_written_refuses_the_call_all_the_same(error: Exception) -> None:
    made = Tool.from_schema(look_up, ANYTHING, validator=Says(error))
    assert refused(made, {"key": "a"}) == ("the arguments: was refused by the tool's own check",)


# -- iterables ---------------------------------------------------------------------------------------------------------


@dataclass
class Batch:
    items: Iterable[int]


def add_up(items: Iterable[int], groups: dict[str, Iterable[int]] | None = None, batch: Batch | None = None) -> int:
    """Add numbers up."""
    return sum(items)


@every(
    ("arguments", "path"),
    [
        ({"items": [1, "x"]}, "items[1]"),
        ({"items": {"1": 2}}, "items"),
        ({"items": [], "groups": {"a": [[]]}}, "groups.a[0]"),
        ({"items": [], "batch": {"items": [None]}}, "batch.items[0]"),
    ],
)
def test_the_items_of_an_iterable_are_checked_before_the_call_is_accepted(arguments: Any, path: str) -> None:
    assert refused(tool(add_up), arguments)[0].startswith(f"{path}: should be a valid ")


def test_an_iterable_can_be_gone_through_more_than_once() -> None:
    bound = tool(add_up).validate({"items": [1, 2], "groups": {"a": [3]}, "batch": {"items": [4]}})
    assert bound.by_name == {"items": [1, 2], "groups": {"a": [3]}, "batch": Batch([4])}


def test_a_model_whose_items_would_be_checked_too_late_is_refused() -> None:
    class Parcel(BaseModel):
        items: Iterable[int]

    def send(parcel: Parcel) -> None:
        """Send a parcel."""

    with pytest.raises(ToolDefinitionError, match=r"parameter 'parcel': .*write list or Sequence"):
        tool(send)
    with pytest.raises(ToolDefinitionError, match="write list or Sequence"):
        Tool.from_model(Parcel, lambda parcel: None, name="send", description="")


# -- what is told ------------------------------------------------------------------------------------------------------


class Account(BaseModel):
    secret: str
    plan: str
    seats: int = 1

    @field_validator("plan")
    @classmethod
    def fits(cls, plan: str, info: ValidationInfo) -> str:
        raise ValueError(f"does not go with {info.data['secret']}" if plan == "leaky" else "goes with 1 seat only")


def test_a_check_that_quotes_another_argument_is_not_quoted() -> None:
    def sign_up(account: Account) -> None:
        """Sign up."""

    secret = {"secret": "Hunter2!Hunter2!", "seats": 1}
    assert refused(tool(sign_up), {"account": {**secret, "plan": "leaky"}}) == (
        "account.plan: was refused by the tool's own check",
    )
    assert refused(tool(sign_up), {"account": {**secret, "plan": "free"}}) == ("account.plan: goes with 1 seat only",)


class Node(BaseModel):
    children: dict[str, Node] = {}
    value: int = 0


def test_a_problem_deep_under_long_names_is_told_in_a_bounded_line_with_its_rule() -> None:
    value: dict[str, Any] = {"children": {f"leaf{number}": {"value": "x"} for number in range(40)}}
    for level in range(25):
        value = {"children": {"k" * 60 + str(level): value}}

    def walk(node: Node) -> None:
        """Walk."""

    lines = refused(tool(walk), {"node": value})
    assert lines[0].endswith("...: should be a valid integer, unable to parse string as an integer")
    assert len(lines[0]) < 800
    assert lines[1:] == ("and 24 more",)


def test_strings_are_decoded_together_and_those_that_do_not_belong_stay_strings() -> None:
    """Together, since each question to the schema may cost all the steps that a validation may take."""
    asked = {"properties": {f"p{number}": {"type": "array"} for number in range(16)}}
    made = Tool.from_schema(look_up, {**asked, "type": "object"}, limits=Limits(max_validation_steps=40))
    bound = made.validate({"key": "a", **{f"p{number}": "[1]" for number in range(15)}, "p15": [1]})
    assert bound.coercions == tuple(f"p{number}: json_string" for number in range(15))
    assert bound.by_name["p3"] == [1]
    odd = {"p0": "[1]", "p1": '{"a": 1}', "p2": "no"}
    assert refused(made, {"key": "a", **odd}) == ("p1: should be an array", "p2: should be an array")


# -- wrappers that are objects -----------------------------------------------------------------------------------------


class Retrying:
    """Retries."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return await self.function(*args, **kwargs)


class Wordless:
    async def __call__(self, key: str) -> str:
        return key


@pytest.mark.anyio
async def test_an_object_that_wraps_a_function_is_a_tool_of_that_functions_name_and_text() -> None:
    @Retrying
    async def find(key: str) -> str:
        """Find by key."""
        return key.upper()

    made = tool(find)
    assert (made.name, made.description, made.is_async) == ("find", "Find by key.", True)
    assert made.schema["required"] == ["key"]
    assert (await run_alone(made, {"key": "a"})).unwrap() == "A"


def test_an_object_whose_call_has_no_docstring_is_refused_and_not_described_by_pythons_own() -> None:
    with pytest.raises(ToolDefinitionError, match="has no docstring"):
        tool(Wordless())


def test_a_method_with_two_names_is_one_tool() -> None:
    class Shop:
        @tool
        def buy(self, item: str) -> str:
            """Buy."""
            return item

        purchase = buy

    assert [made.name for made in tools_of(Shop())] == ["buy"]
