"""The calls of a LangGraph tool node, run by streamtools: the real graph, with a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from ran import ran

from streamtools import tool

pytest.importorskip("langgraph.prebuilt")
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, interrupt
from promised import Given, broken_promises, numbered, user

from streamtools.integrations.langgraph import CallsNode, RunCalls

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # LangGraph knows no other


def add(a: int, b: int) -> int:
    """Add two numbers."""
    ran.append((a, b))
    return a + b


async def asked(word: str, state: Any) -> str:
    """Say how many messages there are."""
    return f"{word} {len(state['messages'])}"


asked.__annotations__["state"] = Annotated[dict, InjectedState]
asked.__annotations__["word"] = asked.__annotations__["return"] = str


def go(where: str) -> Command:
    """Go on elsewhere."""
    return Command(update={"messages": [ToolMessage(f"went to {where}", tool_call_id="c1")]})


go.__annotations__ = {"where": str, "return": Command}


async def messages(*calls: tuple[str, dict[str, Any]], wrapper: Any) -> list[Any]:
    tools = [langchain_tool(add), langchain_tool(asked), langchain_tool(go)]
    said = [{"id": f"c{number}", "name": name, "args": given} for number, (name, given) in enumerate(calls, 1)]
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=said)]})
    graph.add_node("tools", ToolNode(tools, awrap_tool_call=wrapper))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    graph.add_edge("tools", END)
    state = await graph.compile().ainvoke({"messages": [("user", "go")]})
    return list(state["messages"][2:])


async def test_calls_run_and_their_messages_are_langgraphs() -> None:
    one, two = await messages(("add", {"a": 1, "b": 2}), ("asked", {"word": "messages:"}), wrapper=RunCalls())
    assert (one.content, one.status, one.tool_call_id, two.content) == ("3", "success", "c1", "messages: 2")


async def test_a_command_stays_one() -> None:
    (went,) = await messages(("go", {"where": "home"}), wrapper=RunCalls())
    assert went.content == "went to home"


async def test_arguments_that_do_not_fit_are_refused_in_langgraphs_words() -> None:
    (wrong,) = await messages(("add", {"a": "x", "b": 2}), wrapper=RunCalls())
    assert (wrong.status, "valid integer" in wrong.content, ran) == ("error", True, [])


def fail(how: str) -> str:
    """Fail."""
    raise ValueError(how)


async def run_node(node: ToolNode, name: str, given: dict[str, Any]) -> Any:
    graph = StateGraph(MessagesState)
    said = AIMessage("", tool_calls=[{"id": "c1", "name": name, "args": given}])
    graph.add_node("model", lambda state: {"messages": [said]})
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    graph.add_edge("tools", END)
    return graph.compile(checkpointer=InMemorySaver())


async def test_an_error_that_langgraph_words_for_the_model_keeps_its_words() -> None:
    node = ToolNode([langchain_tool(fail)], handle_tool_errors="try again", awrap_tool_call=RunCalls())
    graph = await run_node(node, "fail", {"how": "so"})
    state = await graph.ainvoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "1"}})
    assert (state["messages"][-1].content, state["messages"][-1].status) == ("try again", "error")


async def test_an_exception_that_langgraph_lets_through_leaves_the_node() -> None:
    wrapper = RunCalls(on_tool_error="raise")
    node = ToolNode([langchain_tool(fail)], handle_tool_errors=False, awrap_tool_call=wrapper)
    graph = await run_node(node, "fail", {"how": "so"})
    with pytest.raises(ValueError, match="so"):
        await graph.ainvoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "1"}})
    with pytest.raises(TypeError, match=r"on_tool_error.*for handle_tool_errors=False"):
        CallsNode([langchain_tool(fail)], handle_tool_errors=False)


async def test_a_tool_that_interrupts_its_graph_goes_on_when_the_graph_is_resumed(caplog: Any) -> None:
    async def confirm(what: str) -> str:
        return f"{what}: {interrupt('sure?')}"

    confirm.__doc__ = "Confirm."
    confirm.__annotations__ = {"what": str, "return": str}
    graph = await run_node(ToolNode([langchain_tool(confirm)], awrap_tool_call=RunCalls()), "confirm", {"what": "pay"})
    thread: Any = {"configurable": {"thread_id": "1"}}
    state = await graph.ainvoke({"messages": [("user", "go")]}, thread)
    assert [asked.value for asked in state["__interrupt__"]] == ["sure?"]
    state = await graph.ainvoke(Command(resume="yes"), thread)
    assert (state["messages"][-1].content, caplog.records) == ("pay: yes", [])


class Graphs:
    """Runs a graph of a node for the law of promises."""

    def made(self, given: Given) -> tuple[Any, Any]:
        def visit(n: int, state: Any) -> str:
            """Visit the room."""
            return given.room.visit(n, state["messages"])

        visit.__annotations__ = {"n": int, "state": Annotated[dict, InjectedState], "return": str}
        known = tool(numbered, name="visit", **given.tool)
        node = CallsNode([langchain_tool(visit)], with_options=[known], options=given.options, **given.keeping)
        graph = StateGraph(MessagesState)
        graph.add_node("tools", node).add_edge(START, "tools").add_edge("tools", END)
        calls = [{"name": "visit", "args": {"n": n}, "id": call_id, "type": "tool_call"} for call_id, n in given.calls]
        return graph.compile(), {"messages": [AIMessage("", tool_calls=calls)]}

    def blocking(self, given: Given) -> list[str]:
        graph, state = self.made(given)
        return [message.content for message in graph.invoke(state)["messages"][1:]]

    async def awaited(self, given: Given) -> list[str]:
        graph, state = self.made(given)
        return [message.content for message in (await graph.ainvoke(state))["messages"][1:]]


def test_promises_hold_however_the_graph_is_run(tmp_path: Path) -> None:
    user.set("ada")
    assert broken_promises(Graphs(), tmp_path) == []
