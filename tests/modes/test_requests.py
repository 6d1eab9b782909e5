"""What the adapters put into a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from openai.types.chat.completion_create_params import ResponseFormat
from openai.types.shared_params import ResponseFormatJSONSchema
from profiles import every
from pydantic import BaseModel, TypeAdapter

from streamtools import Tool, tool
from streamtools.errors import ExportError
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


@every("wrapped", [True, False])
@every("strict", [True, False])
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


# -- native ------------------------------------------------------------------------------------------------------


def test_a_target_that_has_its_tools_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of openai.chat_completions.*, got 'gemini.generate_content'"):
        NativeToolAdapter("gemini.generate_content")


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


@every("role", ["system", "developer"])
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


@every("adapter", [ParsedAdapter(), ValidatedAdapter(), get_adapter("mistral-7b")])
def test_parsing_asks_nothing_of_the_provider(adapter: StreamingAdapter) -> None:
    assert adapter.format_request([search_web], MESSAGES) == {}
