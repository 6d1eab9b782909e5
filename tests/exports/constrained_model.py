"""A model under constrained decoding, as far as tests need one: it says plain arguments as an exported schema wants."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from streamtools.schema.translation.document import LISTS, MAPS, ONE


class CannotSay(Exception):
    """The schema has no way to express the value."""


def say(schema: dict[str, Any], plain: Any) -> Any:
    """`plain` in the form of `schema`: null for what is left out, entries for a map, JSON text where the description
    asks for it, an object with one key where an alternative stands in one."""
    root = as_json_schema(schema)
    written = next(_ways(root, plain, root), None)
    if written is None:
        raise CannotSay(f"no way to say {plain!r} in {json.dumps(schema)}")
    return written[0]


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """By an independent validator."""
    return _validator(as_json_schema(schema)).is_valid(value)


def as_json_schema(node: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI's form (types in upper case, ``nullable``) as JSON Schema; JSON Schema as it is."""
    made: dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword == "type" and isinstance(value, str):
            made[keyword] = value.lower()
        elif keyword in MAPS and isinstance(value, dict):
            made[keyword] = {key: as_json_schema(inner) for key, inner in value.items()}
        elif keyword in LISTS:
            made[keyword] = [as_json_schema(inner) for inner in value]
        elif keyword in ONE and isinstance(value, dict):
            made[keyword] = as_json_schema(value)
        else:
            made[keyword] = value
    if made.pop("nullable", False):
        description = {"description": made.pop("description")} if "description" in made else {}
        return {**description, "anyOf": [made, {"type": "null"}]}
    return made


def _ways(schema: Mapping[str, Any], plain: Any, root: dict[str, Any], text: str = "") -> Iterator[tuple[Any]]:
    """Every way to say `plain`, the first ones first; each in a tuple, since one may be None."""
    text = schema.get("description", text)
    for written in _candidates(schema, plain, root, text):
        if _validator({**schema, "$defs": root.get("$defs", {})}).is_valid(written[0]):
            yield written


def _candidates(schema: Mapping[str, Any], plain: Any, root: dict[str, Any], text: str) -> Iterator[tuple[Any]]:
    if "$ref" in schema:
        yield from _ways(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], plain, root, text)
        return
    if "anyOf" in schema:
        if plain is None and '{"explicit_null": null} is null itself' in text:
            yield ({"explicit_null": None},)
            return
        for branch in schema["anyOf"]:
            yield from _ways(branch, plain, root, text)
        return
    kinds = schema.get("type")
    if kinds is None:
        yield (plain,)
        return
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and "written as JSON text" in text:
        yield (json.dumps(plain),)
        return
    if "object" in kinds:
        yield from _objects(schema, plain, root)
    if "array" in kinds and isinstance(plain, dict) and set(schema["items"].get("properties", {})) == {"key", "value"}:
        yield from _each([{"key": key, "value": inner} for key, inner in plain.items()], schema, root)
    if "array" in kinds and isinstance(plain, list):
        yield from _each(plain, schema, root)
    if not isinstance(plain, (dict, list)):
        yield (plain,)


def _objects(schema: Mapping[str, Any], plain: Any, root: dict[str, Any]) -> Iterator[tuple[Any]]:
    properties = schema.get("properties", {})
    if set(properties) == {"explicit_null"}:
        return  # for null alone
    if isinstance(plain, dict):
        yield from _object(schema, properties, plain, root)
    name = next(iter(properties), "")
    plain_name = re.sub(r"_\d+$", "", name)
    # An alternative or a root that stands in an object.
    wrapped = name in root.get("$defs", {}) or plain_name in (
        "json",
        "alternative",
        "arguments",
        *root.get("$defs", {}),
    )
    wrapped = wrapped or (plain_name == "entries" and isinstance(plain, dict))
    if wrapped and len(properties) == 1:
        for written in _ways(properties[name], plain, root):
            yield ({name: written[0]},)


def _object(
    schema: Mapping[str, Any], properties: Mapping[str, Any], plain: dict[str, Any], root: dict[str, Any]
) -> Iterator[tuple[Any]]:
    written: dict[str, Any] = {}
    further = schema.get("additionalProperties", True)
    beyond = {key: inner for key, inner in plain.items() if key not in properties}
    if "additional_properties" in properties:
        beyond = {}
    for name, inner in properties.items():
        if name == "additional_properties":
            rest = {key: one for key, one in plain.items() if key not in properties}
            way = next(_ways(inner, rest, root), None)
        elif name in plain:
            way = next(_ways(inner, plain[name], root), None)
        elif name in schema.get("required", ()):
            if further is not False:
                return  # nothing is left out by null in a schema that is not strict
            way = (None,)
        else:
            continue
        if way is None:
            return
        written[name] = way[0]
    for name, inner in beyond.items():
        way = (inner,) if isinstance(further, bool) else next(_ways(further, inner, root), None)
        if further is False or way is None:
            return
        written[name] = way[0]
    yield (written,)


def _each(
    plain: list[Any], schema: Mapping[str, Any], root: dict[str, Any], entries: bool = False
) -> Iterator[tuple[Any]]:
    first = schema.get("prefixItems", [])
    made = []
    for number, inner in enumerate(plain):
        item = first[number] if number < len(first) else schema.get("items", {})
        way = next(_ways(item, inner, root), None)
        if way is None:
            return
        made.append(way[0])
    yield (made,)


_VALIDATORS: dict[str, Any] = {}


def _validator(schema: Mapping[str, Any]) -> Any:
    key = json.dumps(schema)
    if key not in _VALIDATORS:
        _VALIDATORS[key] = jsonschema_rs.Draft202012Validator(dict(schema))
    return _VALIDATORS[key]
