"""Runs the calls of a LangGraph `ToolNode`: within limits, in order, one observation each; the graph stays as it is."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph

from streamtools.integrations.langgraph import CallsNode


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def model(state: MessagesState) -> dict[str, Any]:
    calls = [
        {"id": "call_1", "name": "add", "args": {"a": 1, "b": 2}},
        {"id": "call_2", "name": "add", "args": {"a": 1, "b": None}},  # refused, and the model is told why
    ]
    return {"messages": [AIMessage("", tool_calls=calls)]}


async def main() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", CallsNode([tool(add)]))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    graph.add_edge("tools", END)
    state = await graph.compile().ainvoke({"messages": [("user", "add")]})
    for message in state["messages"][-2:]:
        print(message.tool_call_id, message.status, message.content)


asyncio.run(main())
