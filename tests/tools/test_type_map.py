"""Python's types as JSON Schema, and back as values; what the function returns as a schema, too."""

from __future__ import annotations

import datetime as dt
import enum
import json
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, Union

import pytest
from profiles import every
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from streamtools import ToolContext, tool
from streamtools.content import ToolResult
from streamtools.errors import ToolDefinitionError
from streamtools.tools import Tool, Toolset


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Keys(TypedDict):
    a: int


@dataclass
class Point:
    x: float
    y: float = 0.0


class Person(BaseModel):
    name: str


class Pair(NamedTuple):
    left: int
    right: str


UserId = NewType("UserId", int)

ANY_OBJECT = {"type": "object", "additionalProperties": True}
POINT = {
    "type": "object",
    "title": "Point",
    "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
    "required": ["x"],
}
PERSON = {"type": "object", "title": "Person", "properties": {"name": {"type": "string"}}, "required": ["name"]}
KEYS = {"type": "object", "title": "Keys", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@every(
    ("annotation", "schema", "sent", "value"),
    [
        (str, {"type": "string"}, "x", "x"),
        (int, {"type": "integer"}, 3, 3),
        (float, {"type": "number"}, 3, 3.0),
        (bool, {"type": "boolean"}, True, True),
        (None, {"type": "null"}, None, None),
        (Any, {}, [{"x": None}], [{"x": None}]),
        (list, {"type": "array", "items": {}}, [1, "a"], [1, "a"]),
        (dict, ANY_OBJECT, {"a": 1}, {"a": 1}),
        (list[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
        (Mapping[str, Any], ANY_OBJECT, {"a": 1}, {"a": 1}),
        (dict[int, str], {"type": "object", "additionalProperties": {"type": "string"}}, {"1": "x"}, {1: "x"}),
        (set[int], {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}, [1, 1], {1}),
        (frozenset[str], {"type": "array", "uniqueItems": True, "items": {"type": "string"}}, ["a"], frozenset("a")),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1, 2], (1, 2)),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
            [1, "a"],
            (1, "a"),
        ),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x", "x"),  # noqa: UP007
        (int | list[int], {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}, [1], [1]),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
        (Literal["a"], {"type": "string", "const": "a"}, "a", "a"),
        (Color, {"type": "string", "title": "Color", "enum": ["red", "blue"]}, "red", Color.RED),
        (Level, {"type": "integer", "title": "Level", "enum": [1, 2]}, 2, Level.HIGH),
        (Annotated[int, Field(ge=1, lt=5)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 5}, 3, 3),
        (Annotated[str, Field(pattern="^a")], {"type": "string", "pattern": "^a"}, "ab", "ab"),
        (Annotated[str, Field(max_length=3)], {"type": "string", "maxLength": 3}, "ab", "ab"),
        (Annotated[str, "A note."], {"type": "string", "description": "A note."}, "x", "x"),
        (Keys, KEYS, {"a": 1}, {"a": 1}),
        (Point, POINT, {"x": 1}, Point(1.0)),
        (Person, PERSON, {"name": "n"}, Person(name="n")),
        (dt.date, {"type": "string", "format": "date"}, "2024-01-02", dt.date(2024, 1, 2)),
        (dt.time, {"type": "string", "format": "time"}, "10:30:00", dt.time(10, 30)),
        (dt.datetime, {"type": "string", "format": "date-time"}, "2024-01-02T03:04", dt.datetime(2024, 1, 2, 3, 4)),
        (dt.timedelta, {"type": "string", "format": "duration"}, "PT5S", dt.timedelta(seconds=5)),
        (uuid.UUID, {"type": "string", "format": "uuid"}, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
        (bytes, {"type": "string", "format": "binary"}, "x", b"x"),
        (Path, {"type": "string", "format": "path"}, "a/b", Path("a/b")),
        (UserId, {"type": "integer"}, 3, 3),
    ],
)  # fmt: skip
def test_a_type_has_its_schema_and_its_values(annotation: Any, schema: dict[str, Any], sent: Any, value: Any) -> None:
    def f(x: Any) -> str:
        """Work."""
        return ""

    f.__annotations__["x"] = annotation
    made = tool(f, coerce="strict")
    described = made.schema["properties"]["x"]
    if "$ref" in described:
        described = made.schema["$defs"][described["$ref"].removeprefix("#/$defs/")]
    assert described == schema
    bound = made.validate({"x": sent})
    assert bound.by_name == {"x": value}
    assert type(bound.by_name["x"]) is type(value)
    assert made.validate({"x": sent}, text=json.dumps({"x": sent})).by_name == {"x": value}


def test_decimals_come_as_texts_or_numbers_and_stay_exact() -> None:
    def f(price: Decimal) -> str:
        """Work."""
        return str(price)

    made = tool(f)
    kinds = {option["type"] for option in made.schema["properties"]["price"]["anyOf"]}
    assert kinds == {"number", "string"}
    assert made.validate({"price": "1.10"}).by_name == {"price": Decimal("1.10")}


def test_a_named_tuple_is_an_array_of_its_fields() -> None:
    def f(pair: Pair) -> str:
        """Work."""
        return ""

    described = tool(f).schema["$defs"]["Pair"]
    assert [item["type"] for item in described["prefixItems"]] == ["integer", "string"]
    assert tool(f).validate({"pair": [1, "a"]}).by_name == {"pair": Pair(1, "a")}


# -- the example of the search tool -------------------------------------------------------------------------------


def test_a_tool_that_is_one_already_comes_back_as_it_is() -> None:
    made = tool(later)
    assert tool(made) is made
    assert tool()(made) is made
    assert Toolset([made])["later"] is made
    with pytest.raises(ToolDefinitionError, match=r"is a tool already; .* pass tool\.fn"):
        tool(made, effect="pure")  # type: ignore[call-overload]


# -- what is returned -----------------------------------------------------------------------------------------------


async def later(x: int) -> Point:
    """Work."""
    return Point(x)


def forward(x: int) -> Missing:  # type: ignore[name-defined]  # noqa: F821
    """Work."""


class Explodes:
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        raise RuntimeError("boom")


class NoJson(BaseModel):
    model_config = {"json_schema_extra": {"examples": [object()]}}  # type: ignore[dict-item]
    x: int


@every(
    ("returns", "schema"),
    [
        (str, {"type": "string"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Keys, KEYS),
        (Person, PERSON),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (dt.date, {"type": "string", "format": "date"}),
        (None, None),
        (Any, None),
        (socket.socket, None),
        (Callable[[int], int], None),
        (ToolResult, None),
        (ToolResult | str, None),
        (Awaitable[int], None),
        (Explodes, None),
        (NoJson, None),
        ("Nowhere", None),
    ],
)
def test_the_output_schema_is_that_of_the_return_type_where_there_is_one(returns: Any, schema: Any) -> None:
    def f(x: int) -> Any:
        """Work."""

    f.__annotations__["return"] = returns
    assert tool(f).output_schema == schema


def test_output_schemas_of_async_functions_models_and_methods() -> None:
    assert tool(later).output_schema == POINT
    assert tool(forward).output_schema is None

    def untyped(x):  # type: ignore[no-untyped-def]
        """Work."""

    def take(person: Person, ctx: ToolContext) -> list[str]:
        """Take."""
        return []

    assert tool(untyped, require_hints=False).output_schema is None
    assert Tool.from_model(Person, take).output_schema == {"type": "array", "items": {"type": "string"}}
    given = {"type": "object"}
    assert Tool.from_schema(take, {}, output_schema=given).output_schema == given
    assert Tool.from_schema(take, {}).output_schema is None
