"""What a tool is told about its call; a context of the caller's, for its tools, its middleware and nobody else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import placed_tools
import pytest
from single_calls import run_alone
from streams import chat, stream

from streamtools import ToolContext, ToolError, agent_loop, pipeline, run_calls, tool
from streamtools.executors import LocalExecutor, ProcessExecutor
from streamtools.tools.context import ELSEWHERE

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns


@dataclass
class Deps:
    user: str


class HasUser(Protocol):
    user: str


@tool(effect="pure")
async def whose(ctx: ToolContext[Deps]) -> str:
    """Say whose it is."""
    return ctx.context.user


@tool(effect="pure")
def whose_in_thread(ctx: ToolContext[HasUser]) -> str:
    """Say whose it is."""
    return ctx.context.user


@tool(effect="pure")
async def maybe(ctx: ToolContext[Deps | None]) -> str:
    """Say whose it is, if anybody's."""
    return ctx.context.user if ctx.context else "nobody's"


@tool(effect="pure")
async def anything(ctx: ToolContext) -> str:
    """Say what it is."""
    return type(ctx.context).__name__


TOOLS = [whose, whose_in_thread, maybe, anything]
CALLS = [(made.name, made.name, "{}") for made in TOOLS]


async def test_a_pipelines_context_reaches_its_tools_and_no_schema() -> None:
    turn = await pipeline(stream(chat(calls=CALLS)), tools=TOOLS, context=Deps("Ada"))
    assert [seen.value for seen in turn.observations] == ["Ada", "Ada", "Ada", "Deps"]
    assert all(made.schema["properties"] == {} for made in TOOLS)


async def test_run_calls_and_a_loop_have_it_too() -> None:
    seen = (await run_calls([("a", "whose", {})], [whose], context=Deps("Bo"))).observations
    assert [one.value for one in seen] == ["Bo"]
    steps = [chat(calls=[("a", "whose", "{}")]), chat(["done"], finish="stop")]

    async def ask(messages: Any, tools: Any) -> Any:
        return stream(steps.pop(0))

    run = agent_loop(ask, [{"role": "user", "content": "?"}], tools=[whose], wire="openai.chat_completions",
                     context=Deps("Cy"))  # fmt: skip
    await run
    assert run.turns[0].observations[0].value == "Cy"


async def test_a_tool_that_wants_a_context_is_not_left_without_one() -> None:
    with pytest.raises(
        TypeError, match=r"context: tool 'whose', parameter 'ctx': requires ToolContext\[Deps\]; pass its"
    ):
        run_calls([("a", "whose", {})], [whose])
    with pytest.raises(TypeError, match=r"requires ToolContext\[Deps\], but context is a str"):
        pipeline(stream([]), tools=[whose], context="Ada")
    with pytest.raises(TypeError, match="pass its context with context="):
        agent_loop(lambda messages, tools: None, [], tools=[whose], wire="openai.chat_completions")  # type: ignore[arg-type,return-value]
    pipeline(stream([]), tools=[whose], start="off")  # nothing runs
    assert (await run_alone(maybe, {})).value == "nobody's"
    assert (await run_alone(anything, {})).value == "NoneType"


async def test_an_executor_in_this_process_carries_it() -> None:
    async with LocalExecutor(TOOLS) as executor:
        calls = [("a", "whose", {}), ("b", "whose_in_thread", {})]
        seen = (await run_calls(calls, TOOLS, context=Deps("Ed"), executor=executor)).observations
    assert [one.value for one in seen] == ["Ed", "Ed"]


async def test_an_executor_that_cannot_carry_it_is_named_before_anything_runs() -> None:
    class Elsewhere:
        async def run(self, call: Any, begin: Any, emit: Any, /) -> Any:
            await begin()
            return call.has_context

    with pytest.raises(ValueError, match="context: the Elsewhere cannot carry it to the tool 'whose'; run that tool"):
        run_calls([("a", "whose", {})], [whose], context=Deps("Flo"), executor=Elsewhere())
    seen = (
        await run_calls([("a", "anything", {})], [anything], context=Deps("Flo"), executor=Elsewhere())
    ).observations
    assert seen[0].value is True


@pytest.mark.thorough
async def test_a_tool_in_a_worker_is_told_that_the_context_did_not_come_along() -> None:
    calls = [("a", "peek", {})]
    async with ProcessExecutor([placed_tools.peek]) as executor:
        (seen,) = (await run_calls(calls, [placed_tools.peek], context=Deps("Gus"), executor=executor)).observations
        (without,) = (await run_calls(calls, [placed_tools.peek], executor=executor)).observations
    assert (seen.outcome, "is not sent to another process" in seen.model_content) == ("failed", True)
    assert without.value == "NoneType"


def test_a_context_that_stayed_in_another_process_says_so() -> None:
    with pytest.raises(ToolError, match="is not sent to another process"):
        ToolContext(context=ELSEWHERE).context
    assert ToolContext(context=3).context == 3
    assert "Ada" not in repr(ToolContext(context=Deps("Ada")))


@tool
def count(to: int, ctx: ToolContext) -> int:
    """Count."""
    for number in range(to):
        if ctx.cancelled:
            return number
        ctx.progress(number)
    return to


def test_a_tool_can_be_tested_with_a_bare_context() -> None:
    assert count(3, ToolContext()) == 3


def test_progress_and_cancellation_are_the_dispatchers() -> None:
    seen: list[Any] = []
    context = ToolContext(report=seen.append, is_cancelled=lambda: len(seen) == 2)
    assert count(5, context) == 2
    assert seen == [0, 1]


def test_the_idempotency_key_belongs_to_one_call_and_stays_over_attempts() -> None:
    first = ToolContext(run_id="r", step=2, call_id="c")
    again = ToolContext(run_id="r", step=2, call_id="c", attempt=2)
    other = ToolContext(run_id="r", step=3, call_id="c")
    assert first.idempotency_key == again.idempotency_key == "r:2::c"
    assert other.idempotency_key != first.idempotency_key


def test_no_two_calls_share_a_key_whatever_their_ids_look_like() -> None:
    ids = [("r", 0, "0:x"), ("r:0", 0, "x"), ("r%3A0", 0, "x"), ("r", 0, "x"), ("r", 0, ":x")]
    keys = {ToolContext(run_id=run, step=step, call_id=call).idempotency_key for run, step, call in ids}
    assert len(keys) == len(ids)
