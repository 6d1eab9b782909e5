"""Approvals that pydantic-ai's deferred tool calls ask for: the real agent, run with the answers in every way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamtools import tool
from streamtools.dispatch import SqliteStore
from streamtools.errors import AlreadyDecided
from streamtools.events import ApprovalResolved
from streamtools.observers import Observer

pytest.importorskip("pydantic_ai")
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, FunctionToolset, ToolApproved, ToolDenied
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import FunctionModel

from streamtools.integrations.pydantic_ai import CallsToolset

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]

effects: Counter[str] = Counter()
named: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    effects.clear()
    named.clear()


def pay(to: str) -> str:
    """Pay somebody."""
    effects[f"pay {to}"] += 1
    return f"paid {to}"


class Look(Observer):
    def on_event(self, event: Any) -> None:
        named.extend(event.by if isinstance(event, ApprovalResolved) else ())


def parts_of(store: Any, approvals: int = 1) -> tuple[Any, CallsToolset]:
    """An agent as after a restart, and its toolset."""

    def model(messages: list[ModelMessage], _: Any) -> ModelResponse:
        last = messages[-1]
        if isinstance(last, ModelRequest) and any(part.part_kind == "tool-return" for part in last.parts):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("pay", {"to": "Ada"}, "c1")])

    guarded = [tool(pay, needs_approval=True, approvals=approvals)]
    toolset = CallsToolset(FunctionToolset([pay]), guarded, store, observers=lambda: [Look()])
    return Agent(FunctionModel(model), toolsets=[toolset], output_type=[str, DeferredToolRequests]), toolset


async def asked_by(store: Any, approvals: int = 1) -> tuple[list[ModelMessage], Any]:
    """The history in which the call waits, as it comes out of a file, and what was shown of it."""
    agent, _ = parts_of(store, approvals)
    run = await agent.run("go")
    assert [(call.tool_name, call.args) for call in run.output.approvals] == [("pay", {"to": "Ada"})]
    history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(run.all_messages()))
    return history, run.output.metadata["c1"]


async def answered(store: Any, history: Any, answer: Any, by: str | None = None, approvals: int = 1) -> Any:
    """What the model reads of the call, or what was shown of it again."""
    agent, toolset = parts_of(store, approvals)
    given = DeferredToolResults(approvals={"c1": answer}, metadata={"c1": {"by": by}} if by else {})
    given = await toolset.settled(history, given)
    run = await agent.run(message_history=history, deferred_tool_results=given)
    if isinstance(run.output, DeferredToolRequests):
        return run.output.metadata["c1"]
    parts = [part for message in run.all_messages() for part in message.parts]
    (content,) = [part.content for part in parts if part.part_kind == "tool-return"]
    return content


def edited(history: Any, to: str) -> Any:
    """The history with other arguments under the same id."""
    *before, response = history
    return [*before, replace(response, parts=[ToolCallPart("pay", {"to": to}, "c1")])]


async def test_the_first_answer_is_a_decision_on_record_and_holds(tmp_path: Path) -> None:
    cases = (
        (True, None, "paid Ada", "pydantic-ai"),
        (ToolApproved(), "ann", "paid Ada", "pydantic-ai:ann"),
        (False, None, "The tool call was denied.", None),
        (ToolDenied("too much"), "ann", "too much", None),
    )
    for number, (answer, by, content, name) in enumerate(cases):
        effects.clear()
        named.clear()
        path = tmp_path / f"{number}.db"
        with SqliteStore(path) as store:
            history, shown = await asked_by(store)
            assert (shown["type"], shown["approvals"], effects) == ("approval", 1, {})
        for again in (answer, False, True, ToolDenied("not at all")):
            with SqliteStore(path) as store:  # another process
                assert await answered(store, history, again, by) == content
        assert effects == ({"pay Ada": 1} if name else {})
        assert set(named) == ({name} if name else set())


async def test_an_approval_counts_for_the_arguments_that_were_shown(store: SqliteStore) -> None:
    history, shown = await asked_by(store)
    other = edited(history, "Eve")
    again = await answered(store, other, True)
    assert (again["fingerprint"] != shown["fingerprint"], effects) == (True, {})
    assert await answered(store, other, True) == "paid Eve"
    assert effects == {"pay Eve": 1}


async def test_edited_arguments_are_validated_again_and_are_what_runs(store: SqliteStore) -> None:
    history, _ = await asked_by(store)
    assert await answered(store, history, ToolApproved(override_args={"to": "Bob"})) == "paid Bob"
    assert await answered(store, history, ToolApproved(override_args={"to": "Bob"})) == "paid Bob"
    with pytest.raises(AlreadyDecided):
        await answered(store, history, False)
    content = await answered(store, history, ToolApproved(override_args={"to": "Cy"}))
    assert "belongs to a call with another tool or arguments" in content
    assert effects == {"pay Bob": 1}


async def test_a_denial_of_what_was_shown_holds_for_edited_arguments(store: SqliteStore) -> None:
    history, _ = await asked_by(store)
    assert await answered(store, history, ToolDenied("no")) == "no"
    assert await answered(store, history, ToolApproved(override_args={"to": "Bob"})) == "no"
    agent, _ = parts_of(store)  # whose answers nobody has looked at
    given = DeferredToolResults(approvals={"c1": ToolApproved(override_args={"to": "Bob"})})
    run = await agent.run(message_history=history, deferred_tool_results=given)
    assert "not approved: no" in str(run.all_messages())
    assert effects == {}
