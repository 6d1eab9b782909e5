"""The calls of a pydantic-ai agent, run by streamtools: the real agent, with its model for tests."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from ran import ran

from streamtools import tool as boundary

pytest.importorskip("pydantic_ai")
from promised import Given, Room, broken_promises, numbered, user
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, FunctionToolset, ModelRetry, RunContext
from pydantic_ai.exceptions import ToolFailed, UsageLimitExceeded
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from streamtools.integrations.pydantic_ai import CallsToolset

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    ran.append((a, b))
    if a > 5:
        raise ModelRetry("smaller, please")
    return a + b


def told(ctx: Any, word: str) -> str:
    """Tell."""
    return f"{word} {ctx.deps}"


told.__annotations__ = {"ctx": RunContext[str], "word": str, "return": str}


async def returned(toolset: Any, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    said = [ToolCallPart(name, given, f"c{number}") for number, (name, given) in enumerate(calls, 1)]

    def answer(messages: list[Any], _: Any) -> ModelResponse:
        return ModelResponse([TextPart("done")] if len(messages) > 1 else said)

    run = await Agent(FunctionModel(answer), toolsets=[toolset], deps_type=str).run("go", deps="there")
    return [part for part in run.all_messages()[2].parts if part.part_kind != "user-prompt"]


async def test_calls_run_with_the_agents_own_context() -> None:
    toolset = CallsToolset(FunctionToolset([add, told]))
    one, two = await returned(toolset, ("add", {"a": 1, "b": 2}), ("told", {"word": "hello"}))
    assert (one.content, two.content) == (3, "hello there")


async def test_the_agents_retries_are_its_own() -> None:
    (own,) = await returned(FunctionToolset([add]), ("add", {"a": 9, "b": 2}))
    (part,) = await returned(CallsToolset(FunctionToolset([add])), ("add", {"a": 9, "b": 2}))
    assert (part.part_kind, part.content, part.outcome) == (own.part_kind, own.content, own.outcome)
    assert "smaller, please" in str(part.content)


async def test_a_tool_that_ends_the_run_or_words_its_failure_is_heard() -> None:
    def stop(n: int) -> int:
        raise UsageLimitExceeded("enough") if n else ToolFailed("no such place")

    stop.__doc__ = "Stop."
    toolset = CallsToolset(FunctionToolset([stop, add]))
    failed, added = await returned(toolset, ("stop", {"n": 0}), ("add", {"a": 1, "b": 2}))
    assert (failed.content, failed.outcome, added.content) == ("no such place", "failed", 3)
    with pytest.raises(UsageLimitExceeded, match="enough"):
        await returned(toolset, ("stop", {"n": 1}))


async def test_an_exception_by_which_a_tool_speaks_to_its_agent_is_logged_as_no_failure(caplog: Any) -> None:
    def later(n: int) -> int:
        raise CallDeferred

    later.__doc__ = "Answer later."
    run = await Agent(
        FunctionModel(lambda _, __: ModelResponse([ToolCallPart("later", {"n": 1}, "c1")])),
        toolsets=[CallsToolset(FunctionToolset([later]))],
        output_type=[str, DeferredToolRequests],
    ).run("go")
    assert [call.tool_call_id for call in run.output.calls] == ["c1"]
    await returned(CallsToolset(FunctionToolset([add])), ("add", {"a": 9, "b": 2}))
    assert caplog.records == []


class Agents:
    """Runs an agent for the law of promises."""

    def made(self, given: Given) -> Any:
        async def visit(ctx: Any, n: int) -> str:
            """Visit the room; pydantic-ai itself gives up no thread."""
            return await to_thread.run_sync(given.room.visit, n, ctx.deps, abandon_on_cancel=True)

        visit.__annotations__ = {"ctx": RunContext[str], "n": int, "return": str}
        known = boundary(numbered, name="visit", **given.tool)
        toolset = CallsToolset(FunctionToolset([visit]), tools=[known], options=given.options, **given.keeping)
        said = [ToolCallPart("visit", {"n": n}, call_id) for call_id, n in given.calls]
        model = FunctionModel(lambda messages, _: ModelResponse([TextPart("done")] if len(messages) > 1 else said))
        return Agent(model, toolsets=[toolset], deps_type=str)

    def read(self, run: Any) -> list[str]:
        return [part.content for part in run.all_messages()[2].parts]

    def blocking(self, given: Given) -> list[str]:
        return self.read(self.made(given).run_sync("go", deps="there"))

    async def awaited(self, given: Given) -> list[str]:
        return self.read(await self.made(given).run("go", deps="there"))


def test_promises_hold_however_the_agent_is_run(tmp_path: Path) -> None:
    """Inside a running loop pydantic-ai itself refuses ``run_sync``."""
    user.set("ada")
    assert broken_promises(Agents(), tmp_path, modes=("sync", "async")) == []

    async def inside() -> None:
        Agents().blocking(Given(Room(), {}, {}, {}))

    with pytest.raises(RuntimeError, match="event loop"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the coroutine that it does not run
        asyncio.run(inside())
