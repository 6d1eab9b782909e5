"""References inside a document, its metaschemas, and nowhere else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from streamtools.errors import SchemaError
from streamtools.schema.validation import compile

INTEGER = {"type": "integer"}
TREE = "https://example.com/tree"


@pytest.mark.parametrize(
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
            {
                "$id": "https://example.com/a/",
                "$ref": "b#x",
                "$defs": {"x": {"$id": "b", "$defs": {"y": {"$anchor": "x", **INTEGER}}}},
            },
        ),
        (
            "2020-12",
            {"$id": "https://example.com/a", "$ref": "https://example.com/a#/$defs/x", "$defs": {"x": INTEGER}},
        ),
        ("2020-12", {"$id": "urn:a:b", "$ref": "urn:a:b#/$defs/x", "$defs": {"x": INTEGER}}),
        ("2020-12", {"$id": "urn:a:b", "$ref": "#/$defs/x", "$defs": {"x": INTEGER}}),
        ("2020-12", {"$ref": "other.json", "$defs": {"x": {"$id": "other.json", **INTEGER}}}),
        (
            "2020-12",
            {
                "allOf": [{"$ref": "x"}, {"$ref": "x"}],
                "$defs": {"a": {"$id": "x", **INTEGER}, "b": {"$id": "x", **INTEGER}},
            },
        ),
        ("draft-07", {"$ref": "#/definitions/x", "definitions": {"x": INTEGER}}),
        ("draft-07", {"$ref": "#x", "definitions": {"a": {"$id": "#x", **INTEGER}}}),
        ("draft-07", {"$ref": "#/$defs/x", "$defs": {"x": INTEGER}}),
        (
            "draft-07",
            {
                "allOf": [{"$ref": "b#y"}],
                "$id": "http://example.com/a",
                "definitions": {"x": {"$id": "b#y", **INTEGER}},
            },
        ),
        ("draft-07", {"$ref": "#/items/0", "items": [INTEGER]}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("engine", ["own", "auto"])
def test_a_reference_is_followed(engine: Any, dialect: Any, schema: Any) -> None:
    validator = compile(schema, dialect=dialect, engine=engine)
    assert validator.is_valid(1)
    assert not validator.is_valid("x")


def test_references_may_be_recursive() -> None:
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": {"type": "string"}},
        "required": ["name"],
    }
    validator = compile(tree)
    assert validator.is_valid({"name": "a", "children": [{"name": "b", "children": []}]})
    problems = validator.validate({"name": "a", "children": [{"name": "b", "children": [{}]}]})
    assert [problem.path for problem in problems] == [("children", 0, "children", 0, "name")]


def test_a_dynamic_reference_lands_on_the_outermost_anchor() -> None:
    strict = {
        "$id": "https://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": TREE,
        "unevaluatedProperties": False,
        "$defs": {
            "tree": {
                "$id": TREE,
                "$dynamicAnchor": "node",
                "type": "object",
                "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
            }
        },
    }
    assert compile(strict).is_valid({"children": [{"data": 1}]})
    assert not compile(strict).is_valid({"children": [{"daat": 1}]})
    loose = {"$ref": TREE, "$defs": {"strict": strict}}
    assert compile(loose).is_valid({"children": [{"daat": 1}]})
    embedded = {"allOf": [strict]}
    assert not compile(embedded).is_valid({"children": [{"daat": 1}]})


def test_a_dynamic_reference_means_what_it_says_where_no_anchor_is_in_scope() -> None:
    others = {"b": {"$id": "b", "$dynamicAnchor": "x", **INTEGER}, "c": {"$id": "c", "$dynamicAnchor": "x"}}
    validator = compile({"$dynamicRef": "b#x", "$defs": others})
    assert validator.is_valid(1)
    assert not validator.is_valid("x")


def test_problems_of_an_alternative_leave_the_dynamic_scope_as_it_was() -> None:
    """The first alternative has so many problems that it is left in the middle of another resource."""
    definitions = {
        "many": {"$id": "many", "$dynamicAnchor": "x", "enum": ["no"], "items": {"$dynamicRef": "#x"}},
        "meant": {"$id": "meant", "items": {"$dynamicRef": "nothing#x"}},
        "nothing": {"$id": "nothing", "$dynamicAnchor": "x", "type": "null"},
    }
    problems = compile({"anyOf": [{"$ref": "many"}, {"$ref": "meant"}], "$defs": definitions}).validate([0] * 100)
    assert {problem.message for problem in problems} == {"should be null"}


def test_what_a_dynamic_reference_looks_at_counts_as_evaluated() -> None:
    schema = {
        "$id": "https://example.com/derived",
        "$ref": "base",
        "$defs": {
            "more": {"$dynamicAnchor": "addons", "properties": {"b": True}},
            "base": {
                "$id": "base",
                "$comment": "unevaluatedProperties comes first, since the order means nothing",
                "unevaluatedProperties": False,
                "properties": {"a": True},
                "$dynamicRef": "#addons",
                "$defs": {"none": {"$dynamicAnchor": "addons"}},
            },
        },
    }
    validator = compile(schema)
    assert validator.is_valid({"a": 1, "b": 2})
    assert [problem.path for problem in validator.validate({"a": 1, "c": 2})] == [("c",)]


@pytest.mark.parametrize(
    ("uri", "valid", "invalid"),
    [
        ("https://json-schema.org/draft/2020-12/schema", {"type": "string", "minLength": 1}, {"minLength": -1}),
        (
            "https://json-schema.org/draft/2020-12/schema",
            {"properties": {"a": True}},
            {"properties": {"a": {"type": "strng"}}},
        ),
        ("http://json-schema.org/draft-07/schema#", {"items": [{}], "type": "array"}, {"items": [{"type": 5}]}),
        ("http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger", 1, -1),
        ("https://json-schema.org/draft/2020-12/meta/validation", {"required": ["a"]}, {"required": "a"}),
    ],
)
def test_the_metaschemas_are_known(uri: str, valid: Any, invalid: Any) -> None:
    validator = compile({"$ref": uri})
    assert validator.validate(valid) == []
    problems = validator.validate(invalid)
    assert problems
    assert all("json-schema.org" in problem.schema_path for problem in problems)


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [INTEGER]}, ["x"], False),
        ({"$schema": "https://json-schema.org/draft-07/schema", "items": [INTEGER]}, [1], True),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [INTEGER]}, ["x"], False),
        ({"$schema": 5.0} | {"$schema": "http://json-schema.org/draft-07/schema"}, ["x"], True),
    ],
)
@pytest.mark.parametrize("dialect", ["2020-12", "draft-07"])
def test_the_schema_says_its_own_dialect(dialect: Any, schema: Any, value: Any, fits: bool) -> None:
    assert compile(schema, dialect=dialect).is_valid(value) is fits


def test_an_embedded_schema_may_be_of_another_dialect() -> None:
    old = {"$id": "old", "$schema": "http://json-schema.org/draft-07/schema#", "items": [INTEGER]}
    schema = {"prefixItems": [{"$ref": "old"}, INTEGER], "$defs": {"old": old}}
    for engine in ("own", "auto"):
        validator = compile(schema, engine=engine)  # type: ignore[arg-type]
        assert validator.is_valid([[1], 1])
        assert not validator.is_valid([["x"], 1])
        assert validator.name == "jsonschema"


@pytest.mark.parametrize(
    ("schema", "path", "says"),
    [
        ({"$ref": "https://example.com/x.json"}, "#/$ref", "refers to another document"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "#/properties/a/$ref", "none is ever fetched"),
        ({"$ref": "definitions.json#/x"}, "#/$ref", "another document"),
        ({"$defs": {"unused": {"$ref": "http://localhost/x"}}}, "#/$defs/unused/$ref", "another document"),
        ({"$dynamicRef": "x.json#node"}, "#/$dynamicRef", "another document"),
        ({"$id": "http://a/", "$ref": "http://[oops"}, "#/$ref", "expected a URI"),
        ({"$ref": "#/$defs/x"}, "#/$ref", "leads nowhere"),
        ({"$ref": "#/allOf/7", "allOf": [{}]}, "#/$ref", "leads nowhere"),
        ({"$ref": "#/allOf/x", "allOf": [{}]}, "#/$ref", "leads nowhere"),
        ({"$ref": "#/title/x", "title": "t"}, "#/$ref", "leads nowhere"),
        ({"$ref": "#nowhere"}, "#/$ref", "is not the name of a schema"),
        ({"$ref": "#/required", "required": ["a"]}, "#/required", "expected a schema"),
        ({"$ref": "#/$defs", "$defs": {"type": {"type": "string"}}}, "#/$defs/type", "expected one of"),
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
            "#/$defs/a",
            "refers back to itself",
        ),
        ({"properties": {"a": {"not": {"$ref": "#/properties/a"}}}}, "#/properties/a", "refers back to itself"),
        ({"$dynamicRef": "#a", "$dynamicAnchor": "a"}, "#", "refers back to itself"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("engine", ["own", "auto"])
def test_what_leads_nowhere_or_elsewhere_is_refused(engine: Any, schema: Any, path: str, says: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile(schema, engine=engine)
    assert caught.value.path == path
    assert says in str(caught.value)


def test_an_in_place_loop_by_dynamic_references_ends() -> None:
    schema = {
        "$id": "http://example.com/",
        "$dynamicAnchor": "T",
        "allOf": [{"$ref": "b"}],
        "$defs": {"b": {"$id": "b", "$dynamicRef": "#T", "$defs": {"x": {"$dynamicAnchor": "T"}}}},
    }
    (problem,) = compile(schema).validate(1)
    assert problem.keyword == "limit"


@pytest.fixture
def listener() -> Iterator[tuple[str, list[Any]]]:
    """A server that notes who asks."""
    asked: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def wait() -> None:
            while True:
                try:
                    connection, peer = server.accept()
                except OSError:
                    return
                asked.append(peer)
                connection.close()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.mark.parametrize("engine", ["own", "auto"])
def test_nothing_is_fetched(engine: Any, listener: tuple[str, list[Any]]) -> None:
    base, asked = listener
    for schema in (
        {"$ref": f"{base}/a.json"},
        {"$id": f"{base}/root.json", "properties": {"a": {"$ref": "b.json"}}},
        {"$schema": f"{base}/meta.json"},
        {"$id": f"{base}/root.json", "$dynamicRef": "c.json#x"},
    ):
        with pytest.raises(SchemaError):
            compile(schema, engine=engine)
    assert compile({"$id": f"{base}/root.json", "type": "integer"}, engine=engine).validate("x")
    assert asked == []
