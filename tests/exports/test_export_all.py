"""The tools of one request: names, budgets, what falls back, and what the request says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from profiles import every

from streamtools import pipeline
from streamtools.errors import ExportError, ToolDefinitionError
from streamtools.exports import RequestLimits, export, export_all, schema
from streamtools.tools import Tool, Toolset, tool

CHAT = "openai.chat_completions"
ANTHROPIC = "anthropic.messages"
WHERE = "where_possible"


def a_tool(name: str, optional: int = 0, required: int = 1) -> Tool:
    names = [f"p{number}" for number in range(optional + required)]
    schema = {
        "type": "object",
        "properties": {one: {"type": "string"} for one in names},
        "required": names[:required],
        "additionalProperties": False,
    }
    return Tool.from_schema(lambda **arguments: None, schema, name=name, description="Do.")


def recursive(name: str = "recursive") -> Tool:
    schema = {"type": "object", "properties": {"again": {"$ref": "#"}}, "additionalProperties": False}
    return Tool.from_schema(lambda **arguments: None, schema, name=name, description="Do.")


def test_the_order_is_the_one_given_and_the_sequence_is_one_of_exports() -> None:
    tools = [a_tool("b"), a_tool("a"), a_tool("c.d")]
    exports = export_all(tools, CHAT)
    assert [payload["function"]["name"] for payload in exports.payloads] == [one.name for one in exports]
    assert [one.tool for one in exports] == tools
    assert len(exports) == 3
    assert exports[0].name == "b"
    assert [one.name for one in exports[:2]] == ["b", "a"]
    assert exports[2].name.startswith("c_d_")
    assert set(Toolset(exports)) == {"b", "a", exports[2].name}
    assert exports.fallbacks == exports.losses == {}


def test_functions_are_made_tools() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    assert export_all([add], CHAT)[0].name == "add"


NO_TOOLS: list[tuple[Any, str]] = [
    (None, "is not callable; pass a function"),
    (3, "is not callable; pass a function"),
    ({"type": "object"}, r"by Tool\.from_schema"),
    ([], r"takes one tool, not several; write export_all\(\[\.\.\.\], wire\)"),
    (export(a_tool("a"), CHAT), "'a': it is already exported; pass exported.tool"),
]


@every(("given", "told"), NO_TOOLS)
def test_what_is_no_tool_is_refused_with_what_to_write(given: Any, told: str) -> None:
    for refused in (
        lambda: export(given, CHAT),
        lambda: export_all([given], CHAT),
        lambda: schema(given),
    ):
        with pytest.raises(ToolDefinitionError, match=told):
            refused()


@every("given", [None, "add", a_tool("a"), export(a_tool("a"), CHAT), test_functions_are_made_tools])
def test_a_single_tool_where_a_list_belongs_is_refused_with_what_to_write(given: Any) -> None:
    with pytest.raises(TypeError, match=r"takes a list of tools, .*; write export_all\(\[\.\.\.\], 'openai"):
        export_all(given, CHAT)


@every("strict", ["maybe", "True", 1, None, []])
def test_a_strictness_that_there_is_not_is_refused(strict: Any) -> None:
    with pytest.raises(ExportError, match="strict: expected True, False or 'where_possible', got "):
        export_all([a_tool("a")], CHAT, strict=strict)
    with pytest.raises(ExportError, match="strict: expected True or False, got "):
        export(a_tool("a"), CHAT, strict=strict)


def test_names_that_become_alike_are_told_apart_and_the_same_name_twice_is_refused() -> None:
    collides = export_all([a_tool("x.y")], CHAT)[0].name
    names = [one.name for one in export_all([a_tool(collides), a_tool("x.y")], CHAT)]
    assert names[0] == collides
    assert names[1].startswith(collides[:-6])
    assert len(set(names)) == 2
    with pytest.raises(ExportError, match="two tools are called 'x'"):
        export_all([a_tool("x"), a_tool("x")], CHAT)
    with pytest.raises(ExportError, match="would both be called"):
        export_all([a_tool("x.y"), a_tool(collides)], CHAT)


def test_payloads_may_be_changed_and_the_next_request_does_not_see_it() -> None:
    tools = [a_tool("a"), a_tool("b")]
    first = export_all(tools, ANTHROPIC)
    assert export_all(tools, ANTHROPIC) is first
    payloads = first.payloads
    payloads[-1]["cache_control"] = {"type": "ephemeral"}
    payloads.append({"type": "web_search"})
    first.copy()[0]["input_schema"].clear()
    assert export_all(tools, ANTHROPIC).payloads == [one.payload for one in first]
    assert "cache_control" not in first.payloads[1]
    assert first.payloads[0]["input_schema"]["properties"]


def test_what_cannot_be_strict_falls_back_with_its_reason() -> None:
    exports = export_all([a_tool("a"), recursive(), a_tool("b")], ANTHROPIC, strict=WHERE)
    assert [one.strict for one in exports] == [True, False, True]
    assert list(exports.fallbacks) == ["recursive"]
    assert "the schema contains itself" in exports.fallbacks["recursive"]
    with pytest.raises(ExportError, match="contains itself"):
        export_all([recursive()], ANTHROPIC, strict=True)


@every(
    ("tools", "limit"),
    [
        ([a_tool(f"t{number}") for number in range(21)], "20 strict tools"),
        ([a_tool(f"t{number}", optional=5) for number in range(5)], "24 optional properties"),
    ],
)
def test_anthropics_budgets_are_kept(tools: list[Tool], limit: str) -> None:
    exports = export_all(tools, ANTHROPIC, strict=WHERE)
    assert list(exports.fallbacks) == [tools[-1].name]
    assert limit in exports.fallbacks[tools[-1].name]
    with pytest.raises(ExportError, match=limit):
        export_all(tools, ANTHROPIC, strict=True)
    assert not export_all(tools, ANTHROPIC, strict=True, limits=RequestLimits()).fallbacks


def test_openai_takes_128_tools() -> None:
    with pytest.raises(ExportError, match="expected at most 128 tools in a request, got 129"):
        export_all([a_tool(f"t{number}") for number in range(129)], CHAT)


def test_where_strictness_is_the_requests_it_is_all_or_none() -> None:
    exports = export_all([a_tool("a"), a_tool("bare", required=0)], "cohere.chat", strict=WHERE)
    assert not any(one.strict for one in exports)
    assert "strict_tools" not in exports.request
    assert exports.fallbacks["a"] == "cohere.chat is strict only for a whole request, and cannot be for bare"
    assert "requires at least one required parameter" in exports.fallbacks["bare"]
    assert export_all([a_tool("a")], "cohere.chat", strict=WHERE).request["strict_tools"] is True
    with pytest.raises(ExportError, match="200 properties"):
        export_all([a_tool("a", optional=200)], "cohere.chat", strict=True)


def test_the_request_says_all_that_belongs_to_its_tools() -> None:
    tools = [a_tool("a")]
    (payload,) = export_all(tools, CHAT).payloads
    assert export_all(tools, CHAT).request == {"tools": [payload]}
    gemini = export_all(tools, "gemini.generate_content.strict").request
    assert gemini["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert gemini["tools"][0]["functionDeclarations"][0]["name"] == "a"
    assert "toolConfig" not in export_all(tools, "gemini.parameters").request
    assert export_all(tools, "bedrock.converse_stream").request["toolConfig"]["tools"][0]["toolSpec"]["name"] == "a"
    with pytest.raises(ExportError, match="no strict form"):
        export_all(tools, "mcp", strict=WHERE)


def test_freeform_tools_are_no_matter_of_strict_budgets() -> None:
    @tool(kind="custom")
    def shout(text: str) -> str:
        """Shout."""
        return text

    exports = export_all([shout], CHAT, strict=True, limits=RequestLimits(strict_tools=0))
    assert exports.payloads[0]["type"] == "custom"


def test_the_exports_work_in_a_pipeline_in_the_tools_place() -> None:
    @tool(effect="pure")
    def tally(votes: dict[str, int]) -> int:
        """Tally."""
        return sum(votes.values())

    exports = export_all([tool(tally.fn, name="vote.tally", effect="pure")], CHAT, strict=True)
    arguments = '{"votes":[{"key":"a","value":2},{"key":"b","value":3}]}'
    function = {"name": exports[0].name, "arguments": arguments}

    async def chunks() -> Any:
        delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
        yield {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
        yield {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}

    async def run() -> Any:
        async with pipeline(chunks(), tools=exports, wire=CHAT) as events:
            async for _ in events:
                pass
            return events.turn.observations

    (observation,) = asyncio.run(run())
    assert (observation.outcome, observation.value) == ("ok", 5)
