"""One call that runs: its attempts, its time, its thread, and what its end amounts to.

Theory of operation. `run` is the body of the call's task. It returns how the call ended, or lets its cancellation out;
it never makes the observation, which is for `Calls`. A cancellation that nobody asked for (of a task that the tool
awaited) is the tool's failure; it is told apart by the effective deadline.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any, Protocol

import anyio
from anyio import CapacityLimiter, from_thread
from anyio.lowlevel import current_token

from ..content import ToolResult
from ..errors import ToolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from ..events import Event, ToolProgress, ToolStarted, Warning
from ..limits import Limits
from ..tools import Bound, Tool, ToolContext
from .content import bounded, value_content
from .counts import RunCounts
from .generators import last_word
from .record import Ended, Record
from .threads import ThreadCall, abandoned_threads

__all__ = ["Host", "failure", "run"]

_LONGEST_DELAY_S = 60.0
_MOST_DOUBLINGS = 64


class Host(Protocol):
    """The step that the calls belong to."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        ...

    @property
    def number(self) -> int:
        """The step's number in its run."""
        ...

    @property
    def ended(self) -> bool:
        """Nothing more may be emitted."""
        ...

    @property
    def counts(self) -> RunCounts:
        """What the run has seen of its calls."""
        ...

    def emit(self, event: Event) -> None:
        """Number an event and pass it to everybody. Never waits."""
        ...

    def around_tool(self, call_id: str) -> Iterable[AbstractContextManager[object]]:
        """What observers want held while a tool's body runs."""
        ...


async def run(record: Record, host: Host, limits: Limits, threads: CapacityLimiter, causes: tuple[int, ...]) -> Ended:
    """Run a call, again after a failure if its tool may be retried.

    Args:
        threads: the places of sync tools.
        causes: what let it start.
    """
    tool = record.tool
    assert tool is not None, "only a ready call runs"
    while True:
        if tool.is_async:
            ended = await _attempt(record, host, limits, causes)
        else:
            async with threads:  # waiting for a thread is not the tool's time
                ended = await _attempt_in_thread(record, host, limits, causes)
        if not ended.again or record.attempts > tool.retries:
            return ended
        if record.thread is not None:
            record.thread.give_up()
        doubled = tool.retry_delay_s * 2.0 ** min(record.attempts - 1, _MOST_DOUBLINGS)
        await anyio.sleep(min(doubled, _LONGEST_DELAY_S))


async def _attempt_in_thread(record: Record, host: Host, limits: Limits, causes: tuple[int, ...]) -> Ended:
    if abandoned_threads() < limits.max_abandoned_threads:
        return await _attempt(record, host, limits, causes)
    text = f"not run: {abandoned_threads()} threads are still busy with sync tools that were given up"
    return Ended("failed", ToolFailed(f"{text} (max_abandoned_threads)"))


async def _attempt(record: Record, host: Host, limits: Limits, causes: tuple[int, ...]) -> Ended:
    tool, bound = record.tool, record.bound
    assert tool is not None, "only a ready call runs"
    assert bound is not None, "only a ready call runs"
    record.attempts += 1
    if record.started_at is None:
        record.started_at = time.monotonic()
    host.emit(ToolStarted(record.call.call_id, tool.name, attempt=record.attempts, causes=causes))
    timeout = tool.timeout if tool.timeout is not None else limits.tool_timeout
    with anyio.move_on_after(timeout) as deadline:
        record.due = deadline.deadline
        try:
            return _ended(await _body(record, tool, bound, host), record, limits)
        except Exception as error:
            return failure(record, error)
        except anyio.get_cancelled_exc_class() as error:
            if anyio.current_effective_deadline() == -math.inf:
                raise
            # Nobody cancelled this call: the tool itself let a cancellation out (a cancelled task it awaited).
            return failure(record, error)
        except BaseExceptionGroup:  # of cancellations and what was raised on their way out
            if deadline.cancel_called and timeout is not None:
                record.timed_out = ToolTimeout(timeout)
            raise
        finally:
            record.due = math.inf
    assert timeout is not None, "only a deadline ends the block without a result"
    return Ended("timed_out", ToolTimeout(timeout), again=True)


