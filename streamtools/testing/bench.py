"""Gives the checks of executors their tools."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from ..dispatch.executor import Begin, Executor, Invocation
from ..errors import ToolError
from .executor_tools import marks

__all__ = ["Bench", "background", "expect", "nothing_ran", "stops"]


class Bench:
    """The equipment of a check.

    Args:
        executor: a fresh executor, already entered.
        path: a file for this check alone, which does not exist yet.
    """

    def __init__(self, executor: Executor, path: Path) -> None:
        self.executor = executor
        self.path = path
        self.progress: list[Any] = []
        self.begun = 0
        self.reported = anyio.Event()

    def call(self, tool: str, *, key: str = "key", **arguments: Any) -> Invocation:
        """Returns an invocation."""
        return Invocation(tool=tool, arguments=arguments, key=key)

    async def run(self, call: Invocation, begin: Begin | None = None, *, seconds: float = math.inf) -> Any:
        """Runs a call, and keeps its reports. By default `begin` lets the call run for `seconds`, and is counted."""
        return await self.executor.run(call, begin or self.begin_with(seconds), self.report)

    def begin_with(self, seconds: float) -> Begin:
        """Returns a `begin` that lets a call run for so long, and counts in `begun` how often it was awaited."""

        async def begin() -> float:
            self.begun += 1
            return seconds

        return begin

    async def error_of(self, call: Invocation, begin: Begin | None = None, *, seconds: float = math.inf) -> ToolError:
        """Returns the call's error."""
        try:
            value = await self.run(call, begin, seconds=seconds)
        except ToolError as error:
            return error
        raise AssertionError(f"{call.tool} should have raised, and returned a {type(value).__name__}")

    def report(self, value: Any) -> None:
        """Takes a tool's report."""
        self.progress.append(value)
        self.reported.set()


def expect(holds: bool, promise: str, found: object) -> None:
    """Raises unless `holds` is true."""
    if not holds:
        raise AssertionError(f"{promise}; found {found!r}")


@asynccontextmanager
async def background(work: Callable[[], Awaitable[Any]]) -> AsyncIterator[anyio.CancelScope]:
    """Runs `work` in the background; the scope cancels it, and leaving the block waits for it."""
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await work()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        yield scope


async def stops(path: Path) -> None:
    """Waits until the work leaves no more marks. It left one every 10 ms, so 200 ms without one mean that it is
    over."""
    before = -1
    while before != (before := marks(path)):  # noqa: ASYNC110 - it is another process that may go on
        await anyio.sleep(0.2)


async def nothing_ran(path: Path) -> None:
    """Raises if there is a mark, or one comes within 200 ms: a tool started by mistake may be in another process."""
    await anyio.sleep(0.2)
    expect(not path.exists(), "no tool should have run", path)  # noqa: ASYNC240 - one look
