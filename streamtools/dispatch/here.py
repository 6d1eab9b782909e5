"""Runs calls in this process: async tools in the caller's task, sync tools in threads; the simplest executor."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from inspect import isasyncgen, isawaitable
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio import CapacityLimiter
from anyio.lowlevel import checkpoint

from ..content import FinalResult, ToolResult
from ..errors import ToolFailed, ToolTimeout
from ..event_loop import from_any_thread, is_cancelled
from ..telemetry.carrier import carried
from ..tools import Bound, Tool
from .executor import Begin, Emit, Invocation, context_of
from .results import tool_error

if TYPE_CHECKING:
    from .threads import ThreadCall, WorkerThread

__all__ = ["awaited", "judged", "run_here"]

_NOTHING = nullcontext()


class HasThreads(Protocol):
    """Anything that bounds how many sync tools run at once."""

    @property
    def threads(self) -> CapacityLimiter:
        """The places for sync tools, made in the event loop when they are first asked for."""
        ...


async def run_here(
    tool: Tool[..., Any],
    bound: Bound,
    call: Invocation,
    begin: Begin,
    emit: Emit,
    places: HasThreads,
    max_abandoned: int,
    late: Callable[[], None] | None = None,
    waits: Callable[[], None] | None = None,
) -> Any:
    """Runs one call in this process, as `Executor.run` does. A sync tool is refused while `max_abandoned` given-up
    threads are busy; `late` is called in the thread when one that was given up ends, `waits` before the call waits for
    a thread."""
    if tool.is_async:
        seconds = await begin()
        return await _within(seconds, _Body(tool, bound, call, emit).value())
    if waits is not None and places.threads.available_tokens <= 0:
        waits()
    async with places.threads:
        from .threads import ThreadCall, check_abandoned, take_thread  # async tools have no thread

        check_abandoned(max_abandoned)
        worker, thread, begun = take_thread(), ThreadCall(late), False
        try:
            seconds = await begin()
            begun = True
            return await _within(seconds, _Body(tool, bound, call, emit, thread, worker).value())
        finally:
            if not begun:
                worker.put_back()
            call.left_running = thread.give_up()


@dataclass(slots=True, eq=False)
class _Body:
    """A tool's code, between its begin and its end."""

    tool: Tool[..., Any]
    bound: Bound
    call: Invocation
    emit: Emit
    thread: ThreadCall | None = None
    worker: WorkerThread | None = None
    over: bool = False

    async def value(self) -> Any:
        """Runs the code and returns its value; raises its errors as an executor words them."""
        try:
            with carried(self.call.carrier) if self.call.carrier else _NOTHING:
                return await awaited(self.tool.name, await self._called(), self._report)
        except BaseException as error:
            found = judged(self.tool.name, error)
            if found is error:
                raise
            raise found from error
        finally:
            self.over = True
            self.emit = _nowhere  # a thread that goes on has the tool's context, and would keep the whole step alive

    async def _called(self) -> Any:
        """Calls the function and returns its value, which may be a coroutine, also that of a plain wrapper."""
        args, kwargs = self.bound.args, self.bound.kwargs
        if self.tool.wants_context:  # most do not, and a context costs 4 µs
            report = from_any_thread(self._report, self._is_over)
            args, kwargs = self.tool.complete(self.bound, context_of(self.call, report, self._is_over))
        if self.thread is None or self.worker is None:
            return self.tool.fn(*args, **kwargs)
        return await self.thread.run(self.worker, partial(self.tool.fn, *args, **kwargs))

    def _is_over(self) -> bool:
        return self.over or (self.thread is not None and self.thread.abandoned)

    def _report(self, value: Any) -> None:
        if not self._is_over():
            self.emit(value)


def _nowhere(value: Any) -> None:
    """Takes a report that nobody waits for."""


async def awaited(tool: str, value: Any, progress: Callable[[Any], None]) -> Any:
    """Returns the value of a tool's function, awaited if it is a coroutine or an async generator. `progress` takes each
    value of a generator but its result, at once.

    Raises:
        ToolFailed: a generator has no result. Its last value is not taken for one, since nothing marks it as such.
    """
    if isasyncgen(value):
        return await _last_word(tool, value, progress)
    return await value if isawaitable(value) else value


async def _last_word(tool: str, values: AsyncGenerator[Any, Any], progress: Callable[[Any], None]) -> Any:
    """Runs a generator in this task up to its result, and closes it on every path."""
    async with aclosing(values):
        async for value in values:
            if isinstance(value, FinalResult):
                return value.value
            if isinstance(value, ToolResult):
                return value
            progress(value)
            await checkpoint()  # a generator that never awaits must not keep all others from running
    raise ToolFailed(f"the tool {tool} ended without a result")


async def _within(seconds: float, body: Coroutine[Any, Any, Any]) -> Any:
    if seconds == math.inf:
        return await body
    with anyio.move_on_after(seconds):
        return await body
    raise ToolTimeout(seconds)


def judged(tool: str, error: BaseException) -> BaseException:
    """Returns the error to raise for an error of a tool's code: the same if it is a `ToolError` that has words, a
    cancellation that was requested, or fatal, as an interrupt is; else a `ToolFailed`, which names only its type.

    ``sys.exit`` and cancellations that nobody asked for, in groups too, are the tool's failures: they must end neither
    the event loop nor the calls beside it.
    """
    cancelled = anyio.get_cancelled_exc_class()
    leaves = list(_leaves(error))
    if not all(isinstance(leaf, (Exception, SystemExit, cancelled)) for leaf in leaves):
        return error
    asked = [leaf for leaf in leaves if isinstance(leaf, cancelled)]
    if asked and is_cancelled():
        return asked[0]
    return tool_error(tool, error)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
