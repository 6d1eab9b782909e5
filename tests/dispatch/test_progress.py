"""Reports of running tools: at once, never to the model, and bounded when nobody takes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from profiles import every
from streams import anthropic, chat, hanging, stream

from streamtools import Event, Limits, Observation, Pipeline, ToolContext, pipeline, tool
from streamtools.content import FinalResult, Text, ToolResult
from streamtools.events import StreamWarning, ToolProgress, ToolStarted
from streamtools.observers import Observer

pytestmark = pytest.mark.anyio

MANY, ROOM = 5_000, 100


@tool(effect="pure")
async def reports(ctx: ToolContext) -> str:
    """Report much, and wait for nobody."""
    for n in range(MANY):
        ctx.progress(n)
    return "done"


@tool(effect="pure")
def reports_from_a_thread(ctx: ToolContext) -> str:
    """Report much from a thread."""
    for n in range(MANY):
        ctx.progress(n)
    return "done"


@tool(effect="pure")
async def yields() -> AsyncIterator[int | FinalResult]:
    """Yield much."""
    for n in range(MANY):
        yield n
    yield FinalResult("done")


class Ends(Observer):
    """An observer that waits for the end of a call, in place of a consumer."""

    event_types = (Observation,)

    def __init__(self) -> None:
        self.ended = anyio.Event()

    def on_event(self, event: Event) -> None:
        self.ended.set()


@every("chosen", [reports, reports_from_a_thread, yields])
async def test_a_consumer_that_takes_nothing_neither_blocks_a_tool_nor_lets_its_reports_pile_up(chosen: Any) -> None:
    body = anthropic(calls=[("a", chosen.name, "{}")])
    ends = Ends()
    limits = Limits(max_waiting_progress=ROOM)
    with anyio.fail_after(20):
        async with pipeline(stream(body), tools=[chosen], limits=limits, observers=[ends]) as events:
            await ends.ended.wait()  # the tool ends although nobody takes an event
            seen = [event async for event in events]
    kept = [event.value for event in seen if isinstance(event, ToolProgress)]
    (warning,) = [event for event in seen if isinstance(event, StreamWarning)]
    assert kept == list(range(len(kept)))  # the first ones
    assert 0 < len(kept) <= ROOM
    assert max(at for at, event in enumerate(seen) if isinstance(event, ToolProgress)) == ROOM - 1
    assert warning.code == "progress_dropped"
    assert f"{MANY - len(kept)} reports" in warning.detail
    assert [o.value for o in events.turn.observations] == ["done"]
    assert [event.seq for event in seen] == list(range(len(seen)))  # no number is missing


async def test_a_consumer_that_keeps_up_gets_every_report() -> None:
    @tool(effect="pure")
    async def patient() -> AsyncIterator[int | FinalResult]:
        """Let the consumer have a look now and then."""
        for n in range(400):
            yield n
        yield FinalResult("done")

    with anyio.fail_after(30):
        body = anthropic(calls=[("a", "patient", "{}")])
        async with pipeline(stream(body), tools=[patient], limits=Limits(max_waiting_progress=ROOM)) as events:
            kept = [event.value async for event in events if isinstance(event, ToolProgress)]
    assert kept == list(range(400))


async def test_the_reports_of_one_call_are_not_held_up_by_another_call() -> None:
    entered, release = anyio.Event(), anyio.Event()

    @tool(effect="pure")
    async def stuck() -> str:
        """Be stuck."""
        entered.set()
        await release.wait()
        return "free"

    @tool(effect="pure")
    async def lively(ctx: ToolContext) -> str:
        """Report."""
        await entered.wait()
        ctx.progress("here")
        await release.wait()
        return "done"

    with anyio.fail_after(30):
        body = anthropic(calls=[("a", "stuck", "{}"), ("b", "lively", "{}")])
        async with pipeline(stream(body), tools=[stuck, lively]) as events:
            async for event in events:
                if isinstance(event, ToolProgress):
                    assert (event.call_id, event.value) == ("b", "here")
                    release.set()
    assert [o.outcome for o in events.turn.observations] == ["ok", "ok"]
    assert "here" not in str(events.turn.messages())


async def test_a_report_after_the_calls_end_goes_nowhere() -> None:
    kept: list[ToolContext] = []

    @tool(effect="pure")
    async def leaks(ctx: ToolContext) -> str:
        """Keep the context."""
        kept.append(ctx)
        return "done"

    async with pipeline(stream(anthropic(calls=[("a", "leaks", "{}")])), tools=[leaks]) as events:
        seen: list[Any] = []
        async for event in events:
            seen.append(event)
            if isinstance(event, Observation):
                kept[0].progress("late")
                assert kept[0].cancelled
    assert [type(event) for event in seen if isinstance(event, (ToolStarted, ToolProgress))] == [ToolStarted]


# -- tools that are async generators: progress at once, an explicit result, closed on every path in their own task --


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


@every("made", [Counter(), behind_a_wrapper])
async def test_a_generator_may_stand_behind_an_object_or_a_plain_wrapper(made: Any) -> None:
    seen, events = await run_to_end(tool(made, name="count", effect="pure"))
    assert [type(event).__name__ for event in seen] == ["ToolStarted", "ToolProgress", "Observation"]
    assert events.turn.observations[0].value == 2


@every("how", ["result", "raises", "timeout", "left between", "left inside"])
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


async def test_a_result_of_blocks_may_be_yielded() -> None:
    @tool(effect="pure")
    async def draw() -> AsyncIterator[Any]:
        """Draw."""
        yield "drawing"
        yield ToolResult(blocks=(Text("drawn"),))

    _, events = await run_to_end(draw)
    assert events.turn.observations[0].model_content == "drawn"
