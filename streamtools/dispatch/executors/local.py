"""Executors in this process: async tools in the caller's task, sync tools in threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Any, Self

from anyio import CapacityLimiter, RunFinishedError, from_thread
from anyio.lowlevel import checkpoint_if_cancelled, current_token

from ...errors import ToolDefinitionError, ToolNotStarted
from ...telemetry.carried import carried
from ...tools import AnyTool, Tool, Toolset
from ..executor import Emit, Invocation, context_of
from ..store import checked_bound
from ..threads import ThreadCall, abandoned_threads
from .runs import Run, Runs, awaitable, bind, guarded

__all__ = ["InProcessExecutor", "ThreadExecutor"]


class InProcessExecutor:
    """Runs async tools in the task that asks.

    Args:
        tools: what may be called.

    Raises:
        ToolDefinitionError: one of them is no tool, or is sync.
    """

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        self._tools = _tools_of(tools, is_async=True)
        self._runs = Runs()

    @property
    def tool_names(self) -> frozenset[str]:
        """What it may be asked to run."""
        return self._tools.names

    async def __aenter__(self) -> Self:
        """Take calls from now on."""
        self._runs.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Cancel what runs."""
        await self._runs.close()

    async def run(self, call: Invocation, emit: Emit, /) -> Any:
        """See `Executor`."""
        return await self._runs.run(call, partial(self._body, call, emit))

    async def _body(self, call: Invocation, emit: Emit, run: Run) -> Any:
        tool = tool_of(self._tools, call)
        bound = bind(tool, call)
        ctx = context_of(call, reporter(run, emit), lambda: run.over)
        args, kwargs = tool.complete(bound, ctx)
        await checkpoint_if_cancelled()
        with carried(call.carrier):
            run.started = True
            return await guarded(tool.name, awaitable(tool, tool.fn(*args, **kwargs), ctx))


class ThreadExecutor:
    """Runs sync tools in threads.

    Python cannot stop a thread. A call that is cancelled, or whose deadline has come, is given up: its tool sees
    ``ctx.cancelled``, and until it ends its thread counts as abandoned.

    Args:
        tools: what may be called.
        max_threads: how many run at once; more wait.
        max_abandoned_threads: how many given-up threads of this process may still be busy; past it calls are refused.

    Raises:
        ToolDefinitionError: one of them is no tool, or is async.
    """

    def __init__(self, tools: Iterable[AnyTool], *, max_threads: int = 8, max_abandoned_threads: int = 8) -> None:
        self._tools = _tools_of(tools, is_async=False)
        self._max_threads = checked_bound("max_threads", max_threads)
        self._max_abandoned = checked_bound("max_abandoned_threads", max_abandoned_threads)
        self._runs = Runs()

    @property
    def tool_names(self) -> frozenset[str]:
        """What it may be asked to run."""
        return self._tools.names

    async def __aenter__(self) -> Self:
        """Take calls from now on."""
        self._runs.open()
        self._limiter = CapacityLimiter(self._max_threads)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Give up what runs."""
        await self._runs.close()

    async def run(self, call: Invocation, emit: Emit, /) -> Any:
        """See `Executor`."""
        return await self._runs.run(call, partial(self._body, call, emit))

    async def _body(self, call: Invocation, emit: Emit, run: Run) -> Any:
        tool = tool_of(self._tools, call)
        bound = bind(tool, call)
        args, kwargs = tool.complete(bound, context_of(call, reporter(run, emit), lambda: run.over))
        async with self._limiter:
            if abandoned_threads() >= self._max_abandoned:
                text = f"not run: {abandoned_threads()} threads are still busy with sync tools that were given up"
                raise ToolNotStarted(f"{text} (max_abandoned_threads)")
            thread = ThreadCall(late=lambda: None)  # its end is nobody's business: the call has its error
            with carried(call.carrier):
                run.started = True
                try:
                    return await guarded(tool.name, thread.run(partial(tool.fn, *args, **kwargs)))
                finally:
                    thread.give_up()


def tool_of(tools: Toolset, call: Invocation) -> Tool[..., Any]:
    """The tool that is called.

    Raises:
        ToolNotStarted: the executor does not have it.
    """
    if (tool := tools.get(call.tool)) is None:
        raise ToolNotStarted(f"not run: the executor was not given a tool {call.tool!r}; it has {sorted(tools.names)}")
    return tool


def reporter(run: Run, emit: Emit) -> Any:
    """What passes a tool's reports to the loop, from any thread, as long as somebody waits for the call."""
    loop_thread, token = threading.get_ident(), current_token()

    def in_loop(value: Any) -> None:
        if not run.over:
            emit(value)

    def report(value: Any) -> None:
        if threading.get_ident() == loop_thread:
            in_loop(value)
        elif not run.over:
            try:
                from_thread.run_sync(in_loop, value, token=token)
            except RunFinishedError:
                return  # the loop is over, and with it whoever wanted to know

    return report


def _tools_of(given: Iterable[AnyTool], *, is_async: bool) -> Toolset:
    tools = Toolset(given)
    other = "a ThreadExecutor" if is_async else "an InProcessExecutor"
    for tool in tools.values():
        if tool is not None and tool.is_async is not is_async:
            text = f"tool {tool.name!r}: is {'sync' if is_async else 'async'}; give it to {other} or a ProcessExecutor"
            raise ToolDefinitionError(text, tool=tool.name)
    return tools
