"""An executor for calls in this process, which end with it. Without one, calls run in the same way (`here`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Self

from anyio import CapacityLimiter

from ...errors import ToolNotStarted
from ...tools import AnyTool, Toolset
from ..executor import Begin, Emit, Invocation
from ..here import run_here
from ..store import checked_bound
from .runs import Runs, WorkerRun, bind

__all__ = ["LocalExecutor"]


class LocalExecutor:
    """Runs async tools in the caller's task, and sync tools in threads. Leaving its block ends its calls in all
    pipelines.

    Python cannot stop a thread: a sync call that is cancelled, or out of time, is given up. Its tool sees
    ``ctx.cancelled``, and its thread counts as abandoned until the tool ends.

    Args:
        tools: the tools that may be called.
        max_threads: how many sync calls run at once; more wait, and their waiting does not count as their time.
        max_abandoned_threads: how many given-up threads of this process may still be busy; from that number on, sync
            calls are refused.

    Raises:
        ToolDefinitionError: one of `tools` is no tool.
    """

    def __init__(self, tools: Iterable[AnyTool], *, max_threads: int = 8, max_abandoned_threads: int = 8) -> None:
        self._tools = Toolset(tools)
        self._max_threads = checked_bound("max_threads", max_threads)
        self._max_abandoned = checked_bound("max_abandoned_threads", max_abandoned_threads)
        self._runs = Runs()

    threads: CapacityLimiter
    """The places for sync calls."""

    @property
    def tool_names(self) -> frozenset[str]:
        """The names of its tools."""
        return self._tools.names

    async def __aenter__(self) -> Self:
        """Takes calls from now on."""
        self._runs.open()
        self.threads = CapacityLimiter(self._max_threads)
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Cancels the running calls, or gives them up."""
        await self._runs.close()

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        """See `Executor`."""
        return await self._runs.run(begin, partial(self._body, call, emit))

    async def _body(self, call: Invocation, emit: Emit, run: WorkerRun) -> Any:
        tool = self._tools.get(call.tool)
        if tool is None:
            there = sorted(self._tools.names)
            raise ToolNotStarted(f"not run: the executor was not given a tool {call.tool!r}; it has {there}")
        return await run_here(tool, bind(tool, call), call, run.begin, emit, self, self._max_abandoned)
