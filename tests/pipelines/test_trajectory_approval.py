"""A run whose calls wait for approvals: it pauses, goes on, and may be left and begun again elsewhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from decisions import decisions_on
from streams import anthropic, chat, stream

from streamtools import ApprovalRequested, Deny, Event, Observation, Suspended, ToolCallValidated, Trajectory, tool
from streamtools.dispatch import MemoryStore
from streamtools.events import StepStart
from streamtools.history import lint
from streamtools.pipelines.agent_loop import AgentLoop, agent_loop

pytestmark = pytest.mark.anyio

CHAT, MESSAGES = "openai.chat_completions", "anthropic.messages"
KEY = "a key that is long enough"
ASKED = [{"role": "user", "content": "Pay them."}]
PAY = [("a", "pay", '{"to": "x"}'), ("l", "look", '{"at": "z"}'), ("b", "pay", '{"to": "y"}')]

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@tool(needs_approval=True)
async def pay(to: str) -> str:
    """Pay."""
    ran.append(to)
    return f"paid {to}"


@tool(effect="pure")
async def look(at: str) -> str:
    """Look."""
    ran.append(at)
    return f"seen {at}"


class Model:
    """Answers with one body after the other, and remembers the messages that it was sent."""

    def __init__(self, *bodies: list[bytes]) -> None:
        self.bodies = list(bodies)
        self.asked: list[list[Any]] = []

    async def __call__(self, messages: list[Any], tools: list[Any]) -> AsyncIterator[Any]:
        await anyio.lowlevel.checkpoint()
        self.asked.append(json.loads(json.dumps(messages)))
        return stream(self.bodies[len(self.asked) - 1])


def run_of(model: Model, messages: list[Any] = ASKED, target: str = CHAT, **options: Any) -> AgentLoop:
    return agent_loop(model, messages, tools=[pay, look], wire=target, **options)


async def test_a_run_pauses_until_its_calls_are_decided_and_then_asks_the_model_again() -> None:
    model = Model(chat(calls=PAY), chat(["Done."], finish="stop"))
    with anyio.fail_after(30):
        async with run_of(model) as run:
            seen: list[Event] = [event async for event in run]
            assert (run.outcome, len(model.asked), ran) == (None, 1, ["z"])
            assert run.suspended is not None
            assert [call.call_id for call in run.suspended.calls] == ["a", "b"]
            assert lint(run.messages, CHAT) == []
            assert [event async for event in run] == []  # still nothing is decided
            assert run.approve("a")
            seen += [event async for event in run]
            assert (run.outcome, ran) == (None, ["z", "x"])
            assert run.deny("b", "not them")
            seen += [event async for event in run]
    assert (run.outcome, run.suspended) == ("answered", None)
    assert [event.seq for event in seen] == list(range(len(seen)))
    results = [message["content"] for message in model.asked[1] if message["role"] == "tool"]
    assert results == ["paid x", "seen z", "Error: not run: the call was not approved: not them"]


async def test_decided_within_the_loop_it_does_not_even_pause() -> None:
    model = Model(chat(calls=PAY), chat(["Done."], finish="stop"))
    with anyio.fail_after(30):
        async with run_of(model) as run:
            async for event in run:
                if isinstance(event, ApprovalRequested):
                    run.approve(event)
    assert (run.outcome, sorted(ran)) == ("answered", ["x", "y", "z"])


async def test_an_approver_serves_all_steps() -> None:
    model = Model(chat(calls=PAY), chat(calls=[("c", "pay", '{"to": "w"}')]), chat(["Done."], finish="stop"))
    with anyio.fail_after(30):
        async with run_of(model, approve=lambda request: request.arguments["to"] != "y") as run:
            await run.finish()
    assert (run.outcome, sorted(ran)) == ("answered", ["w", "x", "z"])


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
async def test_left_while_calls_wait_it_is_gone_on_with_in_another_process(target: str) -> None:
    body = chat(calls=PAY) if target == CHAT else anthropic(calls=PAY)
    answer = chat(["Done."], finish="stop") if target == CHAT else anthropic(["Done."], stop="end_turn")
    with anyio.fail_after(30):
        async with run_of(Model(body), target=target, trajectory=Trajectory(run_id="r", observers=())) as run:
            await run.finish()
        assert run.outcome == "suspended"
        assert run.suspended is not None
        kept = json.dumps({"messages": run.messages, "suspended": run.suspended.to_text(KEY)})

        saved, model, store = json.loads(kept), Model(answer), MemoryStore()
        assert lint(saved["messages"], target) == []
        suspended = Suspended.from_text(saved["suspended"], KEY)
        options = {"decisions": decisions_on(suspended, {"a": True, "b": Deny("no")}), "store": store}
        async with run_of(model, saved["messages"], target, suspended=suspended, **options) as later:
            seen = [event async for event in later]
    assert (later.outcome, ran) == ("answered", ["z", "x"])
    steps = [event for event in seen if isinstance(event, StepStart)]
    assert [(step.run_id, step.step, step.asks_model) for step in steps] == [("r", 0, False), ("r", 1, True)]
    assert lint(later.messages, target) == []
    assert len(later.messages) == len(saved["messages"]) + 1
    told = json.dumps(model.asked[0])
    assert "waits for an approval" not in told
    assert told.index("paid x") < told.index("seen z") < told.index("not approved: no")


async def test_what_is_decided_in_parts_is_suspended_again_in_between() -> None:
    with anyio.fail_after(30):
        async with run_of(Model(chat(calls=PAY))) as run:
            await run.finish()
        store, model = MemoryStore(), Model(chat(["Done."], finish="stop"))
        assert run.suspended is not None
        given = decisions_on(run.suspended, {"b": True})
        async with run_of(model, run.messages, suspended=run.suspended, decisions=given, store=store) as second:
            await second.finish()
        assert (second.outcome, model.asked, ran) == ("suspended", [], ["z", "y"])
        assert second.suspended is not None
        assert lint(second.messages, CHAT) == []
        async with run_of(model, second.messages, suspended=second.suspended, store=store) as third:
            async for event in third:
                if isinstance(event, ApprovalRequested):
                    third.approve(event)
    assert (third.outcome, ran) == ("answered", ["z", "y", "x"])
    results = [message["content"] for message in third.messages if message["role"] == "tool"]
    assert results == ["paid x", "seen z", "paid y"]


async def test_a_resumed_step_is_none_that_the_model_was_asked_for() -> None:
    model = Model(chat(calls=[("c", "look", '{"at": "w"}')]), chat(["Done."], finish="stop"))
    with anyio.fail_after(30):
        async with run_of(Model(chat(calls=PAY))) as run:
            await run.finish()
        given = decisions_on(run.suspended, {"a": True, "b": True})
        options = {"decisions": given, "store": MemoryStore(), "max_steps": 1}
        async with run_of(model, run.messages, suspended=run.suspended, **options) as later:
            await later.finish()
    assert (later.outcome, len(model.asked)) == ("max_steps", 1)


async def test_suspended_calls_that_are_not_in_the_messages_are_refused_before_anything_runs() -> None:
    async with run_of(Model(chat(calls=PAY))) as run:
        await run.finish()
    decisions = decisions_on(run.suspended, {"a": True})
    given: dict[str, Any] = {"suspended": run.suspended, "store": MemoryStore(), "decisions": decisions}
    with pytest.raises(ValueError, match="'a'"):
        run_of(Model(), ASKED, **given)
    with pytest.raises(TypeError, match="pass store=: it keeps them from running twice"):
        run_of(Model(), run.messages, suspended=run.suspended)
    with pytest.raises(ValueError, match="decisions: no call 'q' is suspended; there are a, b"):
        run_of(Model(), run.messages, **{**given, "decisions": [replace(decisions[0], call_id="q")]})
    with pytest.raises(ValueError, match="pass suspended=, too"):
        run_of(Model(), ASKED, decisions=decisions)
    assert ran == ["z"]


async def test_a_word_between_two_steps_is_a_mistake() -> None:
    async with run_of(Model(chat(["Hi"], finish="stop"))) as run:
        with pytest.raises(RuntimeError, match="no step goes on; decide about a call after its ApprovalRequested"):
            run.approve("a")
        await run.finish()


async def test_calls_are_run_by_hand_in_a_run_as_well() -> None:
    model = Model(chat(calls=[PAY[1]]), chat(["Done."], finish="stop"))
    with anyio.fail_after(30):
        async with run_of(model, start="manual") as run:
            ready = [event async for event in run if isinstance(event, ToolCallValidated)]
            assert (await run.run_call(ready[0])).value == "seen z"
            seen = [event async for event in run]
    assert run.outcome == "answered"
    assert [event.call_id for event in seen if isinstance(event, Observation)] == ["l"]


async def test_cancelled_while_calls_wait_a_run_has_a_history_and_its_calls_are_suspended() -> None:
    with anyio.move_on_after(5) as scope:
        async with run_of(Model(chat(calls=PAY))) as run:
            _ = [event async for event in run]
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert (run.outcome, ran) == ("suspended", ["z"])
    assert lint(run.messages, CHAT) == []
