"""Runs calls in this process, in an executor whose block ends them, or without one (`run_in_process`).

`BlockExecutor` is the base of executors that accept calls only inside their block: it knows whether each call has
begun, and how it ends when the block is left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import anyio
from anyio import CancelScope, CapacityLimiter

from ..dispatch import Begin, Emit, Invocation
from ..dispatch.in_process import run_in_process
from ..errors import InvalidArguments, LocalProtocolError, ToolError, ToolNotStarted, ToolOutcomeUnknown
from ..limits import checked_bound
from ..tools import AnyTools, Bound, Tool, Toolset

GRACE_S = 5.0  # for cancelled calls to end


@dataclass(slots=True, eq=False)
class WorkerRun:
    _begin: Begin
    scope: CancelScope = field(default_factory=CancelScope)
    begun: bool = False  # True once `begin` has returned: from then on the call has an end, or its end is unknown

    async def begin(self) -> float:
        seconds = await self._begin()
        self.begun = True
        return seconds

    def cut(self) -> ToolError:
        if self.begun:
            return ToolOutcomeUnknown("the call began, but its executor closed before its end")
        return ToolNotStarted("not run: its executor closed while the call waited")


class BlockExecutor(ABC):
    """An `Executor` that takes calls inside its block, and ends them when it is left. Used in one event loop."""

    _tools: Any  # a mapping of each tool's name to all that the executor knows of the tool

    def __init__(self) -> None:
        self._state = "new"
        self._open: set[WorkerRun] = set()
        self._empty: anyio.Event | None = None

    @property
    def tool_names(self) -> frozenset[str]:
        """The names of its tools."""
        return frozenset(self._tools)

    async def __aenter__(self) -> Self:
        if self._state != "new":
            raise LocalProtocolError("an executor can be entered once; make a new one")
        self._state = "open"
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Takes no more calls, cancels those that run, and waits for them."""
        self._state = "closed"
        for run in list(self._open):
            run.scope.cancel()
        if self._open:
            self._empty = anyio.Event()
            with anyio.move_on_after(GRACE_S, shield=True):
                await self._empty.wait()

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        """See `Executor`. Besides, a call that has not begun when the executor is left raises `ToolNotStarted`, one
        that has begun `ToolOutcomeUnknown`."""
        if self._state != "open":
            state = "was not entered" if self._state == "new" else "was left"
            raise ToolNotStarted(f"not run: the executor {state}; run calls inside `async with executor`")
        run = WorkerRun(begin)
        self._open.add(run)
        try:
            with run.scope:
                try:
                    return await self._body(call, self._known(call.tool), emit, run)
                except BaseExceptionGroup as group:  # a tool's own task group made it of its cancellation
                    if not run.scope.cancel_called:
                        raise
                    raise run.cut() from group
            raise run.cut()
        finally:
            self._open.discard(run)
            if self._empty is not None and not self._open:
                self._empty.set()

    def _known(self, name: str) -> Any:
        known = self._tools.get(name)
        if known is None:
            raise ToolNotStarted(f"not run: the executor has no tool {name!r}; its tools: {sorted(self._tools)}")
        return known

    @abstractmethod
    async def _body(self, call: Invocation, known: Any, emit: Emit, run: WorkerRun) -> Any:
        """Runs a call, with what is known of its tool, and begins it by `run.begin`."""


def bind(tool: Tool[..., Any], call: Invocation) -> Bound:
    try:
        return tool.validate(call.arguments)
    except InvalidArguments as error:
        raise ToolNotStarted(f"not run: {error}") from error


class LocalExecutor(BlockExecutor):
    """Runs async tools in the caller's task, and sync tools in threads. Leaving its block ends its calls in all
    pipelines.

    Python cannot stop a thread: a sync call that is cancelled or timed out is abandoned. Its tool sees
    ``ctx.cancelled``, and its thread counts as abandoned until the tool ends.

    Args:
        tools: the tools that may be called.
        max_threads: sync calls that run at once; more wait, without using up their timeout.
        max_abandoned_threads: abandoned threads of this process that may still be busy; beyond that, sync calls are
            refused.

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
    """The slots for sync calls."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.threads = CapacityLimiter(self._max_threads)
        return self

    async def _body(self, call: Invocation, known: Tool[..., Any], emit: Emit, run: WorkerRun) -> Any:
        return await run_in_process(known, bind(known, call), call, run.begin, emit, self, self._max_abandoned)
