"""A smolagents agent whose calls are run by streamtools: the real agent, with a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamtools import Decision
from streamtools import tool as boundary
from streamtools.dispatch import MemoryStore

pytest.importorskip("smolagents")
from promised import Given, broken_promises, numbered, user
from smolagents import ActionStep, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model

from streamtools.integrations.smolagents import CallsAgent


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: Other.
    """
    return a + b


class Scripted(Model):  # type: ignore[misc]
    def __init__(self, *steps: tuple[str, dict[str, Any]]) -> None:
        super().__init__()
        self.steps = list(steps)

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        name, arguments = self.steps.pop(0)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"c{len(self.steps)}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def test_calls_run_and_the_answer_ends_the_run() -> None:
    agent = CallsAgent(
        tools=[add], model=Scripted(("add", {"a": 1, "b": 2}), ("final_answer", {"answer": "3"})), verbosity_level=0
    )
    assert agent.run("1 + 2?") == "3"


def test_arguments_that_do_not_fit_never_reach_the_tool() -> None:
    model = Scripted(("add", {"a": "x", "b": 2}), ("final_answer", {"answer": "no"}))
    agent = CallsAgent(tools=[add], model=model, verbosity_level=0)
    assert agent.run("x + 2?") == "no"
    assert "should be 'integer'" in str(agent.memory.steps[1].error), "in smolagents' words"


@tool
def fail(how: str) -> str:
    """Fail.

    Args:
        how: So.
    """
    raise ValueError(how)


def test_an_error_reaches_the_model_in_smolagents_words_and_is_logged_as_no_failure(caplog: Any) -> None:
    said = []
    for kind in (CallsAgent, CallsAgent.__mro__[1]):
        agent = kind(
            tools=[fail], model=Scripted(("fail", {"how": "so"}), ("final_answer", {"answer": "no"})), verbosity_level=0
        )
        assert agent.run("fail") == "no"
        said.append(str(agent.memory.steps[1].error))
    assert said[0] == said[1]
    assert "ValueError: so" in said[0]
    assert [record for record in caplog.records if record.name == "streamtools"] == []


def test_a_call_runs_with_the_arguments_that_an_approver_or_middleware_has_given_it() -> None:
    async def refine(call: Any, run: Any) -> Any:
        return await run({"a": 10, "b": 2}) if call.tool_name == "add" else await run()

    ways: tuple[tuple[bool, dict[str, Any]], ...] = (
        (True, {"approve": lambda asked: Decision.on(asked, True, arguments={"a": 10, "b": 2})}),
        (False, {"middleware": refine}),
    )
    for is_edited, options in ways:
        agent = CallsAgent(
            tools=[add],
            model=Scripted(("add", {"a": 1, "b": 2}), ("final_answer", {"answer": "no"})),
            with_options=[boundary(add, needs_approval=is_edited)],
            options=options,
            verbosity_level=0,
        )
        agent.run("1 + 2?")
        seen = agent.memory.steps[1].observations
        assert seen.startswith("12")
        assert ("Note: a person approved this call with other arguments than yours" in seen) == is_edited


def test_what_an_agent_cannot_keep_is_refused_where_it_is_made() -> None:
    options: tuple[tuple[dict[str, Any], str], ...] = (
        ({"store": MemoryStore()}, r"CallsAgent: a store needs a name.*store=store, identity="),
        ({"store": MemoryStore(), "identity": 7}, "CallsAgent: identity must be a non-empty text"),
        (
            {"options": {"on_tool_error": "cancel"}},
            r'CallsAgent: on_tool_error="cancel" cannot be enforced.*agent_loop',
        ),
    )
    for given, words in options:
        with pytest.raises(TypeError, match=words):
            CallsAgent(tools=[add], model=Scripted(), **given)


class Agents:
    """Runs an agent for the law of promises; it has no other way than to block."""

    def blocking(self, given: Given) -> list[str]:
        @tool
        def visit(n: int) -> str:
            """Visit the room.

            Args:
                n: Which.
            """
            return given.room.visit(n, True)

        class Answers(Scripted):
            def generate(self, messages: Any, **more: Any) -> ChatMessage:
                if not self.steps:
                    return super().generate(messages, **more)
                self.steps.clear()
                calls = []
                for call_id, n in given.calls:
                    function = ChatMessageToolCallFunction(name="visit", arguments={"n": n})
                    calls.append(ChatMessageToolCall(id=call_id, type="function", function=function))
                return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls)

        agent = CallsAgent(
            tools=[visit],
            model=Answers(("visit", {})),
            with_options=[boundary(numbered, name="visit", **given.tool)],
            options=given.options,
            verbosity_level=0,
            max_steps=1,
            **given.keeping,
        )
        for step in agent.run("go", stream=True):
            if isinstance(step, ActionStep) and (step.observations or step.error):  # or an exception follows
                return str(step.observations or step.error).split("\n")
        raise AssertionError("the agent took no step")

    async def awaited(self, given: Given) -> list[str]:
        raise NotImplementedError


def test_promises_hold_however_the_agent_is_run(tmp_path: Path) -> None:
    user.set("ada")
    assert broken_promises(Agents(), tmp_path, modes=("sync", "inside a running loop")) == []
