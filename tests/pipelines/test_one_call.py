"""A pipeline or a loop in one call, and a block that nobody reads."""

from __future__ import annotations

import warnings
from contextlib import suppress

import anyio
import pytest
from profiles import every
from streams import anthropic, chat, hanging, stream

from streamtools import Pipeline, agent_loop, pipeline, tool

pytestmark = pytest.mark.anyio

CALLS = chat(["Hi"], [("c1", "double", '{"number": 2}')])
ANSWER = chat(["Four."], finish="stop")


@tool(effect="pure")
def double(number: int) -> int:
    """Doubles a number."""
    return 2 * number


async def test_a_pipeline_is_finished_in_one_call() -> None:
    turn = await pipeline(stream(CALLS), tools=[double]).finish()
    assert (turn.text, [seen.value for seen in turn.observations]) == ("Hi", [4])


async def test_finish_reads_the_rest_inside_a_block() -> None:
    async with pipeline(stream(CALLS), tools=[double]) as events:
        await events.__anext__()
        turn = await events.finish()
    assert [seen.value for seen in turn.observations] == [4]
    assert turn == events.turn


async def test_a_pipeline_is_awaited_once() -> None:
    block = pipeline(stream(CALLS), tools=[double])
    await block
    with pytest.raises(TypeError, match="the pipeline's block was left"):
        await block


async def test_a_loop_is_awaited_without_a_block() -> None:
    bodies = [CALLS, ANSWER]
    run = agent_loop(lambda *_: stream(bodies.pop(0)), [], tools=[double], wire="openai.chat_completions")
    turn = await run
    assert turn.text == "Four."
    assert run.outcome == "answered"
    assert [message["role"] for message in run.messages] == ["assistant", "tool", "assistant"]
    with pytest.raises(TypeError, match="iterate over a run once, in its block"):
        await run


async def test_a_block_that_nobody_read_says_what_was_not_run() -> None:
    body = anthropic(["Hi"], [("c1", "double", '{"number": 2}')], stop=None)
    block = pipeline(hanging(body), tools=[double], start="turn_end")
    with pytest.warns(RuntimeWarning, match="calls did not run: double; .*await events.finish"):
        await wait_in(block)


async def wait_in(block: Pipeline) -> None:
    async with block:
        await anyio.wait_all_tasks_blocked()


@every("leave", ["read", "closed", "branched", "raised"])
async def test_a_block_that_was_read_or_given_up_says_nothing(leave: str) -> None:
    with warnings.catch_warnings(), suppress(KeyError):
        warnings.simplefilter("error")
        async with pipeline(stream(CALLS), tools=[double]) as events:
            if leave == "read":
                await events.__anext__()
            elif leave == "closed":
                await events.aclose()
            elif leave == "branched":
                await events.branch().__anext__()
            else:
                raise KeyError("mine")
