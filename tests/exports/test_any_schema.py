"""Any JSON Schema, whoever wrote it: exported to every target or refused, never an error of ours; and what is exported
is what the target takes, and its way back takes whatever comes."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import jsonschema_rs
from constrained_model import as_json_schema
from export_targets import EVERY, IN_OPENAPI, schema_in
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles import examples
from strict_subset import problems

from streamtools.errors import ExportError, InvalidArguments, SchemaError
from streamtools.exports import export
from streamtools.tools import Tool

NAMES = st.sampled_from(
    [
        "a",
        "b",
        "key",
        "value",
        "explicit_null",
        "additional_properties",
        "arguments",
        "entries",
        "__proto__",
        "x y",
        "ü",
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, 0, 1, 1.0, 2.5, "", "a", "null", '{"a": 1}', "1e999"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
DEFINED = ("#", "#/$defs/d0", "#/$defs/d1", "#/properties/a", "#anchor")


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True),
            "properties": named,
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "x$"]), inner, max_size=1),
            "propertyNames": inner,
            "items": inner,
            "prefixItems": several,
            "anyOf": several,
            "oneOf": several,
            "allOf": several,
            "not": inner,
            "dependentSchemas": named,
        },
    ) | st.fixed_dictionaries({"type": KINDS, "description": st.sampled_from(["D.", 5])})


LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.builds(lambda value: {"const": value}, VALUES),
    st.builds(lambda values: {"enum": values}, st.lists(VALUES, max_size=3)),
    st.builds(lambda at: {"$ref": at}, st.sampled_from(DEFINED)),
    st.builds(lambda at: {"$ref": at, "minimum": 1, "title": "T"}, st.sampled_from(DEFINED)),
    st.builds(lambda kind: {"type": kind}, KINDS),
    st.sampled_from([{"minProperties": 1}, {"minLength": 1, "default": "x"}, {"type": "string", "format": "date"}]),
)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(LEAVES, _schemas, max_leaves=10)
ROOTS = st.builds(
    lambda a, first, second, root: {
        **(root if isinstance(root, dict) else {}),
        "type": "object",
        "properties": {**(root.get("properties", {}) if isinstance(root, dict) else {}), "a": a},
        "$defs": {"d0": first, "d1": {"anyOf": [second, {"type": "null"}], "$anchor": "anchor"}},
    },
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
    SCHEMAS,
)


@given(schema=ROOTS, sent=st.dictionaries(NAMES, VALUES, max_size=4))
@settings(max_examples=examples(80), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_schema_is_exported_or_refused_and_whatever_a_model_sends_comes_back_or_is_refused(
    schema: dict[str, Any], sent: dict[str, Any]
) -> None:
    try:
        made = Tool.from_schema(lambda **arguments: None, schema, name="f", description="Do.")
    except SchemaError:
        return
    for target in EVERY:
        try:
            exported = export(made, target)
        except ExportError:
            continue
        json.dumps(exported.payload, allow_nan=False)
        if target in IN_OPENAPI and "parameters" not in exported.payload:
            continue  # a function without parameters says nothing of them
        kept = schema_in(exported.payload, target)
        anew = target.endswith(".strict") or target.startswith("gemini")
        if anew:
            jsonschema_rs.meta.validate(as_json_schema(kept))
        if target in ("openai.chat_completions.strict", "mistral.chat.strict"):
            assert problems(kept) == []
        for arguments in (sent, {"arguments": sent}, {"a": list(sent.items())}):
            before = json.dumps(arguments)
            with suppress(InvalidArguments):
                assert isinstance(exported.decode(arguments), dict)
            assert json.dumps(arguments) == before
