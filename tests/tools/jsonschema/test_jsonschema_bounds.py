"""Schemas and values made to cost much: each is refused, or given up, by a limit that is named."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from streamtools import Limits
from streamtools.errors import SchemaError
from streamtools.schema.validation import SchemaProblem, compile


def nested(depth: int, wrap: Any, inner: Any) -> Any:
    value = inner
    for _ in range(depth):
        value = wrap(value)
    return value


def fan(levels: int, fork: Any, last: str = "string") -> dict[str, Any]:
    """Every definition uses the next one twice: 2 to the power of `levels` ways to the last."""
    definitions = {f"d{level}": fork({"$ref": f"#/$defs/d{level + 1}"}) for level in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": last}}}


def the_limit(problems: list[SchemaProblem]) -> str:
    (problem,) = problems
    assert (problem.keyword, problem.path) == ("limit", ())
    return problem.message


SELF: dict[str, Any] = {}
SELF["not"] = SELF


@pytest.mark.parametrize(
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
    ids=range(12),
)
def test_a_schema_beyond_a_limit_is_refused_and_the_limit_is_named(setting: str, schema: Any) -> None:
    limit = getattr(Limits(), setting)
    with pytest.raises(SchemaError, match=rf"{setting}={limit}; raise Limits\({setting}=\.\.\.\)"):
        compile(schema)


@pytest.mark.parametrize(
    ("setting", "schema", "needs"),
    [
        ("max_schema_bytes", {"const": "x" * 100}, 2 + 7 + 2 + 102),
        ("max_schema_nodes", {"allOf": [{}, {"not": {}}]}, 4),
        ("max_schema_depth", {"items": {"items": {}}}, 2),
        ("max_pattern_chars", {"pattern": "a" * 10}, 10),
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


def test_the_depth_of_a_value_in_the_schema_is_bounded_by_levels_of_json() -> None:
    limits = Limits(max_schema_depth=2)
    compile({"const": nested(8, lambda value: [value], 1)}, limits=limits)
    with pytest.raises(SchemaError, match="max_schema_depth=2"):
        compile({"const": nested(9, lambda value: [value], 1)}, limits=limits)


@pytest.mark.parametrize("engine", ["own", "auto"])
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (fan(40, lambda ref: {"allOf": [ref, ref]}), "x"),
        (fan(40, lambda ref: {"anyOf": [ref, ref]}), 1),
        (fan(40, lambda ref: {"oneOf": [ref, {"not": ref}]}), "x"),
        (
            fan(40, lambda ref: {"anyOf": [{"properties": {"a": ref}}, {"properties": {"a": ref}, "required": ["b"]}]}),
            nested(40, lambda value: {"a": value}, 1),
        ),
        (
            {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": [name]} for name in "aab"], "type": "object"},
            nested(60, lambda value: {"a": value}, {}),
        ),
        ({"items": {"allOf": [{"maxProperties": 9}] * 1000}}, [{}] * 100_000),
        ({"items": {"patternProperties": {f"^p{number}": {} for number in range(1000)}}}, [{"a": 1}] * 100_000),
        ({"items": {"anyOf": [{"const": [number]} for number in range(1000)]}}, [[999]] * 10_000),
        ({"items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"const": list(range(10_000))}}}, [list(range(10_000))] * 200),
        (
            nested(25, lambda s: {"anyOf": [s, {"properties": {"a": {}}}], "unevaluatedProperties": False}, {}),
            {"a": 1, "b": 2},
        ),
        (fan(40, lambda ref: {"allOf": [ref, ref]}, "object") | {"unevaluatedProperties": False}, {"a": 1}),
        (
            fan(40, lambda ref: {"allOf": [ref, ref], "uniqueItems": True}, "array"),
            [[1] * 10_000 + [last] for last in (2, 3)],
        ),
    ],
    ids=range(12),
)
def test_work_beyond_the_limit_is_given_up_and_the_limit_is_named(engine: Any, schema: Any, value: Any) -> None:
    """With a small limit, so that giving up takes little time."""
    validator = compile(schema, engine=engine, limits=Limits(max_validation_steps=20_000))
    assert validator.name == "jsonschema"
    assert "Limits(max_validation_steps=20000)" in the_limit(validator.validate(value))
    assert not validator.is_valid(value)


NAMES = [f"k{number}" for number in range(2000)]
MANY = dict.fromkeys(NAMES, 1)
NAMED = {name: ["k0"] for name in NAMES}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"other": {"type": "string"}}}, MANY),
        ({"required": NAMES}, MANY),
        ({"dependentRequired": NAMED}, MANY),
        ({"dependentSchemas": dict.fromkeys(NAMES, True)}, MANY),
        ({"properties": dict.fromkeys(NAMES, True), "unevaluatedProperties": False}, MANY),
        ({"prefixItems": [True] * 1999 + [{"type": "integer"}]}, [1] * 2000),
        ({"prefixItems": [True] * 2000, "unevaluatedItems": False}, [1] * 2000),
        ({"contains": True}, [1] * 2000),
        ({"contains": True, "unevaluatedItems": False}, [1] * 2000),
        ({"uniqueItems": True}, list(range(2000))),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) and given is not MANY else "",
)
def test_going_through_the_entries_of_a_value_is_work(schema: Any, value: Any) -> None:
    """Else a definition that is used a million times does it a million times."""
    forked = fan(8, lambda ref: {"allOf": [ref, ref]})
    forked["$defs"]["d8"] = schema
    assert compile(schema).is_valid(value)
    assert the_limit(compile(forked, limits=Limits(max_validation_steps=50_000)).validate(value))


def test_a_division_without_float_error_is_work() -> None:
    validator = compile({"items": {"multipleOf": 0.5}}, limits=Limits(max_validation_steps=50))
    assert validator.is_valid([1.5] * 5)
    assert the_limit(validator.validate([1.5] * 10))


def test_the_work_of_patterns_is_counted_by_the_length_of_the_texts() -> None:
    schema, value = {"items": {"pattern": "b$"}, "propertyNames": {"pattern": "b$"}}, ["a" * 6400 + "b"] * 10
    assert compile(schema, limits=Limits(max_validation_steps=1011)).is_valid(value)
    assert the_limit(compile(schema, limits=Limits(max_validation_steps=1010)).validate(value))
    named = {"patternProperties": {"^a": {}, "b$": {}}}
    assert compile(named, limits=Limits(max_validation_steps=203)).is_valid({value[0]: 1})
    assert the_limit(compile(named, limits=Limits(max_validation_steps=202)).validate({value[0]: 1}))


def test_the_work_is_counted_in_schemas_applied_to_values() -> None:
    schema = {"items": {"type": "integer"}}
    assert compile(schema, limits=Limits(max_validation_steps=11)).is_valid([1] * 10)
    assert not compile(schema, limits=Limits(max_validation_steps=10)).is_valid([1] * 10)


def test_problems_found_before_the_work_became_too_much_are_told() -> None:
    schema = {"minItems": 9, "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    value = [1, "x", None]
    enough = len(compile(schema).validate(value))
    assert enough == 2
    keywords = [
        tuple(problem.keyword for problem in compile(schema, limits=Limits(max_validation_steps=steps)).validate(value))
        for steps in range(1, 40)
    ]
    assert keywords[0] == ("limit",)
    assert ("minItems", "limit") in keywords
    assert keywords[-1] == ("minItems", "anyOf")


@pytest.mark.parametrize("engine", ["own", "auto"])
def test_a_value_nested_deeper_than_a_recursive_schema_is_followed_is_a_problem(engine: Any) -> None:
    schema = {"properties": {"next": {"$ref": "#"}}}
    validator = compile(schema, engine=engine)
    assert validator.is_valid(nested(64, lambda value: {"next": value}, 1))
    for depth in (65, 1000, 100_000):
        value = nested(depth, lambda value: {"next": value}, 1)
        assert "Limits(max_schema_depth=64)" in the_limit(validator.validate(value))
        assert not validator.is_valid(value)


def test_a_value_with_too_many_parts_is_not_followed_by_a_recursive_schema() -> None:
    validator = compile({"items": {"$ref": "#"}}, limits=Limits(max_validation_steps=100))
    assert validator.is_valid([[]] * 40)
    assert the_limit(validator.validate([[]] * 101))


def test_a_long_chain_of_definitions_counts_as_recursive() -> None:
    definitions = {f"d{level}": {"properties": {"a": {"$ref": f"#/$defs/d{level + 1}"}}} for level in range(500)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d500": {}}}
    for engine in ("own", "auto"):
        validator = compile(schema, engine=engine)  # type: ignore[arg-type]
        assert validator.is_valid(nested(64, lambda value: {"a": value}, 1))
        assert the_limit(validator.validate(nested(3000, lambda value: {"a": value}, 1)))


def test_a_long_chain_of_references_on_one_value_is_refused() -> None:
    definitions = {f"d{level}": {"$ref": f"#/$defs/d{level + 1}", "minimum": 1} for level in range(5000)}
    with pytest.raises(SchemaError, match="max_schema_depth=64"):
        compile({"$ref": "#/$defs/d0", "$defs": {**definitions, "d5000": {}}})


def test_what_is_nested_deep_and_not_followed_is_no_matter() -> None:
    deep = nested(100_000, lambda value: [value], 1)
    for schema in (True, {"type": "array"}, {"items": {"type": "array"}}, {"properties": {"a": {}}}):
        assert compile(schema).is_valid(deep)
    assert not compile({"enum": [[[1]], {}]}).is_valid(deep)
    assert not compile({"const": [[1]]}).is_valid(deep)
    (problem,) = compile({"uniqueItems": True}).validate([deep, 1])
    assert problem.message == "has items nested deeper than 256 levels, too deep to compare"


def test_a_caller_who_is_deep_in_recursion_gets_a_problem_and_no_error() -> None:
    validator = compile({"properties": {"next": {"$ref": "#"}}})
    value = nested(60, lambda value: {"next": value}, 1)
    assert validator.is_valid(value)

    def dig(frames: int) -> list[SchemaProblem]:
        return dig(frames - 1) if frames else validator.validate(value)

    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    assert "too deep to be checked from here" in the_limit(dig(sys.getrecursionlimit() - depth - 60))


def test_integers_that_python_hashes_alike_are_compared_in_linear_time() -> None:
    """Multiples of the prime by which Python hashes integers: by those hashes it would take 10^9 comparisons."""
    alike = [(2**61 - 1) * number for number in range(1, 50_000)]
    validator = compile({"uniqueItems": True})
    assert validator.is_valid(alike)
    assert not validator.is_valid([*alike, alike[7]])


def test_patterns_that_cost_much_to_compile_are_not_enforced() -> None:
    schema = {"properties": {f"p{number}": {"pattern": rf"\p{{L}}{{100}}{number}"} for number in range(1000)}}
    lines = compile(schema).unenforced
    assert lines
    assert all(line.endswith("the patterns of this schema are too large together") for line in lines)


def test_no_pattern_makes_a_text_take_long() -> None:
    """With backtracking each of these would take longer than the universe is old."""
    for pattern in ("^(a+)+$", "^(a|a)*$", "(a+a+)+y", r"^(\w+\s?)*$"):
        for text in ("a" * 50_000 + "!", "a" * 50_000 + "\x00"):
            assert not compile({"pattern": pattern}).is_valid(text)


def test_pointers_of_schemas_under_long_names_take_no_space() -> None:
    """A name of 100 kB over 2,000 schemas: their pointers would be 200 MB."""
    schema = {"properties": {"n" * 100_000: {"anyOf": [{"minimum": number} for number in range(2000)]}}}
    with pytest.raises(SchemaError) as caught:
        compile({**schema, "not": 5})
    assert caught.value.path == "#/not"
    problems = compile(schema).validate({"n" * 100_000: -1})
    assert [len(problem.schema_path) < 200 for problem in problems] == [True]
