"""The own engine and jsonschema-rs give the same verdicts, on schemas and values made at random."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from streamtools.errors import SchemaError
from streamtools.schema.validation import compile

jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed: the engines not compared")

NAMES = st.sampled_from(["a", "b", "c", "ab", ""])
NUMBERS = st.integers(-4, 4) | st.sampled_from([0.1, 0.3, 1.5, 2.0, -0.0, 1e-7, 1e308, 10**20, 2**53 + 1])
TEXTS = st.sampled_from(["", "a", "b", "ab", "aab", "é", "😀", "1", "x\n", "\u00a0"])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=8
)
PATTERNS = st.sampled_from(["^a", "b$", r"\d", r"^\w+$", r"\s", "^.$", "a{2}", r"\bab", "[^a]", r"\D", "(a|b)+$"])
TYPES = ["object", "array", "string", "integer", "number", "boolean", "null"]
COUNTS = st.integers(0, 3)
SCALAR_KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=4),
    "const": VALUES,
    "multipleOf": st.sampled_from([1, 2, 3, 0.1, 0.5, 2.5, 0.01, 1e-7, 3.0]),
    "maximum": NUMBERS,
    "minimum": NUMBERS,
    "exclusiveMaximum": NUMBERS,
    "exclusiveMinimum": NUMBERS,
    "maxLength": COUNTS,
    "minLength": COUNTS,
    "pattern": PATTERNS,
    "maxItems": COUNTS,
    "minItems": COUNTS,
    "uniqueItems": st.booleans(),
    "maxProperties": COUNTS,
    "minProperties": COUNTS,
    "required": st.lists(NAMES, max_size=3, unique=True),
    "$ref": st.sampled_from(["#/$defs/x", "#/$defs/y", "#/definitions/z"]),
}


def some_of(keywords: dict[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[dict[str, Any]]:
    chosen = st.lists(st.sampled_from(list(keywords)), min_size=1, max_size=most, unique=True)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: keywords[name] for name in names}))


def applying(inner: st.SearchStrategy[Any], dialect: str) -> st.SearchStrategy[Any]:
    named, several = st.dictionaries(NAMES, inner, max_size=3), st.lists(inner, min_size=1, max_size=3)
    one = ("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
    keywords = {
        **dict.fromkeys(one, inner),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), several),
        "properties": named,
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
    }
    lists_of_names = st.lists(NAMES, max_size=2, unique=True)
    if dialect == "draft-07":
        keywords |= {
            "items": inner | several,
            "additionalItems": inner,
            "dependencies": st.dictionaries(NAMES, inner | lists_of_names, max_size=2),
        }
    else:
        keywords |= {
            **dict.fromkeys(("items", "unevaluatedItems", "unevaluatedProperties"), inner),
            "prefixItems": several,
            "dependentSchemas": named,
            "dependentRequired": st.dictionaries(NAMES, lists_of_names, max_size=2),
            "minContains": COUNTS,
            "maxContains": COUNTS,
        }
    return some_of({**SCALAR_KEYWORDS, **keywords}, 4)


def schemas(dialect: str) -> st.SearchStrategy[Any]:
    leaf = st.booleans() | st.just({}) | some_of(SCALAR_KEYWORDS, 3)
    schema = st.recursive(leaf, lambda inner: applying(inner, dialect), max_leaves=6)
    definitions = st.fixed_dictionaries({"x": schema, "y": schema})
    return st.tuples(schema, definitions, schema).map(
        lambda parts: (
            {**(parts[0] if isinstance(parts[0], dict) else {"not": parts[0]})}
            | {"$defs": parts[1], "definitions": {"z": parts[2]}}
        )
    )


def made(schema: Any, dialect: Any) -> Any:
    """The own engine's validator; None for references in a circle."""
    try:
        return compile(schema, dialect=dialect)
    except SchemaError as error:
        if "refers back to itself" not in str(error):
            raise
        return None


FOREIGN = {"2020-12": jsonschema_rs.Draft202012Validator, "draft-07": jsonschema_rs.Draft7Validator}


