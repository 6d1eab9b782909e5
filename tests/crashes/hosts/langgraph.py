"""A LangGraph tool node with a checkpointer in a file: a graph goes on from its checkpoint, and answers interrupts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from crashes.schedules import Work
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt

from streamtools.integrations.langgraph import CallsNode

ASKS = True
THREAD: Any = {"configurable": {"thread_id": "order-7"}}


@contextlib.contextmanager
def _graph(work: Work) -> Iterator[Any]:
    @tool
    def pay(call: str) -> str:
        """Pay."""
        return work.run(call)

    @tool
    def confirm(call: str) -> str:
        """Ask a person, then pay."""
        interrupt(f"run {call}?")
        return work.run(call)

    with (
        work.store() as store,
        SqliteSaver.from_conn_string(str(work.folder / "graph.db")) as saver,
    ):
        graph = StateGraph(MessagesState)
        retry = RetryPolicy(max_attempts=2, initial_interval=0.001, retry_on=Exception) if work.variant & 1 else None
        graph.add_node("model", lambda state: {"messages": []})
        graph.add_node("tools", CallsNode([pay, confirm], store=store), retry_policy=retry)
        graph.add_edge(START, "model")
        if work.variant & 2:
            graph.add_conditional_edges(
                "model", lambda state: [Send("tools", [one]) for one in state["messages"][-1].tool_calls], ["tools"]
            )
        else:
            graph.add_edge("model", "tools")
        graph.add_edge("tools", END)
        yield graph.compile(checkpointer=saver)


def prepare(work: Work) -> None:
    calls: list[Any] = [
        {"id": plan.call_id, "name": "confirm" if plan.asks else "pay", "args": {"call": plan.call_id}}
        for plan in work.plans.values()
    ]
    with _graph(work) as graph:
        answer = [HumanMessage("go", id="m0"), AIMessage("", id="m1", tool_calls=calls)]
        graph.update_state(THREAD, {"messages": answer}, as_node="model")


def visit(work: Work) -> dict[str, str]:
    with _graph(work) as graph:
        state = graph.get_state(THREAD)
        given = Command(resume={one.id: "yes" for one in state.interrupts}) if state.interrupts else None
        if state.next:
            graph.invoke(given, THREAD, durability="sync")
        messages = graph.get_state(THREAD).values["messages"]
        return {one.tool_call_id: str(one.content) for one in messages if isinstance(one, ToolMessage)}
