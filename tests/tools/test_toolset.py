"""Tools by name."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every

from streamtools.errors import ToolDefinitionError
from streamtools.tools import Exported, Tool, Toolset, tool


def look(query: str) -> str:
    """Look."""
    return query


@tool(effect="pure")
def find(query: str) -> str:
    """Find."""
    return query


def test_tools_functions_and_bare_names_are_found_by_name() -> None:
    tools = Toolset([find, look, "elsewhere"])
    assert tools["find"] is find
    made = tools["look"]
    assert isinstance(made, Tool)
    assert made.effect == "once"
    assert tools["elsewhere"] is None
    assert tools.get("unknown") is None
    assert tools.names == {"find", "look", "elsewhere"}
    assert (list(tools), len(tools)) == (["find", "look", "elsewhere"], 3)
    assert repr(tools) == "Toolset(['find', 'look', 'elsewhere'])"
    assert "look" in tools
    assert "unknown" not in tools


def test_a_toolset_of_a_toolset_has_the_same_tools() -> None:
    tools = Toolset([find, look])
    assert dict(Toolset(tools)) == dict(tools)


@every("tools", [[find, find], [find, "find"], [look, tool(find.fn, name="look")]])
def test_one_name_for_two_tools_is_refused(tools: list[Any]) -> None:
    with pytest.raises(ToolDefinitionError, match="another tool has this name"):
        Toolset(tools)


@every("tools", ["find", find])
def test_a_single_tool_is_no_list_of_tools(tools: Any) -> None:
    with pytest.raises(TypeError, match=r"write tools=\[\.\.\.\]"):
        Toolset(tools)


def test_a_function_that_cannot_be_a_tool_is_refused() -> None:
    def nameless(x: int) -> int:
        return x

    with pytest.raises(ToolDefinitionError, match="nameless"):
        Toolset([nameless])
    with pytest.raises(ToolDefinitionError, match="tool 'NoneType': is not callable; pass a function"):
        Toolset([None])  # type: ignore[list-item]


@every("rewritten", [True, False])
def test_an_exported_tool_stands_under_the_name_that_the_model_knows(rewritten: bool) -> None:
    given = Exported(
        tool=find,
        wire="t",
        name="find_it",
        payload={},
        decode=lambda arguments: {"query": arguments["q"]},
        rewritten=rewritten,
    )
    tools = Toolset([given])
    assert tools["find_it"] is find
    assert "find" not in tools
    sent = {"q": "x"}
    decoded = tools.decode("find_it", sent)
    assert decoded == ({"query": "x"} if rewritten else sent)
    assert (decoded is sent) is not rewritten
    assert Toolset(tools).decode("find_it", sent) == decoded
    with pytest.raises(TypeError, match=r"write tools=\[\.\.\.\]"):
        Toolset(given)  # type: ignore[arg-type]
