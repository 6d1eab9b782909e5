"""What the raw text of a parameter means, by the tool's schema."""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Annotated, Any, Literal, cast

from hostile_validation import typed
from profiles import every
from pydantic import BaseModel, WithJsonSchema
from streams import chat

from streamtools import Turn, parse
from streamtools.stages import DEFAULT, text_calls
from streamtools.text_calls.parameters import parameter_types
from streamtools.tools import Toolset

STAGES = DEFAULT.insert_before("accumulate", text_calls("qwen3_coder"))


class Size(Enum):
    SMALL = 1
    LARGE = "large"


class Point(BaseModel):
    x: int


class Node(BaseModel):
    next: Node | str | None = None


def said(schema: dict[str, Any]) -> Any:
    return Annotated[Any, WithJsonSchema(schema)]


def call(text: str, tools: list[Any]) -> Turn:
    markup = f"<tool_call><function=take><parameter=value>{text}</parameter></function></tool_call>"
    return parse(chat([markup], finish="stop"), tools=tools, stages=STAGES)


READINGS = [
    (str, "12", "12"),
    (str, "null", "null"),
    (str, ' "a" ', ' "a" '),
    (str | None, "null", None),
    (str | None, "None", "None"),
    (str | int, "12", "12"),
    (int, "12", 12),
    (int, " 12 ", 12),
    (int, "9223372036854775808123", 9223372036854775808123),
    (float, "1e3", 1000.0),
    (bool, "True", True),
    (bool, "false", False),
    (int | None, "None", None),
    (list[int], "[1, 2]", [1, 2]),
    (dict[str, Any], '{"a": {"b": null}}', {"a": {"b": None}}),
    (Point, '{"x": 1}', {"x": 1}),
    (Point | str, '{"x": 1}', '{"x": 1}'),
    (Literal["1", "2"], "1", "1"),
    (Literal[1, 2], "1", 1),
    (Size, "large", Size.LARGE.value),
    (Node, '{"next": "a"}', {"next": "a"}),
    (Any, "12", 12),
    (Any, "Paris", "Paris"),
    (Any, '"Paris"', '"Paris"'),
    (said({"type": ["string", "integer"]}), "12", "12"),
    (said({"type": ["integer", "null"]}), "12", 12),
    (said({"const": "12"}), "12", "12"),
    (said({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}), "12", 12),
    (said({"oneOf": [{"type": "integer"}, {}]}), "12", "12"),
    (said({"allOf": [{"description": "x"}, {"type": "string"}]}), "12", "12"),
    (said({"allOf": [{}]}), "12", 12),
    (said({"not": {}}), "12", 12),
]


@every(("annotation", "text", "value"), READINGS)
def test_a_text_is_a_string_where_the_schema_takes_one_and_json_elsewhere(
    annotation: Any, text: str, value: object
) -> None:
    (found,) = call(text, [typed(annotation)]).calls
    assert (found.arguments, found.arguments_text[:10]) == ({"value": value}, '{"value": ')


@every("annotation", [int, list[int], Point])
def test_what_is_no_json_is_a_string_for_validation_to_refuse(annotation: Any) -> None:
    (found,) = call("[1, oops", [typed(annotation)]).calls
    assert (found.status, found.problem, found.dispatchable) == ("invalid", "invalid_arguments", False)


CIRCLE = {"anyOf": [{"$ref": "#/$defs/circle"}, {"$ref": "#/$defs/circle"}, {"$ref": "#/properties/a"}]}


@every(
    ("schema", "types"),
    [
        ({}, {}),
        ({"properties": []}, {}),
        ({"properties": {"a": True, "b": {"$ref": "#/$defs/nowhere/at/all"}, "c": {"$ref": 1}}}, dict.fromkeys("abc")),
        ({"properties": {"a": {"$ref": "#/$defs/a~1b"}}, "$defs": {"a/b": {"type": "null"}}}, {"a": {"null"}}),
        ({"properties": {"a": {"type": [1, "null"]}}}, {"a": {"null"}}),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, {"a": None}),
    ],
)
def test_a_schema_of_somebody_else_may_say_anything(schema: Any, types: Any) -> None:
    assert parameter_types(cast("Toolset", {"t": SimpleNamespace(schema=schema)}), "t") == types


def test_a_schema_that_runs_in_circles_is_left_in_time() -> None:
    schema = {"properties": {"a": CIRCLE}, "$defs": {"circle": CIRCLE}}
    types = parameter_types(cast("Toolset", {"t": SimpleNamespace(schema=schema)}), "t")["a"]
    assert types is not None
    assert "string" in types
