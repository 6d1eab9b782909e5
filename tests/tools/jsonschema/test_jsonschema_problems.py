"""What is said about a value that does not fit: where, which rule, never the value."""

from __future__ import annotations

from typing import Any

from profiles import every

from streamtools.schema.validation import compile

MANY = [{"const": f"option-{number}"} for number in range(12)]


def said(schema: Any, value: Any, **options: Any) -> list[tuple[tuple[str | int, ...], str, str]]:
    return [(problem.path, problem.keyword, problem.message) for problem in compile(schema, **options).validate(value)]


@every(
    ("schema", "value", "problems"),
    [
        ({"type": "string"}, 5, [((), "type", "should be a string")]),
        ({"type": ["object", "null"]}, 5, [((), "type", "should be null or an object")]),
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
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, [(("b",), "required", "is required but missing")]),
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
        ({"properties": {"a": False}}, {"a": 1}, [(("a",), "falseSchema", "is not allowed here")]),
        ({"unevaluatedProperties": False}, {"a": 1}, [(("a",), "unevaluatedProperties", "is not allowed here")]),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            [(("ab",), "propertyNames", "has a name that is not allowed here")],
        ),
        ({"not": {"type": "string"}}, "x", [((), "not", "should not be what 'not' describes")]),
        ({"contains": {"const": 1}}, [2], [((), "contains", "should contain as many items as 'contains' asks for")]),
        (
            {"contains": {"const": 1}, "maxContains": 1},
            [1, 1],
            [((), "contains", "should contain as many items as 'contains' asks for")],
        ),
        (False, 1, [((), "falseSchema", "is not allowed here")]),
    ],
)
def test_a_problem_tells_the_rule(schema: Any, value: Any, problems: list[Any]) -> None:
    assert said(schema, value) == problems


@every(
    ("schema", "value", "path"),
    [
        ({"properties": {"a": {"items": {"minimum": 1}}}}, {"a": [1, 0]}, ("a", 1)),
        ({"properties": {"a/b~": {"minimum": 1}}}, {"a/b~": 0}, ("a/b~",)),
        ({"prefixItems": [{}], "items": {"minimum": 1}}, [0, 0], (1,)),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"items": {"minimum": 1}}}}, [0], (0,)),
        ({"allOf": [{"patternProperties": {"^a": {"minimum": 1}}}]}, {"a": 0}, ("a",)),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, ("b",)),
        ({"unevaluatedItems": False, "prefixItems": [{}]}, [0, 1], ()),
        ({"additionalProperties": {"items": {"type": "array"}}}, {"12": ["x"]}, ("12", 0)),
        ({"additionalProperties": {"items": {"type": "array"}}}, {"": ["x"]}, ()),
        ({"properties": {"0": {"additionalProperties": False}}}, {"0": {"1": 5}}, ("0", "1")),
    ],
)
def test_a_problem_tells_its_place(schema: Any, value: Any, path: tuple[str | int, ...]) -> None:
    (problem,) = compile(schema).validate(value)
    assert problem.path == path


TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}


def tree(depth: int, leaf: Any) -> Any:
    return leaf if not depth else {"name": "x", "children": [tree(depth - 1, leaf)]}


def test_a_problem_of_a_recursive_schema_has_its_place_if_it_is_not_deep() -> None:
    for depth in range(4):
        (problem,) = compile(TREE).validate(tree(depth, {"name": 5}))
        assert (problem.path, problem.message) == (("children", 0) * depth + ("name",), "should be a string")
    (problem,) = compile(TREE).validate(tree(9, {"name": 5}))
    assert (problem.path, problem.message) == ((), "does not fit the schema")


def test_a_recursive_schema_says_nothing_that_is_not_so() -> None:
    """What it says is found by a schema that demands less, in which circles are cut."""
    node = {"$ref": "#/$defs/node"}
    schema = {
        "properties": {"root": node},
        "$defs": {
            "node": {
                "properties": {"a": {"not": node}, "b": {"if": node, "then": {"maxItems": 1}}, "c": {"type": "null"}},
                "oneOf": [{"required": ["k"]}, {"properties": {"n": node}, "required": ["n"]}],
            }
        },
    }
    said = [problem.path for problem in compile(schema).validate({"root": {"k": 1, "a": 1, "b": [1], "c": 5}})]
    assert said == [("root", "c")]
    (problem,) = compile(schema).validate({"root": {"k": 1, "a": {"k": 1}}})
    assert (problem.path, problem.message) == ((), "does not fit the schema")


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
    assert sorted(path for path, _, _ in tuple_problems) == [(0,), (1,), (2,), (4,)]
    unevaluated = said({"unevaluatedProperties": {"minimum": 1}}, {"a": 0, "b": 1, "c": 0})
    assert [path for path, _, _ in unevaluated] == [("a",), ("c",)]
    assert len(said({"allOf": [False, False]}, 1)) == 2
    additional = said({"properties": {"a": {}}, "additionalProperties": {"minimum": 1}}, {"a": 1, "b": 0, "c": 0})
    assert [path for path, _, _ in additional] == [("b",), ("c",)]


NULLABLE = {
    "anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"type": "null"}]
}
SHAPES = {
    "oneOf": [
        {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]},
        {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
    ]
}


@every(
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
)
def test_of_alternatives_the_one_that_was_meant_speaks(schema: Any, value: Any, problems: list[Any]) -> None:
    assert said(schema, value) == problems


SECRET = "hunter2-swordfish"
EVERY_RULE = {
    "type": "string", "enum": ["a"], "const": "b", "minLength": 99, "maxLength": 1, "pattern": "^z$", "not": {},
    "anyOf": [{"const": 1}, {"const": 2}], "oneOf": [{}, {}], "minimum": 5, "multipleOf": 7, "contains": False,
    "items": {"const": 1}, "additionalProperties": {"const": 1}, "minProperties": 9, "minItems": 9, "required": ["q"],
}  # fmt: skip


@every("value", [SECRET, 8675309, [SECRET], {"a": SECRET}, {"a": {"b": SECRET}}])
@every("keyword", EVERY_RULE)
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
        "minimum": 10**300,
        "allOf": [{"z" * 5000: 1, "const": 10**300}],
    }
    for value in ("", 5, {"q": 1}):
        for problem in compile({**schema, "additionalProperties": False}).validate(value):
            assert len(problem.message) < 600
