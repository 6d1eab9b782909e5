"""A Strands agent whose calls are run by streamtools: the real agent, with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from streamtools import Decision, Deny, Limits, tool

strands = pytest.importorskip("strands")
from promised import Given, broken_by_a_cancelled_caller, broken_promises, numbered, user  # noqa: E402
from strands.models.model import Model  # noqa: E402

from streamtools.integrations.strands import CallsExecutor  # noqa: E402

pytestmark = pytest.mark.anyio

ran: list[Any] = []


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # Strands knows no other


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


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


async def test_arguments_that_do_not_fit_never_reach_the_tool() -> None:
    found = await results(
        ("a", "look_up", '{"times": 2}'), ("b", "no_such", "{}"), ("c", "fail", "{}"), executor=CallsExecutor()
    )
    assert {call_id: status for call_id, (status, _) in found.items()} == {"a": "error", "b": "error", "c": "error"}
    assert "word: is required but missing" in found["a"][1]
    assert "nothing there" in found["c"][1]
    assert ran == []


async def test_options_of_ours_hold_for_the_agents_tools() -> None:
    guarded = CallsExecutor([tool(look_up, needs_approval=True)], approve=lambda _: Deny("not today"))
    found = await results(("a", "look_up", '{"word": "rain"}'), executor=guarded)
    assert (found["a"][0], "not today" in found["a"][1], ran) == ("error", True, [])
    edits = CallsExecutor(
        [tool(look_up, needs_approval=True)], approve=lambda asked: Decision.on(asked, True, arguments={"word": "sun"})
    )
    found = await results(("a", "look_up", '{"word": "rain"}'), executor=edits)
    assert (found["a"][0], ran) == ("success", ["sun"])
    assert "Note: a person approved this call with other arguments than yours" in found["a"][1]
    ran.clear()
    checked = CallsExecutor([tool(look_up, check=lambda given: given["word"] != "rain")])
    found = await results(("a", "look_up", '{"word": "rain"}'), ("b", "look_up", '{"word": "sun"}'), executor=checked)
    assert ({call_id: status for call_id, (status, _) in found.items()}, ran) == (
        {"a": "error", "b": "success"},
        ["sun"],
    )


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


def test_a_cancelled_caller_cancels_the_calls() -> None:
    user.set("ada")
    assert broken_by_a_cancelled_caller(Agents()) == []


def test_promises_hold_however_the_agent_is_run(tmp_path: Path) -> None:
    user.set("ada")
    assert broken_promises(Agents(), tmp_path) == []
