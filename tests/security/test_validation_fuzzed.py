"""Any schema and any arguments: a verdict, within bounds of time and memory. What is made here is small to write and
large to judge: schemas that hold themselves, alternatives by the hundred, values that repeat."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamtools import Limits, Tool
from streamtools.errors import InvalidArguments, SchemaError

pytestmark = pytest.mark.sweep

MAX_CPU_S = 15.0
"""Thirty times what it takes without the tracing of memory, which takes three times as long."""
MAX_BYTES = 50 << 20
PRIME = (1 << 61) - 1

names = st.sampled_from([*"abc", "a" * 500, "k0", "k1"])
numbers = st.one_of(
    st.integers(-3, 3),
    st.integers(1, 3).map(lambda number: number * PRIME),
    st.integers(0, 2).map(lambda number: 10**4200 + number),
    st.sampled_from([0.1, 1e308, 5e-324, 1.5]),
)
scalars = st.one_of(numbers, st.text("ab", max_size=3), st.booleans(), st.none(), st.just("x" * 5000))
repeats = st.sampled_from([1, 2, 30, 1000])


def repeated(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.tuples(st.lists(items, max_size=3), repeats).map(lambda given: given[0] * given[1])


def stacked(given: tuple[Any, str, int]) -> Any:
    value, name, depth = given
    for level in range(depth):
        value = {name: value} if level % 2 else [value, value]
    return value


values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        repeated(inner),
        st.dictionaries(names, inner, max_size=4),
        st.tuples(inner, names, st.integers(1, 12)).map(stacked),
        st.integers(1, 2000).map(lambda count: {f"n{number}": 1 for number in range(count)}),
    ),
    max_leaves=6,
)


def schemas_with(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.tuples(st.lists(inner, min_size=1, max_size=3), st.sampled_from([1, 1, 2, 40])).map(
        lambda given: given[0] * given[1]
    )
    named = st.dictionaries(names, inner, min_size=1, max_size=3)
    required = st.sampled_from([7, 300]).map(lambda count: [f"k{number}" for number in range(count)])
    keywords = st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), many),
            **dict.fromkeys(("not", "items", "contains", "additionalProperties", "if", "then", "else"), inner),
            **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), inner),
            **dict.fromkeys(("properties", "dependentSchemas"), named),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "(a+)+$"]), inner, max_size=2),
            "propertyNames": inner,
            "required": required,
            "uniqueItems": st.just(True),
            "multipleOf": st.sampled_from([0.1, 5e-324, 3, 7**2000]),
            "enum": repeated(values).filter(bool),
            "pattern": st.sampled_from(["^(a+)+$", r"\p{L}{100}\p{N}$", "a"]),
            "minLength": st.just(1),
            "minProperties": st.just(1),
            "type": st.sampled_from(["object", "array", ["string", "integer"]]),
        },
    )
    return keywords.map(lambda held: dict(list(held.items())[:4]))


schemas = st.recursive(
    st.one_of(st.booleans(), st.just({"$ref": "#/$defs/self"}), st.sampled_from([{"type": "string"}, {"minimum": 3}])),
    schemas_with,
    max_leaves=8,
)


def json_length(value: Any, lengths: dict[int, int]) -> int:
    """Tell how long a value's JSON is at least, without writing it: values that repeat are held once, but can mean
    gigabytes."""
    known = lengths.get(id(value))
    if known is None:
        if isinstance(value, dict):
            known = sum(len(name) + json_length(held, lengths) for name, held in value.items())
        elif isinstance(value, list):
            known = sum(json_length(held, lengths) for held in value)
        else:
            known = len(json.dumps(value))
        lengths[id(value)] = known + 2
    return lengths[id(value)]


@given(schema=schemas, held=schemas, value=values, coerce=st.sampled_from(["lax", "strict"]))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_schema_judges_any_arguments_within_bounds(schema: Any, held: Any, value: Any, coerce: Any) -> None:
    document = {"type": "object", "properties": {"value": schema}, "$defs": {"self": held}}

    def take(arguments: dict[str, Any]) -> str:
        return "taken"

    if json_length(value, {}) > Limits().max_argument_bytes:
        return
    text = json.dumps({"value": value})
    if len(text) > Limits().max_argument_bytes:
        return
    said = ""
    tracemalloc.start()
    before = time.process_time()
    try:
        made = Tool.from_schema(take, document, name="take", description="", pass_as="mapping", coerce=coerce)
        made.validate(json.loads(text), text=text)
    except (SchemaError, InvalidArguments) as refused:
        said = str(refused)
    finally:
        spent, (_, peak) = time.process_time() - before, tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(said) < 30_000
    assert spent < MAX_CPU_S
    assert peak < MAX_BYTES + 100 * len(text)
