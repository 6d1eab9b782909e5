"""Calls of a smolagents agent that run once: the real agent, whose model gives the same answers again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from streamtools import tool as make_tool
from streamtools.dispatch import MemoryStore, SqliteStore
from streamtools.dispatch.endings import DONE_BEFORE
from streamtools.errors import ToolNotStarted

pytest.importorskip("smolagents")
from smolagents import tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)

from streamtools.integrations.smolagents import CallsAgent

effects: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    effects.clear()


@tool
def pay(to: str) -> str:
    """Pay somebody.

    Args:
        to: Whom.
    """
    effects[f"pay {to}"] += 1
    return f"paid {to}"


@tool
def charge(to: str) -> str:
    """Charge, and fail.

    Args:
        to: Whom.
    """
    effects[f"charge {to}"] += 1
    raise ValueError("the receipt could not be printed")


@tool
def closed(to: str) -> str:
    """Fail before anything has happened.

    Args:
        to: Whom.
    """
    effects[f"closed {to}"] += 1
    raise ToolNotStarted("the bank is closed")


class Scripted(Model):  # type: ignore[misc]
    """Makes these calls in each of its steps; then it answers."""

    def __init__(self, *steps: list[tuple[str, str]]) -> None:
        super().__init__()
        self.steps = list(steps)

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        calls = self.steps.pop(0) if self.steps else [("final_answer", "done")]
        made = []
        for at, (name, given) in enumerate(calls):
            arguments = {"answer" if name == "final_answer" else "to": given}
            function = ChatMessageToolCallFunction(name=name, arguments=arguments)
            made.append(ChatMessageToolCall(id=f"call_{at}", type="function", function=function))
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=made)


def agent_of(store: Any, *steps: list[tuple[str, str]], identity: Any = "order-7", **more: Any) -> CallsAgent:
    """An agent as after a restart."""
    tools = [pay, charge, closed]
    return CallsAgent(tools=tools, model=Scripted(*steps), verbosity_level=0, store=store, identity=identity, **more)


def shown(agent: CallsAgent) -> list[str]:
    """What the model reads of each step."""
    return [str(step.observations or step.error) for step in agent.memory.steps[1:-1]]


def test_the_same_answers_again_after_a_crash_repeat_no_call(store: SqliteStore) -> None:
    steps = [("pay", "7"), ("pay", "8"), ("pay", "7")], [("pay", "7")], [("charge", "7")]
    agents = [agent_of(store, *steps) for _ in range(2)]
    assert [agent.run("go") for agent in agents] == ["done", "done"]
    assert shown(agents[1]) == shown(agents[0])
    assert "receipt" in shown(agents[0])[2]
    assert effects == {"pay 7": 3, "pay 8": 1, "charge 7": 1}


def test_a_call_that_has_had_no_effect_runs_again(store: SqliteStore) -> None:
    for _ in range(2):
        agent_of(store, [("closed", "7")]).run("go")
    assert effects == {"closed 7": 2}


def test_another_run_is_another_call(store: SqliteStore) -> None:
    agent = agent_of(store, [("pay", "7")], [("final_answer", "done")], [("pay", "7")])
    agent.run("go")
    agent.run("again")
    assert effects == {"pay 7": 2}
    tasks = iter(("order-8", "order-8", "order-9", "order-9"))
    agent = agent_of(store, [("pay", "8")], [("final_answer", "done")], [("pay", "8")], identity=lambda _: next(tasks))
    agent.run("go")
    agent.run("again")
    assert effects == {"pay 7": 2, "pay 8": 2}


def test_a_store_without_a_name_for_the_run_is_refused_where_the_agent_is_made() -> None:
    with pytest.raises(TypeError, match=r'CallsAgent: a store knows no call again.*store=store, identity="order-7"'):
        agent_of(MemoryStore(), identity=None)
    with pytest.raises(TypeError, match="CallsAgent: identity is a text"):
        agent_of(MemoryStore(), identity=7)


def test_an_operation_happens_once_under_its_identity_and_the_model_reads_that_it_had(store: SqliteStore) -> None:
    def pay(to: str) -> None:
        """Pay."""

    known = [make_tool(pay, operation="to")]
    agent = agent_of(store, [("pay", "7")], [("pay", "7")], with_options=known)
    agent.run("go")
    assert effects == {"pay 7": 1}
    assert f"{DONE_BEFORE}\npaid 7" in shown(agent)[1]
    with pytest.raises(TypeError, match="operation= of pay needs a store"):
        agent_of(None, identity=None, with_options=known)
