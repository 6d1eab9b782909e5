"""Calls of a LangGraph tool node that run once: the real graph and its checkpointer, interrupted, retried, crashed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from streamtools.dispatch import MemoryStore, SqliteStore
from streamtools.errors import ToolNotStarted

pytest.importorskip("langgraph.prebuilt")
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt

from streamtools.integrations.langgraph import CallsNode

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # LangGraph knows no other

THREAD: Any = {"configurable": {"thread_id": "order-7"}}
GO: Any = {"messages": [("user", "go")]}
INVOKED = ("invoke", "ainvoke")

effects: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    effects.clear()


def pay(to: str) -> str:
    """Pay somebody."""
    effects[f"pay {to}"] += 1
    return f"paid {to}"


def confirm(to: str) -> str:
    """Ask a person, then pay."""
    answer = interrupt(f"pay {to}?")
    effects[f"confirm {to}"] += 1
    return f"{answer}: paid {to}"


def charge(to: str) -> str:
    """Charge, and fail."""
    effects[f"charge {to}"] += 1
    raise ValueError("the receipt could not be printed")


def closed(to: str) -> str:
    """Fail before anything has happened."""
    effects[f"closed {to}"] += 1
    raise ToolNotStarted("the bank is closed")


def route(to: str) -> Any:
    """Go on, with a message and an artifact of the graph's own."""
    effects[f"route {to}"] += 1
    return Command(update={"messages": [ToolMessage(f"went to {to}", tool_call_id="c0", artifact={"n": 1})]})


def asked(*names: str) -> list[Any]:
    return [{"id": f"c{at}", "name": name, "args": {"to": "7"}, "type": "tool_call"} for at, name in enumerate(names)]


def graph_of(
    calls: Callable[[Any], list[Any]] | list[Any],
    node: CallsNode,
    saver: Any,
    *,
    sends: bool = False,
    retry: RetryPolicy | None = None,
    reads_on: bool = False,
) -> Any:
    """A model that makes these calls, and the node; as after a restart, nothing of it but its arguments is kept."""

    def model(state: Any) -> Any:
        return {"messages": [AIMessage("", tool_calls=calls(state) if callable(calls) else calls)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", node, retry_policy=retry)
    graph.add_edge(START, "model")
    if sends:
        graph.add_conditional_edges(
            "model", lambda state: [Send("tools", [one]) for one in state["messages"][-1].tool_calls]
        )
    elif reads_on:
        graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    else:
        graph.add_edge("model", "tools")
    graph.add_edge("tools", "model" if reads_on else END)
    return graph.compile(checkpointer=saver)


def node_of(store: Any, **more: Any) -> CallsNode:
    return CallsNode([langchain_tool(one) for one in (pay, confirm, charge, closed, route)], store=store, **more)


async def run(how: str, graph: Any, given: Any, config: Any = None) -> Any:
    config = THREAD if config is None else config
    if how == "ainvoke":
        return await graph.ainvoke(given, config)
    return await to_thread.run_sync(graph.invoke, given, config)


def contents(state: Any) -> list[str]:
    return [message.content for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("sends", [False, True], ids=["node", "sends"])
@pytest.mark.parametrize("how", INVOKED)
async def test_of_parallel_calls_of_which_one_interrupts_each_has_run_once_after_the_resume(
    how: str, sends: bool, tmp_path: Path
) -> None:
    saver, path = InMemorySaver(), tmp_path / "calls.db"
    with SqliteStore(path) as store:
        state = await run(how, graph_of(asked("pay", "confirm"), node_of(store), saver, sends=sends), GO)
        assert [one.value for one in state["__interrupt__"]] == ["pay 7?"]
    with SqliteStore(path) as store:
        again = graph_of(asked("pay", "confirm"), node_of(store), saver, sends=sends)
        state = await run(how, again, Command(resume="yes"))
    assert (contents(state), effects) == (["paid 7", "yes: paid 7"], {"pay 7": 1, "confirm 7": 1})


@pytest.mark.parametrize("how", INVOKED)
async def test_a_retry_of_the_node_reads_the_failure_of_a_call_and_repeats_none(how: str, store: SqliteStore) -> None:
    retry = RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=Exception)
    node = node_of(store, options={"on_tool_error": "raise"})
    graph = graph_of(asked("charge", "pay"), node, InMemorySaver(), retry=retry)
    state = await run(how, graph, GO)
    assert effects == {"charge 7": 1, "pay 7": 1}
    assert contents(state) == ["Error: the tool charge raised ValueError", "paid 7"]


async def test_a_replay_of_an_earlier_checkpoint_is_answered_from_the_record(store: SqliteStore) -> None:
    graph = graph_of(asked("route", "pay"), node_of(store), InMemorySaver())
    first = await graph.ainvoke(GO, THREAD)
    before = next(state for state in graph.get_state_history(THREAD) if state.next == ("tools",))
    again = await graph.ainvoke(None, before.config)
    assert (contents(again), effects) == (contents(first), {"pay 7": 1, "route 7": 1})


async def test_two_answers_that_reuse_an_id_are_two_calls(store: SqliteStore) -> None:
    def calls(state: Any) -> list[Any]:
        return [] if len(state["messages"]) > 4 else asked("pay")

    state = await graph_of(calls, node_of(store), InMemorySaver(), reads_on=True).ainvoke(GO, THREAD)
    assert (contents(state), effects) == (["paid 7", "paid 7"], {"pay 7": 2})


async def test_a_command_and_an_artifact_come_from_the_record_as_they_were(store: SqliteStore) -> None:
    async def artifact(to: str) -> Any:
        """Return an artifact."""
        effects["artifact"] += 1
        return f"found {to}", {"rows": [1, 2]}

    made = langchain_tool(artifact, response_format="content_and_artifact")
    saver, messages = InMemorySaver(), []
    for given in (GO, None):
        node = CallsNode([made, langchain_tool(confirm), langchain_tool(route)], store=store)
        graph = graph_of(asked("route", "artifact", "confirm"), node, saver)
        state = await graph.ainvoke(GO if given else Command(resume="yes"), THREAD)
        messages = [one for one in state["messages"] if isinstance(one, ToolMessage)]
    assert [(one.content, one.artifact, one.tool_call_id) for one in messages] == [
        ("went to 7", {"n": 1}, "c0"),
        ("found 7", {"rows": [1, 2]}, "c1"),
        ("yes: paid 7", None, "c2"),
    ]
    assert effects == {"route 7": 1, "artifact": 1, "confirm 7": 1}


@pytest.mark.parametrize("how", INVOKED)
async def test_a_store_that_would_know_no_call_again_is_refused_before_anything_runs(how: str) -> None:
    cases = (
        (None, THREAD, "without a checkpointer"),
        (None, {}, "without a thread_id"),
    )
    for saver, config, words in cases:
        graph = graph_of(asked("pay"), node_of(MemoryStore()), saver)
        with pytest.raises(
            TypeError, match=rf"RunCalls: a store cannot recognise a repeated call {words}; write .*identity="
        ):
            await run(how, graph, GO, config)
    assert effects == {}
    for wrong in ("", 7):
        with pytest.raises(TypeError, match="RunCalls: identity must be a non-empty text"):
            node_of(MemoryStore(), identity=wrong)
