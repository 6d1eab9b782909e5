"""Tools whose arguments are the fields of one model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NotRequired

import anyio
import pytest
from profiles import every
from pydantic import BaseModel, ConfigDict, Field, RootModel
from single_calls import run_alone
from typing_extensions import TypedDict

from streamtools import ToolContext
from streamtools.errors import InvalidArguments, ToolDefinitionError
from streamtools.tools import Tool


class Order(BaseModel):
    """An order.

    Args:
        size: How many.
        colour: No field.
    """

    item: str = Field(description="What.", alias="what")
    size: int = 1


@dataclass
class Point:
    """A point."""

    x: float
    tags: list[str] = field(default_factory=list)


@dataclass
class Bare:
    x: int


class Options(TypedDict):
    depth: int
    quick: NotRequired[bool]


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class Numbers(RootModel[list[int]]):
    """Numbers."""


class Callback(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    call: anyio.Event


def take(given: Any, ctx: ToolContext) -> Any:
    """Take it."""
    return given


def undocumented(given: Any) -> Any:
    return given


def test_the_schema_is_the_models_and_closed() -> None:
    made = Tool.from_model(Order, take)
    assert made.schema == {
        "type": "object",
        "properties": {
            "what": {"type": "string", "description": "What."},
            "size": {"type": "integer", "default": 1, "description": "How many."},
        },
        "required": ["what"],
        "additionalProperties": False,
    }
    assert (made.name, made.description, made.schema_source) == ("take", "Take it.", "typed_model")
    assert (made.validator, made.check()) == ("pydantic", [])


@every(
    ("model", "arguments", "instance"),
    [
        (Order, {"what": "tea", "size": "2"}, Order(what="tea", size=2)),
        (Point, {"x": 1, "tags": ["a"]}, Point(1.0, ["a"])),
        (Options, {"depth": 1}, {"depth": 1}),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(value=1, children=[Node(value=2)])),
        (Open, {"x": 1, "y": 2}, Open(x=1, y=2)),  # type: ignore[call-arg]
    ],
)
def test_the_function_gets_the_instance(model: Any, arguments: dict[str, Any], instance: Any) -> None:
    made = Tool.from_model(model, take, name="m", effect="pure")
    bound = made.validate(arguments)
    assert bound.by_name == {"given": instance}
    assert type(bound.by_name["given"]) is type(instance)
    assert anyio.run(run_alone, made, arguments).unwrap() == instance
    assert made.schema["type"] == "object"


@every(
    ("model", "arguments", "wanted"),
    [
        (Order, {}, "what: is required but missing"),
        (Order, {"what": "tea", "item": "x"}, "item: is not an argument of this tool, which takes what, size"),
        (Point, {"x": 1, "y z": 2}, "['y z']: is not an argument of this tool, which takes x, tags"),
        (Options, {"depth": 1, "more": 2}, "more: is not an argument of this tool, which takes depth, quick"),
        (Options, {"depth": "x"}, "depth: should be a valid integer, unable to parse string as an integer"),
        (Node, {"value": 1, "children": [{}]}, "children[0].value: is required but missing"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(model: Any, arguments: dict[str, Any], wanted: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        Tool.from_model(model, take).validate(arguments)
    assert caught.value.problems == (wanted,)


def test_the_policy_of_coercion_holds_for_models_too() -> None:
    assert Tool.from_model(Order, take).validate({"what": "x", "size": "2"}).coercions == ("size: string to integer",)
    with pytest.raises(InvalidArguments, match="size: should be a valid integer"):
        Tool.from_model(Order, take, coerce="strict").validate({"what": "x", "size": "2"})


def test_the_text_is_the_functions_or_the_models_or_what_was_given() -> None:
    assert Tool.from_model(Order, undocumented).description == "An order."
    assert Tool.from_model(Point, undocumented).description == "A point."
    assert Tool.from_model(Bare, undocumented, description="Given.", title="T").title == "T"
    with pytest.raises(ToolDefinitionError, match="has no docstring"):
        Tool.from_model(Bare, undocumented)


def nothing() -> None:
    """None."""


def both(a: Any, b: Any) -> None:
    """Both."""


def rest(*a: Any) -> None:
    """Rest."""


@every(
    ("model", "function", "says"),
    [
        (Order, nothing, "this has: none"),
        (Order, both, "this has: a, b"),
        (Order, rest, "this has: a"),
        (dict, take, "expected a pydantic BaseModel"),
        ("Order", take, "expected a pydantic BaseModel"),
        (Numbers, take, "expected an object with fields"),
        (Callback, take, "no schema can be made of the model"),
    ],
)
def test_what_cannot_be_is_refused(model: Any, function: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        Tool.from_model(model, function)