@pytest.mark.thorough
@pytest.mark.parametrize("dialect", ["2020-12", "draft-07"])
def test_the_engines_agree(dialect: Any) -> None:
    asked = dict.fromkeys(["jsonschema", "jsonschema-rs", "fitting", "unfit"], 0)

    @settings(
        derandomize=True,
        deadline=None,
        max_examples=120,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(schemas(dialect), st.lists(VALUES, min_size=2, max_size=6))
    def agree(schema: Any, values: list[Any]) -> None:
        own = made(schema, dialect)
        assume(own is not None)
        auto = compile(schema, dialect=dialect, engine="auto")
        foreign = FOREIGN[dialect](schema, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions())
        asked[auto.name] += 1
        for value in values:
            problems = own.validate(value)
            asked["unfit" if problems else "fitting"] += 1
            assert own.is_valid(value) == auto.is_valid(value) == foreign.is_valid(value) == (not problems)
            assert auto.validate(value) == problems

    agree()
    assert min(asked.values()) > 15, f"the cases say too little: {asked}"


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": r"^\d+$"}}}, "jsonschema-rs"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"uniqueItems": True, "items": {"type": "string"}}}}, "jsonschema-rs"),
        ({"title": 5, "required": ["a", "a"], "format": "nonsense"}, "jsonschema-rs"),
        ({"$id": "https://example.com/a", "$ref": "b", "$defs": {"x": {"$id": "b", "$anchor": "y"}}}, "jsonschema-rs"),
        ({"properties": {"a": {"$ref": "#"}}}, "jsonschema"),
        ({"uniqueItems": True}, "jsonschema"),
        ({"uniqueItems": True, "items": {"type": "string"}, "prefixItems": [{}]}, "jsonschema"),
        ({"const": 2**60}, "jsonschema"),
        ({"enum": [[{"a": 1e300}]]}, "jsonschema"),
        ({"maximum": 2**60}, "jsonschema"),
        ({"pattern": "(?=a)"}, "jsonschema"),
        ({"enum": list(range(1000))}, "jsonschema"),
        ({"allOf": [{}] * 100}, "jsonschema"),
        ({"$dynamicRef": "#x", "$defs": {"a": {"$dynamicAnchor": "x"}}}, "jsonschema-rs"),
        (
            {"$dynamicRef": "#x", "$defs": {"a": {"$dynamicAnchor": "x"}, "b": {"$id": "b", "$dynamicAnchor": "x"}}},
            "jsonschema",
        ),
        ({"unevaluatedProperties": False}, "jsonschema"),
    ],
    ids=repr,
)
def test_jsonschema_rs_is_asked_where_it_is_known_to_agree(schema: Any, name: str) -> None:
    assert compile(schema, engine="auto").name == name
    assert compile(schema).name == "jsonschema"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"uniqueItems": True}, [1e300, 10**300]),
        ({"const": 10**300}, 1e300),
        ({"uniqueItems": True}, [2**70, 2**70]),
        ({"type": "string"}, "\ud800"),
        ({"type": "object"}, {1: 2}),
        ({"type": "null"}, object()),
    ],
    ids=["big and float", "constant", "big", "surrogate", "key", "object"],
)
def test_the_engines_agree_about_what_jsonschema_rs_sees_otherwise(schema: Any, value: Any) -> None:
    own, auto = compile(schema), compile(schema, engine="auto")
    assert (auto.is_valid(value), auto.validate(value)) == (own.is_valid(value), own.validate(value))


def test_without_jsonschema_rs_the_own_engine_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    validator = compile({"type": "string"}, engine="auto")
    assert validator.name == "jsonschema"
    assert not validator.is_valid(1)


def test_a_schema_that_jsonschema_rs_does_not_take_is_judged_by_the_own_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(schema: Any, **options: Any) -> Any:
        with pytest.raises(ValueError, match="nothing is fetched"):
            options["retriever"]("https://example.com/x")
        raise ValueError("no")

    refusing = SimpleNamespace(Draft202012Validator=refuse, RegexOptions=jsonschema_rs.RegexOptions)
    monkeypatch.setitem(sys.modules, "jsonschema_rs", refusing)
    assert compile({"type": "string"}, engine="auto").name == "jsonschema"


def test_jsonschema_rs_is_not_imported_unless_it_may_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jsonschema_rs")
    compile({"type": "string"})
    assert "jsonschema_rs" not in sys.modules
