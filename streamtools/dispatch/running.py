"""One call that runs: its attempts, its time, where it runs, and what its end amounts to.

Theory of operation. `Runner.run` is the body of a call's task. It returns how the call ended, or lets its cancellation
out; it never makes the observation, which is for `Calls`. A cancellation that nobody asked for (of a task that the tool
awaited) is the tool's failure; it is told apart by the effective deadline.

From the outside in: a call that must not run twice is claimed in the store, once for all its attempts; each attempt
takes a thread if it needs one, has its time, and runs here or in its tool's executor. An executor keeps the time
itself, since it alone knows whether a call that ran out of it had begun; one that does not is cancelled a little later.
"""

from __future__ import annotations

import inspect
import math
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from pydantic_core import from_json

from ..cancellation import is_cancelled
from ..content import ToolResult
from ..errors import ToolError, ToolFailed, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from ..events import ToolStarted, Warning
from ..limits import Limits
from ..telemetry.carrier import current_carrier
from ..tools import Tool, ToolContext, Toolset
from .content import bounded, value_content
from .dispatcher import Dispatcher
from .executor import Executor, Invocation
from .generators import last_word
from .host import Host
from .once import run_once
from .options import DispatchOptions
from .record import Ended, Record
from .reports import context_of, late_warning, reports_of
from .results import AsRead, encode_error
from .store import IdempotencyStore
from .threads import ThreadCall, check_abandoned

__all__ = ["Runner", "failure"]

EXECUTOR_LAG_S = 1.0  # after its deadline, an executor that has not said how its call ended is cancelled

_LONGEST_DELAY_S = 60.0
_MOST_DOUBLINGS = 64
_BOUNDED_BEFORE = Limits(max_result_bytes=sys.maxsize, max_result_media_bytes=sys.maxsize)
_STORE_FAILED = {
    "complete": ("result_not_kept", "keep its result"),
    "release": ("claim_not_released", "take its claim back"),
}


