"""An agent's tests as a user of anyio's plugin writes them: on asyncio and trio, with fixtures that hold blocks open.

``test_agent_with_pytest_asyncio.py`` has the same for the other plugin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from waiter import CHAT, Waiter, book, books, says

from streamtools import AgentLoop, Observation, Pipeline, pipeline
from streamtools.testing import FakeTool, ScriptedSource

pytestmark = pytest.mark.anyio


async def test_it_books_and_says_so() -> None:
    waiter = Waiter(books(4), says("Booked."), results=["ok"])
    run = waiter.run("A table, please.")
    assert (await run).text == "Booked."
    assert (run.outcome, waiter.book.calls) == ("answered", [{"table": 4}])


async def test_a_cancelled_test_task_leaves_a_history() -> None:
    began = anyio.Event()

    class Never:
        async def wait(self) -> None:
            began.set()
            await anyio.sleep_forever()

    run = Waiter(books(4), results=[Never()]).run("A table, please.")
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(run.finish)
            await began.wait()
            group.cancel_scope.cancel()
    assert (run.outcome, run.turns[0].observations[0].outcome) == ("left", "cancelled")


@pytest.fixture
async def open_run() -> AsyncIterator[AgentLoop]:
    async with Waiter(books(4), says("Booked."), results=["ok"]).run("A table, please.") as run:
        yield run


@pytest.fixture
async def open_pipeline() -> AsyncIterator[Pipeline]:
    async with pipeline(ScriptedSource([books(4)]), tools=[FakeTool(book).tool], wire=CHAT) as events:
        yield events


async def test_a_fixture_may_hold_a_run_open(open_run: AgentLoop) -> None:
    outcomes = [event.outcome async for event in open_run if isinstance(event, Observation)]
    assert (outcomes, open_run.outcome) == (["ok"], "answered")


async def test_a_fixtures_run_may_be_left_in_its_middle(open_run: AgentLoop) -> None:
    async for event in open_run:
        if isinstance(event, Observation):
            break
    assert open_run.outcome is None


async def test_a_fixture_may_hold_a_pipeline_open(open_pipeline: Pipeline) -> None:
    turn = await open_pipeline.finish()
    assert [seen.outcome for seen in turn.observations] == ["ok"]
