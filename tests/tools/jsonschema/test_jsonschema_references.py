"""References inside a document, its metaschemas, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every

from streamtools.errors import SchemaError
from streamtools.schema.validation import compile

INTEGER = {"type": "integer"}


@every(
    ("dialect", "schema"),
    [
        ("2020-12", {"$ref": "#/$defs/x", "$defs": {"x": INTEGER}}),
        ("2020-12", {"$ref": "#/definitions/x", "definitions": {"x": INTEGER}}),
        ("2020-12", {"$ref": "#x", "$defs": {"a": {"$anchor": "x", **INTEGER}}}),
        ("2020-12", {"$dynamicRef": "#x", "$defs": {"a": {"$dynamicAnchor": "x", **INTEGER}}}),
        ("2020-12", {"$dynamicRef": "#/$defs/a", "$defs": {"a": INTEGER}}),
        ("2020-12", {"$ref": "#/$defs/a~1b~0c%25", "$defs": {"a/b~c%": INTEGER}}),
        ("2020-12", {"$ref": "#/allOf/1", "allOf": [{}, INTEGER]}),
        ("2020-12", {"$ref": "#/components/schemas/x", "components": {"schemas": {"x": INTEGER}}}),
        ("2020-12", {"$ref": "#/components/0", "components": [{"$ref": "#/components/1"}, INTEGER]}),
        ("2020-12", {"$id": "https://example.com/a", "$ref": "b", "$defs": {"x": {"$id": "b", **INTEGER}}}),
        (
            "2020-12",
            {"$id": "http://a/", "$ref": "b#x", "$defs": {"x": {"$id": "b", "not": {"$anchor": "x", **INTEGER}}}},
        ),
        ("2020-12", {"$id": "https://a.com/a", "$ref": "https://a.com/a#/$defs/x", "$defs": {"x": INTEGER}}),
        ("2020-12", {"$id": "urn:a:b", "$ref": "urn:a:b#/$defs/x", "$defs": {"x": INTEGER}}),
        ("2020-12", {"$id": "urn:a:b", "$ref": "#/$defs/x", "$defs": {"x": INTEGER}}),
        ("2020-12", {"$ref": "other.json", "$defs": {"x": {"$id": "other.json", **INTEGER}}}),
        (
            "2020-12",
            {"allOf": [{"$ref": "x"}] * 2, "$defs": {"a": {"$id": "x", **INTEGER}, "b": {"$id": "x", **INTEGER}}},
        ),
        ("draft-07", {"$ref": "#/definitions/x", "definitions": {"x": INTEGER}}),
        ("draft-07", {"$ref": "#x", "definitions": {"a": {"$id": "#x", **INTEGER}}}),
        ("draft-07", {"$ref": "#/$defs/x", "$defs": {"x": INTEGER}}),
        ("draft-07", {"allOf": [{"$ref": "b#y"}], "$id": "http://a/", "definitions": {"x": {"$id": "b#y", **INTEGER}}}),
        ("draft-07", {"$ref": "#/items/0", "items": [INTEGER]}),
    ],
)
def test_a_reference_is_followed(dialect: Any, schema: Any) -> None:
    validator = compile(schema, dialect=dialect)
    assert not validator.validate(1)
    assert validator.validate("x")


@every(
    ("schema", "value", "fits"),
    [
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [INTEGER]}, ["x"], False),
        ({"$schema": "https://json-schema.org/draft-07/schema", "items": [INTEGER]}, [1], True),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [INTEGER]}, ["x"], False),
        ({"$schema": 5.0} | {"$schema": "http://json-schema.org/draft-07/schema"}, ["x"], True),
    ],
)
@every("dialect", ["2020-12", "draft-07"])
def test_the_schema_says_its_own_dialect(dialect: Any, schema: Any, value: Any, fits: bool) -> None:
    assert (compile(schema, dialect=dialect).validate(value) == []) is fits


def test_an_embedded_schema_may_be_of_another_dialect() -> None:
    old = {
        "$id": "old",
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [INTEGER],
        "additionalItems": False,
        "dependencies": {"a": ["b"], "b": {"required": ["c"]}},
    }
    validator = compile({"prefixItems": [{"$ref": "old"}, INTEGER], "$defs": {"old": old}})
    assert not validator.validate([[1], 1])
    assert not validator.validate([{"a": 1, "b": 1, "c": 1}, 1])
    for wrong in (["x"], [1, 1], {"a": 1}, {"b": 1}):
        assert validator.validate([wrong, 1])


@every(
    ("schema", "path", "says"),
    [
        ({"$ref": "https://example.com/x.json"}, "#/$ref", "refers to another document"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "#/properties/a/$ref", "none is fetched"),
        ({"$ref": "definitions.json#/x"}, "#/$ref", "another document"),
        ({"$ref": "https://json-schema.org/draft/2020-12/meta/other"}, "#/$ref", "another document"),
        ({"$ref": "https://json-schema.org/draft/2020-12/meta/./core"}, "#/$ref", "another document"),
        ({"$ref": "http://json-schema.org/draft-04/schema#"}, "#/$ref", "another document"),
        ({"$defs": {"unused": {"$ref": "http://localhost/x"}}}, "#/$defs/unused/$ref", "another document"),
        ({"$dynamicRef": "x.json#node"}, "#/$dynamicRef", "another document"),
        ({"$id": "http://a/", "$ref": "http://[oops"}, "#/$ref", "expected a URI"),
        ({"$ref": "#/$defs/x"}, "#/$ref", "leads nowhere"),
        ({"$ref": "#/allOf/7", "allOf": [{}]}, "#/$ref", "leads nowhere"),
        ({"$ref": "#/allOf/x", "allOf": [{}]}, "#/$ref", "leads nowhere"),
        ({"$ref": "#/title/x", "title": "t"}, "#/$ref", "leads nowhere"),
        ({"$ref": "#nowhere"}, "#/$ref", "is not the name of a schema"),
        ({"$ref": "#/required", "required": ["a"]}, "#/required", "expected a schema"),
        ({"$ref": "#/$defs", "$defs": {"type": {"type": "string"}}}, "#/$defs/type", "should be one of"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "#/$schema", "expected one of the dialects"),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema"}, "#/$schema", "2020-12/schema and http"),
        ({"$schema": "https://example.com/mine"}, "#/$schema", "expected one of the dialects"),
        (
            {"$defs": {"x": {"$id": "a", "type": "null"}, "y": {"$id": "a"}}},
            "#/$defs/y/$id",
            "another schema has this $id",
        ),
        ({"$defs": {"x": {"$anchor": "a"}, "y": {"$anchor": "a"}}}, "#/$defs/y", "another schema has the anchor 'a'"),
        ({"$id": "https://example.com/#a"}, "#/$id", "should have no fragment"),
        ({"$ref": "#"}, "#", "refers back to itself"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}},
            "#/$defs/b",
            "refers back to itself",
        ),
        ({"properties": {"a": {"not": {"$ref": "#/properties/a"}}}}, "#/properties/a", "refers back to itself"),
        ({"$dynamicRef": "#a", "$dynamicAnchor": "a"}, "#", "refers back to itself"),
    ],
)
def test_what_leads_nowhere_or_elsewhere_is_refused(schema: Any, path: str, says: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile(schema)
    assert caught.value.path == path
    assert says in str(caught.value)


def test_an_in_place_loop_by_dynamic_references_is_refused() -> None:
    schema = {
        "$id": "http://example.com/",
        "$dynamicAnchor": "T",
        "allOf": [{"$ref": "b"}],
        "$defs": {"b": {"$id": "b", "$dynamicRef": "#T", "$defs": {"x": {"$dynamicAnchor": "T"}}}},
    }
    with pytest.raises(SchemaError, match="refers back to itself"):
        compile(schema)
