"""Executors in this process: async tools in the caller's task, sync tools in threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Self

from anyio import CapacityLimiter
from anyio.lowlevel import checkpoint_if_cancelled

from ...errors import ToolDefinitionError, ToolNotStarted
from ...into_loop import from_any_thread
from ...telemetry.carried import carried
from ...tools import AnyTool, Tool, ToolContext, Toolset
from ..executor import Emit, Invocation, context_of
from ..store import checked_bound
from ..threads import ThreadCall, check_abandoned
from .runs import Run, Runs, awaitable, bind, guarded

__all__ = ["InProcessExecutor", "ThreadExecutor"]


class _Local(ABC):
    """What executors in this process share: their tools, and the calls that they have open."""

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools
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
        """Cancel what runs, or give it up."""
        await self._runs.close()

    async def run(self, call: Invocation, emit: Emit, /) -> Any:
        """See `Executor`."""
        return await self._runs.run(call, partial(self._bound, call, emit))

    async def _bound(self, call: Invocation, emit: Emit, run: Run) -> Any:
        tool = tool_of(self._tools, call)
        bound = bind(tool, call)
        ctx = context_of(call, reporter(run, emit), lambda: run.over)
        args, kwargs = tool.complete(bound, ctx)
        return await self._body(call, run, ctx, partial(tool.fn, *args, **kwargs))

    @abstractmethod
    async def _body(self, call: Invocation, run: Run, ctx: ToolContext, function: Callable[[], Any]) -> Any:
        """Call the tool's function, say that it has started, and return its value."""


class InProcessExecutor(_Local):
    """Runs async tools in the task that asks.

    Args:
        tools: what may be called.

    Raises:
        ToolDefinitionError: one of them is no tool, or is sync.
    """

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        super().__init__(_tools_of(tools, is_async=True))

    async def _body(self, call: Invocation, run: Run, ctx: ToolContext, function: Callable[[], Any]) -> Any:
        await checkpoint_if_cancelled()
        with carried(call.carrier):
            run.started = True
            return await guarded(call.tool, awaitable(call.tool, function(), ctx))


class ThreadExecutor(_Local):
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
        super().__init__(_tools_of(tools, is_async=False))
        self._max_threads = checked_bound("max_threads", max_threads)
        self._max_abandoned = checked_bound("max_abandoned_threads", max_abandoned_threads)

    async def __aenter__(self) -> Self:
        """Take calls from now on."""
        await super().__aenter__()
        self._limiter = CapacityLimiter(self._max_threads)
        return self

    async def _body(self, call: Invocation, run: Run, ctx: ToolContext, function: Callable[[], Any]) -> Any:
        async with self._limiter:
            check_abandoned(self._max_abandoned)
            thread = ThreadCall(late=lambda: None)  # its end is nobody's business: the call has its error
            with carried(call.carrier):
                run.started = True
                try:
                    return await guarded(call.tool, thread.run(function))
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


def reporter(run: Run, emit: Emit) -> Callable[[Any], None]:
    """What passes a tool's reports to the loop, from any thread, as long as somebody waits for the call."""

    def report(value: Any) -> None:
        if not run.over:
            emit(value)

    return from_any_thread(report, lambda: run.over)


def _tools_of(given: Iterable[AnyTool], *, is_async: bool) -> Toolset:
    tools = Toolset(given)
    other = "a ThreadExecutor" if is_async else "an InProcessExecutor"
    for tool in tools.values():
        if tool is not None and tool.is_async is not is_async:
            text = f"tool {tool.name!r}: is {'sync' if is_async else 'async'}; give it to {other} or a ProcessExecutor"
            raise ToolDefinitionError(text, tool=tool.name)
    return tools