class Runner:
    """Runs the calls of one turn, each in a task that somebody else has started.

    Args:
        host: the step.
        tools: what may be called.
        limits: times and sizes.
        dispatcher: has the places of sync tools.
        options: where calls run, and what is kept of them.
    """

    def __init__(
        self, host: Host, tools: Toolset, limits: Limits, dispatcher: Dispatcher, options: DispatchOptions
    ) -> None:
        self._host = host
        self._tools = tools
        self._limits = limits
        self._dispatcher = dispatcher
        self._executors = options.executors
        self._store = options.store

    async def run(self, record: Record) -> Ended:
        """Run a call that has its place, again after a failure if its tool may be retried."""
        tool = record.tool
        assert tool is not None, "only a ready call runs"
        attempts = partial(self._attempts, record, tool)
        if self._store is None or not (tool.effect == "once" or record.approval == "approved"):
            return await attempts()
        return await self._once(record, tool, self._store, attempts)

    # -- once --

    async def _once(
        self, record: Record, tool: Tool, store: IdempotencyStore, attempts: Callable[[], Awaitable[Ended]]
    ) -> Ended:
        """Run it unless it has run before, in this process or in another one."""
        ended: Ended | None = None

        async def run() -> Any:
            nonlocal ended
            ended = await attempts()
            if ended.result is not None:  # also of a failure that the tool has worded
                return ended.result
            if ended.error is not None:
                raise self._to_record(record, tool, ended, ended.error)
            return _as_read(ended)

        try:
            answer = await run_once(
                store,
                self._invocation(record, tool, None),
                run,
                has_started=partial(_has_begun, record),
                store_failed=partial(self._store_failed, record, tool),
            )
        except ToolError as error:
            if ended is not None:
                return ended
            known = failure(record, error)
            known.recorded = not isinstance(error, (ToolNotStarted, ToolOutcomeUnknown))
            return known
        if isinstance(answer.not_kept, ToolError):
            self._warn(record, tool, "result_not_kept", "its value is no JSON; what the model reads of it is kept")
        if ended is None:
            ended = _on_record(answer.value, record, self._limits)
        return ended

    def _to_record(self, record: Record, tool: Tool, ended: Ended, error: ToolError) -> ToolError:
        """What the store is to remember. A tool that runs here and passes on what some executor has told it speaks of
        another call than its own, which has begun."""
        its_own_word = ended.outcome == "failed" and record.attempts > 0 and tool.name not in self._executors
        if its_own_word and isinstance(error, (ToolNotStarted, ToolTimeout)):
            return ToolFailed(encode_error(tool.name, error)["text"])
        return error

    def _store_failed(self, record: Record, tool: Tool, work: Literal["complete", "release"], error: Exception) -> None:
        code, what = _STORE_FAILED[work]
        self._warn(record, tool, code, f"the store could not {what} ({type(error).__name__}); the call stays claimed")

    def _warn(self, record: Record, tool: Tool, code: str, text: str) -> None:
        self._host.emit(Warning(code, f"{record.label}: {text}"))

    # -- attempts --

    async def _attempts(self, record: Record, tool: Tool) -> Ended:
        executor = self._executors.get(tool.name)
        begun: Ended | None = None  # how the latest attempt ended that has begun
        while True:
            if tool.is_async or executor is not None:
                ended = await self._attempt(record, tool, executor)
            else:
                async with self._dispatcher.threads:  # waiting for a thread is not the tool's time
                    await checkpoint_if_cancelled()  # the place is given behind a shield
                    ended = await self._attempt_in_thread(record, tool)
            begun = begun if isinstance(ended.error, ToolNotStarted) else ended
            if not ended.again or record.attempts > tool.retries:
                return begun or ended  # that the last attempt has not run says nothing about those before it
            if record.thread is not None:
                record.thread.give_up()
            doubled = tool.retry_delay_s * 2.0 ** min(record.attempts - 1, _MOST_DOUBLINGS)
            await anyio.sleep(min(doubled, _LONGEST_DELAY_S))

    async def _attempt_in_thread(self, record: Record, tool: Tool) -> Ended:
        try:
            check_abandoned(self._limits.max_abandoned_threads)
        except ToolNotStarted as error:
            return Ended("failed", error)
        return await self._attempt(record, tool, None)

    async def _attempt(self, record: Record, tool: Tool, executor: Executor | None) -> Ended:
        record.attempts += 1
        if record.started_at is None:
            record.started_at = time.monotonic()
        started = ToolStarted(record.call.call_id, tool.name, attempt=record.attempts, causes=record.causes)
        self._host.emit(started)
        timeout = tool.timeout if tool.timeout is not None else self._limits.tool_timeout
        until = None if timeout is None else time.time() + timeout
        lag = EXECUTOR_LAG_S if executor is not None else 0.0
        with anyio.move_on_after(None if timeout is None else timeout + lag) as deadline:
            record.due = deadline.deadline
            try:
                value = await self._body(record, tool, executor, until)
                return _ended(value, record, self._limits)
            except Exception as error:
                return _raised(record, executor, timeout, error)
            except anyio.get_cancelled_exc_class() as error:
                if is_cancelled():
                    raise
                # Nobody cancelled this call: the tool itself let a cancellation out (a cancelled task it awaited).
                return _raised(record, executor, timeout, error)
            except BaseExceptionGroup:  # of cancellations and what was raised on their way out
                if deadline.cancel_called and timeout is not None:
                    record.timed_out = ToolTimeout(timeout)
                raise
            finally:
                record.due = math.inf
        assert timeout is not None, "only a deadline ends the block without a result"
        return Ended("timed_out", ToolTimeout(timeout), again=True)

    # -- here, or elsewhere --

    async def _body(self, record: Record, tool: Tool, executor: Executor | None, until: float | None) -> Any:
        managers = self._host.around_tool(record.call.call_id)
        if not managers and executor is None:  # the same, at less than half the price
            return await self._here(record, tool)
        with ExitStack() as stack:
            for manager in managers:
                stack.enter_context(manager)
            if executor is None:
                return await self._here(record, tool)
            report = reports_of(record, tool, self._host, self._limits.max_waiting_progress)
            return await executor.run(self._invocation(record, tool, until), report)

    async def _here(self, record: Record, tool: Tool) -> Any:
        bound = record.bound
        assert bound is not None, "only a ready call runs"
        args, kwargs = bound.args, bound.kwargs
        if tool.wants_context:  # most do not, and a context costs 4 µs
            args, kwargs = tool.complete(bound, self._context(record, tool))
        if tool.is_async:
            value = tool.fn(*args, **kwargs)
        else:
            record.thread = ThreadCall(late_warning(record, self._host))
            value = await record.thread.run(partial(tool.fn, *args, **kwargs))
        if inspect.isasyncgen(value):
            return await last_word(tool.name, value, self._context(record, tool).progress)
        return await value if inspect.isawaitable(value) else value  # perhaps an async function behind a plain wrapper

    def _context(self, record: Record, tool: Tool) -> ToolContext:
        return context_of(record, tool, self._host, self._limits.max_waiting_progress)

    def _invocation(self, record: Record, tool: Tool, deadline: float | None) -> Invocation:
        """The call as plain values: what the model sent, as the tool takes it."""
        call = record.call
        assert call.arguments is not None, "only a ready call runs"
        return Invocation(
            tool=tool.name,
            arguments=self._tools.decode(call.name, call.arguments),
            key=record.key,
            effect=tool.effect,
            deadline=deadline,
            carrier=current_carrier(),
            attempt=max(record.attempts, 1),
            call_id=call.call_id,
            run_id=self._host.run_id,
            step=self._host.number,
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


def _on_record(value: Any, record: Record, limits: Limits) -> Ended:
    """What a value amounts to that comes from the store."""
    if isinstance(value, AsRead):
        return Ended("ok", value=value.value, content=value.content, recorded=True)
    # A tool's own result was bounded before it was kept, and cutting what was cut would say the wrong size.
    ended = _ended(value, record, _BOUNDED_BEFORE if isinstance(value, ToolResult) else limits)
    ended.recorded = True
    return ended


def _as_read(ended: Ended) -> Any:
    """A value for the record: as it was written for the model, since an iterator, say, can be written only once."""
    value, content = ended.value, ended.content
    if content is None or isinstance(value, str):
        return value
    try:
        said = from_json(content)
    except ValueError:  # it was cut for the model
        return AsRead(None, content) if isinstance(value, Iterator) else value
    return AsRead(said, content) if isinstance(said, str) else said  # a date, say, which a text would not be written as


def _has_begun(record: Record) -> bool:
    """Whether the tool's code may have run, of a call that was cut. A thread that has not come to it never does now."""
    thread = record.thread
    if record.attempts != 1 or thread is None:
        return record.attempts > 0
    thread.give_up()
    return thread.begun


def _raised(record: Record, executor: Executor | None, timeout: float | None, error: BaseException) -> Ended:
    """What an attempt amounts to that raised."""
    if executor is None:
        return failure(record, error)
    if isinstance(error, ToolTimeout):
        return Ended("timed_out", error if timeout is None else ToolTimeout(timeout), again=True)
    if isinstance(error, ToolFailed):  # an executor's word for an exception
        return Ended("failed", error, again=True)
    if isinstance(error, ToolError):
        return failure(record, error)
    text = f"the executor of {record.call.name} raised {type(error).__name__}"
    lost = ToolOutcomeUnknown(f"{text}, which does not say whether the call has run")
    lost.__cause__ = error
    return failure(record, lost)


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
