"""Tools that are async generators: progress at once, an explicit result, closed on every path in their own task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from streams import anthropic, chat, hanging, stream

from streamtools import Event, Observation, Pipeline, ToolContext, pipeline, tool
from streamtools.content import FinalResult, Text, ToolResult
from streamtools.errors import ToolNotStarted, ToolOutcomeUnknown
from streamtools.events import ToolProgress, ToolStarted

pytestmark = pytest.mark.anyio


async def run_to_end(made: Any) -> tuple[list[Any], Pipeline]:
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=[("a", made.name, "{}")])), tools=[made]) as events:
            seen = [event async for event in events if isinstance(event, (ToolStarted, ToolProgress, Observation))]
    return seen, events


async def test_what_is_yielded_is_progress_at_once_and_the_result_is_the_result() -> None:
    shown = anyio.Event()
    after: list[str] = []

    @tool(effect="pure")
    async def count(ctx: ToolContext) -> AsyncIterator[int | FinalResult]:
        """Count."""
        yield 1
        await shown.wait()
        yield 2
        yield FinalResult([1, 2])
        after.append("ran on")

    seen: list[Event] = []
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=[("a", "count", "{}")])), tools=[count]) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, ToolProgress):
                    shown.set()
    assert [event.value for event in seen if isinstance(event, ToolProgress)] == [1, 2]
    (observation,) = events.turn.observations
    assert (observation.outcome, observation.value, observation.model_content) == ("ok", [1, 2], "[1,2]")
    assert after == []
    assert count.output_schema is None


async def test_a_result_of_blocks_may_be_yielded() -> None:
    @tool(effect="pure")
    async def draw() -> AsyncIterator[Any]:
        """Draw."""
        yield "drawing"
        yield ToolResult(blocks=(Text("drawn"),))

    _, events = await run_to_end(draw)
    assert events.turn.observations[0].model_content == "drawn"


async def test_without_a_result_the_call_has_failed_and_no_value_is_taken_for_it() -> None:
    @tool(effect="pure")
    async def count() -> AsyncIterator[int]:
        """Count."""
        yield 1
        yield 2

    seen, events = await run_to_end(count)
    assert [event.value for event in seen if isinstance(event, ToolProgress)] == [1, 2]
    (observation,) = events.turn.observations
    assert (observation.outcome, observation.value) == ("failed", None)
    assert observation.model_content == "Error: the tool count ended without a result"


class Counter:
    async def __call__(self) -> AsyncIterator[Any]:
        """Count."""
        yield 1
        yield FinalResult(2)


def behind_a_wrapper() -> Any:
    """Count."""
    return Counter()()


@pytest.mark.parametrize("made", [Counter(), behind_a_wrapper], ids=["object", "wrapper"])
async def test_a_generator_may_stand_behind_an_object_or_a_plain_wrapper(made: Any) -> None:
    seen, events = await run_to_end(tool(made, name="count", effect="pure"))
    assert [type(event).__name__ for event in seen] == ["ToolStarted", "ToolProgress", "Observation"]
    assert events.turn.observations[0].value == 2


@pytest.mark.parametrize("how", ["result", "raises", "timeout", "left between", "left inside"])
async def test_a_generator_is_closed_on_every_path_in_the_tools_own_task(how: str) -> None:
    tasks: list[int] = []

    @tool(effect="pure", timeout=0.02 if how == "timeout" else None)
    async def work() -> AsyncIterator[Any]:
        """Work."""
        tasks.append(anyio.get_current_task().id)
        try:
            yield "begun"
            if how == "raises":
                raise KeyError
            if how == "result":
                yield FinalResult("done")
            while how == "left between":
                yield "more"
            await anyio.sleep_forever()
        finally:
            tasks.append(anyio.get_current_task().id)

    outcome = {"result": "ok", "raises": "failed", "timeout": "timed_out"}.get(how, "cancelled")
    with anyio.fail_after(30):
        body = anthropic(calls=[("a", "work", "{}")], stop=None)
        async with pipeline(hanging(body), tools=[work]) as events:
            async for event in events:
                if isinstance(event, Observation) or (outcome == "cancelled" and isinstance(event, ToolProgress)):
                    break
    assert [o.outcome for o in events.turn.observations] == [outcome]
    assert len(tasks) == 2
    assert tasks[0] == tasks[1]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ToolOutcomeUnknown("the worker was lost"), "unknown"), (ToolNotStarted("no worker is free"), "failed")],
)
async def test_what_an_executor_could_not_tell_or_start_is_told_apart_and_may_be_tried_again(
    error: Exception, outcome: str
) -> None:
    attempts = []

    @tool(effect="idempotent", retries=1, retry_delay_s=0.001)
    async def act() -> str:
        """Act."""
        attempts.append(1)
        raise error

    _, events = await run_to_end(act)
    (observation,) = events.turn.observations
    assert (observation.outcome, len(attempts), observation.attempts) == (outcome, 2, 2)
