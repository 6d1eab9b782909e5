"""A wire of the user's own, whose record says how its requests tell tools: exported to like any other."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from streamtools.cli import main
from streamtools.errors import ExportError
from streamtools.exports import RequestLimits, export, export_all, parts, schema, table, targets
from streamtools.interop import ToolInteropRegistry
from streamtools.modes import NativeToolAdapter
from streamtools.schema.dialects import OLLAMA, OPENAI_STRICT, PLAIN, Action
from streamtools.schema.names import NameRule
from streamtools.tools import tool
from streamtools.wires import Wire, find, register, unregister
from streamtools.wires.call_format import CallFormat
from streamtools.wires.tool_format import JSON, EntryFormat, StrictForm, ToolFormat


def hosted(tool: JSON) -> str | None:
    return "search" if tool.keys() == {"acme_search"} else None


def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    return {"skills": entries, "checked": strict}


TOOLS = ToolFormat(
    name="acme.chat",
    dialect=PLAIN,
    strict=StrictForm(dialect=OPENAI_STRICT, said_at="`checked` of the request", whole_request=True),
    names=NameRule("a-z_", "a-z0-9_", 16),
    function=EntryFormat(name="acme.skill", inside="skill", schema_at=("takes", "schema")),
    request=request,
    hosted=hosted,
    limits=RequestLimits(tools=2),
)
ACME: Wire = replace(
    find("openai.chat_completions"),
    name="acme.chat",
    short_name="acme",
    recognises=lambda payload: "acme" in payload,
    calls=(CallFormat(name="acme.skill", inside="use", arguments="with"),),
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
    register(ACME)
    yield
    unregister(ACME)


def test_a_wire_that_nobody_registered_is_exported_to_when_it_is_passed_itself() -> None:
    written = {"skill": {**SAID, "takes": {"schema": add.schema}}}
    assert add.to(ACME) == export(add, ACME).payload == schema(add).to(ACME) == written
    assert export_all([add], ACME).request == {"skills": [written], "checked": False}
    assert export_all([add], ACME, strict=True).request["checked"] is True
    assert export(add, ACME).wire == "acme.chat"
    with pytest.raises(ExportError, match=r"unknown wire 'acme\.chat'"):
        export(add, "acme.chat")


def test_its_rule_for_names_and_its_limits_hold() -> None:
    assert export(tool(add.fn, name="add_up"), ACME).name == "add_up"
    assert re.fullmatch("_dd_up_[0-9a-f]{6}", export(tool(add.fn, name="Add.up"), ACME).name)
    with pytest.raises(ExportError, match=r"acme\.chat takes 2 tools in a request, not 3"):
        export_all([add, tool(add.fn, name="b"), tool(add.fn, name="c")], ACME)


def test_its_dialect_is_derived_from_one_that_is_known() -> None:
    @tool
    def find_word(word: Annotated[str, Field(pattern="^a", max_length=9)], kind: Literal["x", "y"] = "x") -> None:
        """Find a word."""

    dialect = PLAIN.but("acme", {"pattern": Action.NOTE, "enum": Action.NOTE, "default": Action.DROP})
    made = export(find_word, replace(ACME, tools=(replace(TOOLS, dialect=dialect),)))
    assert made.payload["skill"]["takes"]["schema"]["properties"] == {
        "word": {"type": "string", "maxLength": 9, "description": "(pattern ^a)"},
        "kind": {"type": "string", "description": '(one of "x", "y")'},
    }
    told = "told in the description only"
    assert made.losses == (f"#/properties/word/pattern: {told}", f"#/properties/kind/enum: {told}")
    with pytest.raises(ValueError, match=r"'acme' keeps references, so it cannot change \(map\), oneOf"):
        PLAIN.but("acme", {"oneOf": Action.REWRITE, "(map)": Action.NOTE})
    assert OLLAMA.but("acme", {"oneOf": Action.REFUSE}).action("oneOf") is Action.REFUSE


@pytest.mark.usefixtures("registered")
def test_a_registered_wire_is_known_by_name_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert "acme.chat" in targets()
    assert "acme.chat" in targets(strict=True)
    assert "| `acme.chat` | `skill.takes.schema` | `checked` of the request |" in table()
    assert add.to("acme.chat") == add.to(ACME)
    assert parts(export(add, "acme.chat")) == {**SAID, "parameters": add.schema}
    with pytest.raises(ExportError, match=r"'acme'; write 'acme\.chat'"):
        add.to("acme")
    assert main(["schema", "show", "--help"]) == 0
    assert "acme (acme.chat)" in capsys.readouterr().out


@pytest.mark.usefixtures("registered")
def test_the_command_line_takes_its_short_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = 'def add(a: int) -> int:\n    """Add."""\n    return a\n'
    (tmp_path / "acme_tools.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "acme_tools", raising=False)
    assert main(["schema", "show", "acme_tools:add", "--targets", "acme", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["target"], shown["payload"]["skill"]["name"]) == ("acme.chat", "add")


@pytest.mark.usefixtures("registered")
def test_its_schemas_are_translated_to_other_providers_and_back() -> None:
    registry = ToolInteropRegistry.of()
    (theirs,) = registry.convert_schemas([add.to(ACME)], target="anthropic.messages")
    assert theirs == {**SAID, "input_schema": add.schema}
    assert registry.convert_schemas([theirs], target="acme.chat") == [add.to(ACME)]
    (renamed,) = registry.convert_schemas([{**theirs, "name": "Add"}], target="acme.chat")
    assert re.fullmatch("_dd_[0-9a-f]{6}", renamed["skill"]["name"])
    assert registry.inspect_schema({"acme_search": {}}).format == "acme.chat.built_in"
    with pytest.raises(ExportError, match=r"run by its provider \(acme\.chat\)"):
        registry.convert_schemas([{"acme_search": {}}], target="anthropic.messages")


@pytest.mark.usefixtures("registered")
def test_its_responses_are_read_where_it_has_its_message() -> None:
    adapter = NativeToolAdapter("acme.chat")
    assert adapter.format_request([add], []) == {"skills": [add.to(ACME)], "checked": False}
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    response = {"reply": {"role": "assistant", "content": None, "tool_calls": [call]}}
    assert adapter.extract_tool_call(response) == {"tool": "add", "arguments": {"a": 1}}


def test_a_row_that_says_no_place_of_its_schema_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'acme\.skill' needs schema_at"):
        EntryFormat(name="acme.skill")
    with pytest.raises(ValueError, match=r"'acme\.text' has no schema_at"):
        EntryFormat(name="acme.text", freeform=True, schema_at=("schema",))


def test_a_wire_without_a_format_of_tools_is_refused() -> None:
    with pytest.raises(ExportError, match=r"acme\.chat says no format of tools; give it one"):
        add.to(replace(ACME, tools=()))
