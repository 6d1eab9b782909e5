"""Approvals that LangGraph's interrupts ask for: the real graph and its checkpointer, resumed in every way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from streamtools import tool
from streamtools.dispatch import MemoryStore, SqliteStore

pytest.importorskip("langgraph.prebuilt")
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from streamtools.integrations.langgraph import CallsNode

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # LangGraph knows no other

THREAD: Any = {"configurable": {"thread_id": "order-7"}}
GO: Any = {"messages": [("user", "go")]}
INVOKED = ("invoke", "ainvoke")
DURABILITIES: Any = ("sync", "async", "exit")

effects: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    effects.clear()


def pay(to: str) -> str:
    """Pay somebody."""
    effects[f"pay {to}"] += 1
    return f"paid {to}"


def confirm(to: str) -> str:
    """Ask in words of its own, then pay."""
    answer = interrupt(f"confirm {to}?")
    effects[f"confirm {to}"] += 1
    return f"{answer}: confirmed {to}"


def call_of(name: str, to: str, at: int = 0) -> dict[str, Any]:
    return {"id": f"c{at}", "name": name, "args": {"to": to}, "type": "tool_call"}


def graph_of(calls: list[Any], store: Any, saver: Any, *, sends: bool = False, **more: Any) -> Any:
    """A model that makes these calls, and a node; as after a restart, nothing of it but its arguments is kept."""
    approvals = more.pop("approvals", 1)
    guarded = [tool(pay, needs_approval=True, approvals=approvals), tool(confirm, needs_approval=True)]
    tools = [*map(langchain_tool, (pay, confirm)), *more.pop("beside", ())]
    node = CallsNode(tools, with_options=guarded, store=store, **more)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda _: {"messages": [AIMessage("", id="m1", tool_calls=calls)]})
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    if sends:
        graph.add_conditional_edges(
            "model", lambda state: [Send("tools", [one]) for one in state["messages"][-1].tool_calls]
        )
    else:
        graph.add_edge("model", "tools")
    return graph.add_edge("tools", END).compile(checkpointer=saver)


async def run(how: str, graph: Any, given: Any, config: Any = None, durability: Any = "sync") -> Any:
    config = THREAD if config is None else config
    if how == "ainvoke":
        return await graph.ainvoke(given, config, durability=durability)
    return await to_thread.run_sync(lambda: graph.invoke(given, config, durability=durability))


def pending(state: Any) -> list[Any]:
    return list(state.get("__interrupt__", ()))


def shown(state: Any) -> list[Any]:
    return [one.value for one in pending(state)]


def contents(state: Any) -> list[str]:
    return [message.content for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("how", INVOKED)
async def test_a_graph_shows_the_call_and_its_answer_is_a_decision_on_record(how: str, tmp_path: Path) -> None:
    denied = {"approved": False, "by": "ann", "reason": "too much"}
    cases: list[tuple[Any, str, int]] = [
        (True, "paid Ada", 1),
        ({"approved": True, "by": "ann"}, "paid Ada", 1),
        (False, "Error: not run: the call was not approved", 0),
        (denied, "Error: not run: the call was not approved: too much", 0),
    ]
    for number, (answer, content, paid) in enumerate(cases):
        for by_id in (False, True):
            effects.clear()
            saver, path = InMemorySaver(), tmp_path / f"{number}{by_id}.db"
            durability = DURABILITIES[number % 3]
            with SqliteStore(path) as store:
                graph = graph_of([call_of("pay", "Ada")], store, saver)
                state = await run(how, graph, GO, durability=durability)
                (asked,) = shown(state)
                assert (asked["call_id"], asked["tool_name"], asked["arguments"]) == ("c0", "pay", {"to": "Ada"})
                assert (asked["type"], asked["approvals"], effects) == ("approval", 1, {})
                names = {state["__interrupt__"][0].id: answer}
            with SqliteStore(path) as store:  # another process
                graph = graph_of([call_of("pay", "Ada")], store, saver)
                given: Any = Command(resume=names if by_id else answer)
                state = await run(how, graph, given, durability=durability)
                assert (contents(state), effects["pay Ada"], shown(state)) == ([content], paid, [])


@pytest.mark.parametrize("how", INVOKED)
async def test_a_graph_that_is_resumed_again_with_another_answer_has_the_first_ones_verdict(
    how: str, store: SqliteStore
) -> None:
    for first, content in ((True, "paid Ada"), (False, "Error: not run: the call was not approved")):
        effects.clear()
        thread: Any = {"configurable": {"thread_id": f"order {first}"}}
        graph = graph_of([call_of("pay", "Ada")], store, InMemorySaver())
        state = await run(how, graph, GO, thread)
        name = state["__interrupt__"][0].id
        paused = graph.get_state(thread).config
        await run(how, graph, Command(resume=first), thread)
        for again in (not first, {name: not first}):
            for config in (thread, paused):
                state = await run(how, graph, Command(resume=again), config)
                assert (contents(state), shown(state)) == ([content], [])
        assert effects["pay Ada"] == first


@pytest.mark.parametrize("how", INVOKED)
async def test_an_answer_counts_for_the_arguments_that_were_shown_and_edited_ones_are_asked_about_again(
    how: str, store: SqliteStore
) -> None:
    for number, by_id in enumerate((False, True)):
        effects.clear()
        thread: Any = {"configurable": {"thread_id": str(number)}}
        graph = graph_of([call_of("pay", "Ada")], store, InMemorySaver())
        state = await run(how, graph, GO, thread)
        old = state["__interrupt__"][0]
        edited = AIMessage("", id="m1", tool_calls=[call_of("pay", "Eve")])
        graph.update_state(thread, {"messages": [edited]}, as_node="model")
        state = await run(how, graph, Command(resume={old.id: True} if by_id else True), thread)
        (asked,) = shown(state)
        assert (asked["arguments"], effects) == ({"to": "Eve"}, {})
        assert asked["fingerprint"] != old.value["fingerprint"]
        state = await run(how, graph, None, thread)  # the answer before is not kept for this question
        assert (shown(state), effects) == ([asked], {})
        wrong = {"approved": True, "fingerprint": old.value["fingerprint"]}
        state = await run(how, graph, Command(resume=wrong), thread)
        assert (shown(state), effects) == ([asked], {})
        state = await run(how, graph, Command(resume=True), thread)
        assert (contents(state), effects) == (["paid Eve"], {"pay Eve": 1})


@pytest.mark.parametrize("how", INVOKED)
async def test_an_answer_may_give_the_call_other_arguments(how: str, store: SqliteStore) -> None:
    for number, (to, paid) in enumerate(((["Eve"], {}), ("Eve", {"pay Eve": 1}))):
        effects.clear()
        thread: Any = {"configurable": {"thread_id": str(number)}}
        graph = graph_of([call_of("pay", "Ada")], store, InMemorySaver())
        await run(how, graph, GO, thread)
        state = await run(how, graph, Command(resume={"approved": True, "arguments": {"to": to}}), thread)
        assert effects == paid
        (content,) = contents(state)
        assert content.startswith("Note: a person approved this call" if paid else "Error: not run")


@pytest.mark.parametrize("sends", [False, True], ids=["node", "sends"])
@pytest.mark.parametrize("how", INVOKED)
async def test_of_several_calls_each_is_shown_and_an_answer_counts_for_its_own(
    how: str, sends: bool, tmp_path: Path
) -> None:
    saver, calls = InMemorySaver(), [call_of("pay", who, at) for at, who in enumerate(("Ada", "Bob", "Cy"))]
    with SqliteStore(tmp_path / "calls.db") as store:
        graph = graph_of(calls, store, saver, sends=sends)
        state = await run(how, graph, GO)
        for _ in range(3):
            if not pending(state):
                break
            ran = dict(effects)
            state = await run(how, graph, None)
            asked = pending(state)
            assert effects == ran, "an answer counts once"
            answers = {one.id: one.value["arguments"]["to"] != "Bob" for one in asked}
            bare = next(iter(answers.values()))
            state = await run(how, graph, Command(resume=answers if len(asked) > 1 else bare))
    assert contents(state) == ["paid Ada", "Error: not run: the call was not approved", "paid Cy"]
    assert effects == {"pay Ada": 1, "pay Cy": 1}


@pytest.mark.parametrize("how", INVOKED)
async def test_anything_else_is_no_answer_and_the_call_goes_on_waiting(how: str, store: SqliteStore) -> None:
    graph = graph_of([call_of("pay", "Ada")], store, InMemorySaver())
    await run(how, graph, GO)
    wrong: tuple[Any, ...] = (
        "yes",
        1,
        {"approved": "yes"},
        {"by": "ann"},
        {"approved": True, "args": {"to": "Eve"}},
        {"approved": True, "by": 7},
        {"approved": True, "by": ""},
    )
    for answer in wrong:
        with pytest.raises(TypeError, match=r"RunCalls: .*resume an approval"):
            await run(how, graph, Command(resume=answer))
        assert effects == {}
    state = await run(how, graph, Command(resume=True))
    assert (contents(state), effects) == (["paid Ada"], {"pay Ada": 1})


async def test_without_a_checkpointer_or_a_store_that_keeps_decisions_the_model_reads_that_the_call_waits() -> None:
    for store, saver in ((None, InMemorySaver()), (MemoryStore(), None)):
        named = {} if store is None else {"identity": "order-7"}
        state = await graph_of([call_of("pay", "Ada")], store, saver, **named).ainvoke(GO, THREAD)
        assert (shown(state), len(contents(state)), effects) == ([], 1, {})
