"""Schemas that are refused, with the place, and what a schema's copy is independent of."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest
from profiles import every

from streamtools.errors import SchemaError
from streamtools.schema.validation import compile

WRONG = [  # keyword, values
    ("type", ["strng", [], ["string", 5], None, {"a": 1}, 5, True]),
    ("enum", ["x", {"a": 1}, None]),
    ("multipleOf", [0, -1, "x", True, None]),
    ("minimum", ["x", True, None, [1]]),
    ("exclusiveMaximum", [True, "x"]),
    ("minLength", [-1, 1.5, "x", True, None]),
    ("maxItems", [-1, "x"]),
    ("uniqueItems", [1, "true", None]),
    ("minProperties", [-1, 2.5]),
    ("pattern", [5, None, ["a"]]),
    ("required", ["x", [1], {"a": 1}, True, None]),
    ("$ref", [5, None]),
    ("$id", [5]),
    ("$schema", [5]),
]
WRONG_2020_12 = [
    ("$anchor", [5, "", "#a", "1a", "a\n"]),
    ("$dynamicAnchor", [5, "a/b"]),
    ("$dynamicRef", [5]),
    ("minContains", [-1]),
    ("maxContains", ["x"]),
    ("dependentRequired", ["x", {"a": "b"}, {"a": [1]}]),
]


@every(
    ("dialect", "keyword", "value"),
    [
        *(
            (dialect, keyword, value)
            for dialect in ("2020-12", "draft-07")
            for keyword, values in WRONG
            for value in values
        ),
        *(("2020-12", keyword, value) for keyword, values in WRONG_2020_12 for value in values),
    ],
)
def test_a_keyword_with_a_value_of_the_wrong_kind_is_refused(dialect: Any, keyword: str, value: Any) -> None:
    with pytest.raises(SchemaError, match=r"expected |should ") as caught:
        compile({"properties": {"a/b": {keyword: value}}}, dialect=dialect)
    assert caught.value.path == f"#/properties/a~1b/{keyword}"


@every(
    ("dialect", "schema", "path"),
    [
        ("2020-12", 5, "#"),
        ("2020-12", "x", "#"),
        ("2020-12", None, "#"),
        ("2020-12", [], "#"),
        ("2020-12", {"properties": {"a": "string"}}, "#/properties/a"),
        ("2020-12", {"properties": [{}]}, "#/properties"),
        ("2020-12", {"$defs": {"a": 1}}, "#/$defs/a"),
        ("2020-12", {"patternProperties": {"x/y": None}}, "#/patternProperties/x~1y"),
        ("2020-12", {"items": [{}]}, "#/items"),
        ("2020-12", {"items": 5}, "#/items"),
        ("2020-12", {"prefixItems": {}}, "#/prefixItems"),
        ("2020-12", {"prefixItems": [{}, 1]}, "#/prefixItems/1"),
        ("2020-12", {"allOf": {}}, "#/allOf"),
        ("2020-12", {"anyOf": [1]}, "#/anyOf/0"),
        ("2020-12", {"not": []}, "#/not"),
        ("2020-12", {"additionalProperties": "no"}, "#/additionalProperties"),
        ("2020-12", {"dependentSchemas": {"a": ["b"]}}, "#/dependentSchemas/a"),
        ("draft-07", {"items": 5}, "#/items"),
        ("draft-07", {"items": [5]}, "#/items/0"),
        ("draft-07", {"dependencies": {"a": 5}}, "#/dependencies/a"),
        ("draft-07", {"dependencies": {"a": [5]}}, "#/dependencies/a"),
        ("draft-07", {"dependencies": []}, "#/dependencies"),
        ("draft-07", {"definitions": []}, "#/definitions"),
    ],
)
def test_what_is_no_schema_where_one_belongs_is_refused(dialect: Any, schema: Any, path: str) -> None:
    with pytest.raises(SchemaError, match="expected ") as caught:
        compile(schema, dialect=dialect)
    assert caught.value.path == path


def test_the_way_out_is_told_where_a_list_of_items_is_given() -> None:
    with pytest.raises(SchemaError, match="prefixItems, or the way of draft-07"):
        compile({"items": [{}]})


@every(
    ("schema", "path", "says"),
    [
        ({"const": (1, 2)}, "#/const", "expected plain JSON, got a tuple"),
        ({"default": {1: 2}}, "#/default", "expected strings as keys, got a int"),
        ({"enum": [1, {"a": float("nan")}]}, "#/enum/1/a", "not finite"),
        ({"maximum": float("inf")}, "#/maximum", "not finite"),
        ({"const": Decimal(1)}, "#/const", "got a Decimal"),
        ({"const": {1}}, "#/const", "got a set"),
        ({"const": b"x"}, "#/const", "got a bytes"),
        ({"x": object()}, "#/x", "got a object"),
        ({"const": 10**400}, "#/const", "more than three hundred digits"),
    ],
)
def test_what_is_not_plain_json_is_refused(schema: Any, path: str, says: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile(schema)
    assert caught.value.path == path
    assert says in str(caught.value)


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="draft-04"):
        compile({}, dialect="draft-04")  # type: ignore[arg-type]


def test_the_schema_is_copied_and_never_changed() -> None:
    schema: dict[str, Any] = {
        "$id": "https://example.com/a",
        "type": "object",
        "properties": {"a": {"enum": [1, [2]]}, "b": {"$ref": "#/$defs/b"}, "c": {"pattern": "^x"}},
        "required": ["a"],
        "$defs": {"b": {"type": "string"}},
    }
    before = copy.deepcopy(schema)
    validator = compile(schema)
    fitting, unfit = {"a": [2], "b": "x", "c": "x"}, {"a": [3], "b": 1, "c": "y"}
    problems = validator.validate(unfit)
    assert (validator.validate(fitting), len(problems), schema) == ([], 3, before)
    schema["properties"]["a"]["enum"][1].append(9)
    schema["properties"]["a"]["enum"].append([3])
    schema["$defs"]["b"].clear()
    del schema["required"]
    schema["properties"].clear()
    assert (validator.validate(fitting), validator.validate(unfit)) == ([], problems)
    assert validator.validate({})


def test_one_part_may_stand_in_several_places() -> None:
    part = {"type": "string"}
    problems = compile({"properties": {"a": part, "b": part}}).validate({"a": 1, "b": 1})
    assert [problem.path for problem in problems] == [("a",), ("b",)]


def test_annotations_may_have_any_value() -> None:
    schema = {"title": 5, "description": None, "required": ["a", "a"], "format": 1, "examples": {}, "default": [1]}
    assert compile(schema).validate({"a": 1}) == []
    assert compile({"type": "string", "format": "email"}).validate("no address") == []
