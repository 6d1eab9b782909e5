"""Schemas and values made to cost much: each is refused by a limit that is named, before the engine begins."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hostile_validation import nested
from profiles import every

from streamtools import Limits
from streamtools.errors import SchemaError
from streamtools.schema.validation import SchemaProblem, TooMuch, compile


def fan(levels: int, fork: Any, last: Any = True) -> dict[str, Any]:
    """Every definition uses the next one twice: 2 to the power of `levels` ways to the last."""
    definitions = {f"d{level}": fork({"$ref": f"#/$defs/d{level + 1}"}) for level in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": last}}


def the_limit(problems: list[SchemaProblem]) -> str:
    (problem,) = problems
    assert (problem.keyword, problem.path) == ("limit", ())
    return problem.message


SELF: dict[str, Any] = {}
SELF["not"] = SELF


@every(
    ("setting", "schema"),
    [
        ("max_schema_bytes", {"enum": list(range(10**6))}),
        ("max_schema_bytes", {"const": "x" * (1 << 20)}),
        ("max_schema_bytes", {"description": "é" * (1 << 19)}),
        ("max_schema_bytes", {"properties": {f"p{number}": {} for number in range(100_000)}}),
        ("max_schema_nodes", {"properties": {f"p{number}": {} for number in range(20_000)}}),
        ("max_schema_nodes", {"anyOf": [True] * 20_000}),
        ("max_schema_depth", nested(100_000, lambda schema: {"not": schema}, {})),
        ("max_schema_depth", {"const": nested(100_000, lambda value: [value], 1)}),
        ("max_schema_depth", nested(65, lambda schema: {"items": schema}, {})),
        ("max_schema_depth", SELF),
        ("max_pattern_chars", {"pattern": "a" * 1025}),
        ("max_pattern_chars", {"patternProperties": {"a" * 1025: {}}}),
    ],
)
def test_a_schema_beyond_a_limit_is_refused_and_the_limit_is_named(setting: str, schema: Any) -> None:
    limit = getattr(Limits(), setting)
    with pytest.raises(SchemaError, match=rf"{setting}={limit}; raise Limits\({setting}=\.\.\.\)"):
        compile(schema)


@every(
    ("setting", "schema", "needs"),
    [
        ("max_schema_bytes", {"const": "x" * 100}, 2 + 7 + 2 + 102),
        ("max_schema_nodes", {"allOf": [{}, {"not": {}}]}, 4),
        ("max_schema_depth", {"items": {"items": {}}}, 2),
        ("max_pattern_chars", {"pattern": "a" * 10}, 10),
        ("max_validation_steps", {"anyOf": [{}] * 20}, 21),
    ],
)
def test_a_limit_holds_from_one_beyond_it_on(setting: str, schema: Any, needs: int) -> None:
    compile(schema, limits=Limits(**{setting: needs}))
    with pytest.raises(SchemaError, match=setting):
        compile(schema, limits=Limits(**{setting: needs - 1}))


def test_a_part_that_stands_in_many_places_counts_in_each() -> None:
    laughs = nested(40, lambda value: [value, value], 1)
    with pytest.raises(SchemaError, match="max_schema_bytes=10000"):
        compile({"enum": laughs}, limits=Limits(max_schema_bytes=10_000))


# -- references -------------------------------------------------------------------------------------------------------

FORKS = [
    lambda ref: {"allOf": [ref, ref]},
    lambda ref: {"oneOf": [ref, {"not": ref}]},
    lambda ref: {"properties": {"a": {"anyOf": [ref, ref]}}},
    lambda ref: {"if": ref, "then": ref},
    lambda ref: {"unevaluatedProperties": False, "$ref": ref["$ref"]},
    lambda ref: {"items": ref, "contains": ref, "unevaluatedItems": ref},
]


@every("fork", FORKS)
def test_references_that_multiply_the_work_are_refused_with_the_place(fork: Any) -> None:
    """With 25 levels this takes seconds, during which nobody can stop the engine."""
    with pytest.raises(SchemaError, match="max_validation_steps=4000000") as caught:
        compile(fan(25, fork))
    assert caught.value.path.startswith("#/$defs/d")
    assert "may take" in str(caught.value)


def test_a_long_chain_of_references_is_refused() -> None:
    for step in (lambda ref: {"minimum": 1, **ref}, lambda ref: {"properties": {"a": ref}}):
        with pytest.raises(SchemaError, match="max_schema_depth=64"):
            compile(fan(500, step))


def test_many_definitions_in_circles_are_refused() -> None:
    ring = {f"d{at}": {"properties": {"a": {"$ref": f"#/$defs/d{(at + 1) % 300}"}}} for at in range(300)}
    with pytest.raises(SchemaError, match="300 definitions that refer to each other in circles; 200 may"):
        compile({"$ref": "#/$defs/d0", "$defs": ring})


@every("length", [1, 2, 3, 6, 20])
def test_a_circle_of_definitions_is_judged_or_refused_in_bounded_time(length: int) -> None:
    """The engine remembers verdicts by one reference in each circle. By none, each level would take twice the time."""
    ring = {}
    for at in range(length):
        following = {"$ref": f"#/$defs/d{(at + 1) % length}"}
        ring[f"d{at}"] = {"allOf": [{"properties": {"a": following}}, {"additionalProperties": following}]}
    validator = compile({"$ref": "#/$defs/d0", "$defs": {"d0": True, **ring}})
    before = time.process_time()
    problems = validator.validate(nested(60, lambda value: {"a": value}, 1))
    assert time.process_time() - before < 2
    assert [problem.keyword for problem in problems] == (["limit"] if length == 20 else [])
    assert validator.validate(nested(8, lambda value: {"a": value}, 1)) == []


def test_a_deep_value_of_a_recursive_schema_is_judged() -> None:
    kinds = [
        {"properties": {"children": {"items": {"$ref": "#"}}, "kind": {"const": kind}}, "required": ["kind"]}
        for kind in ("row", "column", "stack", "grid")
    ]
    validator = compile({"oneOf": kinds})
    for inner, fits in (("grid", True), ("gird", False)):
        value = nested(25, lambda value: {"kind": "row", "children": [value]}, {"kind": inner})
        assert (validator.validate(value) == []) is fits


# -- one value --------------------------------------------------------------------------------------------------------

NAMES = [f"n{number}" for number in range(900)]


@every(
    ("schema", "value"),
    [
        ({"items": {"allOf": [{"maxProperties": 9}] * 1000}}, [{}] * 20_000),
        ({"items": {"patternProperties": {f"^p{number}": {} for number in range(1000)}}}, [{"a": 1}] * 10_000),
        ({"items": {"anyOf": [{"const": [number]} for number in range(1000)]}}, [[999]] * 10_000),
        ({"items": {"const": list(range(10_000))}}, [list(range(10_000))] * 900),
        ({"items": {"required": NAMES}}, [dict.fromkeys(NAMES, 1)] * 20_000),
        ({"items": {"dependentRequired": {name: ["n1"] for name in NAMES}}}, [{}] * 20_000),
        ({"items": {"dependentSchemas": dict.fromkeys(NAMES, True)}}, [{}] * 20_000),
        ({"items": {"unevaluatedProperties": False, "anyOf": [{"required": ["a"]}] * 900}}, [{"b": 1}] * 20_000),
        ({"items": {"enum": list(range(5000))}}, [1.5] * 1000),
        ({"items": {"multipleOf": 1e-300}}, [1.5] * 1000),
        ({"items": {"multipleOf": 0.01, "minimum": 0.5}}, [1e300] * 100_000),
        ({"uniqueItems": True}, [10**4200 + number for number in range(200)]),
        ({"items": {"allOf": [{"minimum": 0}] * 64}}, [10**4200 + number for number in range(200)]),
        ({"pattern": "[ab]*a[ab]{900}[cd]"}, "ab" * 20_000),
        ({"propertyNames": {"pattern": "[ab]*a[ab]{900}[cd]"}}, {"ab" * 20_000: 1}),
        ({"patternProperties": {"[ab]*a[ab]{900}[cd]": {}}}, {"ab" * 20_000: 1}),
    ],
)
def test_work_beyond_the_limit_is_refused_and_the_limit_is_named(schema: Any, value: Any) -> None:
    validator = compile(schema)
    before = time.process_time()
    assert "Limits(max_validation_steps=4000000)" in the_limit(validator.validate(value))
    assert time.process_time() - before < 3


def test_short_arguments_are_weighed_where_a_part_of_them_may_take_much() -> None:
    dear = {"properties": {"a": {"items": {"allOf": [{"minProperties": 0}] * 1500}}}}
    validator = compile(nested(7, lambda inner: {"allOf": [inner], "unevaluatedProperties": False}, dear))
    assert the_limit(validator.validate({"a": [{}] * 300}, chars=1300))


@every(
    ("schema", "value"),
    [
        ({"items": {"enum": [f"option-{number}" for number in range(5000)]}}, ["option-7"] * 50_000),
        ({"items": {"properties": {"a": {"type": "integer", "minimum": 0}}}}, [{"a": 5}] * 20_000),
        ({"items": {"minimum": -1, "maximum": 1}}, [0.25] * 10_000),
        ({"properties": {"mail": {"pattern": r"^[^@\s]+@[^@\s]+$"}}}, {"mail": "a@b", "text": "x" * 500_000}),
        ({"uniqueItems": True}, [{"a": number} for number in range(10_000)]),
    ],
)
def test_large_values_of_ordinary_schemas_are_judged(schema: Any, value: Any) -> None:
    assert compile(schema).validate(value) == []


def test_what_takes_long_is_not_done_quickly() -> None:
    """The caller does it again in a thread."""
    validator = compile({"items": {"anyOf": [{"const": number} for number in range(100)]}})
    assert validator.validate([1] * 3, quick=True) == []
    with pytest.raises(TooMuch):
        validator.validate([1] * 1000, quick=True)
    with pytest.raises(TooMuch):
        validator.validate([-1] * 20, quick=True)  # to find the problems takes longer than to see that there are some
    assert len(validator.validate([-1] * 20)) == 20


def test_of_a_large_value_the_first_problem_is_named_or_none() -> None:
    """Each problem costs as much as hundreds of values that fit, and the engine prints the value into it."""
    numbers = ["a"] * 100_000
    (problem,) = compile({"items": {"type": "integer"}}).validate(numbers, chars=400_000)
    assert (problem.path, problem.message) == ((0,), "should be an integer")
    (problem,) = compile({"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}).validate(numbers, chars=400_000)
    assert (problem.path, problem.message) == ((), "does not fit the schema")


def test_what_is_nested_deep_and_not_followed_is_no_matter() -> None:
    deep = nested(10_000, lambda value: [value], 1)
    for schema in (True, {"type": "array"}, {"items": {"type": "array"}}, {"properties": {"a": {}}}):
        assert compile(schema).validate(deep) == []
    assert the_limit(compile({"items": {"$ref": "#"}}).validate(deep))


def test_a_value_that_json_does_not_have_is_a_problem_and_no_error() -> None:
    for value in ("\ud800", {1: 2}, object()):
        assert compile({"type": "string", "pattern": "a", "additionalProperties": {"type": "string"}}).validate(value)
