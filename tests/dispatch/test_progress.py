"""Reports of running tools: at once, never to the model, and bounded when nobody takes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from streams import anthropic, stream

from streamtools import Event, Limits, Observation, ToolContext, pipeline, tool
from streamtools.content import FinalResult
from streamtools.events import StreamWarning, ToolProgress, ToolStarted

pytestmark = pytest.mark.anyio

MANY, ROOM = 5_000, 100


@tool(effect="pure")
async def reports(ctx: ToolContext) -> str:
    """Report much, and wait for nobody."""
    for n in range(MANY):
        ctx.progress(n)
    return "done"


@tool(effect="pure", name="reports")
async def few(ctx: ToolContext) -> str:
    """Report a little, and let the consumer take it."""
    for n in range(30):
        ctx.progress(n)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
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


class Ends:
    """An observer that waits for the end of a call, in place of a consumer."""

    event_types = (Observation,)

    def __init__(self) -> None:
        self.ended = anyio.Event()

    def on_event(self, event: Event) -> None:
        self.ended.set()

    def around_tool(self, call_id: str) -> None:
        return None


@pytest.mark.parametrize("chosen", [reports, reports_from_a_thread, yields], ids=lambda chosen: chosen.name)
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


async def test_a_branch_that_is_waited_for_counts_as_a_consumer_that_takes_nothing() -> None:
    body = anthropic(calls=[("a", "reports", "{}")])
    for when_full, is_waited_for in (("wait", True), ("drop_oldest", False)):
        limits = Limits(max_waiting_progress=20)
        with anyio.fail_after(20):
            async with pipeline(stream(body), tools=[few], limits=limits) as events:
                branch = events.branch(size=1000, when_full=when_full)
                seen = [event async for event in events]
        kept = [event.value for event in seen if isinstance(event, ToolProgress)]
        assert (len(kept) < 20) is is_waited_for, when_full
        del branch


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
