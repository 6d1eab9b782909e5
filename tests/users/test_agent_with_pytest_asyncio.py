"""An agent's tests as a user of pytest-asyncio writes them: fixtures that hold blocks open, loops of any scope.

pytest-asyncio enters and leaves a fixture in two tasks, and runs each test in a third; a block of anyio's own would not
survive that. ``test_agent_with_anyio.py`` has the same for anyio's plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from waiter import CHAT, Waiter, book, books, says

from streamtools import AgentLoop, ApprovalRequested, Observation, Pipeline, Trajectory, pipeline, tool
from streamtools.dispatch import CallPool, MemoryStore
from streamtools.dispatch.executors import LocalExecutor
from streamtools.errors import TruncatedStream
from streamtools.testing import FakeTool, ScriptedSource, check_executor

pytest_asyncio = pytest.importorskip("pytest_asyncio", reason="PYTEST-ASYNCIO IS NOT INSTALLED: none of it was run")


# -- a test, and its marker ----------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_it_books_and_says_so() -> None:
    waiter = Waiter(books(4), says("Booked."), results=["ok"])
    run = waiter.run("A table, please.")
    assert (await run).text == "Booked."
    assert (run.outcome, waiter.book.calls) == ("answered", [{"table": 4}])
    assert waiter.asked[1][-1]["content"] == "ok"


@pytest.mark.asyncio
@pytest.mark.parametrize(("table", "outcome"), [(4, "ok"), ("four", "invalid")])
async def test_each_call_has_an_outcome(table: Any, outcome: str) -> None:
    waiter = Waiter(books(table), says("."), results=["ok"])
    run = waiter.run("A table, please.")
    await run
    assert [seen.outcome for seen in run.turns[0].observations] == [outcome]


@pytest.mark.asyncio
async def test_a_stream_that_breaks_is_raised() -> None:
    events = pipeline(ScriptedSource([{"choices": [{"delta": {"content": "Boo"}}]}]), wire=CHAT)
    with pytest.raises(TruncatedStream):
        await events
    assert events.turn.text == "Boo"


@pytest.mark.asyncio
async def test_a_gate_of_asyncio_decides_when_the_stream_goes_on() -> None:
    gate = asyncio.Event()
    source = ScriptedSource([{"choices": [{"delta": {"content": "Boo"}}]}, gate, says("ked.")])
    async with asyncio.timeout(5), pipeline(source, wire=CHAT) as events:
        assert [event.text async for event in until_text(events)] == ["Boo"]
        gate.set()
        await events.finish()
    assert (events.turn.text, source.closed) == ("Booked.", True)


async def until_text(events: Pipeline) -> AsyncIterator[Any]:
    async for event in events:
        if hasattr(event, "text"):
            yield event
            return


@pytest.mark.asyncio
async def test_a_cancelled_test_task_leaves_a_history() -> None:
    began = asyncio.Event()

    class Never:
        async def wait(self) -> None:
            began.set()
            await asyncio.get_running_loop().create_future()

    run = Waiter(books(4), results=[Never()]).run("A table, please.")
    async with asyncio.timeout(5):
        task = asyncio.ensure_future(run.finish())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (run.outcome, run.turns[0].observations[0].outcome) == ("left", "cancelled")


# -- fixtures that hold a block ------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def open_run() -> AsyncIterator[AgentLoop]:
    async with Waiter(books(4), says("Booked."), results=["ok"]).run("A table, please.") as run:
        yield run


@pytest_asyncio.fixture
async def open_pipeline() -> AsyncIterator[Pipeline]:
    async with pipeline(ScriptedSource([books(4)]), tools=[FakeTool(book).tool], wire=CHAT) as events:
        yield events


@pytest.mark.asyncio
async def test_a_fixture_may_hold_a_run_open(open_run: AgentLoop) -> None:
    outcomes = [event.outcome async for event in open_run if isinstance(event, Observation)]
    assert (outcomes, open_run.outcome) == (["ok"], "answered")


@pytest.mark.asyncio
async def test_a_fixtures_run_may_be_left_in_its_middle(open_run: AgentLoop) -> None:
    async for event in open_run:
        if isinstance(event, Observation):
            break
    assert open_run.outcome is None


@pytest.mark.asyncio
async def test_a_fixture_may_hold_a_pipeline_open(open_pipeline: Pipeline) -> None:
    turn = await open_pipeline.finish()
    assert [seen.outcome for seen in turn.observations] == ["ok"]


# -- loops that live longer than a test ----------------------------------------------------------------------------


class Shared:
    """What the tests of a module have in common."""

    def __init__(self) -> None:
        self.pool = CallPool()
        self.store = MemoryStore()
        self.runs = 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Shared]:
    yield Shared()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("_", range(2))
async def test_a_pool_and_a_store_are_shared_by_the_tests_of_a_module(shared: Shared, _: int) -> None:
    waiter = Waiter(books(4), says("Booked."), results=["ok"])
    mine = Trajectory(run_id="r", observers=())
    run = waiter.run("A table, please.", pool=shared.pool, store=shared.store, trajectory=mine)
    await run
    assert run.turns[0].observations[0].recorded is (shared.runs > 0)
    assert len(waiter.book.calls) == (shared.runs == 0)
    shared.runs += 1


@pytest.mark.asyncio
async def test_a_store_outlives_the_loop_of_a_test(store: MemoryStore) -> None:
    await Waiter(books(4), says("."), results=["ok"]).run("Book.", store=store)


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    return MemoryStore()


@pytest.mark.asyncio
async def test_an_approval_is_given_within_the_test() -> None:
    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    call = {"index": 0, "id": "c1", "function": {"name": "pay", "arguments": '{"amount": 3}'}}
    source = ScriptedSource([{"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}])
    async with pipeline(source, tools=[pay], wire=CHAT) as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                events.approve(event)
    assert [seen.value for seen in events.turn.observations] == ["paid 3"]


class TestInAClass:
    """Tests may be methods."""

    @pytest.mark.asyncio
    async def test_of_a_class(self) -> None:
        assert (await Waiter(says("Hello.")).run("Hi")).text == "Hello."


@pytest.mark.asyncio
@pytest.mark.thorough
async def test_an_executor_is_checked() -> None:
    assert len(await check_executor(LocalExecutor)) > 5
