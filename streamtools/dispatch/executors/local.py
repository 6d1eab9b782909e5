"""An executor for calls in this process, which end with it. Without one, calls run in the same way (`here`)."""

from __future__ import annotations

from typing import Any, Self

from anyio import CapacityLimiter

from ...limits import checked_bound
from ...tools import AnyTools, Tool, Toolset
from ..executor import Emit, Invocation
from ..here import run_here
from .runs import BlockExecutor, WorkerRun, bind

__all__ = ["LocalExecutor"]


class LocalExecutor(BlockExecutor):
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

    carries_context = True

    def __init__(self, tools: AnyTools, *, max_threads: int = 8, max_abandoned_threads: int = 8) -> None:
        super().__init__()
        self._tools = Toolset(tools)
        self._max_threads = checked_bound("max_threads", max_threads)
        self._max_abandoned = checked_bound("max_abandoned_threads", max_abandoned_threads)

    threads: CapacityLimiter
    """The places for sync calls."""

    async def __aenter__(self) -> Self:
        """Takes calls from now on."""
        await super().__aenter__()
        self.threads = CapacityLimiter(self._max_threads)
        return self

    async def _body(self, call: Invocation, known: Tool[..., Any], emit: Emit, run: WorkerRun) -> Any:
        return await run_here(known, bind(known, call), call, run.begin, emit, self, self._max_abandoned)
