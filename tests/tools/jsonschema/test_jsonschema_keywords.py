"""What each keyword takes and refuses, in both dialects."""

from __future__ import annotations

from collections import UserString
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from streamtools.schema.validation import compile

BOTH: list[tuple[Any, list[Any], list[Any]]] = [  # schema, what fits, what does not
    (True, [None, 1, {}], []),
    (False, [], [None, 1, {}]),
    ({}, [None, 1, {}, []], []),
    ({"title": 5, "examples": "x", "unknown": [1]}, [None, 1], []),
    ({"type": "object"}, [{}], [[], "", None, 1, True]),
    ({"type": "array"}, [[]], [{}, "", None]),
    ({"type": "string"}, ["", "x"], [1, None, []]),
    ({"type": "integer"}, [1, 1.0, -3, 10**40, 1e20], [1.5, "1", True, None]),
    ({"type": "number"}, [1, 1.5, 10**40], ["1", True, False]),
    ({"type": "boolean"}, [True, False], [0, 1, "true"]),
    ({"type": "null"}, [None], [0, "", False]),
    ({"type": ["integer", "null"]}, [1, 1.0, None], [1.5, "x"]),
    ({"type": ["integer", "number"]}, [1, 1.5], ["x"]),
    (
        {"enum": [1, "a", None, [1, {"b": 2}]]},
        [1, 1.0, "a", None, [1.0, {"b": 2}]],
        [True, "1", [1], [1, {"b": 3}], {}],
    ),
    ({"enum": [True]}, [True], [1, 1.0, "true"]),
    ({"enum": [0]}, [0, 0.0, -0.0], [False, None, ""]),
    ({"enum": []}, [], [None, 0]),
    ({"const": {"a": [1]}}, [{"a": [1]}, {"a": [1.0]}], [{"a": [True]}, {"a": [1], "b": 1}, [], {"b": [1]}, {"a": {}}]),
    ({"const": [[]]}, [[[]]], [[{}], [[1]], [1], []]),
    ({"const": None}, [None], [0, False, ""]),
    ({"const": 2**63 * 5}, [2**63 * 5], [2**63 * 5 + 1]),
    ({"multipleOf": 2}, [4, 4.0, 0, -2, "x"], [3, 3.5]),
    ({"multipleOf": 0.01}, [0.07, 1.13, 19.99, 4], [0.075]),
    ({"multipleOf": 0.123456789}, [0], [1e308]),
    ({"multipleOf": 1e-8}, [12391239123], [1e-9]),
    ({"minimum": 1.5}, [1.5, 2, "x", None, True], [1, 1.4]),
    ({"maximum": 2**53}, [2**53, 1.0], [2**53 + 1]),
    ({"exclusiveMinimum": 1}, [1.1], [1, 0]),
    ({"exclusiveMaximum": 1}, [0.9], [1, 2]),
    ({"minLength": 2}, ["é😀", "abc", 1], ["x", "😀", ""]),
    ({"maxLength": 2.0}, ["é😀", "", []], ["abc"]),
    ({"pattern": "b+"}, ["abc", 1], ["ac"]),
    ({"format": "email", "contentEncoding": "base64"}, ["no email", "#"], []),
    ({"minItems": 1}, [[1], {}], [[]]),
    ({"maxItems": 1}, [[], [1]], [[1, 2]]),
    (
        {"uniqueItems": True},
        [[], [1, True], [[1], [True]], [{"a": 1}, {"a": 2}], "aa"],
        [[1, 1.0], [[1], [1]], [{"a": 1}] * 2],
    ),
    ({"uniqueItems": True}, [[0, False, None, ""]], [[2**70, 1, 2**70], [1e300, int(1e300)]]),
    ({"uniqueItems": False}, [[1, 1]], []),
    ({"items": {"type": "integer"}}, [[], [1, 2], "x"], [["x"], [1, "x"]]),
    ({"items": False}, [[]], [[1]]),
    ({"items": True}, [[1]], []),
    ({"contains": {"type": "integer"}}, [[1], ["x", 1], {}], [[], ["x"]]),
    ({"required": ["a", "b", "a"]}, [{"a": 1, "b": None}, []], [{"a": 1}, {}]),
    ({"required": []}, [{}], []),
    ({"minProperties": 1}, [{"a": 1}, []], [{}]),
    ({"maxProperties": 1}, [{"a": 1}], [{"a": 1, "b": 2}]),
    ({"properties": {"a": {"type": "string"}, "b": True}}, [{"a": "x", "b": 1, "c": 2}, []], [{"a": 1}]),
    ({"properties": {"a": False}}, [{}], [{"a": None}]),
    ({"properties": {"a": {}}, "additionalProperties": False}, [{}, {"a": 1}], [{"b": 1}]),
    ({"additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "x"}]),
    ({"patternProperties": {"^x": {"type": "integer"}}}, [{"x": 1, "y": ""}], [{"x": ""}]),
    (
        {
            "properties": {"xa": {"minimum": 2}},
            "patternProperties": {"^x": {"type": "integer"}},
            "additionalProperties": False,
        },
        [{"xa": 2, "xb": 0}],
        [{"xa": 1}, {"xa": 2.5}, {"y": 1}],
    ),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, {}], [{"ab": 1}]),
    ({"propertyNames": True}, [{"a": 1}], []),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, "x"], [0, 3]),
    ({"allOf": [True, {}]}, [1], []),
    ({"anyOf": [{"type": "string"}, {"minimum": 2}]}, ["x", 2, None], [1]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5], [2, 1.5]),
    ({"not": {"type": "integer"}}, ["x"], [1]),
    ({"not": {}}, [], [1, None]),
    ({"if": {"minimum": 5}, "then": {"multipleOf": 5}, "else": {"multipleOf": 2}}, [5, 4, "x"], [6, 3]),
    ({"if": {"minimum": 5}, "then": {"multipleOf": 5}}, [5, 3], [6]),
    ({"if": {"minimum": 5}, "else": False}, [5, "x"], [1]),
    ({"if": False}, [1], []),
    ({"then": False, "else": False}, [1], []),
]

