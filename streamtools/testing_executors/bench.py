"""What the checks of executors work with."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from ..dispatch.executors import Executor, Invocation
from ..errors import ToolError
from .tools import marks

__all__ = ["Bench", "background", "expect", "stops"]


class Bench:
    """What a check works with.

    Args:
        executor: entered, and fresh.
        path: a file of the check's own, which is not there yet.
    """

    def __init__(self, executor: Executor, path: Path) -> None:
        self.executor = executor
        self.path = path
        self.progress: list[Any] = []
        self.reported = anyio.Event()

    def call(self, tool: str, *, seconds: float | None = None, key: str = "key", **arguments: Any) -> Invocation:
        """An invocation; `seconds` from now is its deadline."""
        deadline = None if seconds is None else time.time() + seconds
        return Invocation(tool=tool, arguments=arguments, key=key, deadline=deadline)

    async def run(self, call: Invocation) -> Any:
        """Run it, and keep what it reports."""
        return await self.executor.run(call, self._report)

    async def error_of(self, call: Invocation) -> ToolError:
        """What the call raises."""
        try:
            value = await self.run(call)
        except ToolError as error:
            return error
        raise AssertionError(f"{call.tool} should have raised, and returned a {type(value).__name__}")

    def _report(self, value: Any) -> None:
        self.progress.append(value)
        self.reported.set()


def expect(holds: bool, promise: str, found: object) -> None:
    """Raise unless it holds."""
    if not holds:
        raise AssertionError(f"{promise}; found {found!r}")


@asynccontextmanager
async def background(work: Callable[[], Awaitable[Any]]) -> AsyncIterator[anyio.CancelScope]:
    """Do something else meanwhile; the scope cancels it, and leaving the block waits for it."""
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await work()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        yield scope


async def stops(path: Path) -> None:
    """Wait until the work leaves no more marks. It left one every 10 ms, so 200 ms without one tell that it is over."""
    before = -1
    while before != (before := marks(path)):  # noqa: ASYNC110 - it is another process that may go on
        await anyio.sleep(0.2)
