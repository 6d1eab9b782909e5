"""One contract for all executors, and executors that break it; what it leaves to the one in this process."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from processes import begin, call, never, nobody

from streamtools import tool
from streamtools.dispatch import Begin, Emit
from streamtools.errors import LocalProtocolError, ToolFailed, ToolNotStarted
from streamtools.executors import Executor, Invocation, LocalExecutor, ProcessExecutor
from streamtools.testing import check_executor
from streamtools.testing.executors import CHECKS

pytestmark = [pytest.mark.anyio, pytest.mark.costly]


@pytest.mark.thorough
async def test_worker_processes_do_what_executors_do() -> None:
    checked = await check_executor(ProcessExecutor, own_processes=True)
    assert len(checked) == len(CHECKS) + 1


# -- checks see the executors that break them --


class Altered:
    """An executor that does one thing otherwise."""

    def __init__(self, alter: Callable[[Executor, Invocation, Begin, Emit], Awaitable[Any]], tools: Any) -> None:
        self.inner = LocalExecutor(tools)
        self.alter = alter

    async def __aenter__(self) -> Altered:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.inner.__aexit__(*raised)

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        return await self.alter(self.inner, call, begin, emit)


async def telling(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    try:
        return await inner.run(call, begin, emit)
    except ToolFailed as error:
        raise ToolFailed(f"{error}: {error.__cause__}") from error


def given(seconds: float) -> Begin:
    """Returns a `begin` that does nothing else."""

    async def begin() -> float:
        return seconds

    return begin


async def beginning_late(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    value = await inner.run(call, given(math.inf), emit) if call.tool == "mark" else None
    return await inner.run(call, begin, emit) if value is None else (value, await begin())


async def running_what_was_refused(inner: Executor, call: Invocation, begin: Begin, emit: Emit) -> Any:
    try:
        return await inner.run(call, begin, emit)
    except LookupError:
        await inner.run(call, given(math.inf), emit)
        raise


BROKEN: dict[str, tuple[Any, str]] = {
    "telling": (telling, "an_exception_shows_its_type_alone"),
    "beginning_late": (beginning_late, "it_begins_once_and_before_the_tool"),
    "running_what_was_refused": (running_what_was_refused, "a_refused_begin_runs_nothing_and_is_raised_unchanged"),
}


@pytest.mark.thorough
async def test_a_check_names_the_promise_that_is_broken() -> None:
    """All at once, since the checks wait for what must not happen."""
    found: dict[str, str] = {}

    async def check(name: str) -> None:
        try:
            await check_executor(lambda tools: Altered(BROKEN[name][0], tools))
        except AssertionError as error:
            found[name] = str(error).partition(": ")[0]

    async with anyio.create_task_group() as group:
        for name in BROKEN:
            group.start_soon(check, name)
    assert found == {name: check for name, (_, check) in BROKEN.items()}


@pytest.mark.costly
async def test_it_does_what_executors_do() -> None:
    assert len(await check_executor(LocalExecutor)) == len(CHECKS)


# -- in this process --


class Fatal(KeyboardInterrupt):
    """As an interrupt is."""


@tool
async def stop_all() -> None:
    """Raise what is no failure of a call."""
    raise Fatal("all of it")


async def test_what_is_fatal_in_a_tool_is_let_out() -> None:
    async with LocalExecutor([stop_all]) as executor:
        with pytest.raises(Fatal):
            await executor.run(call("stop_all"), begin, nobody)


async def test_an_executor_is_entered_once_and_used_inside() -> None:
    executor = LocalExecutor([stop_all])
    with pytest.raises(ToolNotStarted, match="the executor was not entered; run calls inside `async with executor`"):
        await executor.run(call("stop_all"), never, nobody)
    async with executor:
        pass
    with pytest.raises(LocalProtocolError, match="entered once"):
        await executor.__aenter__()
    with pytest.raises(ToolNotStarted, match="the executor was left"):
        await executor.run(call("stop_all"), never, nobody)
