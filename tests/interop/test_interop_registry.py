"""Who says what formats mean: precedence of contributions, the request's context, and the registry of last resort."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from interop_cards import ANTHROPIC, APPLY_PATCH, CHAT_CALL, CORRUPT_CALL, MCP, RESULT, function_schema, raw_call
from profiles import every

from streamtools import tool
from streamtools.errors import ExportError
from streamtools.interop import (
    DEFAULT_TOOL_INTEROP_REGISTRY,
    LEVELS,
    Contribution,
    DefaultRegistryWarning,
    InspectedCall,
    InspectedResult,
    InspectedSchema,
    ToolCallAccessor,
    ToolCallAdapter,
    ToolInteropRegistry,
    ToolResultAccessor,
    ToolResultAdapter,
    ToolSchemaAccessor,
    ToolSchemaAdapter,
    accepted_tool_schema_formats,
    build_request_context,
    contribution_of,
    get_registry_from_context,
    get_schema_target_formats_from_context,
)

FORMAT = "acme.note"


def says(who: str) -> Contribution:
    """A contribution that reads and writes one format its own way, in every flow."""
    return Contribution(
        name=who,
        schema_accessors=(ToolSchemaAccessor(FORMAT, lambda given: InspectedSchema(format=FORMAT, tool_name=who)),),
        schema_adapters=(ToolSchemaAdapter(MCP, lambda schema: {"by": who}),),
        call_accessors=(
            ToolCallAccessor(
                FORMAT,
                lambda given: InspectedCall(
                    tool_name=who, call_id="c", payload={}, payload_kind="object", payload_format=FORMAT
                ),
                lambda given, arguments: {},
            ),
        ),
        call_adapters=(ToolCallAdapter(MCP, lambda call: {"by": who}),),
        result_accessors=(
            ToolResultAccessor(FORMAT, lambda given: InspectedResult(format=FORMAT, text=who, call_id="c")),
        ),
        result_adapters=(ToolResultAdapter("openai.responses", lambda result: [{"by": who}]),),
    )


class Party:
    """A provider, an extension or a tool that contributes."""

    def __init__(self, who: str) -> None:
        self.who = who

    def get_tool_interop_contribution(self) -> Contribution:
        return says(self.who)


def of_everybody() -> ToolInteropRegistry:
    return ToolInteropRegistry.of(
        tools=[Party("tool")], extensions=[Party("extension")], provider=Party("provider"), config=[says("config")]
    )


def answers(registry: ToolInteropRegistry) -> list[str]:
    """Who answers in each of the three flows, inspecting and converting."""
    odd: dict[str, Any] = {"odd": True}
    item = registry.convert_results([odd], target="openai.responses")[0]["output"]
    return [
        registry.inspect_schema(odd).tool_name,
        registry.inspect_call(odd).tool_name,
        registry.inspect_result(odd).text,
        registry.convert_schemas([odd], target="mcp")[0]["by"],
        registry.convert_tool_calls([odd], target="mcp")[0]["by"],
        item[0]["by"],
    ]


def test_config_goes_before_provider_extension_tool_and_what_is_built_in() -> None:
    registry = of_everybody()
    assert [level for level, _ in registry.contributions] == list(LEVELS)
    for who in ("config", "provider", "extension", "tool"):
        assert answers(registry) == [who] * 6
        registry = registry.without(who)
    assert [level for level, _ in registry.contributions] == ["built_in"]
    assert registry.convert_schemas([function_schema(ANTHROPIC)], target="mcp") == [function_schema(MCP)]
    assert registry.without("built-in").contributions == registry.contributions


def test_contributions_are_asked_of_objects_functions_and_tools() -> None:
    @tool(effect="pure")
    def read_file(path: str) -> str:
        """Read a file."""
        return path

    assert contribution_of(read_file) is None
    assert contribution_of(object()) is None
    read_file.fn.get_tool_interop_contribution = lambda: says("the function")  # type: ignore[attr-defined]
    assert answers(ToolInteropRegistry.of(tools=[read_file, object()])) == ["the function"] * 6
    read_file.fn.get_tool_interop_contribution = lambda: None  # type: ignore[attr-defined]
    assert contribution_of(read_file) is None
    read_file.fn.get_tool_interop_contribution = dict  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="expected a Contribution or None, got dict"):
        contribution_of(read_file)


# -- a registry belongs to its request ---------------------------------------------------------------------------------


@every("how", [pickle.dumps, copy.copy, copy.deepcopy])
@every("where", ["alone", "in state"])
def test_a_registry_is_neither_copied_nor_stored(how: Callable[[Any], Any], where: str) -> None:
    registry: Any = ToolInteropRegistry.of()
    held = registry if where == "alone" or how is copy.copy else {"_tools": [], "registry": registry}
    with pytest.raises(
        TypeError, match=r"belongs to one request and cannot be copied or stored; keep it in .* context"
    ):
        how(held)
    with pytest.raises(TypeError, match="ToolInteropRegistry is not JSON serializable"):
        json.dumps({"registry": registry})


# -- the request's context ---------------------------------------------------------------------------------------------


class Extension:
    accepted_tool_schema_formats = ("openai.responses.custom",)


class Provider:
    wire = "openai.chat_completions"

    def get_tool_interop_contribution(self) -> Contribution:
        return says("provider")


class Method:
    def accepted_tool_schema_formats(self) -> list[str]:
        return ["acme.note", "openai.responses.custom"]


class Silent:
    accepted_tool_schema_formats = None


@every(
    ("stack", "accepted"),
    [
        ([], []),
        ([object(), None, Silent()], []),
        ([Provider()], ["openai.chat_completions.function", "openai.chat_completions.custom"]),
        ([Extension(), Method(), "mcp"], ["openai.responses.custom", "acme.note", "mcp.tool"]),
        (["no.wire"], []),
    ],
)
def test_the_stack_says_which_formats_a_request_may_hold(stack: list[object], accepted: list[str]) -> None:
    assert accepted_tool_schema_formats(stack) == accepted


def test_the_context_carries_registry_and_formats() -> None:
    context = build_request_context(
        provider=Provider(), extensions=[Extension()], contributions=[says("config")], core="the core", config={}
    )
    registry = context["tool_interop"]["registry"]
    assert get_registry_from_context(context) is registry
    assert answers(registry)[0] == "config"
    formats = get_schema_target_formats_from_context(context)
    assert formats == context["tool_interop"]["schema_target_formats"]
    assert formats[0] == "openai.responses.custom"
    assert (context["core"], context["config"]) == ("the core", {})
    formats.append("changed")
    assert get_schema_target_formats_from_context(context) != formats


@every("context", [None, {}, {"tool_interop": None}, {"tool_interop": {"registry": "x"}}])
def test_without_a_request_there_is_the_default(context: Any) -> None:
    assert get_registry_from_context(context) is DEFAULT_TOOL_INTEROP_REGISTRY
    assert get_schema_target_formats_from_context(context) == []
    assert get_schema_target_formats_from_context(context, ["mcp.tool"]) == ["mcp.tool"]


# -- the registry of last resort ---------------------------------------------------------------------------------------

USES: list[Callable[[ToolInteropRegistry], Any]] = [
    lambda r: r.convert_schemas([APPLY_PATCH], target="mcp"),
    lambda r: r.convert_tool_calls([CHAT_CALL], target="mcp"),
    lambda r: r.sanitize_tool_call(CHAT_CALL),
    lambda r: r.convert_results([RESULT], target="openai.responses"),
]


@every("use", USES)
def test_using_the_default_within_a_request_warns_where_it_is_used(use: Callable[[ToolInteropRegistry], Any]) -> None:
    async def in_a_task(with_request: bool) -> list[warnings.WarningMessage]:
        context = build_request_context() if with_request else None
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            use(DEFAULT_TOOL_INTEROP_REGISTRY)
        if context is not None:
            use(get_registry_from_context(context))
        return seen

    assert asyncio.run(in_a_task(False)) == []
    (seen,) = asyncio.run(in_a_task(True))
    assert seen.category is DefaultRegistryWarning
    assert "use get_registry_from_context(context)" in str(seen.message)
    assert seen.filename == __file__


def test_the_default_gives_no_schema_whose_arguments_it_could_not_turn_back() -> None:
    lookup = {
        "name": "lookup",
        "inputSchema": {"type": "object", "properties": {"odd key!": {"type": "string"}}, "required": ["odd key!"]},
    }
    with pytest.raises(ExportError, match=r"the arguments have another form.*get_registry_from_context"):
        DEFAULT_TOOL_INTEROP_REGISTRY.convert_schemas([lookup], target="anthropic.messages")
    registry = ToolInteropRegistry.of()
    (written,) = registry.convert_schemas([lookup], target="anthropic.messages")
    (key,) = written["input_schema"]["properties"]
    call = {"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {key: "x"}}
    assert registry.inspect_call(call).payload == {"odd key!": "x"}


def test_the_default_remembers_nothing_of_anybody() -> None:
    DEFAULT_TOOL_INTEROP_REGISTRY.convert_schemas([APPLY_PATCH], target="anthropic.messages")
    DEFAULT_TOOL_INTEROP_REGISTRY.sanitize_tool_call(CORRUPT_CALL)
    assert DEFAULT_TOOL_INTEROP_REGISTRY.inspect_call(raw_call(ANTHROPIC)).payload_kind == "object"
    empty = {**CHAT_CALL, "function": {"name": "read_file", "arguments": "{}"}}
    assert DEFAULT_TOOL_INTEROP_REGISTRY.inspect_call(empty).dispatchable
    (renamed,) = DEFAULT_TOOL_INTEROP_REGISTRY.convert_schemas([{"name": "a.b"}], target="openai.responses")
    assert renamed["name"] != "a.b"
    assert DEFAULT_TOOL_INTEROP_REGISTRY.name_on("a.b", "openai.responses") == "a.b"


def test_a_format_that_nobody_knows_is_refused_when_the_context_is_built() -> None:
    with pytest.raises(ExportError, match=r"unknown tool format 'openai\.chat\.function'; .*openai\.chat_completions"):
        build_request_context(schema_target_formats=["mcp.tool", "openai.chat.function"])
    as_text: Any = "mcp.tool"
    with pytest.raises(TypeError, match=r"expected a list, got a str; write schema_target_formats=\['mcp\.tool'\]"):
        build_request_context(schema_target_formats=as_text)
