"""Words of a peer in what is said of histories and schemas: findings, refusals, problems, losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from every_wire import framed, said
from hostile import FORGED, LONG, every_place, shown
from profiles import every

from streamtools import parse
from streamtools.errors import ExportError, InvalidArguments, SchemaError
from streamtools.exports import export
from streamtools.history import lint, repair
from streamtools.tools import Tool
from streamtools.wires import WIRES

ENOUGH = 4096


@every("wire", WIRES)
@every("text", [FORGED, LONG])
def test_what_is_found_in_a_history_is_told_in_printable_bounded_lines(wire: str, text: str) -> None:
    turn = parse(framed(wire, said(wire, text=["hi"], calls=[("call_1", "get", '{"a": 1}')])), wire=wire, tools=["get"])
    history = [{"role": "user", "content": "go"}, *turn.messages()]
    found = 0
    for place, changed in every_place(history, text):
        for told in history_says(changed, wire):
            found += 1
            assert len(shown(told)) <= ENOUGH, f"{wire}, {place}"
    assert found >= 10


def history_says(history: list[Any], wire: str) -> Iterator[str]:
    for work in (lint, repair):
        try:
            findings = work(history, wire)
        except Exception as error:  # what is no history at all is refused
            yield str(error)
        else:
            yield from (str(finding) for finding in findings if work is lint)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "t",
    "description": "d",
    "properties": {
        "a": {"type": "string", "pattern": "^a$", "enum": ["x", "y"], "description": "q"},
        "b": {"anyOf": [{"type": "integer", "minimum": 1}, {"$ref": "#/$defs/q"}]},
        "c": {"type": "array", "items": {"type": "string", "format": "uuid"}, "prefixItems": [{"const": "z"}]},
    },
    "required": ["a"],
    "$defs": {"q": {"type": "object", "properties": {"z": {"type": "string"}}}},
    "patternProperties": {"^x": {"type": "string"}},
    "additionalProperties": False,
    "not": {"required": ["n"]},
}


async def take(**arguments: Any) -> str:
    """Take it."""
    return "done"


def schema_says(schema: dict[str, Any], text: str) -> Iterator[str]:
    try:
        made = Tool.from_schema(take, schema, name="take")
    except SchemaError as error:
        yield str(error)
        return
    yield from made.check()
    for arguments in (
        {},
        {"a": 1, "b": 0, "c": [1]},
        {text: 1},
        {"a": text, "b": text, "c": [text]},
        {"a": "x", "n": 1},
    ):
        try:
            made.validate(arguments)
        except InvalidArguments as error:
            yield str(error)
    for wire in WIRES:
        for strict in (False, True):
            try:
                yield from map(str, export(made, wire, strict=strict).losses)
            except ExportError as error:
                yield str(error)


@every("text", [FORGED, "A" * 5000])
def test_what_is_wrong_with_a_schema_or_its_arguments_is_told_in_printable_bounded_lines(text: str) -> None:
    found = 0
    for place, (changed,) in every_place([SCHEMA], text):
        for told in schema_says(changed, text):
            found += 1
            assert len(shown(told)) <= ENOUGH, place
    assert found > 100
