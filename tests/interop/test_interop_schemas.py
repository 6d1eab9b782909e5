"""Schemas of one provider in the formats of another: what they mean, what they become, what gets lost."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from interop_cards import (
    ANTHROPIC,
    APPLY_PATCH,
    APPLY_PATCH_AS_FUNCTION,
    BEDROCK,
    CHAT_FUNCTION,
    CUSTOM,
    FORMATS,
    FUNCTIONS,
    GEMINI,
    MCP,
    PARAMETERS,
    READ_AS,
    RESPONSES_FUNCTION,
    TOOLS,
    call,
    custom_schema,
    function_schema,
)
from profiles import each_with_each, every

from streamtools.errors import ExportError
from streamtools.interop import (
    TARGET_FORMATS,
    Contribution,
    ToolInteropRegistry,
    ToolInteropTarget,
    ToolSchemaAdapter,
)

CHAT = ToolInteropTarget("openai.chat_completions")
WIRE_OF = {format: wire for wire, formats in reversed([*TARGET_FORMATS.items()]) for format in formats}
registry = ToolInteropRegistry.of


def schema_of(format: str) -> dict[str, Any]:
    return custom_schema(format) if format in CUSTOM else function_schema(format)


# -- the example of the specification ----------------------------------------------------------------------------------


class ApplyPatch:
    """A tool plugin that says what its raw text is."""

    def get_tool_interop_contribution(self) -> Contribution:
        return Contribution(input_descriptions={"apply_patch": "Patch text."})


def test_a_freeform_tool_becomes_a_function_with_one_text() -> None:
    source = copy.deepcopy(APPLY_PATCH)
    converted = ToolInteropRegistry.of(tools=[ApplyPatch()]).convert_schemas(
        [source], target=CHAT, target_formats=["openai.chat_completions.function"]
    )
    assert converted == [APPLY_PATCH_AS_FUNCTION]
    assert source == APPLY_PATCH


# -- each format in each other -----------------------------------------------------------------------------------------


ALIKE = {("gemini.interactions.function", "openai.responses.function")}
"""Formats in the first of which an entry may be one of the second, too: it goes there as it is."""
ENTRY_READ_AS = READ_AS | {"openai.realtime.function": "gemini.interactions.function"}
"""The format that an entry in each is read as."""


@every("source, target", each_with_each(FUNCTIONS))
def test_a_function_says_the_same_in_every_format(source: str, target: str) -> None:
    given = function_schema(source)
    (converted,) = registry().convert_schemas([given], target=WIRE_OF[target], target_formats=[target])
    read_as = ENTRY_READ_AS[source]
    alike = read_as == target or (read_as, target) in ALIKE
    assert converted == (given if alike else function_schema(target))
    assert given == function_schema(source)


@every("source", CUSTOM)
@every("target", FORMATS)
def test_a_freeform_tool_says_the_same_in_every_format(source: str, target: str) -> None:
    (converted,) = registry().convert_schemas([custom_schema(source)], target=WIRE_OF[target], target_formats=[target])
    assert converted == custom_schema(target)


@every("source", FUNCTIONS)
@every("target", CUSTOM)
def test_a_function_with_one_text_becomes_freeform_where_only_that_is_accepted(source: str, target: str) -> None:
    given = custom_schema(source)
    assert registry().convert_schemas([given], target=WIRE_OF[target], target_formats=[target]) == [
        custom_schema(target)
    ]
    with pytest.raises(ExportError, match="'read_file' takes an object"):
        registry().convert_schemas([function_schema(source)], target=WIRE_OF[target], target_formats=[target])


def test_a_grammar_stands_where_each_of_the_two_formats_has_it() -> None:
    (nested,) = registry().convert_schemas([APPLY_PATCH], target=CHAT)
    told = {"syntax": "lark", "definition": "start: /.+/"}
    assert nested["custom"]["format"] == {"type": "grammar", "grammar": told}
    assert registry().convert_schemas([nested], target="openai.responses") == [APPLY_PATCH]


# -- what a schema means -----------------------------------------------------------------------------------------------


@every("format", FORMATS)
def test_a_schema_tells_name_kind_and_parameters(format: str) -> None:
    source = schema_of(format)
    found = registry().inspect_schema(source)
    raw = format in CUSTOM
    assert (found.format, found.tool_name, found.kind) == (
        ENTRY_READ_AS[TOOLS[format]],
        "apply_patch" if raw else "read_file",
        "custom" if raw else "function",
    )
    assert found.parameters == (None if raw else PARAMETERS)
    assert found.source is source


def test_mcps_title_annotations_and_output_are_kept_for_mcp() -> None:
    more = {
        "title": "Read",
        "annotations": {"readOnlyHint": True},
        "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    }
    found = registry().inspect_schema({**function_schema(MCP), **more})
    assert (found.title, found.annotations, found.output_schema) == tuple(more.values())
    assert registry().inspect_schema({**function_schema(MCP), "annotations": {"title": "Read"}}).title == "Read"
    (responses,) = registry().convert_schemas([{**function_schema(MCP), **more}], target="openai.responses")
    assert responses["output_schema"] == more["outputSchema"]
    assert registry().convert_schemas([responses], target="mcp")[0]["outputSchema"] == more["outputSchema"]
    (gemini,) = registry().convert_schemas([{**function_schema(MCP), **more}], target="gemini.generate_content")
    assert gemini["responseJsonSchema"] == more["outputSchema"]


def test_geminis_own_notation_of_parameters_is_understood() -> None:
    declared = {
        "name": "find",
        "description": "Find.",
        "parameters": {
            "type": "OBJECT",
            "propertyOrdering": ["words", "sort"],
            "properties": {
                "words": {"type": "ARRAY", "items": {"type": "STRING"}, "minItems": "1"},
                "sort": {"type": "STRING", "enum": ["new", "old"], "nullable": True},
                "near": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": True},
                "any": {"nullable": True},
                "odd": "no schema",
            },
            "required": ["words"],
        },
        "response": {"type": "STRING"},
    }
    found = registry().inspect_schema(declared)
    assert found.parameters == {
        "type": "object",
        "properties": {
            "words": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "sort": {"type": ["string", "null"], "enum": ["new", "old", None]},
            "near": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
            "any": {},
            "odd": "no schema",
        },
        "required": ["words"],
    }
    assert found.output_schema == {"type": "string"}
    written = {**declared, "responseJsonSchema": {"type": "integer"}}
    assert registry().inspect_schema(written).output_schema == {"type": "integer"}


def test_geminis_notation_is_followed_so_far_and_no_farther() -> None:
    deep: dict[str, Any] = {"type": "STRING"}
    for _ in range(100_000):
        deep = {"type": "ARRAY", "items": deep}
    found = registry().inspect_schema({"name": "f", "parameters": {"type": "OBJECT", "properties": {"x": deep}}})
    assert (found.parameters or {})["properties"]["x"]["type"] == "array"
    while deep:  # taken apart by hand: the interpreter's own way down is recursive
        deep = deep.pop("items", {})


@every(
    "schema",
    [
        {},
        {"description": "nameless"},
        {"type": "function"},
        {"type": "function", "function": None},
        {"type": "function", "function": {"name": ""}},
        {"type": "custom"},
        {"type": "custom", "custom": {"name": 7}},
        {"name": "x", "type": "custom", "custom": "y"},
        {"toolSpec": {"name": None}},
        {"toolSpec": "x"},
        {"input_schema": {}},
        {"inputSchema": {}},
        {"functionDeclarations": []},
    ],
)
def test_a_schema_that_nobody_knows_is_refused_by_its_keys(schema: dict[str, Any]) -> None:
    with pytest.raises(ExportError, match=r"no accessor knows this schema .*contribute one"):
        registry().convert_schemas([schema], target=CHAT)


# -- what gets lost ----------------------------------------------------------------------------------------------------


@every("strict", [True, False])
def test_strictness_is_shared_by_the_two_apis_of_openai_only(strict: bool) -> None:
    source = {**function_schema(RESPONSES_FUNCTION), "strict": strict}
    (chat,) = registry().convert_schemas([source], target=CHAT)
    assert chat["function"].get("strict", False) is strict
    assert registry().convert_schemas([chat], target="openai.responses") == [source]
    assert "strict" not in registry().convert_schemas([source], target="anthropic.messages")[0]
    bedrock = {"toolSpec": {**function_schema(BEDROCK)["toolSpec"], "strict": strict}}
    assert registry().inspect_schema(bedrock).strict is strict
    assert registry().convert_schemas([bedrock], target="openai.responses")[0]["strict"] is False


# -- tools that a provider runs itself ---------------------------------------------------------------------------------


@every(
    ("schema", "wire"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, "anthropic.messages"),
        ({"type": "web_search"}, "openai.responses"),
        ({"type": "mcp", "server_label": "docs", "server_url": "https://example.org"}, "openai.responses"),
        ({"googleSearch": {}}, "gemini.generate_content"),
        ({"systemTool": {"name": "nova_grounding"}}, "bedrock.converse_stream"),
        ({"cachePoint": {"type": "default"}}, "bedrock.converse_stream"),
    ],
)
def test_a_tool_that_its_provider_runs_goes_to_that_provider_only(schema: dict[str, Any], wire: str) -> None:
    for target, formats in TARGET_FORMATS.items():
        if target == wire:
            assert registry().convert_schemas([schema], target=target, target_formats=formats)[0] is schema
        else:
            with pytest.raises(ExportError, match=f"its provider runs .{wire}.*{target} cannot"):
                registry().convert_schemas([schema], target=target)


# -- what a provider cannot take ---------------------------------------------------------------------------------------

ODD: dict[str, Any] = {
    "name": "github.find",
    "description": "Find.",
    "inputSchema": {
        "type": "object",
        "properties": {"max results": {"type": "integer"}, "kind": {"const": "issue"}},
        "required": ["max results"],
    },
}


def test_what_a_provider_refuses_is_rewritten_and_comes_back_as_authored() -> None:
    own = registry()
    (converted,) = own.convert_schemas([ODD], target="anthropic.messages")
    name, keys = converted["name"], list(converted["input_schema"]["properties"])
    assert name != ODD["name"]
    assert keys[0] != "max results"
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {keys[0]: 3}}
    found = own.inspect_call(call)
    assert (found.tool_name, found.payload) == ("github.find", {"max results": 3})
    assert own.convert_tool_calls([call], target="anthropic.messages")[0] is call
    stored = own.stored_tool_call(call)
    assert stored["function"] == {"name": "github.find", "arguments": '{"max results":3}'}
    assert own.convert_tool_calls([stored], target="anthropic.messages")[0]["name"] == name
    assert own.name_on("github.find", "anthropic.messages") == name
    assert own.name_on("github.find", "mcp") == "github.find"


def test_what_one_wire_was_told_does_not_touch_the_calls_of_another() -> None:
    """Both requests may go out of one registry, when a provider stands in for another."""
    own = ToolInteropRegistry.of()
    parameters = {"type": "object", "properties": {"max results": {"type": "integer"}}}
    source = function_schema(MCP, parameters)
    told = {wire: own.convert_schemas([source], target=wire)[0] for wire in ("anthropic.messages", "openai.responses")}
    (key,) = told["anthropic.messages"]["input_schema"]["properties"]
    assert told["openai.responses"]["parameters"] == parameters
    one = {"type": "tool_use", "id": "t", "name": "read_file", "input": {key: 3}}
    other = call(RESPONSES_FUNCTION, "read_file", '{"max results":3}', None)
    same = call(RESPONSES_FUNCTION, "read_file", json.dumps({key: 3}), None)
    assert own.inspect_call(one).payload == own.inspect_call(other).payload == {"max results": 3}
    assert own.inspect_call(same).payload == {key: 3}


@every("target", ["acme", "mcp", "anthropic.messages"])
def test_a_schema_is_not_followed_deeper_than_any_tool_goes(target: str) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"not": deep}
    schema = function_schema(CHAT_FUNCTION, {"type": "object"})
    schema["function"]["parameters"]["properties"] = {"x": deep}
    with pytest.raises(ExportError, match="'read_file': its schema is nested deeper than"):
        registry().convert_schemas([schema], target=target, target_formats=[MCP, ANTHROPIC])
    while deep:
        deep = deep.pop("not", {})


@every(
    "parameters",
    [
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": {"type": "strnig"}}},
        {"type": "object", "required": "a"},
        {"type": "object", "default": object()},
        {"type": "object", "default": float("nan")},
    ],
)
def test_what_is_no_schema_is_refused_by_the_tools_name(parameters: dict[str, Any]) -> None:
    with pytest.raises(ExportError, match="read_file"):
        registry().convert_schemas([function_schema(MCP, parameters)], target="anthropic.messages")


# -- formats of one's own ----------------------------------------------------------------------------------------------


def test_an_adapter_for_one_pair_goes_before_the_one_that_writes_the_format() -> None:
    pair = ToolSchemaAdapter(CHAT_FUNCTION, lambda schema: {"from": schema.format}, source=MCP)
    own = ToolInteropRegistry.of(config=[Contribution(schema_adapters=(pair,))])
    assert own.convert_schemas([function_schema(MCP)], target=CHAT) == [{"from": MCP}]
    assert own.convert_schemas([function_schema(GEMINI)], target=CHAT) == [function_schema(CHAT_FUNCTION)]


def test_a_format_that_nobody_writes_is_refused() -> None:
    with pytest.raises(ExportError, match=r"'read_file' is mcp\.tool, and no adapter writes it as acme\.toml"):
        registry().convert_schemas([function_schema(MCP)], target="acme", target_formats=["acme.toml"])
    with pytest.raises(ExportError, match="no formats are known for 'acme'; pass target_formats"):
        registry().convert_schemas([function_schema(MCP)], target="acme")


def test_two_tools_that_one_wire_would_call_by_one_name_are_refused() -> None:
    """Whoever knows the name that a tool gets could take its calls."""
    (fitted,) = registry().convert_schemas([{"name": "mail.send", "input_schema": {}}], target=CHAT)
    name = fitted["function"]["name"]
    assert name != "mail.send"
    spoof = {"name": name, "input_schema": {"type": "object"}}
    assert len(registry().convert_schemas([spoof, spoof], target=CHAT)) == 2  # one tool, said twice
    for order in (1, -1):
        tools = [{"name": "mail.send", "input_schema": {}}, spoof][::order]
        with pytest.raises(ExportError, match=f"would both get the name '{name}' for openai.chat_completions"):
            registry().convert_schemas(tools, target=CHAT)
