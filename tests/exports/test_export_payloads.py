"""Tools in the providers' own shapes, checked against the types of the providers' own packages."""

from __future__ import annotations

import re
from typing import Annotated, Any

import pytest
from openai.types.chat import ChatCompletionCustomToolParam
from openai.types.responses import CustomToolParam
from profiles import every
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from streamtools.content import Grammar
from streamtools.errors import ExportError, InvalidArguments
from streamtools.exports import export, parts, targets
from streamtools.tools import Tool, ToolContext, Toolset, tool

CHAT = "openai.chat_completions"
ANTHROPIC = "anthropic.messages"


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Leaf(BaseModel):
    weight: float


@tool
def plant(root: Node, ctx: ToolContext, label: str = "x", *rest: int, **more: dict[str, Any]) -> None:
    """Plant a tree.

    Args:
        root: The root.
    """


@tool
def ping() -> None:
    """Say that you are there."""


CLOSED = ConfigDict(extra="forbid")


def untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic gives models, which are for people."""
    definitions = {name: {k: v for k, v in one.items() if k != "title"} for name, one in schema["$defs"].items()}
    return {**schema, "$defs": definitions}


def test_the_payloads_carry_the_tools_own_schema() -> None:
    assert plant.to(CHAT) == {
        "type": "function",
        "function": {"name": "plant", "description": "Plant a tree.", "parameters": untitled(plant.schema)},
    }
    said = {"name": "plant", "description": "Plant a tree."}
    assert plant.to(ANTHROPIC) == {**said, "input_schema": untitled(plant.schema)}
    assert plant.to("openai.responses") == {
        "type": "function",
        **said,
        "parameters": untitled(plant.schema),
        "strict": False,
    }
    assert plant.to("bedrock.converse_stream") == {"toolSpec": {**said, "inputSchema": {"json": plant.schema}}}
    for wire in ("mistral.chat", "cohere.chat"):
        assert plant.to(wire) == {"type": "function", "function": {**said, "parameters": plant.schema}}


def test_what_gemini_and_ollama_do_not_know_is_told_in_the_description() -> None:
    @tool
    def rate(stars: Annotated[int, Field(gt=0, le=5)] = 3) -> None:
        """Rate."""

    told = {"type": "integer", "description": "(more than 0, default 3)", "maximum": 5}
    assert rate.to("gemini.generate_content")["parametersJsonSchema"]["properties"] == {"stars": told}
    all_told = {"type": "integer", "description": "(max 5, more than 0, default 3)"}
    assert rate.to("ollama.chat")["function"]["parameters"]["properties"] == {"stars": all_told}
    assert export(rate, "ollama.chat").losses == (
        "#/properties/stars/exclusiveMinimum: in the description only",
        "#/properties/stars/maximum: in the description only",
    )


@every("target", targets())
def test_payloads_are_fresh_and_the_same_every_time(target: str) -> None:
    first, second = export(plant, target).payload, export(plant, target).payload
    assert first == second
    first.clear()
    next((value for value in second.values() if isinstance(value, dict)), second)["description"] = ""
    assert export(plant, target).payload != second


@every("target", targets())
def test_a_tool_name_that_a_target_does_not_take_is_changed_and_known(target: str) -> None:
    dotted = tool(ping.fn, name="system.ping")
    exported = export(dotted, target)
    if target.startswith(("gemini", "mcp", "ollama")):
        assert exported.name == "system.ping"
        assert not exported.rewritten
        return
    assert exported.name == "system_ping_221bc4"
    assert list(Toolset([exported])) == [exported.name]
    with pytest.raises(ExportError, match=rf"'system\.ping': {target} does not accept this name; pass tool\(..., name"):
        dotted.to(target)


@every("alias", ["größe", "a b", "@type", "x" * 65])
def test_argument_names_that_anthropic_refuses_are_changed_and_changed_back(alias: str) -> None:
    @tool
    def f(a: Annotated[int, Field(alias=alias)]) -> None:
        """Measure."""

    exported = export(f, ANTHROPIC)
    (key,) = exported.payload["input_schema"]["properties"]
    assert re.fullmatch("[a-zA-Z0-9_.-]{1,64}", key)
    assert exported.payload["input_schema"]["required"] == [key]
    assert exported.decode({key: 1}) == exported.decode({alias: 1}) == {alias: 1}
    with pytest.raises(InvalidArguments, match="repeats another property"):
        exported.decode({key: 1, alias: 2})
    with pytest.raises(ExportError, match="have another form"):
        f.to(ANTHROPIC)
    assert alias in f.to(CHAT)["function"]["parameters"]["properties"]


def test_a_strict_form_is_asked_for_in_either_way_and_only_where_there_is_one() -> None:
    assert ping.to(CHAT, strict=True) == ping.to(f"{CHAT}.strict")
    assert ping.to("openai.responses", strict=True)["strict"] is True
    assert ping.to("bedrock.converse_stream.strict")["toolSpec"]["strict"] is True
    assert ping.to(ANTHROPIC, strict=True)["strict"] is True
    for target in ("mcp", "ollama.chat"):
        with pytest.raises(ExportError, match=f"{target} has no strict form; these have one: openai"):
            ping.to(target, strict=True)


def test_where_the_payload_alone_does_not_do_the_error_says_what_to_write() -> None:
    with pytest.raises(ExportError, match=rf"use exported = export_all\(tools, '{CHAT}', strict=True\), send exported"):
        plant.to(CHAT, strict=True)
    with pytest.raises(ExportError, match=rf"use exported = export_all\(tools, '{CHAT}'\), send exported"):
        tool(ping.fn, name="system.ping").to(CHAT)


GRAMMAR = Grammar(syntax="regex", definition="[a-z]+")


@tool(kind="custom")
def shout(text: str) -> str:
    """Shout."""
    return text


def test_a_freeform_tool_has_openais_own_shape_and_is_a_function_elsewhere() -> None:
    held = tool(shout.fn, name="held", grammar=GRAMMAR)
    said = {"name": "shout", "description": "Shout."}
    assert shout.to(CHAT) == {"type": "custom", "custom": {**said, "format": {"type": "text"}}}
    assert shout.to("openai.responses") == {"type": "custom", **said, "format": {"type": "text"}}
    form = {"syntax": "regex", "definition": "[a-z]+"}
    assert held.to(CHAT)["custom"]["format"] == {"type": "grammar", "grammar": form}
    assert held.to("openai.responses", strict=True)["format"] == {"type": "grammar", **form}
    TypeAdapter(list[CustomToolParam], config=CLOSED).validate_python([held.to("openai.responses")])
    TypeAdapter(list[ChatCompletionCustomToolParam], config=CLOSED).validate_python([held.to(CHAT)])
    assert export(held, CHAT).losses == ()
    elsewhere = export(held, ANTHROPIC)
    assert list(elsewhere.payload["input_schema"]["properties"]) == ["input"]
    assert elsewhere.payload["description"] == "Shout.\n\nThe input must match this regex grammar:\n[a-z]+"
    assert elsewhere.losses == ("grammar: in the description only",)


def test_mcp_tells_title_result_and_hints() -> None:
    @tool(effect="pure")
    def add(a: int) -> int:
        """Add."""
        return a

    payload = add.to("mcp")
    assert payload["outputSchema"]["properties"] == {"result": {"type": "integer"}}
    assert payload["annotations"] == {"readOnlyHint": True}
    made = Tool.from_schema(
        add.fn, add.schema, name="add", description="Add.", title="Addition", annotations={"readOnlyHint": False}
    )
    assert made.to("mcp")["title"] == "Addition"
    assert made.to("mcp")["annotations"] == {"readOnlyHint": False}


def test_mcp_inlines_definitions_unless_they_contain_themselves() -> None:
    @tool
    def move(leaf: Leaf, other: Annotated[Leaf, "Another."]) -> Node:
        """Move."""

    payload = move.to("mcp")
    assert "$defs" not in payload["inputSchema"]
    assert payload["inputSchema"]["properties"]["other"]["description"] == "Another."
    assert "$defs" in export(move, "mcp", inline_refs=False).payload["inputSchema"]
    exported = export(plant, "mcp")
    assert list(exported.payload["inputSchema"]["$defs"]) == ["Node"]
    assert "stays a reference, since the schema contains itself" in exported.losses[0]
    assert payload["outputSchema"]["type"] == "object"
    assert list(payload["outputSchema"]["$defs"]) == ["Node"]


@every("target", targets())
def test_the_parts_of_a_payload_have_one_name_each(target: str) -> None:
    found = parts(export(plant, target))
    assert found["name"] == "plant"
    assert found["parameters"]["type"].lower() == "object"
    assert parts(export(shout, "openai.responses")) == parts(export(shout, CHAT))
