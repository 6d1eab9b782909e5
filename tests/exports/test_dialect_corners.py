"""Corners of the dialects: one schema, one target, what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from export_targets import schema_in
from profiles import every

from streamtools.errors import ExportError
from streamtools.exports import export
from streamtools.tools import Tool

STRICT, ANTHROPIC, GEMINI, OPENAPI, OLLAMA = (
    "openai.chat_completions.strict",
    "anthropic.messages.strict",
    "gemini.generate_content",
    "gemini.parameters",
    "ollama.chat",
)
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
MAP = {"type": "object", "additionalProperties": NUMBER}


def said(inner: Any, target: str) -> Any:
    """What becomes of a required property with this schema."""
    schema = {"type": "object", "properties": {"a": inner}, "required": ["a"], "$defs": {"text": TEXT}}
    made = Tool.from_schema(lambda **arguments: None, schema, name="f", description="Do.")
    return schema_in(export(made, target).payload, target)["properties"]["a"]


@every(
    ("inner", "target", "wanted"),
    [
        ({"enum": ["a", None]}, OPENAPI, {"type": "STRING", "enum": ["a"], "nullable": True}),
        ({"enum": ["a", None]}, GEMINI, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"enum": [True]}, GEMINI, {"type": "boolean", "description": "(one of true)"}),
        ({"enum": [1, 2.5]}, STRICT, {"type": "number", "enum": [1, 2.5]}),
        ({"const": 3}, GEMINI, {"type": "integer", "enum": [3]}),
        ({"const": 3}, OPENAPI, {"type": "INTEGER", "description": "(one of 3)"}),
        ({"const": None}, STRICT, {"type": "null"}),
        ({"type": ["integer", "string"], "minimum": 1}, ANTHROPIC, {
            "anyOf": [{"type": "integer", "description": "(min 1)"}, {"type": "string"}]}),
        ({"type": ["integer", "null"], "description": "N."}, OPENAPI, {
            "type": "INTEGER", "description": "N.", "nullable": True}),
        ({"properties": {"x": TEXT}}, GEMINI, {"type": "object", "properties": {"x": TEXT}}),
        ({"minLength": 2}, STRICT, {"type": "string", "minLength": 2}),
        ({"minimum": 2, "maxLength": 3}, STRICT, {
            "type": ["string", "number"], "minimum": 2, "maxLength": 3}),
        ({"anyOf": [{"$ref": "#/$defs/text"}], "description": "D."}, STRICT, {
            "description": "D.", "anyOf": [{"$ref": "#/$defs/text"}]}),
        ({"oneOf": [{"$ref": "#/$defs/text"}] * 2, "default": "x"}, STRICT, {
            "description": '(default "x")', "anyOf": [{"$ref": "#/$defs/text"}]}),
        ({"minimum": 2}, STRICT, {"type": "number", "minimum": 2}),
        ({}, OLLAMA, {}),
        ({"enum": [[1], {}]}, OLLAMA, {"anyOf": [
            {"type": "array", "description": "(one of [1])"}, {"type": "object", "description": "(one of {})"}]}),
        (MAP, OLLAMA, {"type": "object", "description": '(further properties "integer")'}),
        ({"type": "object", "additionalProperties": {"minimum": 1, "type": "integer"}}, OLLAMA, {
            "type": "object", "description": '(further properties {"minimum": 1, "type": "integer"})'}),
        (MAP, GEMINI, MAP),
        ({"type": "object", "additionalProperties": True}, GEMINI, {"type": "object", "additionalProperties": True}),
        ({"type": "object", "properties": {"x": TEXT}, "additionalProperties": NUMBER}, GEMINI, {
            "type": "object", "properties": {"x": TEXT}, "additionalProperties": NUMBER}),
        ({"type": "object", "properties": {"x": TEXT}, "additionalProperties": False}, GEMINI, {
            "type": "object", "properties": {"x": TEXT}, "additionalProperties": False}),
        ({"type": "object", "properties": {"x": False, "y": TEXT}}, GEMINI, {
            "type": "object", "properties": {"y": TEXT}}),
        ({"type": "object", "properties": {}, "additionalProperties": False}, OPENAPI, {
            "type": "STRING", "description": "(an empty object, written as JSON text)"}),
        ({"type": "array", "prefixItems": [TEXT, NUMBER], "items": False}, GEMINI, {
            "type": "array", "prefixItems": [TEXT, NUMBER], "maxItems": 2}),
        ({"type": "array", "prefixItems": [TEXT], "items": NUMBER}, GEMINI, {
            "type": "array", "prefixItems": [TEXT], "items": NUMBER}),
        ({"type": "array", "prefixItems": [TEXT, True, {"$ref": "#/$defs/text"}, {"anyOf": [TEXT]}], "items": NUMBER},
         OLLAMA, {"type": "array", "items": {"anyOf": [TEXT, {}, NUMBER]},
                  "description": "(items in order: string, any, text, one of the alternatives)"}),
        ({"type": "array", "items": False}, OLLAMA, {"type": "array", "description": "(max items 0)"}),
        ({"type": "array", "enum": [[1]]}, STRICT, {
            "type": "string", "description": "(one of [1], any JSON value, written as JSON text)"}),
        ({"type": "object", "maxProperties": 2, "minProperties": 1, "propertyNames": {"enum": ["x"]}}, STRICT, {
            "type": "array", "description": "(each key once)", "minItems": 1, "maxItems": 2, "items": {
                "type": "object",
                "properties": {
                    "key": {"type": "string", "enum": ["x"]},
                    "value": {"type": "string", "description": "(any JSON value, written as JSON text)"}},
                "required": ["key", "value"], "additionalProperties": False}}),
        ({"allOf": [{"type": "number", "minimum": 1}, {"type": "integer", "minimum": 2, "maximum": 9}]}, STRICT, {
            "type": "integer", "maximum": 9, "minimum": 2}),
        ({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}, STRICT, {"type": "string", "enum": ["b"]}),
        ({"type": "string", "anyOf": [{"minLength": 1}, NUMBER]}, STRICT, {"type": "string", "minLength": 1}),
        ({"type": "integer", "examples": [1], "deprecated": True}, ANTHROPIC, {
            "type": "integer", "description": "(deprecated, examples [1])"}),
        ({"type": "string", "pattern": "x" * 300}, ANTHROPIC, {
            "type": "string", "description": "(pattern: see the error if refused)"}),
    ],
)  # fmt: skip
def test_a_schema_becomes_what_the_target_takes(inner: Any, target: str, wanted: Any) -> None:
    assert said(inner, target) == wanted


def test_patterns_of_keys_with_different_values_are_said_as_alternatives() -> None:
    inner = {"type": "object", "patternProperties": {"^x": TEXT, "^y": NUMBER}, "additionalProperties": False}
    entry = said(inner, STRICT)["items"]["properties"]
    assert entry == {"key": {"type": "string"}, "value": {"anyOf": [TEXT, NUMBER]}}


def test_a_schema_deeper_than_can_be_followed_is_refused() -> None:
    inner: Any = {"$ref": "#/$defs/d0"}
    definitions = {f"d{n}": {"type": "array", "items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(120)}
    schema = {"type": "object", "properties": {"a": inner}, "$defs": {**definitions, "d120": TEXT}}
    made = Tool.from_schema(lambda **arguments: None, schema, name="f", description="Do.")
    for target in (STRICT, "mcp"):
        with pytest.raises(ExportError, match=r"deeper than \d+ levels"):
            export(made, target)
