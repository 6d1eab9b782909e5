"""What is said about a value that does not fit: where, which rule, never the value."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from streamtools.schema.validation import SchemaProblem, compile

MANY = [{"const": f"option-{number}"} for number in range(12)]


def said(schema: Any, value: Any, **options: Any) -> list[tuple[tuple[str | int, ...], str, str]]:
    return [(problem.path, problem.keyword, problem.message) for problem in compile(schema, **options).validate(value)]


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        ({"type": "string"}, 5, [((), "type", "should be a string")]),
        ({"type": ["object", "null"], "minProperties": 1}, 5, [((), "type", "should be an object or null")]),
        ({"enum": ["a", 1, None]}, "b", [((), "enum", 'should be one of "a", 1, null')]),
        ({"enum": []}, "b", [((), "enum", "is not allowed to be anything")]),
        ({"enum": list(range(12))}, -1, [((), "enum", "should be one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more")]),
        ({"const": "x" * 100}, "", [((), "const", 'should be "' + "x" * 39 + "...")]),
        (
            {"minimum": 1, "multipleOf": 2},
            -1,
            [((), "minimum", "should be at least 1"), ((), "multipleOf", "should be a multiple of 2")],
        ),
        ({"exclusiveMaximum": 1.5}, 2, [((), "exclusiveMaximum", "should be less than 1.5")]),
        ({"minLength": 1}, "", [((), "minLength", "should have at least 1 character")]),
        ({"maxLength": 2}, "abc", [((), "maxLength", "should have at most 2 characters")]),
        ({"pattern": "^a"}, "b", [((), "pattern", 'should match the pattern "^a"')]),
        ({"required": ["a", "b"]}, {"b": 1}, [(("a",), "required", "is required but missing")]),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            [(("b",), "dependentRequired", 'is required beside "a" but missing')],
        ),
        ({"minItems": 2}, [1], [((), "minItems", "should have at least 2 items")]),
        ({"maxItems": 1}, [1, 2], [((), "maxItems", "should have at most 1 item")]),
        ({"uniqueItems": True}, [1, 1], [((), "uniqueItems", "should have no two equal items")]),
        ({"minProperties": 1}, {}, [((), "minProperties", "should have at least 1 property")]),
        ({"maxProperties": 0}, {"a": 1}, [((), "maxProperties", "should have at most 0 properties")]),
        (
            {"properties": {"a": {}, "b": {}}, "additionalProperties": False},
            {"c": 1},
            [(("c",), "additionalProperties", 'is not allowed here; what is: "a", "b"')],
        ),
        (
            {"additionalProperties": False},
            {"c": 1},
            [(("c",), "additionalProperties", "is not allowed here; what is: nothing")],
        ),
        (
            {"properties": {f"p{n}": {} for n in range(11)}, "additionalProperties": False},
            {"c": 1},
            [
                (
                    ("c",),
                    "additionalProperties",
                    "is not allowed here; what is: " + ", ".join(f'"p{n}"' for n in range(10)) + " and 1 more",
                )
            ],
        ),
        ({"properties": {"a": False}}, {"a": 1}, [(("a",), "properties", "is not allowed here")]),
        ({"unevaluatedProperties": False}, {"a": 1}, [(("a",), "unevaluatedProperties", "is not allowed here")]),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            [(("ab",), "propertyNames", "has a name that is not allowed here")],
        ),
        ({"not": {"type": "string"}}, "x", [((), "not", "should not be what 'not' describes")]),
        (
            {"contains": {"const": 1}},
            [2],
            [((), "contains", "should contain at least 1 of the items that 'contains' describes")],
        ),
        (
            {"contains": {"const": 1}, "maxContains": 1},
            [1, 1],
            [((), "maxContains", "should contain at most 1 of the items that 'contains' describes")],
        ),
        (False, 1, [((), "", "is not allowed here")]),
    ],
    ids=repr,
)
def test_a_problem_tells_the_rule(schema: Any, value: Any, problems: list[Any]) -> None:
    assert said(schema, value) == problems


@pytest.mark.parametrize(
    ("schema", "value", "path", "schema_path"),
    [
        ({"properties": {"a": {"items": {"minimum": 1}}}}, {"a": [1, 0]}, ("a", 1), "#/properties/a/items/minimum"),
        ({"properties": {"a/b~": {"minimum": 1}}}, {"a/b~": 0}, ("a/b~",), "#/properties/a~1b~0/minimum"),
        ({"prefixItems": [{}, {"minimum": 1}]}, [0, 0], (1,), "#/prefixItems/1/minimum"),
        ({"prefixItems": [{}], "items": {"minimum": 1}}, [0, 0], (1,), "#/items/minimum"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"minimum": 1}}}, 0, (), "#/$defs/x/minimum"),
        (
            {"allOf": [{"patternProperties": {"^a": {"minimum": 1}}}]},
            {"a": 0},
            ("a",),
            "#/allOf/0/patternProperties/^a/minimum",
        ),
        ({"if": {"type": "integer"}, "then": {"minimum": 1}}, 0, (), "#/then/minimum"),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, ("b",), "#/dependentSchemas/a/required"),
        ({"unevaluatedItems": {"minimum": 1}}, [0], (0,), "#/unevaluatedItems/minimum"),
    ],
    ids=repr,
)
def test_a_problem_tells_its_place_in_the_value_and_in_the_schema(
    schema: Any, value: Any, path: tuple[str | int, ...], schema_path: str
) -> None:
    (problem,) = compile(schema).validate(value)
    assert (problem.path, problem.schema_path) == (path, schema_path)


def test_all_problems_are_told() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"items": {"type": "string"}},
            "c": {"allOf": [{"minimum": 3}, {"multipleOf": 2}]},
        },
        "patternProperties": {"^x": {"type": "null"}},
        "required": ["d", "e"],
        "propertyNames": {"maxLength": 1},
        "dependentSchemas": {"a": {"required": ["f"]}, "b": {"required": ["g"]}},
        "prefixItems": [{}],
    }
    value = {"a": "", "b": [1, "", 2], "c": 1, "x": 1, "long": 1}
    paths = [path for path, _, _ in said(schema, value)]
    assert sorted(paths, key=repr) == sorted(
        [("d",), ("e",), ("a",), ("b", 0), ("b", 2), ("c",), ("c",), ("x",), ("long",), ("f",), ("g",)], key=repr
    )
    tuple_problems = said({"prefixItems": [{"minimum": 1}, {"minimum": 1}], "items": {"minimum": 1}}, [0, 0, 0, 1, 0])
    assert [path for path, _, _ in tuple_problems] == [(0,), (1,), (2,), (4,)]
    unevaluated = said({"unevaluatedProperties": {"minimum": 1}}, {"a": 0, "b": 1, "c": 0})
    assert [path for path, _, _ in unevaluated] == [("a",), ("c",)]
    unevaluated = said({"unevaluatedItems": {"minimum": 1}}, [0, 1, 0])
    assert [path for path, _, _ in unevaluated] == [(0,), (2,)]
    assert len(said({"propertyNames": False}, {"a": 0, "b": 1})) == 2
    assert len(said({"allOf": [False, False]}, 1)) == 2
    additional = said({"properties": {"a": {}}, "additionalProperties": {"minimum": 1}}, {"a": 1, "b": 0, "c": 0})
    assert [path for path, _, _ in additional] == [("b",), ("c",)]


def test_what_is_unevaluated_is_not_told_where_something_else_is_wrong_already() -> None:
    schema = {"allOf": [{"properties": {"a": {"type": "string"}}}], "unevaluatedProperties": False}
    assert said(schema, {"a": 1}) == [(("a",), "type", "should be a string")]


NULLABLE = {
    "anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"type": "null"}]
}
SHAPES = {
    "oneOf": [
        {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]},
        {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
    ]
}


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        (NULLABLE, {"n": "x"}, [(("n",), "type", "should be an integer")]),
        (NULLABLE, {}, [(("n",), "required", "is required but missing")]),
        (NULLABLE, 5, [((), "anyOf", "should be an object or null")]),
        (SHAPES, {"kind": "square", "side": "x"}, [(("side",), "type", "should be a number")]),
        (SHAPES, {"kind": "line"}, [((), "oneOf", "fits none of the 2 alternatives")]),
        (
            {"anyOf": [{"type": "string"}, {"type": ["array", "string"]}]},
            1,
            [((), "anyOf", "should be a string or an array")],
        ),
        ({"anyOf": [{"minimum": 5}, {"minimum": 6}]}, 1, [((), "anyOf", "fits none of the 2 alternatives")]),
        (
            {"oneOf": [{"minimum": 5}, {"minimum": 6}]},
            7,
            [((), "oneOf", "fits several of the 2 alternatives and should fit exactly one")],
        ),
        ({"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}, "b", [((), "enum", 'should be one of "a"')]),
        ({"anyOf": MANY}, "x", [((), "anyOf", "fits none of the 12 alternatives")]),
    ],
    ids=repr,
)
def test_of_alternatives_the_one_that_was_meant_speaks(schema: Any, value: Any, problems: list[Any]) -> None:
    assert said(schema, value) == problems


SECRET = "hunter2-swordfish"
EVERY_RULE = {
    "type": "string", "enum": ["a"], "const": "b", "minLength": 99, "maxLength": 1, "pattern": "^z$", "not": {},
    "anyOf": [{"const": 1}, {"const": 2}], "oneOf": [{}, {}], "minimum": 5, "multipleOf": 7, "contains": False,
    "items": {"const": 1}, "additionalProperties": {"const": 1}, "minProperties": 9, "minItems": 9, "required": ["q"],
}  # fmt: skip


@pytest.mark.parametrize("value", [SECRET, 8675309, [SECRET], {"a": SECRET}, {"a": {"b": SECRET}}], ids=repr)
@pytest.mark.parametrize("keyword", EVERY_RULE)
def test_no_message_holds_the_value(keyword: str, value: Any) -> None:
    for problem in compile({keyword: EVERY_RULE[keyword]}).validate(value):
        assert SECRET not in repr(problem)
        assert "8675309" not in repr(problem)


def test_at_most_64_problems_are_kept() -> None:
    for schema in ({"items": False}, {"anyOf": [{"items": False}, {"type": "null"}]}):
        problems = compile(schema).validate([0] * 1000)
        assert len(problems) == 64
        assert [problem.path for problem in problems] == [(index,) for index in range(64)]


def test_messages_are_short_whatever_the_schema_says() -> None:
    schema = {
        "enum": ["x" * 5000] * 3 + list(range(5000)),
        "pattern": "x" * 1000,
        "properties": {"y" * 5000: {}},
        "minimum": 10**4000,
        "allOf": [{"z" * 5000: 1, "const": 10**4000}],
    }
    for value in ("", 5, {"q": 1}):
        for problem in compile({**schema, "additionalProperties": False}).validate(value):
            assert len(problem.message) < 600
            assert len(problem.schema_path) < 200
    deep = compile({"properties": {"y" * 5000: {"type": "string"}}}).validate({"y" * 5000: 1})
    assert deep[0].schema_path == "#/properties/" + "y" * 128 + ".../type"


def test_a_number_that_python_does_not_write_is_not_written() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        (problem,) = compile({"minimum": 10**1000}).validate(1)
    finally:
        sys.set_int_max_str_digits(before)
    assert problem.message == "should be at least a very long number"


def test_a_problem_is_a_value() -> None:
    one, other = (compile({"type": "null"}).validate(1) for _ in range(2))
    assert one == other == [SchemaProblem(path=(), keyword="type", message="should be null", schema_path="#/type")]