async def _body(record: Record, tool: Tool, bound: Bound, host: Host) -> Any:
    context = _context(record, tool, host)
    args, kwargs = tool.complete(bound, context)
    with ExitStack() as stack:
        for manager in host.around_tool(record.call.call_id):
            stack.enter_context(manager)
        if tool.is_async:
            value = tool.fn(*args, **kwargs)
        else:
            record.thread = ThreadCall(_late_warning(record, tool, host))
            value = await record.thread.run(partial(tool.fn, *args, **kwargs))
        if inspect.isasyncgen(value):
            return await last_word(tool.name, value, context.progress)
        return await value if inspect.isawaitable(value) else value  # perhaps an async function behind a plain wrapper


def _late_warning(record: Record, tool: Tool, host: Host) -> Callable[[], None]:
    """What a thread that was given up calls at its end. It waits for nobody: the loop may be about to end."""
    loop: Any = current_token().native_token
    call_soon = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe  # trio's name, asyncio's name

    def tell() -> None:
        if not host.ended:
            host.emit(Warning("late_result", f"{tool.name}, call {record.call.call_id}: ended after it was given up"))

    def late() -> None:
        try:
            call_soon(tell)
        except RuntimeError:  # the loop has ended, and with it whoever wanted to know
            return

    return late


def _context(record: Record, tool: Tool, host: Host) -> ToolContext:
    loop_thread, token, attempt = threading.get_ident(), current_token(), record.attempts

    def over() -> bool:
        return record.observed or record.attempts != attempt

    def progress(value: Any) -> None:
        if not over():
            host.emit(ToolProgress(record.call.call_id, tool.name, value))

    def report(value: Any) -> None:
        """From any thread: of the loop, of a sync tool, or one that the tool itself has started."""
        if threading.get_ident() == loop_thread:
            progress(value)
        elif not over():
            try:
                from_thread.run_sync(progress, value, token=token)
            except anyio.RunFinishedError:
                return  # the loop is over, and with it whoever wanted to know

    return ToolContext(
        call_id=record.call.call_id,
        tool_name=tool.name,
        run_id=host.run_id,
        step=host.number,
        attempt=attempt,
        report=report,
        is_cancelled=over,
    )


def _ended(value: Any, record: Record, limits: Limits) -> Ended:
    """What a returned value amounts to."""
    if isinstance(value, ToolResult):
        return _returned(record, value, limits)
    try:
        return Ended("ok", value=value, content=value_content(value, limits.max_result_bytes))
    except ToolFailed as error:
        return Ended("failed", error)


def _returned(record: Record, given: ToolResult, limits: Limits) -> Ended:
    """The tool has said itself what the model reads."""
    result, content = bounded(given, limits)
    if given.is_error:
        error = ToolFailed(f"the tool {record.call.name} reported an error")
        return Ended("failed", error, content=content, result=result)
    return Ended("ok", value=given if given.value is None else given.value, content=content, result=result)


def failure(record: Record, error: BaseException) -> Ended:
    """A tool's own `ToolError` speaks to the model, and is no reason to try again; of any other exception only the type
    is told."""
    if record.timed_out is not None:
        return Ended("timed_out", record.timed_out, again=True)
    if isinstance(error, ToolOutcomeUnknown):
        return Ended("unknown", error, again=True)
    if isinstance(error, ToolError):
        return Ended("failed", error, again=isinstance(error, ToolNotStarted))
    failed = ToolFailed(f"the tool {record.call.name} raised {type(error).__name__}")
    failed.__cause__ = error
    return Ended("failed", failed, again=True)
