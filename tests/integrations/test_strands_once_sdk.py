"""Calls of a Strands agent that run once: the real agent with its session, interrupted, resumed elsewhere, retried."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from streamtools.dispatch import MemoryStore, SqliteStore
from streamtools.errors import ToolNotStarted

strands = pytest.importorskip("strands")
from strands.hooks import AfterToolCallEvent  # noqa: E402
from strands.models.model import Model  # noqa: E402
from strands.session.file_session_manager import FileSessionManager  # noqa: E402
from strands.types.exceptions import EventLoopException  # noqa: E402
from strands.types.tools import ToolContext  # noqa: E402

from streamtools.integrations.strands import CallsExecutor  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # Strands knows no other

effects: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    effects.clear()


@strands.tool
def pay(to: str) -> str:
    """Pay somebody."""
    effects[f"pay {to}"] += 1
    return f"paid {to}"


def _confirm(to: str, tool_context: Any) -> str:
    """Ask a person, then pay."""
    answer = tool_context.interrupt("sure", reason=f"pay {to}?")
    effects[f"confirm {to}"] += 1
    return f"{answer}: paid {to}"


_confirm.__annotations__ = {"to": str, "tool_context": ToolContext, "return": str}
confirm = strands.tool(context=True, name="confirm")(_confirm)


@strands.tool
def charge(to: str) -> str:
    """Charge, and fail."""
    effects[f"charge {to}"] += 1
    raise ValueError("the receipt could not be printed")


@strands.tool
def closed(to: str) -> str:
    """Fail before anything has happened."""
    effects[f"closed {to}"] += 1
    raise ToolNotStarted("the bank is closed")


@strands.tool
def picture(to: str) -> Any:
    """Return an image."""
    effects[f"picture {to}"] += 1
    image = {"image": {"format": "png", "source": {"bytes": b"png"}}}
    return {"status": "success", "content": [{"text": "look:"}, image]}


class Scripted(Model):  # type: ignore[misc]
    """Makes these calls of its tools, once or in each turn; then it answers."""

    def __init__(self, *names: str, turns: int = 1) -> None:
        self.names = names
        self.turns = turns

    def get_config(self) -> Any:
        return {}

    def update_config(self, **_: Any) -> None: ...

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        answers = sum(message["role"] == "assistant" for message in messages)
        yield {"messageStart": {"role": "assistant"}}
        for at, name in enumerate(self.names if answers < self.turns else ()):
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": f"call_{at}", "name": name}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"to": "7"}'}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if answers < self.turns else "end_turn"}}


def agent_of(executor: Any, *names: str, folder: Path | None = None, turns: int = 1) -> Any:
    """An agent as after a restart."""
    return strands.Agent(
        model=Scripted(*names, turns=turns),
        tools=[pay, confirm, charge, closed, picture],
        tool_executor=executor,
        callback_handler=None,
        session_manager=None if folder is None else FileSessionManager("order-7", storage_dir=str(folder)),
    )


def results(agent: Any) -> list[Any]:
    blocks = [
        block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block
    ]
    return [block["content"][0]["text"] for block in blocks]


async def test_an_interrupt_that_is_resumed_twice_has_one_effect(tmp_path: Path, store: SqliteStore) -> None:
    """Two processes resume one session, say after a double click."""
    stopped = await agent_of(CallsExecutor(store=store), "confirm", folder=tmp_path).invoke_async("go")
    answer = [{"interruptResponse": {"interruptId": stopped.interrupts[0].id, "response": "yes"}}]
    agents = [agent_of(CallsExecutor(store=store), "confirm", folder=tmp_path) for _ in range(2)]
    for agent in agents:
        await agent.invoke_async(answer)
    assert ([results(agent) for agent in agents], effects) == ([["yes: paid 7"]] * 2, {"confirm 7": 1})


async def test_the_same_answer_again_is_answered_from_the_record_whatever_its_content(store: SqliteStore) -> None:
    found = []
    for _ in range(2):
        agent = agent_of(CallsExecutor(store=store, identity="order-7"), "pay", "picture", "charge")
        await agent.invoke_async("go")
        found.append([block["toolResult"] for block in agent.messages[2]["content"]])
    assert found[1][:2] == found[0][:2]
    assert found[1][1]["content"][1]["image"]["source"]["bytes"] == b"png"
    assert found[1][2]["content"][0]["text"].removeprefix("Error: ") in found[0][2]["content"][0]["text"]
    assert effects == {"pay 7": 1, "picture 7": 1, "charge 7": 1}


async def test_a_hook_that_asks_for_another_try_reads_the_result_again_unless_nothing_had_happened(
    store: SqliteStore,
) -> None:
    agent = agent_of(CallsExecutor(store=store, identity="order-7"), "charge", "closed", "pay")
    tries: Counter[str] = Counter()

    def again(event: AfterToolCallEvent) -> None:
        tries[event.tool_use["name"]] += 1
        event.retry = tries[event.tool_use["name"]] < 3

    agent.hooks.add_callback(AfterToolCallEvent, again)
    await agent.invoke_async("go")
    assert effects == {"charge 7": 1, "closed 7": 3, "pay 7": 1}
    assert tries == {"charge": 3, "closed": 3, "pay": 3}
    assert "receipt" in results(agent)[0]
    assert results(agent)[2] == "paid 7"
    statuses = [block["toolResult"]["status"] for block in agent.messages[2]["content"]]
    assert statuses == ["error", "error", "success"]


async def test_two_answers_that_reuse_an_id_are_two_calls(tmp_path: Path, store: SqliteStore) -> None:
    agent = agent_of(CallsExecutor(store=store), "pay", folder=tmp_path, turns=2)
    await agent.invoke_async("go")
    assert (results(agent), effects) == (["paid 7", "paid 7"], {"pay 7": 2})


async def test_a_store_without_a_session_is_refused_before_anything_runs_unless_the_calls_have_a_name() -> None:
    with pytest.raises(EventLoopException, match=r"CallsExecutor: a store needs a session .*; write Agent\("):
        await agent_of(CallsExecutor(store=MemoryStore()), "pay").invoke_async("go")
    assert effects == {}
    await agent_of(CallsExecutor(store=MemoryStore(), identity=lambda agent: agent.agent_id), "pay").invoke_async("go")
    assert effects == {"pay 7": 1}
    with pytest.raises(TypeError, match="CallsExecutor: identity must be a non-empty text"):
        CallsExecutor(store=MemoryStore(), identity="")
