"""Schemas that somebody else wrote: unions at the root, references of all kinds, and bombs."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from constrained_model import say
from export_targets import EVERY, schema_in
from profiles import every
from strict_subset import problems

from streamtools.errors import ExportError
from streamtools.exports import export
from streamtools.tools import Exported, Tool

ANTHROPIC = "anthropic.messages"
STRICT = "openai.chat_completions.strict"


def exported(schema: dict[str, Any], target: str) -> Exported:
    made = Tool.from_schema(lambda **arguments: None, schema, name="f", description="Do.")
    return export(made, target)


def said(schema: dict[str, Any], target: str) -> Any:
    return schema_in(exported(schema, target).payload, target)


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def an_object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required}


def test_a_union_at_the_root_becomes_one_object_where_it_is_refused() -> None:
    page, search = {"const": "page"}, {"const": "search"}
    schema = {
        "anyOf": [an_object(kind=page, id=TEXT), an_object(kind=search, query=TEXT), {"type": "string"}],
        "$defs": {"unused": TEXT},
    }
    made = said(schema, ANTHROPIC)
    assert "anyOf" not in made
    assert list(made["properties"]) == ["kind", "id", "query"]
    assert made["properties"]["kind"] == {"type": "string", "enum": ["page", "search"]}
    assert made["required"] == ["kind"]
    assert exported(schema, ANTHROPIC).losses == ("#/anyOf: not expressed; its alternatives became one object",)
    assert "anyOf" in said(schema, "mcp")
    assert problems(said(schema, STRICT)) == []


def test_all_of_at_the_root_is_merged() -> None:
    schema = {
        "allOf": [an_object(a=TEXT), {"$ref": "#/$defs/more"}, {"oneOf": [an_object(c=TEXT), an_object(c=NUMBER)]}],
        "$defs": {"more": an_object([], b={"type": "integer", "minimum": 2})},
    }
    made = said(schema, ANTHROPIC)
    assert list(made["properties"]) == ["a", "b", "c"]
    assert made["properties"]["c"] == {"anyOf": [TEXT, NUMBER]}
    assert made["required"] == ["a", "c"]


@every(
    ("schema", "message"),
    [
        ({"type": "array", "items": TEXT}, "#: the arguments of a call are an object"),
        ({"anyOf": [TEXT, NUMBER]}, "#/anyOf: no alternative accepts an object"),
        (an_object(a=False), "#/properties/a: accepts nothing"),
        (an_object(a={"type": "string", "enum": [1]}), "#/properties/a: none of its values has its type"),
        (an_object(a={"allOf": [TEXT, NUMBER]}), "#/properties/a/allOf/1/type: contradicts"),
        (an_object(a={"anyOf": [False]}), "#/properties/a/anyOf: has no alternative"),
        (an_object(a={"$ref": "#/$defs/none"}), "#/properties/a: refers to '#/\\$defs/none', which is not a schema"),
    ],
)
def test_what_no_call_could_fit_is_refused_with_its_place(schema: dict[str, Any], message: str) -> None:
    made = Tool.from_schema(lambda **arguments: None, None, name="f", description="Do.", check=lambda arguments: None)
    object.__setattr__(made, "_binder", _Binder(schema))
    with pytest.raises(ExportError, match=f"tool 'f': {message}"):
        export(made, STRICT)


class _Binder:
    """A schema that the validator would refuse before the export sees it."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema


@every("target", EVERY)
def test_tuples_as_draft_07_writes_them_are_understood(target: str) -> None:
    pair = {"type": "array", "items": [TEXT, NUMBER], "additionalItems": False}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **an_object(a=pair)}
    one = exported(schema, target)
    assert one.decode({"a": ["x", 1]}) == {"a": ["x", 1]}
    if target == STRICT:
        items = {"anyOf": [TEXT, NUMBER]}
        assert schema_in(one.payload, target)["properties"]["a"] == {
            "type": "array",
            "description": "(items in order: string, integer)",
            "items": items,
            "maxItems": 2,
        }


@every("target", EVERY)
def test_references_of_every_kind_are_followed(target: str) -> None:
    schema = {
        "$id": "https://example.com/f",
        "type": "object",
        "properties": {
            "a": {"$ref": "#/definitions/a~1b%20c"},
            "b": {"$ref": "#/properties/a"},
            "c": {"$ref": "#named"},
            "d": {"$ref": "https://example.com/f#/definitions/a~1b%20c", "description": "Said."},
            "e": {"allOf": [{"$ref": "#named"}], "description": "Also."},
            "f": {"$ref": "#named", "maximum": 5},
            "items": {"type": "array", "prefixItems": [TEXT, {"$ref": "#named"}], "items": False},
        },
        "required": ["a", "b", "c", "d", "e", "f", "items"],
        "definitions": {"a/b c": TEXT, "n": {"$anchor": "named", "type": "integer"}},
    }
    plain = {"a": "x", "b": "y", "c": 1, "d": "z", "e": 2, "f": 3, "items": ["x", 1]}
    one = exported(schema, target)
    made = schema_in(one.payload, target)
    if target.startswith(("openai.chat_completions.strict", "gemini.p", "ollama", "bedrock.converse_stream.s")):
        assert one.decode(say(made, plain)) == plain
        assert made["properties"]["d"]["description"] == "Said."
        assert made["properties"]["e"]["description"] == "Also."


