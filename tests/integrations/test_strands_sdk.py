"""A Strands agent whose calls are run by streamtools: the real agent, with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from ran import ran

from streamtools import Limits, tool

strands = pytest.importorskip("strands")
from promised import Given, broken_promises, numbered, user  # noqa: E402
from strands.models.model import Model  # noqa: E402

from streamtools.integrations.strands import CallsExecutor  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # Strands knows no other


@strands.tool
def look_up(word: str, times: int = 1) -> str:
    """Look a word up."""
    ran.append(word)
    return f"{word} {times}"


@strands.tool
async def count(upto: int) -> AsyncIterator[str]:
    """Count."""
    for number in range(upto):
        yield f"at {number}"
    yield "done"


@strands.tool
def fail() -> str:
    """Fail."""
    raise ValueError("nothing there")


class Scripted(Model):  # type: ignore[misc]
    def __init__(self, *calls: tuple[str, str, str]) -> None:
        self.calls = calls
        self.seen: list[Any] = []

    def get_config(self) -> Any:
        return {}

    def update_config(self, **_: Any) -> None: ...

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.seen = list(messages)
        yield {"messageStart": {"role": "assistant"}}
        if len(messages) > 1:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        for call_id, name, arguments in self.calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": call_id, "name": name}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


async def results(*calls: tuple[str, str, str], executor: Any) -> dict[str, tuple[str, str]]:
    model = Scripted(*calls)
    agent = strands.Agent(model=model, tools=[look_up, count, fail], tool_executor=executor, callback_handler=None)
    await agent.invoke_async("go")
    blocks = [block["toolResult"] for block in model.seen[-1]["content"]]
    return {block["toolUseId"]: (block["status"], block["content"][0]["text"]) for block in blocks}


async def test_calls_run_and_their_results_come_back_in_call_order() -> None:
    found = await results(
        ("b", "look_up", '{"word": "rain"}'), ("a", "look_up", '{"word": "sun"}'), executor=CallsExecutor()
    )
    assert found == {"b": ("success", "rain 1"), "a": ("success", "sun 1")}
    assert list(found) == ["b", "a"]


async def test_strands_own_events_come_while_a_call_runs() -> None:
    model = Scripted(("a", "count", '{"upto": 2}'))
    agent = strands.Agent(
        model=model, tools=[count], tool_executor=CallsExecutor(limits=Limits(max_concurrency=1)), callback_handler=None
    )
    seen = [event async for event in agent.stream_async("go")]
    streamed = [event["tool_stream_event"]["data"] for event in seen if "tool_stream_event" in event]
    assert streamed == ["at 0", "at 1", "done"]


class Agents:
    """Runs an agent for the law of promises."""

    def made(self, given: Given) -> tuple[Any, Scripted]:
        def visit(n: int, tool_context: Any) -> str:
            """Visit the room."""
            return given.room.visit(n, tool_context.tool_use)

        visit.__annotations__ = {"n": int, "tool_context": strands.ToolContext, "return": str}
        model = Scripted(*((call_id, "visit", f'{{"n": {n}}}') for call_id, n in given.calls))
        known = tool(numbered, name="visit", **given.tool)
        executor = CallsExecutor([known], **given.options, **given.keeping)
        made = strands.tool(context=True)(visit)
        return strands.Agent(model=model, tools=[made], tool_executor=executor, callback_handler=None), model

    def read(self, model: Scripted) -> list[str]:
        return [block["toolResult"]["content"][0]["text"] for block in model.seen[2]["content"]]

    def blocking(self, given: Given) -> list[str]:
        agent, model = self.made(given)
        agent("go")
        return self.read(model)

    async def awaited(self, given: Given) -> list[str]:
        agent, model = self.made(given)
        await agent.invoke_async("go")
        return self.read(model)


def test_promises_hold_however_the_agent_is_run(tmp_path: Path) -> None:
    user.set("ada")
    assert broken_promises(Agents(), tmp_path) == []
