"""Calls in this process on an executor of its own: what the contract leaves to each, and threads that are given up."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import executor_tools
import pytest
from processes import begin, begin_with, call, never, nobody, wait_for
from profiles import mostly_thorough

from streamtools import ToolContext, ToolError, tool
from streamtools.dispatch.executors import LocalExecutor
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.errors import LocalProtocolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from streamtools.testing import check_executor
from streamtools.testing.executors import CHECKS

pytestmark = pytest.mark.anyio


@tool
async def let_out() -> None:
    """Let out a cancellation that nobody has asked of it, as of a cancelled task that it awaited."""
    raise asyncio.CancelledError


@tool
async def crowd() -> None:
    """Run tasks of its own, one of which fails when it is cancelled."""

    async def fail_late() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyError("late")

    async with anyio.create_task_group() as group:
        group.start_soon(fail_late)
        group.start_soon(anyio.sleep_forever)
        await anyio.sleep_forever()


@tool
def stay(gate: Any, ctx: ToolContext) -> str:
    """Stay until it is let go."""
    ctx.progress("stays")
    GATES[gate].wait()
    return "let go"


@tool
async def wait(ctx: ToolContext) -> None:
    """Wait for ever."""
    ctx.progress("waits")
    await anyio.sleep_forever()


@tool
async def stop_all() -> None:
    """Raise what is no failure of a call."""
    raise Fatal("all of it")


class Fatal(BaseException):
    """As an interrupt is."""


GATES: dict[str, threading.Event] = {}


@contextlib.contextmanager
def gate(name: str) -> Any:
    """Holds `stay` until it is set, at the latest at the end."""
    GATES[name] = threading.Event()
    try:
        yield GATES[name]
    finally:
        GATES[name].set()
        wait_for(lambda: not abandoned_threads())


@pytest.mark.costly
@pytest.mark.parametrize("form", mostly_thorough(["async", "sync"], 1))
async def test_it_does_what_executors_do(form: Any) -> None:
    assert len(await check_executor(LocalExecutor, tools=form)) == len(CHECKS)


async def test_it_takes_async_and_sync_tools_side_by_side() -> None:
    async with LocalExecutor([executor_tools.behind_a_wrapper, executor_tools.worker_id, let_out]) as executor:
        assert executor.tool_names == {"behind_a_wrapper", "worker_id", "let_out"}
        assert await executor.run(call("behind_a_wrapper", number=4), begin, nobody) == 4
        assert await executor.run(call("worker_id"), begin, nobody)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_nobody_asked_for_is_the_tools_failure() -> None:
    async with LocalExecutor([let_out]) as executor:
        with pytest.raises(ToolFailed, match="let_out raised CancelledError"):
            await executor.run(call("let_out"), begin, nobody)


async def test_what_is_fatal_in_a_tool_is_let_out() -> None:
    async with LocalExecutor([stop_all]) as executor:
        with pytest.raises(Fatal):
            await executor.run(call("stop_all"), begin, nobody)


async def test_a_tool_with_tasks_of_its_own_that_fail_on_their_way_out_has_ended() -> None:
    async with LocalExecutor([crowd]) as executor:
        with pytest.raises((ToolTimeout, ToolFailed)):
            await executor.run(call("crowd"), begin_with(0.1), nobody)


async def test_what_a_generator_yields_is_progress_and_its_result_is_the_value() -> None:
    seen: list[Any] = []
    async with LocalExecutor([executor_tools.count, executor_tools.endless]) as executor:
        assert await executor.run(call("count", to=2), begin, seen.append) == "done"
        with pytest.raises(ToolFailed, match="ended without a result"):
            await executor.run(call("endless"), begin, seen.append)
    assert seen == [0, 1, "on and on"]


async def test_an_executor_is_entered_once_and_used_inside() -> None:
    executor = LocalExecutor([let_out])
    with pytest.raises(ToolNotStarted, match="the executor was not entered; run calls inside `async with executor`"):
        await executor.run(call("let_out"), never, nobody)
    async with executor:
        pass
    with pytest.raises(LocalProtocolError, match="entered once"):
        await executor.__aenter__()
    with pytest.raises(ToolNotStarted, match="the executor was left"):
        await executor.run(call("let_out"), never, nobody)


async def test_leaving_it_tells_a_call_that_waits_for_a_thread_that_it_has_not_run() -> None:
    ends: list[type[ToolError]] = []
    stays = anyio.Event()

    async def run(begins: Any) -> None:
        try:
            await executor.run(call("stay", gate="leaving"), begins, lambda _: stays.set())
        except ToolError as error:
            ends.append(type(error))

    with gate("leaving"):
        async with anyio.create_task_group() as group, LocalExecutor([stay], max_threads=1) as executor:
            group.start_soon(run, begin)
            await stays.wait()
            group.start_soon(run, never)
            await anyio.wait_all_tasks_blocked()
        assert sorted(ends, key=str) == [ToolNotStarted, ToolOutcomeUnknown]


# -- threads --


async def test_threads_that_were_given_up_are_bounded() -> None:
    wait_for(lambda: not abandoned_threads())  # of other tests
    with gate("bounded"):
        async with LocalExecutor([stay], max_threads=8, max_abandoned_threads=2) as executor:
            ends = []
            for begins in (begin_with(0.05), begin_with(0.05), never, never):
                given = call("stay", gate="bounded")
                with pytest.raises(ToolError) as caught:
                    await executor.run(given, begins, lambda _: None)
                ends.append((type(caught.value), given.left_running))
        assert ends == [(ToolTimeout, True), (ToolTimeout, True), (ToolNotStarted, False), (ToolNotStarted, False)]


async def test_a_call_that_is_cancelled_while_it_waits_for_a_thread_has_not_begun() -> None:
    stays = anyio.Event()

    async def first() -> None:
        await executor.run(call("stay", gate="turn"), begin, lambda _: stays.set())

    with gate("turn") as let_go:
        async with LocalExecutor([stay], max_threads=1) as executor, anyio.create_task_group() as group:
            group.start_soon(first)
            await stays.wait()
            with anyio.move_on_after(0.02) as scope:
                await executor.run(call("stay", gate="turn"), never, nobody)
            assert scope.cancelled_caught
            let_go.set()


async def test_the_wait_for_a_thread_is_not_the_calls_time() -> None:
    """Its seconds are asked for when it has its thread."""
    asked, stays = list[str](), anyio.Event()
    values: list[Any] = []

    async def run(name: str, seconds: float, seen: Callable[[Any], object]) -> None:
        values.append(
            await executor.run(call("stay", gate="time"), begin_with(seconds, partial(asked.append, name)), seen)
        )

    with gate("time") as let_go:
        async with LocalExecutor([stay], max_threads=1) as executor, anyio.create_task_group() as group:
            group.start_soon(run, "first", math.inf, lambda _: stays.set())
            await stays.wait()
            group.start_soon(run, "second", 60, lambda _: None)
            await anyio.wait_all_tasks_blocked()
            assert asked == ["first"]
            let_go.set()
    assert (asked, values) == (["first", "second"], ["let go", "let go"])


async def test_a_thread_whose_call_did_not_begin_serves_the_next_one() -> None:
    async def refuse() -> float:
        raise LookupError

    async with LocalExecutor([executor_tools.worker_id], max_threads=1) as executor:
        for _ in range(3):
            with pytest.raises(LookupError):
                await executor.run(call("worker_id"), refuse, nobody)
        assert abandoned_threads() == 0
        assert await executor.run(call("worker_id"), begin, nobody)


async def test_an_async_call_that_is_cancelled_leaves_nothing_running() -> None:
    given = call("wait")
    async with LocalExecutor([wait]) as executor:
        with anyio.CancelScope() as scope:
            await executor.run(given, begin, lambda _: scope.cancel())
    assert (scope.cancelled_caught, given.left_running) == (True, False)
