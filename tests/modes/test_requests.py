"""What the adapters put into a request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from openai.types.chat.completion_create_params import ResponseFormat
from openai.types.shared_params import ResponseFormatJSONSchema
from pydantic import BaseModel, TypeAdapter

from streamtools import Tool, ToolContext, tool
from streamtools.errors import ExportError, ToolDefinitionError
from streamtools.exports import export
from streamtools.modes import (
    JSONObjectAdapter,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    StreamingAdapter,
    ValidatedAdapter,
    get_adapter,
    tool_prompt,
)
from streamtools.modes.responses import payload_schema

MESSAGES = [{"role": "user", "content": "Search for Python docs"}]


@tool
def search_web(query: str) -> str:
    """Search the web for information."""
    return query


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Point(BaseModel):
    x: float
    y: float


@tool
def grow(root: Node, at: Point | None = None) -> str:
    """Grow a tree."""
    return root.name


@tool
def prune(root: Node, at: Point) -> str:
    """Prune a tree."""
    return root.name


def schema_of(adapter: OpenAIStructuredAdapter, *tools: Any) -> dict[str, Any]:
    schema: dict[str, Any] = adapter.format_request(tools, MESSAGES)["response_format"]["json_schema"]["schema"]
    return schema


# -- a schema for the answer -------------------------------------------------------------------------------------


def test_the_answer_is_held_to_one_closed_variant_per_tool_an_answer_and_a_scratchpad() -> None:
    request = OpenAIStructuredAdapter().format_request([search_web], MESSAGES)
    parameters = export(search_web, "openai.chat_completions", strict=True).payload["function"]["parameters"]
    call = {
        "description": "Search the web for information.",
        "type": "object",
        "properties": {"tool": {"type": "string", "enum": ["search_web"]}, "arguments": parameters},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }
    answer, scratchpad = (
        {
            "description": text,
            "type": "object",
            "properties": {key: {"type": "string"}},
            "required": [key],
            "additionalProperties": False,
        }
        for key, text in (("answer", "The final answer."), ("scratchpad", "Only think."))
    )
    union = {"anyOf": [call, answer, scratchpad]}
    wrapped = {
        "type": "object",
        "properties": {"response": union},
        "required": ["response"],
        "additionalProperties": False,
    }
    asked = {"name": "agent_response", "strict": True, "schema": wrapped}
    assert request == {"response_format": {"type": "json_schema", "json_schema": asked}}
    assert schema_of(OpenAIStructuredAdapter(wrapped=False), search_web) == union
    TypeAdapter[Any](ResponseFormatJSONSchema).validate_python(request["response_format"])


def test_a_request_may_be_changed_by_whoever_got_it() -> None:
    adapter = OpenAIStructuredAdapter(wrapped=False)
    before = json.dumps(schema_of(adapter, grow))
    mine = schema_of(adapter, grow)
    for node in list(nodes(mine)):
        node.clear()
    assert json.dumps(schema_of(adapter, grow)) == before


def test_a_scratchpad_before_each_decision_can_be_asked_for() -> None:
    schema = schema_of(OpenAIStructuredAdapter(scratchpad=True, wrapped=False), search_web)
    assert [list(variant["properties"]) for variant in schema["anyOf"]] == [
        ["scratchpad", "tool", "arguments"],
        ["scratchpad", "answer"],
        ["scratchpad"],
    ]


def test_strict_can_be_left_out() -> None:
    asked = OpenAIStructuredAdapter(strict=False).format_request([grow], MESSAGES)["response_format"]["json_schema"]
    assert asked["strict"] is False


def test_without_tools_there_is_an_answer_or_a_scratchpad() -> None:
    assert len(schema_of(OpenAIStructuredAdapter(wrapped=False))["anyOf"]) == 2


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("strict", [True, False])
def test_definitions_of_several_tools_stand_together_without_mixing(wrapped: bool, strict: bool) -> None:
    adapter = OpenAIStructuredAdapter(wrapped=wrapped, strict=strict)
    schema = schema_of(adapter, grow, prune, search_web)
    jsonschema.Draft202012Validator.check_schema(schema)
    check_strictly_legal(schema, strict=strict)
    tools: dict[str, Tool] = {"grow": grow, "prune": prune, "search_web": search_web}
    judge = jsonschema.Draft202012Validator(schema)
    tree = {"name": "a", "children": [{"name": "b", "children": []}]}
    good: list[dict[str, Any]] = [
        {"tool": "grow", "arguments": {"root": tree, "at": None}},
        {"tool": "prune", "arguments": {"root": tree, "at": {"x": 1.0, "y": 2.0}}},
        {"tool": "search_web", "arguments": {"query": "x"}},
        {"answer": "x"},
        {"scratchpad": "x"},
    ]
    bad: list[dict[str, Any]] = [
        {"tool": "prune", "arguments": {"root": tree, "at": None}},
        {"tool": "prune", "arguments": {"root": {"name": 1, "children": []}, "at": {"x": 1, "y": 2}}},
        {"tool": "rm", "arguments": {}},
        {"tool": "search_web", "arguments": {"query": 1}},
        {"answer": "x", "more": 1},
    ]
    for payload in good:
        assert judge.is_valid({"response": payload} if wrapped else payload), payload
        if "tool" in payload and strict:
            assert adapter.validate_tool_call(payload, tools).is_valid
    for payload in bad:
        assert not judge.is_valid({"response": payload} if wrapped else payload), payload


def check_strictly_legal(schema: dict[str, Any], *, strict: bool) -> None:
    """What OpenAI asks of a strict schema: objects closed and whole, references that lead somewhere."""
    for node in nodes(schema):
        if "$ref" in node:
            place: Any = schema
            for step in node["$ref"].removeprefix("#/").split("/"):
                place = place[step]
        if strict and node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert sorted(node["required"]) == sorted(node["properties"])


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


SELF: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "enum": ["#", "$ref"]},
        "$ref": {"$ref": "#/properties/name"},
        "inner": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        "point": {"$ref": "#/$defs/point"},
        "pair": {"prefixItems": [{"$ref": "#/$defs/point"}], "items": False, "default": [{"$ref": "#/none"}]},
    },
    "$defs": {"point": {"type": "object", "additionalProperties": {"$ref": "#/$defs/point/title"}, "title": "{}"}},
}


def test_references_of_every_kind_lead_where_they_did() -> None:
    schema = payload_schema([("a b", "", SELF), ("a_b", "", SELF)], wrapped=True, scratchpad=False)
    assert sorted(schema["$defs"]) == ["a_b", "a_b_2", "a_b_point", "a_b_point_2"]
    first = schema["$defs"]["a_b"]
    assert schema["properties"]["response"]["anyOf"][0]["properties"]["arguments"] == {"$ref": "#/$defs/a_b"}
    assert first["properties"]["$ref"] == {"$ref": "#/$defs/a_b/properties/name"}
    assert first["properties"]["inner"]["anyOf"][0] == {"$ref": "#/$defs/a_b"}
    assert first["properties"]["point"] == {"$ref": "#/$defs/a_b_point"}
    assert first["properties"]["pair"]["prefixItems"] == [{"$ref": "#/$defs/a_b_point"}]
    assert first["properties"]["pair"]["items"] is False
    assert first["properties"]["pair"]["default"] == [{"$ref": "#/none"}], "a value is no schema"
    assert schema["$defs"]["a_b_point"]["additionalProperties"] == {"$ref": "#/$defs/a_b_point/title"}
    assert schema["$defs"]["a_b_2"]["properties"]["point"] == {"$ref": "#/$defs/a_b_point_2"}
    assert SELF["properties"]["point"] == {"$ref": "#/$defs/point"}, "what was given stays as it was"


def test_a_tool_that_no_strict_schema_can_say_is_refused_with_the_way_out() -> None:
    with pytest.raises(ExportError, match=r"'anything' cannot be a variant.*OpenAIStructuredAdapter\(strict=False\)"):
        OpenAIStructuredAdapter().format_request([UNSAYABLE], MESSAGES)
    assert OpenAIStructuredAdapter(strict=False).format_request([UNSAYABLE], MESSAGES)


UNSAYABLE = Tool.from_schema(
    lambda **_: None,
    {"type": "object", "properties": {"a": {"type": "integer", "enum": ["x"]}}, "required": ["a"]},
    name="anything",
    description="Takes a number that is a text.",
)


def test_anchors_mean_the_same_in_the_larger_schema_and_lists_of_items_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#here"}, "b": {"type": "array", "items": [{"$ref": "#/$defs/x"}]}},
        "$defs": {"x": {"$anchor": "here", "type": "string"}},
    }
    made = payload_schema([("f", "", schema)], wrapped=False, scratchpad=False)
    properties = made["anyOf"][0]["properties"]["arguments"]["properties"]
    assert properties["a"] == {"$ref": "#here"}
    assert properties["b"]["items"] == [{"$ref": "#/$defs/f_x"}]


def test_what_openai_limits_is_counted_over_the_whole_answer() -> None:
    def choosing(name: str) -> Tool:
        values = [f"{name}{number}" for number in range(600)]
        schema = {"type": "object", "properties": {"a": {"enum": values}}, "required": ["a"]}
        return Tool.from_schema(lambda **_: None, schema, name=name, description="Choose.")

    assert OpenAIStructuredAdapter().format_request([choosing("one")], MESSAGES)
    both = [choosing("one"), choosing("two")]
    with pytest.raises(ExportError, match=r"with all tools in it: .* 1202 enum values, of which 1000.*strict=False"):
        OpenAIStructuredAdapter().format_request(both, MESSAGES)
    assert OpenAIStructuredAdapter(strict=False).format_request(both, MESSAGES)


def test_a_name_that_a_provider_refuses_is_a_value_here_and_stays() -> None:
    odd = replace(search_web, name="web.search")
    schema = schema_of(OpenAIStructuredAdapter(wrapped=False), odd)
    assert schema["anyOf"][0]["properties"]["tool"]["enum"] == ["web.search"]
    payload = {"tool": "web.search", "arguments": {"query": "x"}}
    assert OpenAIStructuredAdapter().validate_tool_call(payload, {"web.search": odd}).is_valid


def test_a_freeform_tool_takes_one_text() -> None:
    patch = replace(tool(_apply), kind="custom", name="patch")
    (call, *_) = schema_of(OpenAIStructuredAdapter(wrapped=False), patch)["anyOf"]
    assert call["properties"]["arguments"]["required"] == ["input"]
    payload = {"tool": "patch", "arguments": {"input": "*** x"}}
    assert OpenAIStructuredAdapter().validate_tool_call(payload, {"patch": patch}).arguments == {"input": "*** x"}


def _apply(input: str) -> str:
    """Apply a patch."""
    return input


def test_what_the_program_fills_is_in_no_schema() -> None:
    @tool
    def look(place: str, ctx: ToolContext) -> str:
        """Look."""
        return place

    for adapter in (OpenAIStructuredAdapter(), JSONObjectAdapter(), NativeToolAdapter()):
        assert "ctx" not in json.dumps(adapter.format_request([look], MESSAGES))


# -- native ------------------------------------------------------------------------------------------------------


def test_native_tools_are_functions_of_the_request() -> None:
    (told,) = NativeToolAdapter().format_request([search_web], MESSAGES)["tools"]
    assert told["type"] == "function"
    assert told["function"]["name"] == "search_web"
    assert told["function"]["description"] == "Search the web for information."
    assert told["function"]["parameters"]["properties"]["query"]["type"] == "string"
    assert told["function"]["parameters"]["required"] == ["query"]


def test_other_targets_and_exported_tools_and_functions_go_in_as_they_are() -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    exported = export(search_web, "openai.chat_completions", strict=True)
    told = NativeToolAdapter().format_request([exported, double], MESSAGES)["tools"]
    assert told[0] == exported.payload
    assert told[1]["function"]["name"] == "double"
    assert NativeToolAdapter("anthropic.messages").format_request([search_web], [])["tools"][0]["input_schema"]


def test_a_tool_that_the_target_knows_under_another_name_has_to_be_passed_as_exported() -> None:
    odd = replace(search_web, name="web.search")
    with pytest.raises(ExportError, match=r"'web.search'.*does not accept this name"):
        NativeToolAdapter().format_request([odd], MESSAGES)
    exported = export(odd, "openai.chat_completions")
    assert NativeToolAdapter().format_request([exported], MESSAGES)["tools"][0]["function"]["name"] == exported.name
    payload = {"tool": exported.name, "arguments": {"query": "x"}}
    assert NativeToolAdapter().validate_tool_call(payload, {exported.name: exported}).is_valid


def test_no_tools_give_no_list() -> None:
    assert NativeToolAdapter().format_request([], MESSAGES) == {}


def test_a_target_that_has_its_tools_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of openai.chat_completions.*, got 'gemini.generate_content'"):
        NativeToolAdapter("gemini.generate_content")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="another tool has this name"):
        NativeToolAdapter().format_request([search_web, search_web], MESSAGES)


# -- in the prompt -----------------------------------------------------------------------------------------------


def test_json_mode_puts_the_tools_into_the_system_prompt() -> None:
    request = JSONObjectAdapter().format_request([search_web, grow], MESSAGES)
    TypeAdapter[Any](ResponseFormat).validate_python(request["response_format"])
    assert request["response_format"] == {"type": "json_object"}
    system, *rest = request["messages"]
    assert rest == MESSAGES
    assert system == {"role": "system", "content": tool_prompt([search_web, grow])}
    for said in ("- search_web: Search the web for information.", "- grow: ", '{"tool": "<name>"', '{"answer"', "JSON"):
        assert said in system["content"]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_prompt_that_is_there_is_continued_and_not_changed(role: str) -> None:
    first = {"role": role, "content": "Be brief."}
    request = JSONObjectAdapter().format_request([search_web], [first, *MESSAGES])
    assert len(request["messages"]) == 2
    assert request["messages"][0]["role"] == role
    assert request["messages"][0]["content"].startswith("Be brief.\n\nAvailable tools:\n")
    assert first["content"] == "Be brief."
    parts = {"role": role, "content": [{"type": "text", "text": "Be brief."}]}
    continued = JSONObjectAdapter().format_request([search_web], [parts])["messages"][0]["content"]
    assert [part["text"][:9] for part in continued] == ["Be brief.", "Available"]
    empty = JSONObjectAdapter().format_request([search_web], [{"role": role, "content": None}, *MESSAGES])["messages"]
    assert [message["role"] for message in empty] == ["system", role, "user"]
    assert JSONObjectAdapter().format_request([search_web], [])["messages"][0]["role"] == "system"


def test_a_prompt_is_the_same_for_the_same_tools() -> None:
    assert tool_prompt([grow, prune]) == tool_prompt([grow, prune])
    assert "There are no tools." in tool_prompt([])


@pytest.mark.parametrize("adapter", [ParsedAdapter(), ValidatedAdapter(), get_adapter("mistral-7b")])
def test_parsing_asks_nothing_of_the_provider(adapter: StreamingAdapter) -> None:
    assert adapter.format_request([search_web], MESSAGES) == {}
