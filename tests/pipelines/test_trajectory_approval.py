"""A run whose calls wait for approvals: it pauses, goes on, and may be left and begun again elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from decisions import decisions_on
from ran import ran
from streams import Model, chat
from test_trajectory_loop import CHAT

from streamtools import Event, tool
from streamtools.dispatch import MemoryStore
from streamtools.front import agent_loop
from streamtools.front.run_face import AgentLoop
from streamtools.history import lint

pytestmark = pytest.mark.anyio

ASKED = [{"role": "user", "content": "Pay them."}]
PAY = [("a", "pay", '{"to": "x"}'), ("l", "look", '{"at": "z"}'), ("b", "pay", '{"to": "y"}')]


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


def run_of(model: Model, messages: list[Any] = ASKED, target: str = CHAT, **options: Any) -> AgentLoop:
    return agent_loop(model, messages, tools=[pay, look], wire=target, **options)


async def test_a_run_pauses_until_its_calls_are_decided_and_then_asks_the_model_again() -> None:
    model = Model(chat(calls=PAY), chat(["Done."], finish="stop"))
    with anyio.fail_after(30):
        async with run_of(model) as run:
            seen: list[Event] = [event async for event in run]
            assert (run.outcome, len(model.asked), ran) == (None, 1, ["z"])
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


async def test_suspended_calls_that_are_not_in_the_messages_are_refused_before_anything_runs() -> None:
    async with run_of(Model(chat(calls=PAY))) as run:
        await run.finish()
    decisions = decisions_on(run.suspended, {"a": True})
    given: dict[str, Any] = {"suspended": run.suspended, "store": MemoryStore(), "decisions": decisions}
    with pytest.raises(ValueError, match="'a'"):
        run_of(Model(), ASKED, **given)
    with pytest.raises(TypeError, match="it keeps them from running twice"):
        run_of(Model(), run.messages, suspended=run.suspended)
    with pytest.raises(ValueError, match="decisions: no call 'q' is suspended; there are a, b"):
        run_of(Model(), run.messages, **{**given, "decisions": [replace(decisions[0], call_id="q")]})
    with pytest.raises(ValueError, match="pass suspended=, too"):
        run_of(Model(), ASKED, decisions=decisions)
    assert ran == ["z"]