ONLY_2020_12: list[tuple[Any, list[Any], list[Any]]] = [
    ({"prefixItems": [{"type": "integer"}, {"type": "string"}]}, [[], [1], [1, "x", None]], [["x"], [1, 2]]),
    ({"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, [[1], [1, "x"]], [["x"], [1, 2], ["x", 1]]),
    ({"prefixItems": [True], "items": False}, [[1]], [[1, 2]]),
    ({"contains": {"type": "integer"}, "minContains": 2}, [[1, 2]], [[1], []]),
    ({"contains": {"type": "integer"}, "minContains": 0}, [[], ["x"]], []),
    ({"contains": {"type": "integer"}, "maxContains": 1}, [[1, "x"]], [[1, 2], []]),
    ({"minContains": 2, "maxContains": 0}, [[], [1]], []),
    ({"dependentRequired": {"a": ["b", "c"]}}, [{}, {"b": 1}, {"a": 1, "b": 1, "c": 1}, []], [{"a": 1, "b": 1}]),
    ({"dependentSchemas": {"a": {"required": ["b"]}, "z": False}}, [{}, {"a": 1, "b": 1}], [{"a": 1}, {"z": 1}]),
    ({"dependencies": {"a": ["b"]}, "additionalItems": False}, [{"a": 1}, [1]], []),
    ({"unevaluatedProperties": True}, [{"a": 1}], []),
    ({"unevaluatedProperties": False}, [{}, []], [{"a": 1}]),
    ({"properties": {"a": {}}, "unevaluatedProperties": {"type": "integer"}}, [{"a": "", "b": 1}], [{"b": "x"}]),
    ({"patternProperties": {"^a": {}}, "unevaluatedProperties": False}, [{"ab": 1}], [{"b": 1}]),
    ({"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False}, [{"a": 1}], []),
    ({"allOf": [{"unevaluatedProperties": True}], "unevaluatedProperties": False}, [{"a": 1}], []),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, [{"a": 1}], [{"b": 1}]),
    (
        {"anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {}}}], "unevaluatedProperties": False},
        [{"a": 1, "b": 1}, {"b": 1}],
        [{"a": 2}, {"a": 2, "b": 1}, {"c": 1}],
    ),
    (
        {"oneOf": [{"required": ["a"], "properties": {"a": {}}}, {"required": ["b"]}], "unevaluatedProperties": False},
        [{"a": 1}],
        [{"b": 1}, {"a": 1, "c": 1}],
    ),
    (
        {
            "if": {"required": ["a"], "properties": {"a": {}}},
            "then": {"properties": {"b": {}}},
            "else": {"properties": {"c": {}}},
            "unevaluatedProperties": False,
        },
        [{"a": 1, "b": 1}, {"c": 1}],
        [{"b": 1}, {"a": 1, "c": 1}],
    ),
    ({"if": {"properties": {"a": {}}}, "unevaluatedProperties": False}, [{"a": 1}], [{"b": 1}]),
    ({"if": False, "then": {"properties": {"a": {}}}, "unevaluatedProperties": False}, [{}], [{"a": 1}]),
    (
        {"dependentSchemas": {"a": {"properties": {"a": {}, "b": {}}}}, "unevaluatedProperties": False},
        [{"a": 1, "b": 1}],
        [{"b": 1}],
    ),
    ({"not": {"properties": {"a": {}}, "required": ["b"]}, "unevaluatedProperties": False}, [{}], [{"a": 1}]),
    (
        {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}}}, "unevaluatedProperties": False},
        [{"a": 1}],
        [{"b": 1}],
    ),
    (
        {
            "properties": {name: {"$ref": "#/$defs/x", "unevaluatedProperties": False} for name in "ab"},
            "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"properties": {"c": {}}}},
        },
        [{"a": {"c": 1}, "b": {"c": 1}}],
        [{"a": {"d": 1}}, {"b": {"d": 1}}],
    ),
    ({"unevaluatedItems": True}, [[1]], []),
    ({"unevaluatedItems": False}, [[], {}], [[1]]),
    ({"prefixItems": [True], "unevaluatedItems": {"type": "integer"}}, [["x", 1]], [["x", "y"]]),
    ({"allOf": [{"items": True}], "unevaluatedItems": False}, [[1]], []),
    ({"allOf": [{"prefixItems": [True, True]}], "unevaluatedItems": False}, [[1, 2], [1]], [[1, 2, 3]]),
    ({"contains": {"const": 1}, "unevaluatedItems": {"type": "string"}}, [[1, "x", 1]], [[1, 2]]),
    ({"$ref": "#/$defs/x", "minimum": 2, "$defs": {"x": {"maximum": 3}}}, [2, 3], [1, 4]),
]

ONLY_DRAFT_07: list[tuple[Any, list[Any], list[Any]]] = [
    ({"items": [{"type": "integer"}, {"type": "string"}]}, [[], [1], [1, "x", None]], [["x"], [1, 2]]),
    ({"items": [True], "additionalItems": False}, [[1]], [[1, 2]]),
    ({"items": [True], "additionalItems": {"type": "integer"}}, [[None, 2]], [[None, None]]),
    ({"items": {}, "additionalItems": False}, [[1, 2]], []),
    ({"additionalItems": False}, [[1, 2]], []),
    (
        {"dependencies": {"a": ["b"], "c": {"required": ["d"]}, "e": False}},
        [{}, {"a": 1, "b": 1}],
        [{"a": 1}, {"c": 1}, {"e": 1}],
    ),
    ({"dependencies": {}}, [{"a": 1}], []),
    ({"prefixItems": [False], "dependentRequired": {"a": ["b"]}}, [[1], {"a": 1}], []),
    ({"unevaluatedProperties": False, "unevaluatedItems": False}, [{"a": 1}, [1]], []),
    ({"contains": {"const": 1}, "minContains": 2}, [[1]], [[]]),
    ({"$ref": "#/definitions/x", "minimum": 2, "definitions": {"x": {"maximum": 3}}}, [1], [4]),
]

CASES = [
    *((dialect, *case) for dialect in ("2020-12", "draft-07") for case in BOTH),
    *(("2020-12", *case) for case in ONLY_2020_12),
    *(("draft-07", *case) for case in ONLY_DRAFT_07),
]


@pytest.mark.parametrize("engine", ["own", "auto"])
def test_a_keyword_takes_what_it_should_and_nothing_else(engine: Any) -> None:
    wrong = []
    for dialect, schema, fitting, unfit in CASES:
        validator = compile(schema, dialect=dialect, engine=engine)
        refused = [value for value in fitting if validator.validate(value) or not validator.is_valid(value)]
        taken = [value for value in unfit if not validator.validate(value) or validator.is_valid(value)]
        if refused or taken:
            wrong.append((dialect, schema, refused, taken))
    assert wrong == []


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Ratio(float):
    pass


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"enum": ["red"]}, Colour.RED, True),
        ({"type": "string", "maxLength": 2}, Colour.RED, False),
        ({"type": "integer", "const": 1}, Level.LOW, True),
        ({"type": "string"}, Level.LOW, False),
        ({"type": "integer"}, Ratio(1.0), True),
        ({"type": "string"}, UserString("x"), False),
        ({"uniqueItems": True}, [Colour.RED, "red"], False),
        ({"uniqueItems": True}, [object(), object()], True),
        ({"const": 1}, object(), False),
        ({}, object(), True),
    ],
)
def test_instances_of_subclasses_are_what_they_derive_from(schema: Any, value: Any, fits: bool) -> None:
    assert compile(schema).is_valid(value) is fits


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_number_that_json_cannot_hold_is_no_integer_and_no_multiple(value: float) -> None:
    assert not compile({"type": "integer"}).is_valid(value)
    assert not compile({"multipleOf": 0.5}).is_valid(value)