def test_a_schema_that_contains_itself_is_not_required_to_where_gemini_cannot_follow() -> None:
    node = an_object(value=NUMBER, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
    one = exported({**an_object(root={"$ref": "#/$defs/node"}), "$defs": {"node": node}}, "gemini.generate_content")
    assert one.payload["parametersJsonSchema"]["$defs"]["node"]["required"] == ["value"]
    assert "not required here" in one.losses[0]


@every("target", [STRICT, "gemini.parameters", "ollama.chat", "mcp"])
def test_references_that_multiply_are_bounded(target: str) -> None:
    levels = 30
    definitions = {
        f"d{level}": an_object(a={"$ref": f"#/$defs/d{level + 1}"}, b={"$ref": f"#/$defs/d{level + 1}"})
        for level in range(levels)
    }
    schema = {**an_object(a={"$ref": "#/$defs/d0"}), "$defs": {**definitions, f"d{levels}": TEXT}}
    if target == STRICT:
        assert len(said(schema, target)["$defs"]) == levels + 1
        return
    with pytest.raises(ExportError, match=r"'f': #/.*d\d+.*: the schema, with its references followed, is too large"):
        exported(schema, target)


@every(
    ("inner", "message"),
    [
        ({"$ref": "#nowhere"}, "refers to the anchor 'nowhere', which this document does not have"),
        ({"$ref": "other.json"}, r"refers to another document \('other.json'\); write it into \$defs"),
        ({"$ref": "#/$defs/a"}, "refers to '#/\\$defs/a', which only refers to itself"),
        ({"allOf": [{"$ref": "#/$defs/c"}, TEXT]}, "the allOf contains itself"),
        ({"allOf": [True, False]}, "#/properties/a/allOf/1: accepts nothing"),
        ({"$ref": "#/properties/list/enum/5"}, "which is not a schema of this document"),
    ],
)
def test_references_that_lead_nowhere_are_refused_with_their_place(inner: Any, message: str) -> None:
    schema = {
        **an_object(a=inner, list={"enum": ["x"]}),
        "$defs": {
            "a": {"$ref": "#/$defs/b"},
            "b": {"$ref": "#/$defs/a"},
            "c": {"allOf": [{"$ref": "#/$defs/d"}, TEXT]},
            "d": {"allOf": [{"$ref": "#/$defs/c"}]},
        },
    }
    made = Tool.from_schema(lambda **arguments: None, None, name="f", description="Do.", check=lambda arguments: None)
    object.__setattr__(made, "_binder", _Binder(schema))
    with pytest.raises(ExportError, match=message):
        export(made, STRICT)


def test_all_of_that_multiplies_is_bounded() -> None:
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(17)}
    schema = {**an_object(a={"$ref": "#/$defs/d0"}), "$defs": {**definitions, "d17": an_object(x=TEXT)}}
    with pytest.raises(ExportError, match="too large"):
        exported(schema, STRICT)


def test_openais_limits_are_seen_before_the_request() -> None:
    deep: dict[str, Any] = TEXT
    for _ in range(12):
        deep = an_object(a=deep)
    with pytest.raises(ExportError, match=r"has 12 levels of nesting; 10 are allowed; export it without strict"):
        exported(deep, STRICT)
    many = an_object(a={"enum": [str(number) for number in range(1001)]})
    with pytest.raises(ExportError, match="has 1001 enum values"):
        exported(many, STRICT)


def test_the_schema_given_is_left_alone() -> None:
    schema = an_object(a={"anyOf": [TEXT, {"type": "object", "additionalProperties": NUMBER}]}, b={"$ref": "#/$defs/x"})
    schema["$defs"] = {"x": {"enum": ["y"], "default": {"$ref": "no reference"}}}
    made = Tool.from_schema(lambda **arguments: None, schema, name="f", description="Do.")
    before = made.schema
    for target in EVERY:
        jsonschema_rs.meta.is_valid(export(made, target).payload)
    assert made.schema == before == schema


@every("target", [target for target in EVERY if target != "cohere.chat.strict"])
def test_a_root_that_refers_to_anything_is_an_object_and_one_that_refers_to_nothing_is_refused(target: str) -> None:
    assert exported({"$ref": "#/$defs/any", "$defs": {"any": True}}, target).decode({}) == {}
    with pytest.raises(ExportError, match="accepts nothing"):
        exported({"$ref": "#/$defs/none", "$defs": {"none": False}}, target)


@every("target", EVERY)
def test_what_is_required_of_a_map_is_asked_for_by_name(target: str) -> None:
    schema = an_object(a={"type": "object", "required": ["url"], "additionalProperties": TEXT})
    one = exported(schema, target)
    plain = {"a": {"url": "x", "more": "y"}}
    made = schema_in(one.payload, target)
    assert one.decode(say(made, plain)) == plain
    if "ollama" not in target:
        assert "url" in json.dumps(made)


def test_an_empty_enum_is_refused_and_bounds_of_no_type_are_told() -> None:
    with pytest.raises(ExportError, match="#/properties/a: its enum is empty"):
        exported(an_object(a={"enum": []}), STRICT)
    one = exported(an_object(a={"minProperties": 1, "format": "date"}), STRICT)
    made = schema_in(one.payload, STRICT)["properties"]["a"]
    assert made == {
        "type": "string",
        "description": "(min properties 1, format date, any JSON value, written as JSON text)",
    }
    assert [line.partition(":")[0] for line in one.losses] == ["#/properties/a/minProperties", "#/properties/a/format"]
