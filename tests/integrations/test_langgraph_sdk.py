"""The calls of a LangGraph tool node, run by streamtools: the real graph, with a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from anyio import to_thread

from streamtools import Deny, tool

pytest.importorskip("langgraph.prebuilt")
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, interrupt
from promised import Given, broken_by_a_cancelled_caller, broken_promises, numbered, user

from streamtools.integrations.langgraph import CallsNode, RunCalls

pytestmark = pytest.mark.anyio

ran: list[Any] = []


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # LangGraph knows no other


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


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
    node = ToolNode([langchain_tool(fail)], handle_tool_errors=False, awrap_tool_call=RunCalls())
    graph = await run_node(node, "fail", {"how": "so"})
    with pytest.raises(ValueError, match="so"):
        await graph.ainvoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "1"}})


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


@pytest.mark.parametrize("invoke", ["ainvoke", "invoke"])
async def test_a_node_guards_its_tools_however_the_graph_is_invoked(invoke: str) -> None:
    node = CallsNode(
        [langchain_tool(add)],
        with_options=[tool(add, needs_approval=True)],
        options={"approve": lambda _: Deny("not today")},
    )
    graph = await run_node(node, "add", {"a": 1, "b": 2})
    question: Any = {"messages": [("user", "go")]}
    thread: Any = {"configurable": {"thread_id": "1"}}
    if invoke == "ainvoke":
        state = await graph.ainvoke(question, thread)
    else:
        state = await to_thread.run_sync(graph.invoke, question, thread)
    assert ("not today" in state["messages"][-1].content, ran) == (True, [])


async def test_a_node_without_an_event_loop_runs_its_calls_with_langgraphs_words() -> None:
    thread: Any = {"configurable": {"thread_id": "1"}}
    question: Any = {"messages": [("user", "go")]}
    graph = await run_node(CallsNode([langchain_tool(add)]), "add", {"a": 1, "b": 2})
    assert (await to_thread.run_sync(graph.invoke, question, thread))["messages"][-1].content == "3"
    graph = await run_node(CallsNode([langchain_tool(fail)], handle_tool_errors="try again"), "fail", {"how": "so"})
    assert (await to_thread.run_sync(graph.invoke, question, thread))["messages"][-1].content == "try again"


async def test_options_of_ours_hold_for_the_nodes_tools() -> None:
    guarded = RunCalls([tool(add, needs_approval=True)], approve=lambda _: Deny("not today"))
    (refused,) = await messages(("add", {"a": 1, "b": 2}), wrapper=guarded)
    assert (refused.status, "not today" in refused.content, ran) == ("error", True, [])
    (added,) = await messages(("add", {"a": 1, "b": 2}), wrapper=RunCalls([tool(add, effect="pure", timeout=5)]))
    assert (added.content, ran) == ("3", [(1, 2)])
    checked = RunCalls([tool(add, check=lambda given: given["a"] < 5)])
    (wrong,) = await messages(("add", {"a": 9, "b": 2}), wrapper=checked)
    assert (wrong.status, ran) == ("error", [(1, 2)])


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


def test_a_cancelled_caller_cancels_the_calls() -> None:
    user.set("ada")
    assert broken_by_a_cancelled_caller(Graphs()) == []


def test_promises_hold_however_the_graph_is_run(tmp_path: Path) -> None:
    user.set("ada")
    assert broken_promises(Graphs(), tmp_path) == []
