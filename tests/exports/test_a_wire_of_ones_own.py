"""A wire of the user's own, whose record says how its requests tell tools: exported to like any other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from streamtools.cli import main
from streamtools.errors import ExportError
from streamtools.exports import RequestLimits, export, export_all, parts, schema, targets
from streamtools.interop import ToolInteropRegistry
from streamtools.modes import NativeToolAdapter
from streamtools.schema.dialects import OLLAMA, OPENAI_STRICT, PLAIN, Action
from streamtools.schema.names import NameRule
from streamtools.tools import tool
from streamtools.wires import Wire, find, register, unregister
from streamtools.wires.formats import JSON, CallFormat, EntryFormat, StrictForm, ToolFormat


def hosted(tool: JSON) -> str | None:
    return "search" if tool.keys() == {"example_search"} else None


def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    return {"skills": entries, "checked": strict}


TOOLS = ToolFormat(
    name="example.own",
    dialect=PLAIN,
    strict=StrictForm(dialect=OPENAI_STRICT, location="`checked` of the request", whole_request=True),
    names=NameRule("a-z_", "a-z0-9_", 16),
    function=EntryFormat(name="example.skill", inside="skill", schema_at=("takes", "schema")),
    request=request,
    hosted=hosted,
    limits=RequestLimits(tools=2),
)
EXAMPLE: Wire = replace(
    find("openai.chat_completions"),
    name="example.own",
    short_name="example",
    recognises=lambda payload: "example" in payload,
    calls=(CallFormat(name="example.skill", inside="use", arguments="with"),),
    tools=(TOOLS,),
    message_in=("reply",),
)


@tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


SAID = {"name": "add", "description": "Add two numbers."}


@pytest.fixture
def registered() -> Iterator[None]:
    register(EXAMPLE)
    yield
    unregister(EXAMPLE)


def test_a_wire_that_nobody_registered_is_exported_to_when_it_is_passed_itself() -> None:
    written = {"skill": {**SAID, "takes": {"schema": add.schema}}}
    assert add.to(EXAMPLE) == export(add, EXAMPLE).payload == schema(add).to(EXAMPLE) == written
    assert export_all([add], EXAMPLE).request == {"skills": [written], "checked": False}
    assert export_all([add], EXAMPLE, strict=True).request["checked"] is True
    assert export(add, EXAMPLE).wire == "example.own"
    with pytest.raises(ExportError, match=r"unknown wire 'example\.own'"):
        export(add, "example.own")


def test_its_rule_for_names_and_its_limits_hold() -> None:
    assert export(tool(add.fn, name="add_up"), EXAMPLE).name == "add_up"
    assert re.fullmatch("_dd_up_[0-9a-f]{6}", export(tool(add.fn, name="Add.up"), EXAMPLE).name)
    with pytest.raises(ExportError, match=r"example\.own: expected at most 2 tools in a request, got 3"):
        export_all([add, tool(add.fn, name="b"), tool(add.fn, name="c")], EXAMPLE)


def test_its_dialect_is_derived_from_one_that_is_known() -> None:
    @tool
    def find_word(word: Annotated[str, Field(pattern="^a", max_length=9)], kind: Literal["x", "y"] = "x") -> None:
        """Find a word."""

    dialect = PLAIN.but("example", {"pattern": Action.NOTE, "enum": Action.NOTE, "default": Action.DROP})
    made = export(find_word, replace(EXAMPLE, tools=(replace(TOOLS, dialect=dialect),)))
    assert made.payload["skill"]["takes"]["schema"]["properties"] == {
        "word": {"type": "string", "maxLength": 9, "description": "(pattern ^a)"},
        "kind": {"type": "string", "description": '(one of "x", "y")'},
    }
    told = "in the description only"
    assert made.losses == (f"#/properties/word/pattern: {told}", f"#/properties/kind/enum: {told}")
    with pytest.raises(ValueError, match=r"'example' keeps references, so it cannot change \(map\), oneOf"):
        PLAIN.but("example", {"oneOf": Action.REWRITE, "(map)": Action.NOTE})
    assert OLLAMA.but("example", {"oneOf": Action.REFUSE}).action("oneOf") is Action.REFUSE


@pytest.mark.usefixtures("registered")
def test_a_registered_wire_is_known_by_name_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert "example.own" in targets()
    assert "example.own" in targets(strict=True)
    assert add.to("example.own") == add.to(EXAMPLE)
    assert parts(export(add, "example.own")) == {**SAID, "parameters": add.schema}
    with pytest.raises(ExportError, match=r"'example'; write 'example\.own'"):
        add.to("example")
    assert main(["schema", "show", "--help"]) == 0
    assert "example (example.own)" in capsys.readouterr().out


@pytest.mark.usefixtures("registered")
def test_its_schemas_are_translated_to_other_providers_and_back() -> None:
    registry = ToolInteropRegistry.of()
    (theirs,) = registry.convert_schemas([add.to(EXAMPLE)], target="anthropic.messages")
    assert theirs == {**SAID, "input_schema": add.schema}
    assert registry.convert_schemas([theirs], target="example.own") == [add.to(EXAMPLE)]
    (renamed,) = registry.convert_schemas([{**theirs, "name": "Add"}], target="example.own")
    assert re.fullmatch("_dd_[0-9a-f]{6}", renamed["skill"]["name"])
    assert registry.inspect_schema({"example_search": {}}).format == "example.own.built_in"
    with pytest.raises(ExportError, match=r"that its provider runs \(example\.own\)"):
        registry.convert_schemas([{"example_search": {}}], target="anthropic.messages")


@pytest.mark.usefixtures("registered")
def test_its_responses_are_read_where_it_has_its_message() -> None:
    adapter = NativeToolAdapter("example.own")
    assert adapter.format_request([add], []) == {"skills": [add.to(EXAMPLE)], "checked": False}
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    response = {"reply": {"role": "assistant", "content": None, "tool_calls": [call]}}
    assert adapter.extract_tool_call(response) == {"tool": "add", "arguments": {"a": 1}}


def test_a_row_that_says_no_place_of_its_schema_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'example\.skill' needs schema_at"):
        EntryFormat(name="example.skill")
    with pytest.raises(ValueError, match=r"'example\.text' has no schema_at"):
        EntryFormat(name="example.text", freeform=True, schema_at=("schema",))


def test_a_wire_without_a_format_of_tools_is_refused() -> None:
    with pytest.raises(ExportError, match=r"example\.own has no tool format; give it one"):
        add.to(replace(EXAMPLE, tools=()))
